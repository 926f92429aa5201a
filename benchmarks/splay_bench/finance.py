"""The finance suite: the fourteen queries, the load of the write day (W) and the size on disk (SE), engine by engine.

For each engine in turn, and never two at a time: tables are loaded; every query's answer is checked; warm times; several
clients; cold times, each in a fresh process; warm times once more in another process, to see how far two runs agree; W.
"""

import importlib.util
import sys

import pyarrow as pa

import engines
from engine.compare import Different, check_equal
from engine.parameters import CryptoParameters
from engine.suites import crypto14
from engines.base import Skipped

from . import caches, data, environment, machine
from .child import BENCHMARKS
from .engine_run import EngineRun, about, tell
from .settings import Settings
from .store import Store, write
from .worker import SEED
from .yardstick import Yardstick


def run(settings: Settings) -> None:
    for scale in settings.scales:
        Suite(settings, scale).run()


class Suite:
    """The suite at one scale."""

    def __init__(self, settings: Settings, scale: float):
        self.settings = settings
        self.name = f"scale-{scale:g}"
        commit = machine.commit()
        self.store = Store(
            settings.out / "finance" / self.name, {"commit": commit, "rules": settings.rules()}, settings.again
        )
        self.commit = commit
        self.data = data.finance(settings.splay.resolve(), settings.work.resolve(), scale, settings.seed)
        self.yardstick = Yardstick(settings.threads)
        self.questions = {
            question.id: question
            for question in crypto14.questions(CryptoParameters(SEED))
            if not settings.only or question.id in settings.only
        }

    def run(self) -> None:
        self.describe()
        self.expected = data.reference(self.python_of_reference(), self.data, BENCHMARKS)
        for number, name in enumerate(self.settings.engines, 1):
            tell(f"[{number}/{len(self.settings.engines)}] {name}, {self.name}")
            try:
                EngineRun(self, name).run()
            except Skipped as reason:
                tell(f"  skipped: {reason}")
                self.store.put(name, "engine", about(name) | {"skipped": str(reason)})
            except Exception as error:  # noqa: BLE001  a failing engine doesn't stop the run
                tell(f"  failed: {error}")
                self.store.add(name, "engine", **about(name), failed=" ".join(str(error).split())[:600])

    def python_of_reference(self):
        """An interpreter that has DuckDB: this one, or that of its environment."""
        if importlib.util.find_spec("duckdb"):
            return sys.executable
        requirements = list(engines.load("duckdb").requirements)
        log = self.settings.work / "logs" / "duckdb-pip.log"
        return environment.ensure(self.settings.venvs / "duckdb", requirements, log)

    def describe(self) -> None:
        """Writes what the figures belong to."""
        values = machine.describe(self.commit) | {
            "rules": self.settings.rules(),
            "cold_refused": caches.droppable() or "",
            "command": self.settings.command,
            "rows": self.data.rows(),
            "raw_bytes": self.data.raw_bytes,
            "write_bytes": self.data.write_bytes,
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
