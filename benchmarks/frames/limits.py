"""What frames promise by themselves: opening, expressions, a heat map of many rows, an aggregation beyond its memory."""

import pathlib
import shutil
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import splay
from splay import col

DAY_NS = 86_400_000_000_000
BATCH_ROWS = 5_000_000
LIMIT = 1 << 30


def run(options) -> None:
    opening(options)
    expressions()
    rows = prepared(options)
    heatmap(rows)
    aggregation(rows)


def opening(options) -> None:
    """A table of many dates."""
    folder = options.work / f"dates-{options.dates}"
    if not folder.exists():
        times = (15_000 + np.repeat(np.arange(options.dates), 10)) * DAY_NS + np.tile(np.arange(10), options.dates)
        table = pa.table({"time": pa.array(times, pa.timestamp("ns", "UTC")), "price": np.random.default_rng(1).normal(100, 1, len(times))})
        splay.open(folder).write("trade", table)

    def opened() -> None:
        splay.open(folder)["trade"].columns  # noqa: B018

    print(f"opening a database and a frame of {options.dates:,} dates: {milliseconds(opened, 15):.2f} ms")


def expressions() -> None:
    def built() -> None:
        ((col("bid") + col("ask")) / 2 - col("price")).abs().alias("distance")

    print(f"building an expression of five steps: {milliseconds(built, 2_001) * 1e3:.1f} µs")


def prepared(options) -> pathlib.Path:
    """Rows of a random walk in price, in four columns of 8 bytes and one of 4: 36 bytes a row as they are mapped."""
    folder = options.work / f"rows-{options.rows}"
    if (folder / "ready").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    start = time.perf_counter()
    db = splay.open(folder / "db")
    db.write("tick", pa.RecordBatchReader.from_batches(next(batches(1, 1)).schema, batches(options.rows, BATCH_ROWS)), time="time", symbol="")
    print(f"{options.rows:,} rows written in {time.perf_counter() - start:.0f} s, {db.table('tick').bytes / 2**30:.2f} GiB")
    (folder / "ready").touch()
    return folder


def batches(rows: int, of: int) -> Iterator[pa.RecordBatch]:
    rng, price, at = np.random.default_rng(3), 100.0, 0
    while at < rows:
        many = min(of, rows - at)
        walk = price + np.cumsum(rng.normal(0, 0.001, many))
        times = 1_700_000_000_000_000_000 + np.arange(at, at + many) * 200_000
        yield pa.record_batch(
            {
                "time": pa.array(times, pa.timestamp("ns", "UTC")),
                "key": rng.integers(0, max(1, rows // 4), many),
                "price": walk,
                "size": rng.exponential(100, many),
                "noise": rng.normal(0, 1, many),
            }
        )
        price, at = float(walk[-1]), at + many


def heatmap(folder: pathlib.Path) -> None:
    frame = splay.open(folder / "db")["tick"]
    from splay.frames.charts import Charts

    for x, y in (("time", "price"), ("size", "noise")):
        counted = []

        def drawn(x=x, y=y, counted=counted) -> None:
            counted.append(Charts(frame).heatmap(x, y, (200, 100), "UTC", True).counts.sum())

        spent = milliseconds(drawn, 3)
        print(f"heat map of {x} and {y}, {int(counted[0]):,} rows into 200 by 100 cells: {spent / 1e3:.2f} s")


def aggregation(folder: pathlib.Path) -> None:
    """Groups whose state is larger than the limit, over data several times as large."""
    db = splay.open(folder / "db", memory_bytes=LIMIT)
    table = db.table("tick")
    few = db["tick"].bucket("1m", []).agg(col("price").mean(), col("size").sum(), col("noise").std(), high=col("price").max())
    many = db["tick"].group_by("key").agg(col("price").mean(), col("size").sum(), n=splay.count()).select(splay.count(), col("size").sum())
    for name, frame in (("by minute", few), (f"by one of {table.rows // 4:,} keys", many)):
        start = time.perf_counter()
        answer = frame.run()
        rows = sum(batch.num_rows for batch in answer)
        peak = answer.stats.peak_memory_bytes
        print(
            f"aggregation {name} of {table.bytes / 2**30:.2f} GiB with a limit of {LIMIT / 2**30:.0f} GiB: {time.perf_counter() - start:.1f} s, "
            f"{rows:,} rows, at most {peak / 2**20:.0f} MiB held, {anonymous_mb():.0f} MB of the process not mapped from files"
        )


def anonymous_mb() -> float:
    """Memory of this process that isn't pages of files, as it is now."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def milliseconds(work: Callable[[], object], runs: int) -> float:
    """The median of several runs, the first left out."""
    work()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)
