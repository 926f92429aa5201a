"""The data: a simulated day of trades and quotes as a database, and the same rows as one Arrow and one Parquet file a table."""

import pathlib
import shutil
import subprocess

import pyarrow as pa
import splay

RECIPES = {"trade": ("nyse-taq-trade", "EQY_US_ALL_TRADE_*.gz"), "quote": ("nyse-taq-quote", "SPLITS_US_ALL_BBO_*.gz")}
BATCH_ROWS = 1 << 20


def prepare(folder: pathlib.Path, command: pathlib.Path, quotes: int, trades: int, symbols: int) -> pathlib.Path:
    """A folder with the data of these sizes, made unless it is there."""
    place = folder / f"taq-{symbols}-{quotes}-{trades}"
    if (place / "ready").exists():
        return place
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    sizes = ["--symbols", str(symbols), "--quotes", str(quotes), "--trades", str(trades)]
    subprocess.run([command, "gen", "taq", "--out", place / "taq", *sizes], check=True, stdout=subprocess.DEVNULL)
    db = splay.open(place / "db")
    for table, (recipe, pattern) in RECIPES.items():
        db.load(table, place / "taq" / pattern, recipe=recipe)
        _files(db[table].drop("date"), place / table)
    shutil.rmtree(place / "taq")
    (place / "ready").touch()
    return place


def _files(frame: splay.Frame, stem: pathlib.Path) -> None:
    """Rows as files: texts as plain text and times without a zone, which every system reads."""
    plain = pa.schema([pa.field(field.name, _plain(field.type)) for field in frame.limit(0).to_arrow().schema])
    table = frame.to_arrow().cast(plain).combine_chunks()
    with pa.ipc.new_file(str(stem.with_suffix(".arrow")), plain) as writer:
        writer.write_table(table, max_chunksize=BATCH_ROWS)
    import pyarrow.parquet as pq

    pq.write_table(table, stem.with_suffix(".parquet"), compression="zstd", row_group_size=BATCH_ROWS)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) else kind
