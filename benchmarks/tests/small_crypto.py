"""A crypto month of a few thousand rows, in the layout of ``splay gen crypto``, for tests that can't wait for a build."""

import datetime
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

SYMBOLS = ["BTC-USD", "ETH-USD", "USDT-USD"]
PRICES = np.array([20_000.0, 1_100.0, 1.0])
DAY_MICROS = 86_400_000_000
EXCHANGES = ["COINBASE", "BINANCE-US", "FTX", "FTX-US", "BITSTAMP"]


def times(random, day: datetime.date, rows: int) -> np.ndarray:
    """Times of a day in microseconds, some of them equal, the first in its first hour."""
    start = (day - datetime.date(1970, 1, 1)).days * DAY_MICROS
    micros = np.sort(random.integers(0, DAY_MICROS, rows))
    micros[:3] = np.arange(3)
    repeated = random.random(rows) < 0.1
    repeated[0] = False
    for place in np.flatnonzero(repeated):
        micros[place] = micros[place - 1]
    return start + micros


def start(random, day, rows: int, exchanges: int) -> tuple[dict, np.ndarray]:
    chosen = random.integers(0, 3, rows)
    chosen[:3] = np.arange(3)
    venue = random.integers(0, exchanges, rows)
    return {
        "timestamp": pa.array(times(random, day, rows) * 1_000, pa.timestamp("ns", "UTC")),
        "symbol": pa.array(np.array(SYMBOLS)[chosen]).dictionary_encode(),
        "exchange": pa.array(np.array(EXCHANGES)[venue]).dictionary_encode(),
    }, chosen


def trades(random, day, rows: int, first: int) -> pa.Table:
    columns, chosen = start(random, day, rows, 1)
    columns["side"] = pa.array(np.array(["buy", "sell"])[random.integers(0, 2, rows)]).dictionary_encode()
    columns["price"] = np.round(PRICES[chosen] * (1 + random.normal(0, 0.01, rows)), 5)
    columns["amount"] = np.round(random.exponential(2, rows) + 1e-4, 4)
    columns["id"] = np.arange(first, first + rows)
    return pa.table(columns)


def books(random, day, rows: int, exchanges: int = 1) -> pa.Table:
    columns, chosen = start(random, day, rows, exchanges)
    mid = PRICES[chosen] * (1 + random.normal(0, 0.01, rows))
    for side, sign in (("b", -1), ("a", 1)):
        for level in range(1, 21):
            columns[f"{side}{level}p"] = np.round(mid * (1 + sign * 1e-4 * level), 5)
        for level in range(1, 21):
            columns[f"{side}{level}s"] = np.round(random.exponential(3, rows) + 1e-4, 4)
    return pa.table(columns)


def write(folder: pathlib.Path, rows: int = 90, seed: int = 1) -> pathlib.Path:
    """Writes the files; ``rows`` of each table a day."""
    random = np.random.default_rng(seed)
    (folder / "write").mkdir(parents=True)
    for number in range(30):
        day = datetime.date(2022, 6, 18) + datetime.timedelta(days=number)
        pq.write_table(trades(random, day, rows, number * rows), folder / f"trades_{day}.parquet")
        pq.write_table(books(random, day, rows), folder / f"books_{day}.parquet")
    nbbo = datetime.date(2022, 7, 20)
    pq.write_table(books(random, nbbo, rows, 5), folder / f"books_{nbbo}.parquet")
    day = datetime.date(2022, 6, 1)
    for name, table in (("trades", trades(random, day, rows, 0)), ("books", books(random, day, rows))):
        table = table.set_column(0, "timestamp", stamps(table["timestamp"]))
        columns = [column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column for column in table]
        csv.write_csv(pa.table(columns, names=table.column_names), folder / "write" / f"{name}.csv")
    return folder


def stamps(column) -> pa.Array:
    """Times as the simulator writes them: ``2022-06-18T00:00:00.123456Z``."""
    micros = column.cast(pa.timestamp("us", "UTC")).to_numpy()
    return pa.array([f"{value}Z" for value in np.datetime_as_string(micros.astype("datetime64[us]"))])
