"""Suites that ask SplayDB, DuckDB and Polars in one process run in an environment that has all three.

    python -m splay_bench.inside SUITE ARGUMENTS OUT

The suite's module has ``measure(arguments) -> section``; the section is written to OUT as JSON. A section is a ``title``, a
``note`` and ``tables``, each a ``title``, a ``head`` and ``rows`` of words.
"""

import argparse
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from engine.data import Data, Sizes
from engine.measure import Rounds
from engines import load
from engines.base import Skipped

from . import environment, machine
from .settings import Settings
from .store import Store, write

REQUIREMENTS = ["duckdb==2.0.0", "numpy", "pandas==3.1.1", "polars==2.1.0", "pyarrow==26.0.1"]
OPTIONAL = ["chdb==4.4.0"]
"""For suites that say what is missing without it."""
SIZES = {
    "smoke": Sizes(symbols=100, quotes=500_000, scale=0.005),
    "full": Sizes(symbols=2_000, quotes=20_000_000, scale=0.1),
}
"""Quotes of the day of equities; trades are a tenth of them."""
ROUNDS = {"smoke": Rounds(5, 0.05), "full": Rounds(10)}


def run(suite: str, settings: Settings) -> None:
    """Measures a suite in its environment, unless its results are there."""
    stamp = {"commit": settings.commit, "threads": settings.threads, "seed": settings.seed}
    if settings.files:
        stamp["files"] = [str(path) for path in settings.files]
    store = Store(settings.out / suite / settings.size, stamp, settings.again)
    if store.get("all", "tables"):
        print(f"{suite}: all of it is there", file=sys.stderr)
        return
    write(store.folder / "run.json", machine.describe(settings.commit) | {"command": settings.command})
    try:
        section = measured(suite, settings)
    except (Skipped, RuntimeError) as reason:
        print(f"{suite}: not run: {reason}", file=sys.stderr)
        section = {"title": suite, "note": f"Not run: {reason}", "tables": []}
        write(store.path("all", "tables"), {"section": section})
        return
    facts = f"{stamped(store)} `{settings.command}`."
    store.put("all", "tables", {"section": section | {"note": f"{section['note']} {facts}"}})


def stamped(store: Store) -> str:
    about = json.loads((store.folder / "run.json").read_text())
    return f"{about['date']}, {about['cores']} cores of {about['processor']}, commit {about['commit']}."


def python(settings: Settings) -> pathlib.Path:
    """The interpreter of the suites' environment."""
    told = settings.of_engines()
    reason = load("splay").unavailable(told)
    if reason:
        raise Skipped(reason)
    log = settings.work / "logs" / "suites-pip.log"
    wanted = [*REQUIREMENTS, told["wheel"]]
    try:
        return environment.ensure(settings.venvs / "suites", [*wanted, *OPTIONAL], log)
    except Skipped:
        return environment.ensure(settings.venvs / "suites", wanted, log)


def measured(suite: str, settings: Settings) -> dict:
    arguments = {
        "splay": str(settings.splay.resolve()),
        "work": str(settings.work.resolve()),
        "size": settings.size,
        "seed": settings.seed,
        "threads": settings.threads,
        "venvs": str(settings.venvs),
        "files": [str(path.resolve()) for path in settings.files],
    }
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "section.json"
        done = subprocess.run(
            [python(settings), "-m", "splay_bench.inside", suite, json.dumps(arguments), out],
            cwd=pathlib.Path(__file__).resolve().parents[1],
            env=os.environ | {"POLARS_MAX_THREADS": str(settings.threads)},
        )
        if done.returncode != 0:
            raise RuntimeError(f"the suite ended with {done.returncode}; its error is above")
        return json.loads(out.read_text())


class Inside:
    """What a suite gets in its environment: sizes and data."""

    def __init__(self, arguments: dict):
        self.size = arguments["size"]
        self.sizes = SIZES[self.size]
        self.rounds = ROUNDS[self.size]
        self.seed = arguments["seed"]
        self.threads = arguments["threads"]
        self.splay = pathlib.Path(arguments["splay"])
        self.venvs = pathlib.Path(arguments.get("venvs", ""))
        self.work = pathlib.Path(arguments["work"])
        self.files = [pathlib.Path(path) for path in arguments.get("files", [])]
        self.data = Data(self.splay, self.work, self.sizes, self.seed)

    def engine_run(self):
        """What a suite of the side-by-side benchmark (``engine``) takes."""
        from engine.__main__ import Run
        from engine.systems import MODULES

        given = argparse.Namespace(
            seed=self.seed, rounds=self.rounds.least, full=self.size == "full", only=None, systems=",".join(MODULES)
        )
        return Run(given, self.data)


def main() -> None:
    suite, arguments, out = sys.argv[1:4]
    section = importlib.import_module(f"{__package__}.{suite}").measure(Inside(json.loads(arguments)))
    pathlib.Path(out).write_text(json.dumps(section))


if __name__ == "__main__":
    main()
