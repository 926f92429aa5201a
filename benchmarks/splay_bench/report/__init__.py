"""The report: one static page without network resources, and the same as Markdown tables, from the results on disk."""

import pathlib

from ..store import read_all
from . import charts, finance, markdown, page, suites


def build(results: pathlib.Path, html: pathlib.Path | None, text: pathlib.Path | None) -> list[pathlib.Path]:
    """Writes both, and charts of the largest scale as files of their own beside the tables; gives the paths of the page and the tables.

    Raises
    ------
    SystemExit
        If there are no results.
    """
    found = read_all(results)
    if not found:
        raise SystemExit(f"no results in {results}")
    sets = [finance.FinanceSet(name, engines) for name, engines in found.get("finance", {}).items()]
    sets.sort(key=lambda one: one.scale)
    others = suites.sections(found)
    html, text = html or results / "report.html", text or results / "report.md"
    text.write_text(markdown.document(sets, others), encoding="utf-8")
    html.write_text(page.document(sets, others), encoding="utf-8")
    for name, chart in charts.files(sets[-1]).items() if sets else ():
        (text.parent / name).write_text(chart, encoding="utf-8")
    return [html, text]
