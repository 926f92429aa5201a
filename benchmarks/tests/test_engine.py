"""The query benchmark: its rules, and that its questions give equal answers on small data."""

import collections
import pathlib
import sys
import xml.etree.ElementTree as ElementTree

import pyarrow as pa
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from engine import latency, limits, parameters, plot, report, systems, taq84  # noqa: E402
from engine.ask import ask  # noqa: E402
from engine.compare import Different, check_equal, check_unique, normal  # noqa: E402
from engine.data import Data, Sizes  # noqa: E402
from engine.measure import Rounds, Timing, measure  # noqa: E402
from engine.outcome import Cell, Outcome  # noqa: E402
from engine.suites import asof, crypto14, filters, windows  # noqa: E402
from splay_bench import bars, formats, inside, taq  # noqa: E402

SMALL = Sizes(symbols=20, quotes=60_000, scale=0.0005)


def answer(**columns) -> pa.Table:
    return pa.table(columns)


def test_values_may_differ_by_a_billionth_and_keys_not_at_all():
    expected = answer(key=["a", "b"], value=[1.0, 2.0])
    check_equal(expected, answer(Key=["b", "a"], VALUE=[2.0 + 1e-9, 1.0]), ("key",))
    with pytest.raises(Different, match="1 of 2 rows, first value: 2.0001 instead of 2.0 .*key=b"):
        check_equal(expected, answer(key=["a", "b"], value=[1.0, 2.0001]), ("key",))
    numbers = answer(key=[1.0], value=[1.0])
    with pytest.raises(Different):
        check_equal(numbers, answer(key=[1.0 + 1e-12], value=[1.0]), ("key",))


def test_nulls_nans_and_infinities_are_equal_to_themselves_alone():
    values = [None, float("nan"), float("inf"), 0.0]
    expected = answer(key=[1, 2, 3, 4], value=values)
    check_equal(expected, answer(key=[1, 2, 3, 4], value=values), ("key",))
    for wrong in (
        [0.0, *values[1:]],
        [None, None, *values[2:]],
        [*values[:2], float("-inf"), 0.0],
        [*values[:3], 1e-12],
    ):
        with pytest.raises(Different, match="1 of 4 rows"):
            check_equal(expected, answer(key=[1, 2, 3, 4], value=wrong), ("key",))


