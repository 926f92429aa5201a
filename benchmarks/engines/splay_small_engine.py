"""SplayDB on disk, in the tier ``small``."""

from . import splay_engine


class Engine(splay_engine.Engine):
    name = "splay-small"
    title = "SplayDB, small"
    tier = "small"
    best = (
        "Tables as `load --tier small` makes them: rows ordered by symbol, time and arrival, one partition a date, Parquet in such encodings, with zstd behind them. "
        "Plain SQL as a user writes it; no result cache."
    )
