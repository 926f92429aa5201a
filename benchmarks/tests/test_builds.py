"""The comparison of two builds: its texts, its arithmetic, and a build that is compared with itself."""

import pathlib

import pytest
from engine import builds

WHEELS = pathlib.Path(__file__).resolve().parents[2] / "target" / "wheels"


def test_a_statement_is_renamed_as_a_whole_and_columns_and_types_are_not():
    text = "SELECT symbol, sum(size) AS volume, cast(price AS double) AS price FROM t GROUP BY symbol ORDER BY volume"
    renamed = builds.renamed(text, {"symbol", "size", "price"}, "7")
    assert renamed == text.replace("volume", "volume_7")
    function = "SELECT last(close) AS last FROM (SELECT close AS close FROM t)"
    assert builds.renamed(function, set(), "1") == "SELECT last(close_1) AS last FROM (SELECT close_1 AS close_1 FROM t)"


def test_texts_that_were_never_seen_differ():
    texts = builds.Texts("SELECT 1 AS one", "never seen", set())
    drawn = texts.next(2) + texts.next(3)
    assert len(set(drawn)) == 5
    assert len(set(builds.Texts("SELECT 1 AS one", "known", set()).next(3))) == 1


def test_the_report_has_means_and_the_slowest_first():
    found = [builds.Compared("a", "known", 1.0, 2.0, 2.0), builds.Compared("b", "never seen", 2.0, 1.0, 0.5)]
    lines = builds.report(found, ["c, known: no such table"])
    assert "| all | 2 | 1.000 | 2.000 |" in lines
    assert lines.index("| a | known | 1.000 | 2.000 | 2.000 |") < lines.index("| b | never seen | 2.000 | 1.000 | 0.500 |")
    assert lines[-1] == "- c, known: no such table"


def test_a_build_is_compared_with_itself(tmp_path):
    wheels = sorted(WHEELS.glob("splay-*.whl"))
    if not wheels:
        pytest.skip("no wheel was built")
    splay = pytest.importorskip("splay")
    import pandas as pd

    rows = pd.DataFrame({"time": pd.date_range("2024-03-04", periods=5, tz="UTC"), "symbol": "A", "price": 1.5})
    splay.open(tmp_path / "db").write("t", rows, time="time", symbol="symbol")
    both = [builds.Build(wheels[-1], tmp_path / name) for name in ("before", "after")]
    try:
        for build in both:
            assert build.ask(open=str(tmp_path / "db")) == {}
        texts = builds.Texts("SELECT max(price) AS top FROM t", "never seen", {"price"})
        one = builds.compare("top", "never seen", texts, both, pairs=2)
        assert one.ratio > 0 and one.before_ms > 0
        wrong = builds.compare("wrong", "known", builds.Texts("SELECT nothing FROM t", "known", set()), both, pairs=2)
        assert wrong.startswith("wrong, known: ")
    finally:
        for build in both:
            build.close()
