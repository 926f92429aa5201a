"""Rows of the data set as an engine's load wants them: from Parquet or CSV, with their number of arrival."""

import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

TIME = pa.timestamp("ns", "UTC")
CODES = {
    "symbol": ["BTC-USD", "ETH-USD", "USDT-USD"],
    "exchange": ["BINANCE-US", "BITSTAMP", "COINBASE", "FTX", "FTX-US"],
    "side": ["buy", "sell"],
}
"""All values of the columns of codes, in order, for engines that want them beforehand."""
TEXTS = tuple(CODES)


def from_parquet(paths: list[pathlib.Path]):
    """Each file's rows as they are."""
    for path in paths:
        yield pq.read_table(path)


def from_csv(path: pathlib.Path):
    """The rows of a CSV file in pieces of a few thousand: texts as text, numbers as doubles, ``id`` whole, times in ns UTC.

    Reading in pieces keeps a client's memory bounded; the parser is Arrow's, the fastest that Python has.
    """
    options = csv.ConvertOptions(
        column_types={"timestamp": TIME, "id": pa.int64()} | {name: pa.string() for name in TEXTS},
        timestamp_parsers=[csv.ISO8601],
    )
    for batch in csv.open_csv(path, read_options=csv.ReadOptions(block_size=16 << 20), convert_options=options):
        yield pa.Table.from_batches([batch])


def numbered(tables, name: str = "n"):
    """The tables with one more column, the number of each row's arrival.

    Equal times occur, and of rows at one time the last to arrive closes a bucket. An engine that doesn't keep the order of
    arrival needs it as a column.
    """
    count = 0
    for table in tables:
        numbers = np.arange(count, count + table.num_rows, dtype=np.int64)
        count += table.num_rows
        yield table.append_column(name, pa.array(numbers))


def plain_texts(table: pa.Table) -> pa.Table:
    """Dictionaries as texts."""
    columns = [column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column for column in table.columns]
    return pa.table(columns, names=table.column_names)
