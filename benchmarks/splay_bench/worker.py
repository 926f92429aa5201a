"""The process that holds one engine, in that engine's own environment.

    python -m splay_bench.worker ENGINE FOLDER THREADS SETTINGS

Requests come as lines of JSON on standard input, ``{"do": NAME, …}``; each gets one line of JSON on what was standard output,
``{"ok": …}`` or ``{"error": …}``. Answers to queries go by Arrow files. Whatever a library prints goes to standard error.

A process of its own keeps the engines' versions, memory and crashes apart.
"""

import gc
import json
import os
import pathlib
import sys
import threading
import time
from functools import cached_property

import pyarrow as pa

import engines
from engine.parameters import CryptoParameters
from engine.suites import crypto14

SEED = 1
"""Draws the instants of O-T; run k of every engine takes pair k."""


class Absent(Exception):
    """The engine has no prepared statements, or is asked by calls and not by texts."""


class Worker:
    """What can be asked of an engine."""

    def __init__(self, engine):
        self.engine = engine
        self.marks = 0
        """So many texts that weren't seen before were sent."""

    @cached_property
    def parameters(self) -> CryptoParameters:
        return CryptoParameters(SEED)

    @cached_property
    def questions(self) -> dict:
        return {question.id: question for question in crypto14.questions(self.parameters)}

    def do_version(self) -> str:
        return self.engine.version()

    def do_load(self, tables) -> dict:
        """Makes the engine's tables; seconds."""
        files = {name: [pathlib.Path(path) for path in paths] for name, paths in tables.items()}
        start = time.perf_counter()
        self.engine.load(files)
        return {"seconds": time.perf_counter() - start}

    def do_size(self) -> int:
        return self.engine.size()

    def do_open(self) -> float:
        """Milliseconds until the engine is ready for questions."""
        start = time.perf_counter()
        self.engine.open()
        return (time.perf_counter() - start) * 1e3

    def call(self, id: str, run: int, session=None, kind: str = "known"):
        """A call without arguments that asks run ``run`` of a query, as a text that is known, prepared or never seen."""
        question = self.questions[id]
        asked = (question, self.parameters, question.variant(run))
        if kind == "known":
            return (session or self.engine).prepare(*asked)
        if kind == "unseen":
            self.marks += 1
            call = self.engine.unseen(*asked, self.marks)
        else:
            call = self.engine.prepared(*asked)
        if call is None:
            raise Absent(f"{self.engine.title} has nothing of the kind")
        return call

    def do_ask(self, id: str, run: int, to: str | None = None, kind: str = "known") -> dict:
        """Asks once; the answer goes to the Arrow stream ``to``."""
        call = self.call(id, run, kind=kind)
        start = time.perf_counter()
        answer = call()
        times = {"client_ms": (time.perf_counter() - start) * 1e3}
        times["engine_ms"] = self.engine.engine_ms()
        if to:
            table = self.engine.arrow(answer)
            # A stream, since a file holds one dictionary for each column.
            with pa.OSFile(to, "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table)
        return times

    def do_programs(self) -> list[str]:
        """Files of the Python modules that were imported so far."""
        modules = list(sys.modules.values())
        files = [getattr(module, name, None) for module in modules for name in ("__file__", "__cached__")]
        return sorted({str(pathlib.Path(path).resolve()) for path in files if path})

    def do_time(
        self,
        id: str,
        first: int,
        rounds: int,
        rounds_max: int,
        for_seconds: float,
        warm_seconds: float,
        kind: str = "known",
        pace_seconds: float = 0,
    ) -> dict:
        """A slice of a query's warm times, of runs ``first``, ``first + 1`` and so on.

        Off the clock it is asked for at least ``warm_seconds``, once for each variant to come and once at least. Then come
        ``rounds`` runs, and up to ``rounds_max`` as long as all together take less than ``for_seconds``. With ``pace_seconds`` a
        run begins so long after the one before began, the first one after a wait too, and the process waits meanwhile.
        """
        self.warm_up(id, first, min(rounds, len(self.questions[id].variants)), warm_seconds, kind)
        client, engine = [], []
        gc.collect()
        # What has survived so far needn't be looked at again by the next slice's collection.
        gc.freeze()
        gc.disable()
        try:
            start = time.perf_counter()
            due = start + pace_seconds
            while len(client) < rounds or (len(client) < rounds_max and time.perf_counter() - start < for_seconds):
                time.sleep(max(0.0, due - time.perf_counter()))
                times = self.do_ask(id, first + len(client), kind=kind)
                client.append(times["client_ms"])
                engine.append(times["engine_ms"])
                # Who took longer than the pace waits a whole one after its end.
                now = time.perf_counter()
                due = due + pace_seconds if now < due + pace_seconds else now + pace_seconds
        finally:
            gc.enable()
        return {"client_ms": client, "engine_ms": [time for time in engine if time is not None]}

    def do_settle(self, asked: list[tuple[str, str]], for_seconds: float) -> None:
        """Asks queries, each with its kind, in turn for so long."""
        start = time.perf_counter()
        while time.perf_counter() - start < for_seconds:
            for id, kind in asked:
                self.call(id, 0, kind=kind)()

    def warm_up(self, id: str, first: int, runs: int, seconds: float, kind: str) -> None:
        start, run = time.perf_counter(), 0
        while run < runs or time.perf_counter() - start < seconds:
            self.call(id, first + run, kind=kind)()
            run += 1

    def do_forget(self) -> bool:
        """Gives up what the engine keeps of its files; whether it can."""
        return self.engine.forget()

    def do_clients(self, ids: list[str], clients: int, for_seconds: float) -> dict:
        """Several clients, a thread each, ask all queries in turn until ``for_seconds`` are over.

        Each client begins at another query and ends with a whole round, so that slow queries aren't left out.
        """
        sessions = [self.engine.session() for _ in range(clients)]
        latencies, errors = [[] for _ in range(clients)], []
        barrier = threading.Barrier(clients + 1)

        def work(place: int) -> None:
            order = [ids[(place * len(ids) // clients + step) % len(ids)] for step in range(len(ids))]
            try:
                run = place
                barrier.wait()
                end = time.perf_counter() + for_seconds
                while time.perf_counter() < end:
                    for id in order:
                        start = time.perf_counter()
                        answer = self.call(id, run, sessions[place])()
                        latencies[place].append((time.perf_counter() - start) * 1e3)
                        del answer
                    run += clients
            except Exception as error:  # noqa: BLE001  whatever an engine raises is its result
                errors.append(error)

        threads = [threading.Thread(target=work, args=(place,)) for place in range(clients)]
        for thread in threads:
            thread.start()
        barrier.wait()
        start = time.perf_counter()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - start
        if errors:
            raise errors[0]
        every = sorted(value for client in latencies for value in client)
        return {
            "clients": clients,
            "per_second": len(every) / took,
            "queries": len(every),
            "p50_ms": every[len(every) // 2],
            "p99_ms": every[min(len(every) - 1, int(0.99 * len(every)))],
        }

    def do_write(self, files) -> dict:
        """Loads the write day; seconds until queryable and synced, and what was counted then."""
        paths = {name: pathlib.Path(path) for name, path in files.items()}
        self.engine.write_open(paths)
        start = time.perf_counter()
        self.engine.write(paths)
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "totals": self.engine.totals()}

    def do_close(self) -> None:
        self.engine.close()


def message(error: BaseException) -> str:
    """The first lines of an error, as one."""
    return (" ".join(str(error).split())[:600] or "no message") + f" ({type(error).__name__})"


def private_output():
    """Standard output for replies alone; whatever else prints goes to standard error."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return replies


def main() -> int:
    name, folder, threads, settings = sys.argv[1:5]
    replies = private_output()
    worker = Worker(engines.load(name)(pathlib.Path(folder), int(threads), json.loads(settings)))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = {"ok": getattr(worker, "do_" + request.pop("do"))(**request)}
        except Exception as error:  # noqa: BLE001
            reply = {"error": message(error), "kind": type(error).__name__}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
    worker.engine.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
