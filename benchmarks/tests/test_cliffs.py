"""The search for cliffs: its statements, how they are dealt out and compared, and its report."""

import collections
import json
from types import SimpleNamespace

import pyarrow as pa
import pytest
from small_cliffs import small

import splay
from cliffs import data, report, run
from cliffs.answers import check
from cliffs.columns import COLUMNS, TYPES
from cliffs.derived import TYPES as SPLAY_TYPES
from cliffs.generator import Generator
from cliffs.results import Results
from cliffs.shares import DIMENSIONS, Share, Shares, parse
from cliffs.statement import Statement
from cliffs.systems import DuckDB, Polars, opened
from cliffs.worker import Asker, different
from engine.compare import Different

SHARE = Share("filters", "all", "one", "float64", "quote")
NUMBER = 12 * len(TYPES) * 8


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cliffs")
    made = small(folder)
    database = splay.open(folder / "db")
    for table in made.names:
        rows = made.read(table, [column.name for column in COLUMNS])
        database.write(table, rows, time="time", symbol="symbol", types=SPLAY_TYPES)
    return made


@pytest.fixture(scope="module")
def generator(tables):
    return Generator(data.profiles(tables), seed=1)


def test_tables_have_every_column_type(tables):
    assert {column.type for column in COLUMNS} == set(TYPES)
    for table in tables.names:
        rows = tables.read(table, [column.name for column in COLUMNS])
        nullable = {name for name in rows.column_names if rows[name].null_count}
        assert nullable == {column.name for column in COLUMNS if column.nullable}
        assert rows["time"].combine_chunks().unique().__len__() == rows.num_rows


def test_the_same_seed_draws_the_same_statements(generator):
    again = Generator(generator.profiles, seed=1)
    texts = [statement.text for statement in generator.statements(300)]
    assert texts == [statement.text for statement in again.statements(300)]
    assert texts[:100] == [statement.text for statement in again.statements(100)]
    other = Generator(generator.profiles, seed=2).statements(300)
    assert len({statement.text for statement in other} & set(texts)) < 10


