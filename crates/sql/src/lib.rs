//! SQL over SplayDB: DataFusion with our table provider, operators and functions.
