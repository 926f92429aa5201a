//! Readers for market-data files: CSV and its kin, Parquet, Arrow IPC, DBN, and the recipes that describe them.
