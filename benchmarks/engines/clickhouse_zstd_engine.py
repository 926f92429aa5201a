"""ClickHouse, embedded as chDB, laid out for size: ZSTD, and DoubleDelta for times.

DoubleDelta takes nearly nothing for a rising column; prices and sizes are compressed by ZSTD(1): Gorilla gains nothing on short
decimals. Partitions are months, as ClickHouse advises few of them. All else is as in `clickhouse`.
"""

from .clickhouse_engine import Engine as Fast


class Engine(Fast):
    name = "clickhouse-zstd"
    title = "chDB (ClickHouse), ZSTD"
    takes_cold = False
    best = (
        "MergeTree ordered by (symbol, timestamp, n), monthly partitions, LowCardinality codes, DoubleDelta times, ZSTD(1): a third "
        "less on disk than LZ4, and slower; parts merged after the load; closing values by `argMax`; answers as Arrow."
    )
    partition = "toYYYYMM(timestamp)"
    codecs = {"TIMES": " CODEC(DoubleDelta, ZSTD(1))", "FLOATS": " CODEC(ZSTD(1))", "COUNTS": " CODEC(Delta, ZSTD(1))"}
