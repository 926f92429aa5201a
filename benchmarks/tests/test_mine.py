"""A user's own statements beside DuckDB: how files are read, and the example of the README, run as it stands there."""

import datetime
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pyarrow as pa
import pytest

import splay
from engine.builds import renamed
from engine.compare import Different
from mine import copy, measure, report, statements

BENCHMARKS = pathlib.Path(__file__).resolve().parents[1]
START = datetime.datetime(2019, 10, 7, 13, 30, tzinfo=datetime.UTC)
ROWS = 3_000


@pytest.fixture(scope="module")
def market(tmp_path_factory) -> pathlib.Path:
    """Tables of trades and quotes as the recipes name their columns; no two rows of a symbol have the same time."""
    folder = tmp_path_factory.mktemp("mine") / "market"
    database = splay.open(folder)
    start = int(START.timestamp()) * 10**9
    for table, step, names in (
        ("trade", 211_000_001, ("Trade_Price", "Trade_Volume")),
        ("quote", 97_000_003, ("Bid_Price", "Offer_Price")),
    ):
        rows = pa.table(
            {
                "Time": pa.array([start + row * step for row in range(ROWS)], pa.timestamp("ns", "UTC")),
                "Symbol": pa.array([f"S{row * 7 % 5}" for row in range(ROWS)]).dictionary_encode(),
                names[0]: [100 + row % 31 / 8 for row in range(ROWS)],
                names[1]: [float(1 + row % 17) for row in range(ROWS)],
            }
        )
        database.write(table, rows, time="Time", symbol="Symbol")
    return folder


