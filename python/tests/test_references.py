"""The reference pages state what the program says: commands, functions, settings, metrics, error codes (`.ci/references.py`). Their
statements run."""

import importlib.util
import pathlib

import pages
import pandas as pd
import pytest

import splay

ROOT = pathlib.Path(__file__).resolve().parents[2]
_SPEC = importlib.util.spec_from_file_location("references", ROOT / ".ci" / "references.py")
references = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(references)


@pytest.mark.parametrize("page", references.PAGES)
def test_the_page_says_what_the_program_says(page):
    difference = references.difference(page)
    assert not difference, f"run `{references.COMMAND}` and word what is new:\n{difference}"


def rows(time: str, symbol: str, **columns: list) -> pd.DataFrame:
    """Four rows of two symbols, in the columns that a page's examples use."""
    times = pd.to_datetime(["2013-10-07 13:30:00", "2013-10-07 13:31:00", "2013-10-07 13:33:00", "2013-10-07 13:30:30"], utc=True)
    return pd.DataFrame({time: times, symbol: ["AAPL", "AAPL", "AAPL", "ESZ3"], **columns})


TRADE = {"price": [487.0, 487.5, 488.25, 1670.5], "size": [100, 200, 100, 3]}
QUOTE = {"bid": [486.5, 487.0, 488.0, 1670.25], "ask": [487.25, 487.75, 488.5, 1670.75]}
WORDS = {"exchange": ["N", "Q", "N", "C"], "sale_condition": ["@O", "@", "@ F", "O"]}
TABLES = {
    "functions.md": {"trade": rows("ts", "sym", **TRADE, **WORDS), "quote": rows("ts", "sym", **QUOTE)},
    "joins.md": {"trade": rows("time", "symbol", **TRADE), "quote": rows("time", "symbol", **QUOTE)},
    "http.md": {"trade": rows("time", "sym", **TRADE)},
}


@pytest.mark.parametrize("name", TABLES)
def test_statements_of_the_page_run(name, tmp_path, subtests):
    page = ROOT / "docs" / "reference" / name
    database = splay.open(tmp_path / "market")
    for table, frame in TABLES[name].items():
        database.write(table, frame, types={"exchange": "symbol"} if "exchange" in frame else None)
    with pages.Runner(tmp_path) as runner:
        for block in pages.blocks(page):
            if block.language == "sql":
                with subtests.test(f"{name}:{block.line}"):
                    try:
                        runner.run(page, block)
                    except pages.PageError as error:
                        pytest.fail(f"docs/reference/{name}:{block.line}\n{error}", pytrace=False)


@pytest.mark.parametrize("name", ["guide/serve.md", "reference/settings.md"])
def test_settings_of_the_page_are_accepted(name, tmp_path):
    page = ROOT / "docs" / name
    with pages.Runner(tmp_path) as runner:
        for block in pages.blocks(page):
            if block.language == "toml" and block.not_run is None:
                (tmp_path / f"{block.line}.toml").write_text(block.text, encoding="utf-8")
                runner.serve(f"splay serve db-{block.line} --config {block.line}.toml")
