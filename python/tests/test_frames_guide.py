"""Every block of the guide of frames runs, in order, as it stands; so do the examples of docstrings."""

import doctest
import importlib
import pathlib
import pkgutil
import re

import frame_day
import matplotlib
import pyarrow.parquet
import pytest

import splay
import splay.frames

GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guide" / "frames.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def market(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    db = splay.open("market")
    db.write("trade", frame_day.trades())
    db.write("quote", frame_day.quotes())
    (tmp_path / "days").mkdir()
    pyarrow.parquet.write_table(frame_day.trades(), tmp_path / "days" / "2024-01-02.parquet")
    yield
    splay.set_memory_limit(None)


def test_blocks_run(market):
    assert len(BLOCKS) >= 7
    names: dict = {}
    for block in BLOCKS:
        exec(compile(block, str(GUIDE), "exec"), names)  # noqa: S102
        # Frames that the block made are run, too.
        for made in [value for value in names.values() if isinstance(value, splay.Frame)]:
            made.to_arrow()


def test_said_sql_is_what_frames_write(market):
    names: dict = {}
    said = []
    for block in BLOCKS:
        for line in block.splitlines():
            printed = re.match(r"print\((.*)\) +# (.*)$", line)
            if printed:
                said.append((printed[1], printed[2]))
        exec(compile(block, str(GUIDE), "exec"), names)  # noqa: S102
        while said:
            expression, text = said.pop()
            assert str(eval(expression, names)).replace("\n", " ") == text  # noqa: S307


MODULES = [module.name for module in pkgutil.iter_modules(splay.frames.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings_run(name):
    result = doctest.testmod(importlib.import_module(f"splay.frames.{name}"))
    assert result.failed == 0
