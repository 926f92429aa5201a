"""The finance suite: the fourteen queries, the load of the write day (W) and the size on disk (SE), engine by engine.

Engines are never up two at a time. First each loads its tables, and every query's answer is checked. Then come sittings of warm
times, in which all engines take turns, so that what slows the machine for minutes meets all of them; half of the sittings measure the
same once more, to see how far two runs agree. Last each has its clients, cold times and W.
"""

import importlib.util
import json
import sys

import pyarrow as pa

import engines
from engine.compare import Different, check_equal
from engine.parameters import CryptoParameters
from engine.suites import crypto14
from engines.base import Skipped

from . import caches, data, environment, machine, reference
from .child import BENCHMARKS
from .engine_run import EngineRun, about, tell
from .settings import Settings
from .store import Store, write
from .worker import SEED
from .yardstick import Yardstick


def run(settings: Settings) -> None:
    for scale in settings.scales:
        Suite(settings, scale).run()


def turns(number: int) -> tuple[bool, bool]:
    return (False, True) if number % 2 == 0 else (True, False)


class Suite:
    """The suite at one scale."""

    def __init__(self, settings: Settings, scale: float):
        self.settings = settings
        self.is_largest = scale == max(settings.scales)
        self.name = f"scale-{scale:g}"
        self.store = Store(
            settings.out / "finance" / self.name, {"commit": settings.commit, "rules": settings.rules()}, settings.again
        )
        self.data = data.finance(settings.splay.resolve(), settings.work.resolve(), scale, settings.seed)
        self.written = self.data
        if settings.write_scale and self.is_largest:
            self.written = data.write_day(settings.splay.resolve(), settings.work.resolve(), settings.write_scale, settings.seed)
        self.yardstick = Yardstick(settings.threads)
        self.questions = {
            question.id: question
            for question in crypto14.questions(CryptoParameters(SEED))
            if not settings.only or question.id in settings.only
        }

    def run(self) -> None:
        self.describe()
        self.expected = data.reference(self.python_of_reference(), self.data, BENCHMARKS)
        runs = [EngineRun(self, name) for name in self.settings.engines]
        runs = [run for run in runs if self.guarded(run, "answers", run.begin)]
        for place, (number, is_again) in enumerate(self.sittings()):
            # Every other sitting goes through the engines backwards: none has always the same one before it.
            for run in runs if place % 2 == 0 else reversed(runs):
                self.guarded(run, f"sitting {place + 1}", lambda run=run: run.sit(number, is_again) or True)
        for run in runs:
            self.guarded(run, "the rest", run.finish)

    def sittings(self) -> list[tuple[int, bool]]:
        """Each pass and whether it is of the second run; which of the two comes first changes from pass to pass."""
        if not self.settings.warm:
            return []
        return [(number, is_again) for number in range(self.settings.passes) for is_again in turns(number)]

    def guarded(self, run: EngineRun, stage: str, does):
        """What a step of an engine's gives; one that fails is told and doesn't stop the others."""
        name = run.name
        tell(f"{name}, {self.name}, {stage}")
        try:
            done = does()
            if self.store.get(name, "engine").get("failed"):
                # What failed before was made up for.
                self.store.put(name, "engine", {k: v for k, v in self.store.get(name, "engine").items() if k != "failed"})
            return done
        except Skipped as reason:
            tell(f"  skipped: {reason}")
            self.store.put(name, "engine", about(name) | {"skipped": str(reason)})
        except Exception as error:  # noqa: BLE001  a failing engine doesn't stop the run
            tell(f"  failed: {error}")
            self.store.add(name, "engine", **about(name), failed=" ".join(str(error).split())[:600])
        return False

    def expected_totals(self) -> dict[str, float]:
        """Counts and sums of the write day."""
        path = self.written.folder / "totals.json"
        if not path.exists():
            write(path, reference.totals(self.written))
        return json.loads(path.read_text())

    def python_of_reference(self):
        """An interpreter that has DuckDB: this one, or that of its environment."""
        if importlib.util.find_spec("duckdb"):
            return sys.executable
        requirements = list(engines.load("duckdb").requirements)
        log = self.settings.work / "logs" / "duckdb-pip.log"
        return environment.ensure(self.settings.venvs / "duckdb", requirements, log)

    def describe(self) -> None:
        """Writes what the figures belong to."""
        values = machine.describe(self.settings.commit) | {
            "rules": self.settings.rules(),
            "cold_refused": caches.droppable() or "",
            "command": self.settings.command,
            "rows": self.data.rows(),
            "raw_bytes": self.data.raw_bytes,
            "write_bytes": self.written.write_bytes,
        }
        write(self.store.folder / "run.json", values)

    def compare(self, id: str, run: int, path) -> tuple[str, str, int]:
        """``right`` or ``wrong``, the first difference, and the rows of the reference."""
        question = self.questions[id]
        expected, found = read(self.expected / f"{id}-{run}.arrow"), read(path)
        try:
            check_equal(expected, found, question.keys, question.ordered, question.bag)
        except Different as difference:
            return "wrong", str(difference), expected.num_rows
        return "right", "", expected.num_rows


def read(path) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_stream(file).read_all()
