"""The ten groupings of h2o.ai's db-benchmark, and others by keys that aren't the symbol, beside DuckDB's, over a Parquet file of plain strings.

Run it by `make bench-groupings`. The questions are those of https://github.com/duckdblabs/db-benchmark (`groupby`, one of a hundred groups); the table gets a time, and
`id1` is its symbol. DuckDB has the same rows in the same order. Answers are compared before times count.
"""

import argparse
import math
import statistics
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from timing import beside_duckdb

import splay

START_NS = 1_767_225_600_000_000_000
STEP_NS = 8_000_000

QUESTIONS = {
    "1 sum by id1": "select id1, sum(v1) as v1 from x group by id1",
    "2 sum by id1, id2": "select id1, id2, sum(v1) as v1 from x group by id1, id2",
    "3 sum, mean by id3": "select id3, sum(v1) as v1, avg(v3) as v3 from x group by id3",
    "4 means by id4": "select id4, avg(v1) as v1, avg(v2) as v2, avg(v3) as v3 from x group by id4",
    "5 sums by id6": "select id6, sum(v1) as v1, sum(v2) as v2, sum(v3) as v3 from x group by id6",
    "6 median, deviation by id4, id5": "select id4, id5, median(v3) as median_v3, stddev(v3) as sd_v3 from x group by id4, id5",
    "7 range by id3": "select id3, max(v1) - min(v2) as range_v1_v2 from x group by id3",
    "8 two largest by id6": (
        "select id6, v3 as largest2_v3 from (select id6, v3, row_number() over (partition by id6 order by v3 desc) as o from x"
        " where v3 is not null) sub where o <= 2"
    ),
    "9 correlation by id2, id4": "select id2, id4, pow(corr(v1, v2), 2) as r2 from x group by id2, id4",
    "10 by six keys": "select id1, id2, id3, id4, id5, id6, sum(v3) as v3, count(*) as count from x group by id1, id2, id3, id4, id5, id6",
    "distinct id3 by id5": "select id5, count(distinct id3) as n from x group by id5",
    "distinct id6 by id5": "select id5, count(distinct id6) as n from x group by id5",
    "most frequent id2, id3": "select id2, id3, count(*) as n from x group by id2, id3 order by n desc, id2, id3 limit 10",
    "distinct id2, id4, id5": "select distinct id2, id4, id5 from x",
}


def table(rows: int) -> pa.Table:
    """Rows with a hundred values of `id1`, `id2`, `id4`, `id5`, and so many of `id3` and `id6` that each has a hundred rows."""
    rng = np.random.default_rng(1)
    few, many = 100, max(rows // 100, 1)

    def texts(count: int, digits: int) -> pa.Array:
        names = pa.array([f"id{number:0{digits}}" for number in range(1, count + 1)])
        return names.take(pa.array(rng.integers(0, count, rows)))

    return pa.table(
        {
            "ts": pa.array(START_NS + np.arange(rows) * STEP_NS, pa.timestamp("ns", "UTC")),
            "id1": texts(few, 3),
            "id2": texts(few, 3),
            "id3": texts(many, 10),
            "id4": rng.integers(1, few + 1, rows),
            "id5": rng.integers(1, few + 1, rows),
            "id6": rng.integers(1, many + 1, rows),
            "v1": rng.integers(1, 6, rows),
            "v2": rng.integers(1, 16, rows),
            "v3": np.round(rng.random(rows) * 100, 6),
        }
    )


def summary(answer: pa.Table) -> list[float]:
    """The number of rows, and of each column the sum of its numbers but NaN, or of the lengths of its texts."""
    frame = duckdb.from_arrow(answer)

    def of(field: pa.Field) -> str:
        if pa.types.is_floating(field.type):
            return f'sum("{field.name}") filter (not isnan("{field.name}"))'
        is_number = pa.types.is_integer(field.type) or pa.types.is_decimal(field.type)
        return f'sum("{field.name}")' if is_number else f'sum(length("{field.name}"::varchar))'

    columns = ", ".join(map(of, answer.schema))
    return [float(value or 0) for value in frame.aggregate(f"count(*), {columns}").fetchall()[0]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "x.parquet")
        pq.write_table(table(arguments.rows), file)
        db = splay.open(Path(folder) / "db", threads=arguments.threads)
        db.load("x", [file], time="ts", symbol="id1")
        con = duckdb.connect(str(Path(folder) / "duck.db"))
        con.execute(f"set threads = {arguments.threads}")
        con.execute(f"create table x as select * from '{file}' order by id1, ts")
        ratios = []
        for name, statement in QUESTIONS.items():
            ours, theirs = summary(db.sql(statement).to_arrow()), summary(con.sql(statement).to_arrow_table())
            assert len(ours) == len(theirs) and all(map(lambda a, b: math.isclose(a, b, rel_tol=1e-6), ours, theirs)), name
            ratios.append(beside_duckdb(name, statement, db, con, arguments.repeats))
        print(f"geometric mean of the ten {statistics.geometric_mean(ratios[:10]):.2f} times, of all {statistics.geometric_mean(ratios):.2f} times")


if __name__ == "__main__":
    main()
