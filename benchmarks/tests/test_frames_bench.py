"""The benchmark of frames: its systems give equal answers on a small day, and a wrong one is told."""

import pathlib
import sys
import types

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from frames import compare, limits  # noqa: E402
from frames.questions import KEYS, TITLES  # noqa: E402


@pytest.fixture
def options(tmp_path):
    sizes = {"quotes": 40_000, "trades": 10_000, "symbols": 20, "passes": 1, "rows": 20_000, "dates": 5}
    command = ROOT / "target" / "release" / "splay"
    return types.SimpleNamespace(work=tmp_path, splay=command, venvs=tmp_path / "venvs", systems="splay,polars,duckdb,pandas,pyarrow", **sizes)


def test_systems_give_equal_answers(options, capsys):
    assert KEYS.keys() == TITLES.keys()
    compare.run(options)
    said = capsys.readouterr().out
    assert "left out" not in said, said
    assert "| times the database's (geometric mean) | 1.00 |" in said
    out = options.work / "answers"
    answer = pq.read_table(out / "polars-arrow-by_symbol.parquet")
    assert answer.num_rows == 20
    wrong = answer.set_column(1, "volume", pa.array([1] * 20))
    pq.write_table(wrong, out / "polars-arrow-by_symbol.parquet")
    told = {compare.FIRST: {"failed": {}}, ("polars", "arrow"): {"failed": {}}}
    assert list(compare.check(told, out)) == [("polars", "arrow", "by_symbol")]


def test_limits_are_measured(options, capsys, monkeypatch):
    monkeypatch.setattr(limits, "BATCH_ROWS", 7_000)
    limits.run(options)
    said = capsys.readouterr().out
    assert "20,000 rows into 200 by 100 cells" in said
    assert "opening a database and a frame of 5 dates" in said and "building an expression" in said
    assert "5,000 keys" in said
