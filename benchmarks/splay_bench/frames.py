"""The questions of the two articles on Arrow, Parquet and Vaex (AquaQ), by the libraries that they are about: Vaex, pandas, pyarrow, beside
Polars, DuckDB and SplayDB, over the same Arrow and Parquet files, and SplayDB over its database.

Questions, data and systems are those of ``make bench-frames`` (``frames``). Each system has a process of its own; answers are compared.
"""

import contextlib
import statistics
from types import SimpleNamespace

from engine.report import geometric_mean, milliseconds
from engines.base import Skipped
from frames.questions import TITLES
from frames.systems import KINDS, REQUIREMENTS

from . import environment, inside

SIZES = {
    "smoke": {"quotes": 300_000, "trades": 100_000, "symbols": 50, "passes": 3},
    "full": {"quotes": 6_000_000, "trades": 2_000_000, "symbols": 100, "passes": 9},
}


def run(settings) -> None:
    for system, requirements in REQUIREMENTS.items():
        # What can't be had is told by the comparison, which finds it missing.
        with contextlib.suppress(Skipped):
            log = settings.work / "logs" / f"frames-{system}-pip.log"
            environment.ensure(settings.venvs / "frames" / system, requirements, log)
    inside.run("frames", settings)


def measure(given: inside.Inside) -> dict:
    from frames import compare

    size = SIZES[given.size]
    options = SimpleNamespace(
        work=given.work / "frames", splay=given.splay, venvs=given.venvs / "frames", systems=",".join(KINDS), **size
    )
    options.work.mkdir(parents=True, exist_ok=True)
    _, told, wrong, absent = compare.collected(options)
    notes = [f"{system} left out: {reason}" for system, reason in absent.items()]
    notes += [f"{system} {kind}, {TITLES[name]}: {reason}" for (system, kind, name), reason in wrong.items()]
    return {
        "title": "frames: the questions of two articles, by Vaex, pandas, pyarrow, Polars, DuckDB and SplayDB",
        "note": f"{size['quotes']:,} quotes, {size['trades']:,} trades of {size['symbols']} symbols; medians of {size['passes']} runs, ms; a process "
        "for each system; answers compared, those that differ have no time." + "".join(f" {note}." for note in notes),
        "tables": [table(told, wrong, compare.FIRST)],
    }


def table(told: dict, wrong: dict, first: tuple[str, str]) -> dict:
    """A row for each question, and how many times SplayDB's database's time each takes."""
    medians = {key: {name: statistics.median(times) * 1e3 for name, times in one["seconds"].items()} for key, one in told.items()}
    right = {key: [name for name in TITLES if (*key, name) not in wrong] for key in told}
    rows = [
        [title, *(milliseconds(medians[key][name]) if name in right[key] else "wrong" for key in told)]
        for name, title in TITLES.items()
    ]
    ratios = [geometric_mean([medians[key][name] / medians[first][name] for name in right[key]]) for key in told]
    rows.append(["times the database's, geometric mean", *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios)])
    return {"title": "", "head": ["question", *(f"{system}, {kind}" for system, kind in told)], "rows": rows}
