"""The process that asks. It says what it is about to do, so that who started it knows what took too long when it ends it."""

import gc
import importlib
import pathlib
import statistics
import time

from engine.ask import message
from engine.compare import Different

from .answers import check
from .generator import Generator
from .statement import Statement

ROUNDS = 5
"""Timed runs of each system."""

SLOW_SECONDS = 1.0
"""Where all systems together take longer than that, there are only ``ROUNDS_SLOW`` rounds."""

ROUNDS_SLOW = 3


def serve(pipe, folder: pathlib.Path, seed: int, only: dict, rounds: int) -> None:
    """Answers numbers of statements with records, until it gets None."""
    from . import data
    from .systems import opened

    tables = data.tables(folder)
    generator = Generator(data.profiles(tables), seed, only)
    systems = opened(tables)
    pipe.send(("ready", {system.name: version(system) for system in systems}))
    while (number := pipe.recv()) is not None:
        asker = Asker(systems, rounds, lambda stage: pipe.send(("stage", stage)))
        pipe.send(("record", asker.record(generator.statement(number))))


def version(system) -> str:
    """The version of a system's package."""
    return importlib.import_module({"SplayDB": "splay"}.get(system.name, system.name.lower())).__version__


class Asker:
    """Asks one statement of all systems."""

    def __init__(self, systems: list, rounds: int, tell):
        self.systems = {system.name: system for system in systems}
        self.rounds = rounds
        self.tell = tell

    def record(self, statement: Statement) -> dict:
        """What came of the statement: answers compared, then times, then SplayDB's reason."""
        answers, failures = self.answers(statement)
        failures |= compare(statement, answers)
        record = {"failures": failures}
        if answers:
            record["rows"] = next(iter(answers.values())).num_rows
        del answers
        timed = [name for name in self.asked(statement) if name not in failures]
        if "SplayDB" in timed and len(timed) > 1:
            record["times"] = self.times(statement, timed)
        self.tell("EXPLAIN")
        try:
            record["tick_plan"], record["operators"] = self.systems["SplayDB"].reason(statement)
        except Exception as error:  # noqa: BLE001  its answer counts nevertheless
            record["tick_plan"], record["operators"] = "EXPLAIN fails: " + message(error), []
        return record

    def asked(self, statement: Statement) -> list[str]:
        return [name for name in self.systems if name != "Polars" or statement.polars is not None]

    def answers(self, statement: Statement) -> tuple[dict, dict]:
        """Answers by system, and errors."""
        answers, failures = {}, {}
        for name in self.asked(statement):
            self.tell(name)
            system = self.systems[name]
            try:
                answers[name] = system.arrow(system.call(statement)())
            except BaseException as error:  # noqa: BLE001  panics of libraries are their results, too
                if isinstance(error, (KeyboardInterrupt, SystemExit)):
                    raise
                failures[name] = {"failure": "error", "detail": message(error)}
        return answers, failures

    def times(self, statement: Statement, names: list[str]) -> dict:
        """Milliseconds by system, the systems in turns. ``unseen`` is SplayDB with a text that was never seen."""
        self.tell("times")
        calls = {name: (lambda system=self.systems[name]: system.call(statement)) for name in names}
        calls["unseen"] = lambda: self.systems["SplayDB"].call_unseen(statement)
        seconds = {name: [] for name in calls}
        order = list(calls)
        gc.collect()
        gc.disable()
        try:
            # The first round warms: its times count where there are no others.
            for round in range(self.rounds + 1):
                for name in order[round % len(order) :] + order[: round % len(order)]:
                    seconds[name].append(seconds_of(calls[name]()))
                if round + 1 >= ROUNDS_SLOW and sum(map(sum, seconds.values())) > SLOW_SECONDS * ROUNDS_SLOW:
                    break
        finally:
            gc.enable()
        return {name: statistics.median(found[1:]) * 1e3 for name, found in seconds.items()}


def seconds_of(call) -> float:
    """One run. The answer is dropped after the clock stopped."""
    start = time.perf_counter()
    answer = call()
    seconds = time.perf_counter() - start
    del answer
    return seconds


def compare(statement: Statement, answers: dict) -> dict:
    """Who differs. DuckDB is the reference; where SplayDB differs from it, Polars says who is alone, if it was asked."""
    failures = {}
    order = [name for name in ("DuckDB", "Polars", "SplayDB") if name in answers]
    if not order or "SplayDB" not in answers:
        return failures
    if len(order) == 1:
        return {"SplayDB": {"failure": "unchecked", "detail": "no other answer"}}
    expected = answers[order[0]]
    for name in order[1:]:
        difference = different(statement, expected, answers[name])
        if difference:
            failures[name] = {"failure": "differs", "detail": difference}
    if "SplayDB" in failures and "Polars" in answers and "DuckDB" in answers:
        alone = different(statement, answers["Polars"], answers["SplayDB"])
        failures["SplayDB"]["polars"] = f"differs, too: {alone}" if alone else "agrees with SplayDB"
    return failures


def different(statement: Statement, expected, found) -> str | None:
    """The first difference, if there is one."""
    try:
        check(statement, expected, found)
    except Different as difference:
        return message(difference)
    return None
