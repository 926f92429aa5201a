"""SplayDB on disk, in the tier ``fast``."""

from . import splay_engine


class Engine(splay_engine.Engine):
    name = "splay-fast"
    title = "SplayDB, fast"
    tier = "fast"
    best = (
        "Tables as `load --tier fast` makes them: rows ordered by symbol, time and arrival, one partition a date, Parquet in encodings that are read page by page. "
        "Plain SQL as a user writes it; no result cache."
    )