def test_types_are_compared_by_what_they_say():
    instant = 1_570_455_000_000_000_000
    check_equal(
        answer(
            key=pa.array(["x"]).dictionary_encode(),
            at=pa.array([instant], pa.timestamp("ns", "UTC")),
            n=pa.array([1], pa.uint64()),
        ),
        answer(
            key=pa.array(["x"], pa.large_string()),
            at=pa.array([instant // 1000], pa.timestamp("us")),
            n=pa.array([1.0]),
        ),
        ("key",),
    )


def test_order_counts_only_where_the_question_has_one():
    expected, found = answer(key=[1, 2], value=[1, 2]), answer(key=[2, 1], value=[2, 1])
    check_equal(expected, found, ("key",))
    with pytest.raises(Different):
        check_equal(expected, found, ("key",), ordered=True)


def test_rows_and_columns_that_are_missing_are_told():
    expected = answer(key=[1, 2], value=[1, 2])
    with pytest.raises(Different, match="1 rows instead of 2"):
        check_equal(expected, answer(key=[1], value=[1]), ("key",))
    with pytest.raises(Different, match="columns"):
        check_equal(expected, answer(key=[1, 2]), ("key",))


def test_a_bag_may_repeat_rows_but_not_lose_them():
    expected = answer(key=[1, 1, 2], value=[5, 6, 7])
    check_equal(expected, answer(key=[2, 1, 1], value=[7, 6, 5]), ("key",), bag=True)
    with pytest.raises(Different):
        check_equal(expected, answer(key=[2, 1, 1], value=[7, 5, 5]), ("key",), bag=True)


def test_keys_that_name_two_rows_are_refused():
    with pytest.raises(Different, match="name 1 of 2 rows"):
        check_unique(normal(answer(key=[1, 1])), ("key",))


def test_means_leave_out_failures_and_say_so():
    def outcome(id, ours, theirs):
        cells = {
            "SplayDB": Cell(Timing(ours, ours, 3)) if ours else Cell(failure="error"),
            "DuckDB": Cell(Timing(theirs, theirs, 3)),
        }
        return Outcome(id, "group", "", cells=cells)

    (row,) = report.means(
        [outcome("a", 1.0, 4.0), outcome("b", 4.0, 4.0), outcome("c", None, 4.0)], ["SplayDB", "DuckDB"]
    )
    assert row["SplayDB"] == pytest.approx(2.0) and row["SplayDB answered"] == 2 and row["DuckDB answered"] == 3
    assert row["SplayDB / DuckDB"] == pytest.approx(0.5)
    assert "| error |" in "\n".join(report.table([outcome("c", None, 4.0)], ["SplayDB", "DuckDB"]))


def test_times_are_set_against_the_memory(monkeypatch):
    monkeypatch.setattr(limits, "bytes_per_second", lambda: 10e9)
    cells = {"SplayDB": Cell(Timing(3.0, 3.0, 3))}
    measured = Outcome("q1", "group", "", cells=cells, moved_bytes=(8_000_000, 2_000_000))
    lines = limits.table([measured, Outcome("q2", "group", "", cells={"SplayDB": Cell(failure="error")})])
    assert lines[-2] == "| q1 | 8.00 | 2.00 | 1.000 | 3.000 | 3.0 |"
    assert not any("q2" in line for line in lines)
    assert limits.table([]) == []


def test_the_plot_is_well_formed():
    points = {"point": {"SplayDB": [(1000, 0.01), (4000, 0.012)], "DuckDB": [(1000, 2.0), (4000, 40.0)]}, "none": {}}
    root = ElementTree.fromstring(plot.svg(points, {"point": "a < b", "none": ""}))
    assert len(root.findall("{http://www.w3.org/2000/svg}polyline")) == 2


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return Data(ROOT / "target" / "release" / "splay", tmp_path_factory.mktemp("bench"), SMALL, seed=1)


def failures(questions, drawn, tables):
    """Failures of every system on the questions, by id and system."""
    opened = [systems.load(name)() for name in systems.MODULES]
    for system in opened:
        system.open(tables)
    outcomes = [ask(question, drawn, opened, rounds=Rounds(1, 0)) for question in questions]
    return {
        f"{outcome.id} {name}": f"{cell.failure}: {cell.detail}"
        for outcome in outcomes
        for name, cell in outcome.cells.items()
        if cell.failure
    }


def test_there_are_84_questions_about_a_day(data):
    questions = taq84.questions(parameters.draw(data.taq(), 1))
    assert [question.id for question in questions] == [f"q{number:02}" for number in range(1, 85)]
    groups = collections.Counter(question.group for question in questions)
    assert groups["as-of joins"] == 6 and min(groups.values()) >= 6, groups


def test_answers_about_a_day_are_equal(data):
    tables = data.taq()
    drawn = parameters.draw(tables, 1)
    found = failures(taq84.questions(drawn), drawn, tables)
    # Of several quotes at one time DuckDB's as-of join takes any, so its answer may differ from the one that takes the last.
    assert set(found) <= {f"q{number} DuckDB" for number in range(79, 85)}, found


def test_answers_about_a_month_are_equal(data):
    drawn = parameters.CryptoParameters(1)
    assert failures(crypto14.questions(drawn), drawn, data.crypto()) == {}


def test_answers_about_bars_are_equal(data):
    tables = data.taq(only=("bar",))
    assert failures(filters.questions(), filters.Limits(tables), tables) == {}


@pytest.mark.parametrize("suite", [bars, formats, taq])
def test_suites_have_a_figure_in_every_place(suite, tmp_path, monkeypatch):
    monkeypatch.setitem(inside.SIZES, "smoke", SMALL)
    monkeypatch.setitem(inside.ROUNDS, "smoke", Rounds(1, 0))
    monkeypatch.setitem(bars.STATEMENTS, "smoke", 8)
    monkeypatch.setattr(latency, "SECONDS", 0.02)
    splay = str(ROOT / "target" / "release" / "splay")
    section = suite.measure(
        inside.Inside({"size": "smoke", "seed": 1, "threads": 1, "splay": splay, "work": str(tmp_path)})
    )
    failed = [row for table in section["tables"] for row in table["rows"] if {"error", "wrong", "differs"} & set(row)]
    assert section["tables"] and not failed, failed


def test_as_of_joins_of_all_shapes_are_equal(data):
    tables = data.taq(only=("trade", "quote", "trade_few", "quote_few", "quote_early"))
    questions = [asof.question(id)[0] for id in asof.SHAPES]
    found = failures(questions, parameters.draw(tables, 1), tables)
    # As above.
    assert [name for name in found if not name.endswith("DuckDB")] == [], found


def test_window_and_horizon_joins_are_equal(data):
    tables = data.taq()
    assert failures([windows.around(), windows.after()], parameters.draw(tables, 1), tables) == {}


def test_short_questions_are_asked_more_often():
    def rounds(of: Rounds) -> int:
        return measure(lambda run: lambda: run, of).rounds

    assert rounds(Rounds(7, 0)) == 7
    assert rounds(Rounds(7, 60)) == 250, "the most there are"
