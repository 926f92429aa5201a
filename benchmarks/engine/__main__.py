"""Runs the suites and prints the report.

    PYTHONPATH=benchmarks python -m engine [--suite taq84] [--only q23,T-VWAP] [--full] [--rounds 5] [--systems SplayDB,DuckDB]

All systems run in this process, one after the other, with two threads each. The report is Markdown on standard output; the
same as JSON goes to ``target/bench/engine.json``.
"""

import argparse
import importlib
import json
import os
import pathlib
import platform
import subprocess
import sys

from . import systems as all_systems
from .data import FULL, QUICK, Data, Sizes
from .measure import Rounds

SUITES = ["crypto14", "taq84", "point", "filters", "asof", "windows", "curves"]
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Run:
    """What a suite needs: data, systems that are there, and how often to ask."""

    def __init__(self, arguments, data: Data):
        self.arguments = arguments
        self.data = data
        self.seed = arguments.seed
        self.rounds = Rounds(arguments.rounds)
        self.full = arguments.full
        self.only = set(arguments.only.split(",")) if arguments.only else None
        self.classes = {}
        self.absent = {}
        for name in arguments.systems.split(","):
            try:
                self.classes[name] = all_systems.load(name)
            except ImportError as error:
                self.absent[name] = str(error)

    @property
    def names(self) -> list[str]:
        """All systems that were asked for, absent ones too."""
        return [name for name in all_systems.MODULES if name in self.classes or name in self.absent]

    def systems(self, tables) -> list:
        """The systems that are there, opened on the data."""
        opened = []
        for name in self.names:
            if name in self.classes:
                print(f"opening {name}", file=sys.stderr, flush=True)
                system = self.classes[name]()
                system.open(tables)
                opened.append(system)
        return opened

    def wanted(self, id: str) -> bool:
        return self.only is None or id in self.only

    def tell(self, outcome):
        """Progress on standard error."""
        cells = ", ".join(
            f"{name} {cell.failure or f'{cell.timing.median:.3f} ms'}" for name, cell in outcome.cells.items()
        )
        print(f"{outcome.id}: {cells}", file=sys.stderr, flush=True)
        return outcome

    @staticmethod
    def size(tables) -> str:
        return ", ".join(f"{rows:,} {table}" for table, rows in tables.rows().items())


def machine(run: Run) -> dict:
    """What the figures belong to."""

    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    commit = git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")
    versions = {name: found.version() for name, found in run.classes.items()} | dict.fromkeys(run.absent, "absent")
    return {
        "processor": next(
            (line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), ""
        )
        if os.path.exists("/proc/cpuinfo")
        else platform.processor(),
        "cores": os.cpu_count(),
        "threads of each system": all_systems.THREADS,
        "memory GiB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.platform(),
        "commit": commit,
        "versions": versions,
        "seed": run.seed,
        "rounds": run.rounds.least,
        "command": "python -m engine " + " ".join(sys.argv[1:]),
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m engine", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", default=",".join(SUITES), help="suites, with commas; default: all")
    parser.add_argument("--only", help="questions by id, with commas; default: all")
    parser.add_argument("--systems", default=",".join(all_systems.MODULES), help="systems, with commas; default: all")
    parser.add_argument(
        "--full", action="store_true", help="the size of the published figures: 20 M quotes, crypto scale 0.1"
    )
    parser.add_argument("--symbols", type=int, help="symbols of the day of equities")
    parser.add_argument("--quotes", type=int, help="its quotes; trades are a tenth")
    parser.add_argument("--scale", type=float, help="scale of the crypto month")
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of each question, at least; default 5")
    parser.add_argument("--seed", type=int, default=1, help="of the data and of what is asked about; default 1")
    parser.add_argument("--plot", action="store_true", help="write the curves to docs/engine-curves.svg")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs", help="where the plot goes")
    parser.add_argument("--splay", type=pathlib.Path, default=ROOT / "target/release/splay")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/bench", help="where data is kept")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    sizes = FULL if arguments.full else QUICK
    sizes = Sizes(arguments.symbols or sizes.symbols, arguments.quotes or sizes.quotes, arguments.scale or sizes.scale)
    arguments.work.mkdir(parents=True, exist_ok=True)
    run = Run(arguments, Data(arguments.splay.resolve(), arguments.work.resolve(), sizes, arguments.seed))
    about = machine(run)
    for name, reason in run.absent.items():
        print(f"{name} is absent: {reason}\n")
    results = {"machine": about, "suites": {}}
    for name in arguments.suite.split(","):
        lines, values = importlib.import_module(f"{__package__}.suites.{name}").run(run)
        results["suites"][name] = values
        print("\n".join(lines), flush=True)
        # After each suite, so that a long run that is stopped leaves something.
        (arguments.work / "engine.json").write_text(json.dumps(results, indent=1))
    print(", ".join(f"{name}: {value}" for name, value in about.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
