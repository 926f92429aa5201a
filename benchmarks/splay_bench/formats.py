"""Sizes of a day of trades in nine formats and ours, and four queries on each, after "Comparing Arrow, Parquet and kdb+ File
Formats" (M. Turkington, AquaQ).

The files are read by Polars, which reads all of them, lazily where it can; ours by SplayDB. All formats hold the same rows in
the same order, quotes as well; sizes are those of the trades, as in the article, and of the quotes.
"""

import gzip
import pathlib
import shutil
import time

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as pq

from engine.compare import Different, check_equal
from engine.data import QUOTE_COLUMNS, TRADE_COLUMNS
from engine.measure import Rounds, measure as measure_calls
from engine.report import milliseconds
from engines.rows import plain_texts

from . import inside

TABLES = {"trade": TRADE_COLUMNS, "quote": QUOTE_COLUMNS}
QUERY_TITLES = [
    "rows of a symbol and condition",
    "volume by symbol",
    "volume by symbol, exchange",
    "outer join of two groupings",
]
KEYS = [("Symbol", "Sequence_Number"), ("Symbol",), ("Symbol", "Exchange"), ("Symbol", "Exchange")]


def run(settings) -> None:
    inside.run("formats", settings)


def parquet(codec: str):
    return lambda table, path: pq.write_table(table, path, compression=codec)


def arrow(codec: str):
    return lambda table, path: feather.write_feather(table, path, compression=codec)


def write_csv(table, path) -> None:
    csv.write_csv(plain_texts(table), path)


def write_gzip(table, path) -> None:
    with gzip.open(path, "wb", compresslevel=6) as file:
        csv.write_csv(plain_texts(table), file)


WRITERS = {
    "CSV": ("csv", write_csv),
    "CSV, gzip": ("csv.gz", write_gzip),
    "Feather": ("arrow", arrow("uncompressed")),
    "Feather, lz4": ("arrow", arrow("lz4")),
    "Feather, zstd": ("arrow", arrow("zstd")),
    "Parquet, snappy": ("parquet", parquet("snappy")),
    "Parquet, gzip": ("parquet", parquet("gzip")),
    "Parquet, brotli": ("parquet", parquet("brotli")),
    "Parquet, zstd": ("parquet", parquet("zstd")),
}
OURS = {f"SplayDB, {tier}": tier for tier in ("mapped", "fast", "small")}


def measure(given: inside.Inside) -> dict:
    tables = given.data.taq()
    folder = given.work / f"formats-{given.sizes.symbols}-{given.sizes.quotes}-{given.seed}"
    rows = {table: tables.read(table, columns) for table, columns in TABLES.items()}
    busy = busiest(rows["trade"])
    found = {}
    for name, (ending, writer) in WRITERS.items():
        print(name, flush=True)
        paths = write(folder / name.replace(", ", "-"), rows, ending, writer)
        calls = polars_calls(scans(paths, rows), busy)
        found[name] = ({table: path.stat().st_size for table, path in paths.items()}, calls)
    for name, kind in OURS.items():
        print(name, flush=True)
        database = ours(given, folder / f"splay-{kind}", rows, kind)
        sizes = {
            table: sum(path.stat().st_size for path in (database / table).rglob("*") if path.is_file())
            for table in TABLES
        }
        found[name] = (sizes, splay_calls(database, given.threads, busy))
    return {
        "title": "formats: sizes, and four queries on each",
        "note": f"{rows['trade'].num_rows:,} trades, {rows['quote'].num_rows:,} quotes, "
        f"{len(TRADE_COLUMNS)} and {len(QUOTE_COLUMNS)} columns. Files are read by Polars, ours by SplayDB; warm medians, ms; "
        "answers compared.",
        "tables": [table(found, given.rounds)],
    }


def busiest(trades) -> str:
    import pyarrow.compute as pc

    counts = pc.value_counts(trades["Symbol"].cast(pa.string())).to_pylist()
    return max(counts, key=lambda entry: entry["counts"])["values"]


