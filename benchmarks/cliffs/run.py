"""Starts the process that asks, keeps time, and writes a record of each statement before the next is asked."""

import multiprocessing
import pathlib
import sys
import time

from .generator import Generator
from .results import Results
from .worker import serve


class Worker:
    """The process that asks; it is started again when it was ended."""

    def __init__(self, *arguments):
        self.arguments = arguments
        self.process = None
        self.versions = {}

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, *self.arguments), daemon=True)
        self.process.start()
        other.close()
        _, self.versions = self.pipe.recv()

    def end(self) -> None:
        """Ends the process, whatever it is doing."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None

    def ask(self, number: int, limit: float) -> dict:
        """The record of a statement; of one that took too long or ended the process, what it was doing then."""
        if self.process is None:
            self.start()
        self.pipe.send(number)
        stage, deadline = "", time.monotonic() + limit
        while True:
            try:
                if not self.pipe.poll(max(0.0, deadline - time.monotonic())):
                    return self.ended(stage, "time", f"took more than {limit:g} s")
                kind, value = self.pipe.recv()
            except (EOFError, ConnectionResetError):
                return self.ended(stage, "crash", "ended the process")
            if kind == "record":
                return value
            stage = value

    def ended(self, stage: str, failure: str, detail: str) -> dict:
        self.end()
        return {"failures": {stage: {"failure": failure, "detail": detail}}}


def run(folder: pathlib.Path, results: Results, generator: Generator, options) -> dict:
    """Asks all statements that have no record yet; gives the systems' versions."""
    worker = Worker(folder, options.seed, options.only, options.rounds)
    try:
        for number in range(options.statements):
            statement = generator.statement(number)
            if statement.key in results:
                continue
            record = worker.ask(number, options.limit)
            results.add(statement, number, record)
            print(f"{number} {statement.share.form}: {told(record)}", file=sys.stderr, flush=True)
    finally:
        worker.end()
    return worker.versions


def told(record: dict) -> str:
    """A record in a line."""
    failures = [f"{name} {one['failure']}" for name, one in record["failures"].items()]
    times = [f"{name} {value:.2f}" for name, value in record.get("times", {}).items()]
    return ", ".join(times + failures)
