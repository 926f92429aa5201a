"""What capture takes in, how soon it is seen and what it costs, beside QuestDB for the line protocol: the figures of ``make
bench-ingest``, at a size that fits a run of all suites.
"""

import pathlib
import shutil
import tempfile

from ingest.measure import FULL_ROLL_ROWS, Options, figures

from . import inside

SIZES = {
    "smoke": {"rows": 400_000, "rounds": 3, "single_rows": 60_000, "live_rows": 1_600_000, "roll_rows": 500_000, "seconds": 1.5, "sustained_seconds": 3},
    "full": {"rows": 4_000_000, "rounds": 3, "single_rows": 400_000, "roll_rows": FULL_ROLL_ROWS, "seconds": 5, "sustained_seconds": 60},
}


def run(settings) -> None:
    inside.run("ingest", settings)


def measure(given: inside.Inside) -> dict:
    size = SIZES[given.size]
    downloads = given.work / "downloads" if shutil.which("java") else None
    options = Options(splay=given.splay, downloads=downloads, **size)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ingest-", dir=given.work))
    found = []
    try:
        for figure in figures(options, folder):
            print(f"ingest: {figure.line()}", flush=True)
            found.append(figure)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rival = "QuestDB by its jar with its defaults, up alone" if downloads else "QuestDB left out: there is no Java"
    rows = [[figure.what, figure.measured, figure.rival, figure.wanted] for figure in found]
    return {
        "title": "ingest: what capture takes in, and what that costs",
        "note": f"Producers and server on the same machine; trades of 500 symbols in order of time, {options.rows:,} rows a "
        f"round, the median of {options.rounds} rounds; a rate ends when `count(*)` has all rows. {rival}.",
        "tables": [{"title": "", "head": ["figure", "measured", "QuestDB", "wanted"], "rows": rows}],
    }