def test_every_share_is_dealt_equally():
    shares = [Shares(1).of(number) for number in range(NUMBER)]
    for dimension, values in DIMENSIONS.items():
        counts = collections.Counter(getattr(share, dimension) for share in shares)
        assert counts == {value: NUMBER // len(values) for value in values}


def test_dimensions_are_dealt_independently():
    counts = collections.Counter((share.form, share.type) for share in map(Shares(1).of, range(4 * NUMBER)))
    expected = 4 * NUMBER / 8 / len(TYPES)
    assert len(counts) == 8 * len(TYPES) and max(counts.values()) < 2 * expected


def test_a_share_can_be_asked_for_alone(generator):
    only = parse(["form=windows", "type=date,bool"])
    shares = [statement.share for statement in Generator(generator.profiles, 1, only).statements(50)]
    assert {share.form for share in shares} == {"windows"} and {share.type for share in shares} == {"date", "bool"}
    with pytest.raises(ValueError, match="no form 'window'"):
        Shares(1, parse(["form=window"]))
    with pytest.raises(ValueError, match="no dimension 'shape'"):
        Shares(1, parse(["shape=windows"]))


def test_statements_run_in_duckdb_and_polars_agrees(tables, generator):
    duckdb, polars = DuckDB(), Polars()
    duckdb.open(tables)
    polars.open(tables)
    forms = collections.Counter()
    for statement in generator.statements(400):
        expected = duckdb.call(statement)()
        assert expected.num_columns == len(statement.loose), statement.sql()
        if statement.polars is not None:
            assert different(statement, expected, polars.arrow(polars.call(statement)())) is None, statement.sql()
        forms[statement.share.form] += expected.num_rows > 0
    assert min(forms.values()) > 25, forms


def test_a_salt_makes_another_text_of_the_same_meaning(tables, generator):
    duckdb = DuckDB()
    duckdb.open(tables)
    for statement in generator.statements(80):
        assert statement.sql() != statement.sql(17)
        assert "@" not in statement.sql()
        salted = duckdb.connection.sql(statement.sql(17)).to_arrow_table()
        assert different(statement, duckdb.call(statement)(), salted) is None, statement.sql()


def statement(**others) -> Statement:
    return Statement("SELECT a, b FROM t@", SHARE, "kind", **{"loose": (0.0, 1e-9)} | others)


def test_answers_are_compared_by_position_and_without_regard_to_order():
    expected = pa.table({"a": [1, 2], "b": [0.5, 1.0]})
    check(statement(), expected, pa.table({"x": [2, 1], "y": [1.0 + 1e-12, 0.5]}))
    with pytest.raises(Different, match="1 of 2 rows"):
        check(statement(), expected, pa.table({"x": [1, 2], "y": [0.5, 1.1]}))
    with pytest.raises(Different):
        check(statement(ordered=True), expected, pa.table({"x": [2, 1], "y": [1.0, 0.5]}))
    with pytest.raises(Different, match="1 columns instead of 2"):
        check(statement(), expected, expected.select(["a"]))


def test_columns_that_a_limit_leaves_open_are_not_compared():
    expected, found = pa.table({"a": [1, 1], "b": [1.0, 2.0]}), pa.table({"a": [1, 1], "b": [3.0, 4.0]})
    check(statement(ordered=True, compared=(0,)), expected, found)
    check(statement(compared=()), expected, found)
    with pytest.raises(Different, match="1 rows instead of 2"):
        check(statement(compared=()), expected, found.slice(0, 1))


def test_all_systems_are_asked_and_timed(tables, generator):
    asker = Asker(opened(tables), rounds=1, tell=lambda stage: None)
    records = [asker.record(one) for one in generator.statements(24)]
    timed = [record for record in records if "times" in record]
    assert len(timed) >= 20, [record["failures"] for record in records]
    assert all({"SplayDB", "unseen", "DuckDB"} <= set(record["times"]) for record in timed)
    assert all(record["tick_plan"] for record in timed)


def test_a_run_goes_on_where_it_was_stopped(tables, generator, tmp_path):
    options = SimpleNamespace(seed=1, only={}, rounds=1, statements=3, limit=60)
    path = tmp_path / "records.jsonl"
    run.run(tables.database.parent, Results(path), generator, options)
    lines = path.read_text().splitlines()
    assert len(lines) == 3
    # The last line is half written, as by a run that was killed.
    path.write_text("\n".join(lines[:2]) + "\n" + lines[2][:40])
    run.run(tables.database.parent, Results(path), generator, options)
    again = path.read_text().splitlines()
    assert again[:2] == lines[:2] and len(again) == 3
    assert [json.loads(line)["number"] for line in again] == [0, 1, 2]


def test_a_statement_that_takes_too_long_is_told(tables, generator, tmp_path):
    options = SimpleNamespace(seed=1, only={}, rounds=1, statements=1, limit=0)
    results = Results(tmp_path / "records.jsonl")
    run.run(tables.database.parent, results, generator, options)
    (record,) = results.of(generator.statements(1))
    assert [failure["failure"] for failure in record["failures"].values()] == ["time"]


def record(number: int, times: dict | None = None, failures: dict | None = None) -> dict:
    return {
        "key": str(number),
        "number": number,
        "form": "windows" if number % 2 else "filters",
        "selectivity": "all",
        "width": "one",
        "type": "bool",
        "table": "quote",
        "kind": "rows",
        "sql": f"SELECT {number}",
        "failures": failures or {},
        "tick_plan": "none: a reason",
        "operators": ["SortExec"],
        **({"times": times} if times else {}),
    }


def test_the_report_counts_what_is_slower_and_lists_the_rest():
    records = [
        record(1, {"SplayDB": 4.0, "unseen": 8.0, "DuckDB": 1.0, "Polars": 2.0}),
        record(2, {"SplayDB": 1.0, "unseen": 1.0, "DuckDB": 3.0}),
        record(
            3, failures={"SplayDB": {"failure": "differs", "detail": "1 of 2 rows", "polars": "agrees with SplayDB"}}
        ),
        record(4, failures={"Polars": {"failure": "error", "detail": "no such thing"}}),
    ]
    found = report.distributions(records)
    assert found["all"]["all"]["statements"] == 2 and found["all"]["all"]["slower than 2x"] == 1
    assert found["form"]["windows"]["median"] == pytest.approx(0.25)
    assert found["form"]["windows"]["unseen: median"] == pytest.approx(0.125)
    assert found["all"]["all"]["at least level"] == pytest.approx(0.5)
    text = report.markdown(records, {"seed": 1})
    assert "1. **0.25** (DuckDB)" in text and "none: a reason; operators: SortExec" in text
    assert "number 3, SplayDB, differs: 1 of 2 rows (Polars agrees with SplayDB)" in text
    assert "number 4, Polars, error: no such thing" in text
    assert json.loads(json.dumps(report.as_json(records, {})))["worst"][0]["ratio"] == pytest.approx(0.25)


def test_reasons_are_grouped_whatever_columns_they_name():
    def because(number, plan):
        times = {"SplayDB": 4.0, "unseen": 4.0, "DuckDB": 1.0}
        return record(number, times) | {"tick_plan": plan}

    records = [
        because(1, 'none, because of the expression q.note LIKE Utf8("%1%")'),
        because(2, 'none, because of the expression l.symbol LIKE Utf8("A%")'),
        because(3, "Sort: by 1 values\n  Rows: 20 columns, bounds=[], filter=none"),
        record(4, {"SplayDB": 1.0, "unseen": 1.0, "DuckDB": 2.0}) | {"tick_plan": "none, because of groups by 20 keys"},
    ]
    found = report.causes(records)
    assert list(found) == ["the expression column LIKE constant", "tick plan of Sort, Rows"]
    assert found["the expression column LIKE constant"]["slower than 2x"] == 2


def test_a_report_of_nothing_is_one():
    assert "None." in report.markdown([], {})