def write(folder: pathlib.Path, rows, ending: str, writer) -> dict[str, pathlib.Path]:
    """The files of a format, kept between runs."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for table, values in rows.items():
        path = paths[table] = folder / f"{table}.{ending}"
        if not path.exists():
            partial = path.with_name("partial-" + path.name)
            writer(values, str(partial))
            partial.rename(path)
    return paths


def ours(given: inside.Inside, database: pathlib.Path, rows, kind: str) -> pathlib.Path:
    """A database of the same rows, in one of the tiers."""
    import splay

    if not database.exists():
        partial = database.with_name(database.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        handle = splay.open(partial)
        for table, values in rows.items():
            handle.write(table, values, time="Time", symbol="Symbol", tier=kind)
        del handle
        partial.rename(database)
    return database


def scans(paths, rows) -> dict:
    """Lazy frames of the files; CSV is read with the types of the rows."""
    import polars as pl

    found = {}
    for table, path in paths.items():
        if ".csv" in path.name:
            schema = dict(pl.from_arrow(plain_texts(rows[table].slice(0, 0))).schema.items())
            times = [name for name, kind in schema.items() if isinstance(kind, pl.Datetime)]
            text = schema | dict.fromkeys(times, pl.String)
            scan = pl.scan_csv(path, schema=text)
            found[table] = scan.with_columns(pl.col(times).str.to_datetime("%Y-%m-%d %H:%M:%S%.fZ", time_unit="ns"))
        elif path.suffix == ".arrow":
            found[table] = pl.scan_ipc(path)
        else:
            found[table] = pl.scan_parquet(path)
    return found


def polars_calls(frames, busy: str) -> list:
    import polars as pl

    column, trade, quote = pl.col, frames["trade"], frames["quote"]
    chosen = (column("Symbol") == busy) & column("Sale_Condition").cast(pl.String).str.contains("O", literal=True)
    keys = ["Symbol", "Exchange"]
    quotes = quote.group_by(keys).agg(
        avgspread=(column("Offer_Price") - column("Bid_Price")).mean(),
        avgsize=0.5 * (column("Offer_Size") + column("Bid_Size")).mean(),
    )
    volume = column("Trade_Volume")
    trades = trade.group_by(keys).agg(
        maxprice=column("Trade_Price").max(),
        minprice=column("Trade_Price").min(),
        vwap=(column("Trade_Price") * volume).sum() / volume.sum(),
    )
    queries = [
        trade.filter(chosen),
        trade.group_by("Symbol").agg(volume.sum().alias("volume")),
        trade.group_by(keys).agg(volume.sum().alias("volume")),
        quotes.join(trades, on=keys, how="full", coalesce=True),
    ]
    return [lambda query=query: query.collect() for query in queries]


def splay_calls(database: pathlib.Path, threads: int, busy: str) -> list:
    import splay

    handle = splay.open(database, create=False, threads=threads)
    quotes = """SELECT Symbol, Exchange, avg(Offer_Price - Bid_Price) AS avgspread, 0.5 * avg(Offer_Size + Bid_Size) AS avgsize
    FROM quote GROUP BY Symbol, Exchange"""
    trades = """SELECT Symbol, Exchange, max(Trade_Price) AS maxprice, min(Trade_Price) AS minprice,
    vwap(Trade_Price, Trade_Volume) AS vwap FROM trade GROUP BY Symbol, Exchange"""
    texts = [
        f"SELECT {', '.join(TRADE_COLUMNS)} FROM trade WHERE Symbol = '{busy}' AND Sale_Condition LIKE '%O%'",
        "SELECT Symbol, sum(Trade_Volume) AS volume FROM trade GROUP BY Symbol",
        "SELECT Symbol, Exchange, sum(Trade_Volume) AS volume FROM trade GROUP BY Symbol, Exchange",
        "SELECT coalesce(a.Symbol, b.Symbol) AS Symbol, coalesce(a.Exchange, b.Exchange) AS Exchange, avgspread, avgsize, "
        f"maxprice, minprice, vwap FROM ({quotes}) AS a FULL JOIN ({trades}) AS b ON a.Symbol = b.Symbol AND a.Exchange = b.Exchange",
    ]
    return [lambda text=text: handle.sql(text).to_arrow() for text in texts]


def table(found, rounds: Rounds) -> dict:
    """A row for each format; answers are compared with the first's before they are timed."""
    raw = sum(found["CSV"][0].values())
    expected = [as_arrow(call()) for call in found["Parquet, zstd"][1]]
    rows = []
    for name, (sizes, calls) in found.items():
        row = [name, f"{sizes['trade'] / 1e6:,.1f}", f"{sizes['quote'] / 1e6:,.1f}", f"{sum(sizes.values()) / raw:.1%}"]
        for place, call in enumerate(calls):
            row.append(timed(call, expected[place], KEYS[place], rounds))
        rows.append(row)
    head = ["format", "trades, MB", "quotes, MB", "share of CSV", *(f"{title}, ms" for title in QUERY_TITLES)]
    return {"title": "", "head": head, "rows": rows}


def as_arrow(answer):
    return answer if isinstance(answer, pa.Table) else answer.to_arrow()


def timed(call, expected, keys, rounds: Rounds) -> str:
    start = time.perf_counter()
    try:
        check_equal(expected, as_arrow(call()), keys)
    except Different as difference:
        print(f"differs: {difference}")
        return "wrong"
    # Reading CSV takes so long that fewer rounds must do.
    rounds = rounds if time.perf_counter() - start < 5 else Rounds(1, 0)
    return milliseconds(measure_calls(lambda run: call, rounds).median)