def run(folder: pathlib.Path, *words: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(BENCHMARKS)}
    command = [sys.executable, "-m", "splay_bench", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def example() -> tuple[str, list[str]]:
    """The README's statements and the words of its command."""
    text = (BENCHMARKS / "README.md").read_text(encoding="utf-8").split("## Your own statements")[1].split("\n## ")[0]
    sql = re.search(r"```sql\n(.*?)```", text, re.DOTALL)[1]
    command = re.search(r"-m splay_bench (run mine .*)", text)[1]
    return sql, shlex.split(command)


def test_the_readmes_example_compares_answers_and_tells_ratios_and_plans(market):
    sql, words = example()
    folder = market.parent
    (folder / "questions.sql").write_text(sql)
    done = run(folder, *words, "--rounds", "2", "--work", str(folder / "work"), "--threads", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    count = len(statements.split(sql))
    lines = [line for line in done.stdout.splitlines() if line.startswith("| questions ")]
    assert len(lines) == count
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert int(cells[1].replace(",", "")) > 0 and all(cells[2:6]), line
        assert all(re.fullmatch(r"level|[\d.e+]+ times (faster|slower)", cell) for cell in cells[6:8]), line
        assert cells[8] in ("tick plan", "general")
    assert "All compared answers are equal." in done.stdout
    assert "Asked again, SplayDB is faster in" in done.stdout and "As texts never seen, SplayDB is faster in" in done.stdout
    assert re.search(r"^tick plan: \S", done.stdout, re.MULTILINE), "a plan is shown"
    assert done.stdout.count("```text\n") == count and "Seq Scan" in done.stdout, "so is DuckDB's"
    assert (folder / "results" / "mine.md").read_text() == done.stdout.removesuffix("\n")
    assert list((folder / "work").iterdir()) == [], "the copy is removed"


def test_what_differs_or_fails_has_no_time_and_is_told(market):
    folder = market.parent
    text = "SELECT count(*) AS n FROM trade; SELECT Symbol, vwap(Trade_Price, Trade_Volume) AS v FROM trade GROUP BY Symbol; SELECT 1 AS n"
    (folder / "wrong.sql").write_text(text)
    # DuckDB is asked something else first, and gets a text of its own where it has no such function.
    own = "SELECT count(*) - 1 AS n FROM trade; SELECT Symbol, sum(Trade_Price * Trade_Volume) / sum(Trade_Volume) FROM trade GROUP BY 1; SELECT"
    (folder / "wrong.duckdb.sql").write_text(own)
    done = run(folder, "run", "mine", "--database", "market", "--sql", "wrong.sql", "--rounds", "2", "--work", str(folder / "work"))
    assert done.returncode == 1
    first, second, third = [line for line in done.stdout.splitlines() if line.startswith("| wrong ")]
    assert "|  |  |  |  | answers differ |" in first
    assert "times" in second or "level" in second
    assert "| not compared |" in third
    assert re.search(rf"answers differ: .*{ROWS} instead of {ROWS - 1}", done.stdout)
    assert "DuckDB: Parser Error" in done.stdout and "A file NAME.duckdb.sql beside NAME.sql" in done.stdout
    assert "Answers differ in 1. 1 could not be compared." in done.stdout


def test_a_database_or_a_file_that_is_missing_is_said(tmp_path):
    (tmp_path / "one.sql").write_text("SELECT 1")
    done = run(tmp_path, "run", "mine", "--database", "nowhere", "--sql", "one.sql", "--work", "work")
    assert done.returncode == 2 and "nowhere" in done.stderr and "Traceback" not in done.stderr
    done = run(tmp_path, "run", "mine", "--sql", "one.sql")
    assert done.returncode == 1 and "wants --sql FILE... and --database FOLDER" in done.stderr
    (tmp_path / "empty.sql").write_text("-- nothing\n;")
    done = run(tmp_path, "run", "mine", "--database", "nowhere", "--sql", "empty.sql", "--work", "work")
    assert done.returncode == 2 and "empty.sql has no statement" in done.stderr


def test_semicolons_in_quotes_and_comments_end_no_statement():
    text = """-- first; not a statement
    SELECT 'a;b''c;' AS x; /* ; */ SELECT "a;b" FROM t ; ;
    SELECT 2 -- end"""
    assert statements.split(text) == ["SELECT 'a;b''c;' AS x", 'SELECT "a;b" FROM t', "SELECT 2"]


def test_views_names_and_literals_are_what_they_are(market):
    """What was asked as a text never seen once ended a run, or asked another question."""
    folder = market.parent
    database = splay.open(market)
    database.sql("CREATE VIEW dear (who, paid) AS SELECT Symbol, Trade_Price FROM trade WHERE Trade_Price > 101")
    database.sql("CREATE VIEW dearest AS SELECT who, max(paid) AS most FROM dear GROUP BY who")
    database.sql("CREATE MATERIALIZED VIEW minutes AS SELECT time_bucket('1 minute', Time) AS bar, max(Trade_Price) AS high FROM trade GROUP BY 1")
    database.sql("REFRESH MATERIALIZED VIEW minutes")
    texts = [
        "SELECT d.who, d.most + 1 AS Plus FROM dearest AS d WHERE d.most > 1 ORDER BY plus",
        "SELECT bar, high AS top FROM minutes ORDER BY bar",
        "SELECT count(*) AS s1, min(Symbol) AS first FROM trade WHERE Symbol = 'S1' /* s1 */ AND Trade_Price > 100",
        """SELECT count(*) AS n FROM (SELECT Trade_Price AS p FROM trade) AS x WHERE "p" > 101""",
        "SHOW TABLES",
        "DELETE FROM trade",
    ]
    (folder / "names.sql").write_bytes(b"\xef\xbb\xbf" + ";\n".join(texts).encode())
    done = run(folder, "run", "mine", "--database", "market", "--sql", "names.sql", "--rounds", "2", "--work", str(folder / "work"))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if line.startswith("| names ")]
    assert [bool(cells[2]) for cells in rows] == [True, True, True, True, False, False], done.stdout
    assert [bool(cells[3]) for cells in rows] == [True, True, True, False, False, False], done.stdout
    assert rows[2][1] == "1" and rows[1][1] == "11"
    assert "Not asked as a text never seen: with other names for what it computes it fails" in done.stdout
    assert "and DELETE may do something else" in done.stdout and "2 could not be compared." in done.stdout
    assert database.sql("SELECT count(*) FROM trade").fetchall() == [(ROWS,)]


def test_symbols_of_two_tables_have_one_type(market, tmp_path):
    ours = splay.open(market, threads=1)
    copied = copy.Copy(tmp_path / "copy.duckdb", 1)
    copied.codes(ours, ["trade", "quote"])
    for name in ("trade", "quote"):
        copied.add(ours, name)
    copied.finish()
    kinds = copied.ask("SELECT DISTINCT data_type FROM information_schema.columns WHERE column_name = 'Symbol'")["data_type"].to_pylist()
    assert len(kinds) == 1 and kinds[0].startswith("ENUM('S0'")
    assert "CAST" not in copied.plan("SELECT count(*) FROM trade AS t ASOF JOIN quote AS q ON t.Symbol = q.Symbol AND t.Time >= q.Time")
    copied.close()


def test_names_are_varied_outside_of_quotes_alone():
    text = "SELECT a AS Foo, 'foo' AS bar FROM t ORDER BY foo -- foo"
    assert renamed(text, {"a", "t"}, "7") == "SELECT a AS Foo_7, 'foo' AS bar_7 FROM t ORDER BY foo_7 -- foo"
    assert renamed("SELECT cast(a AS double), b AS A FROM t", {"a"}, "7") == "SELECT cast(a AS double), b AS A FROM t"


@pytest.mark.parametrize(
    "text",
    ["DELETE FROM trade", "insert into trade values (1)", "WITH x AS (SELECT 1) DELETE FROM trade", "COPY trade TO 'x'", "( DROP TABLE trade )"],
)
def test_what_may_change_something_is_not_asked(tmp_path, text):
    """Each statement is run many times on the user's own database."""
    (tmp_path / "one.sql").write_text(text)
    (one,) = statements.read([tmp_path / "one.sql"])
    assert one.refusal.startswith("only statements that read tables are asked")


def test_words_in_quotes_change_nothing(tmp_path):
    (tmp_path / "one.sql").write_text("""WITH x AS (SELECT 'delete' AS "drop") SELECT * FROM x""")
    (one,) = statements.read([tmp_path / "one.sql"])
    assert one.refusal == ""


def test_slow_statements_have_three_rounds(monkeypatch):
    monkeypatch.setattr(measure, "SECONDS_MAX", 0)
    found = measure.measure({"SplayDB": lambda: 1, "DuckDB": lambda: 1}, rounds=10, seconds=0)
    assert [len(times.values) for times in found.values()] == [3, 3]


def test_instants_are_spelled_as_the_copys_columns_have_them():
    spelled = statements.spelled_for_duckdb
    assert spelled("t >= TIMESTAMPTZ '2026-01-02 14:30:00Z'") == "t >= TIMESTAMP_NS '2026-01-02 14:30:00'"
    assert spelled("timestamp '2026-01-02T00:30:00.123456789+01:30'") == "TIMESTAMP_NS '2026-01-01 23:00:00.123456789'"
    assert spelled("TIMESTAMP WITH TIME ZONE '2026-01-02 23:00-05'") == "TIMESTAMP_NS '2026-01-03 04:00:00'"
    assert spelled("TIMESTAMPTZ '2026-01-02'") == "TIMESTAMP_NS '2026-01-02 00:00:00'"
    assert spelled("'2026-01-02' AND DATE '2026-01-02'") == "'2026-01-02' AND DATE '2026-01-02'"


def test_tables_are_those_that_the_statements_name():
    asked = ["SELECT Trade.price FROM quote AS q", "SELECT 1 FROM bars"]
    assert statements.named(asked, ["trade", "quote", "bars", "book"]) == ["trade", "quote", "bars"]


def test_answers_are_bags_by_position():
    expected = pa.table({"a": ["x", "y"], "count_star()": [1.0, 2.0], "c": [True, False]})
    found = pa.table({"a": ["y", "x"], "count(*)": [2.0 + 1e-12, 1.0], "c": [False, True]})
    measure.check(expected, found)
    with pytest.raises(Different, match="1 of 2 rows"):
        measure.check(expected, found.set_column(1, "n", pa.array([2.0, 1.1])))
    with pytest.raises(Different, match="2 columns instead of 3"):
        measure.check(expected, found.select(["a", "c"]))


def test_what_is_within_15_percent_is_level():
    assert [report.verdict(ratio) for ratio in (1.1, 0.9, 3.21, 0.25)] == [
        "level",
        "level",
        "3.21 times faster",
        "4 times slower",
    ]
