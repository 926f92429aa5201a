"""One engine's part of the finance suite: answers, warm times, clients, cold times, the load of the write day."""

import json
import statistics
import sys
import time

import engines

from . import caches, memory, quiet
from .child import Child, Failed
from .engine_child import Installed

CHECKED_RUNS = 8
"""Variants of a query that are compared; most have one."""

SITTINGS = ("warm", "again", "again", "warm")
"""The two warm runs in the order of their halves, a process each: what slows the machine for minutes weighs on both alike."""


STARTED = time.monotonic()


def tell(words: str) -> None:
    """Progress, with the seconds since the start."""
    print(f"{time.monotonic() - STARTED:6.0f} s  {words}", file=sys.stderr, flush=True)


def in_words(of: tuple[str, dict]) -> str:
    """A query and its median, for the progress."""
    id, times = of
    return f"{id} failed" if "failed" in times else f"{id} {statistics.median(times['client_ms']):.2f}"


def about(name: str) -> dict:
    cls = engines.load(name)
    return {
        "title": cls.title,
        "stores": cls.stores,
        "starts": cls.starts,
        "best": cls.best,
        "answers": cls.answers,
    }


class EngineRun:
    """One engine's part of the suite; ``suite`` is ``finance.Suite``."""

    def __init__(self, suite, name: str):
        self.suite = suite
        self.settings = suite.settings
        self.name = name
        self.store = suite.store
        self.tables = suite.data.tables
        self.child: Child | None = None

    def run(self) -> None:
        parts = self.missing()
        if not parts:
            tell("  all of it is there")
            return
        folder = self.settings.work.resolve() / f"databases-{self.suite.name}" / self.name
        self.installed = Installed(self.name, self.settings, folder)
        loaded = self.installed.load(self.tables)
        on_disk = self.installed.cls.stores == "disk"
        self.store.put(
            self.name,
            "engine",
            about(self.name)
            | {"version": self.installed.version}
            | ({"load_seconds": loaded["seconds"], "bytes": loaded["bytes"]} if on_disk else {}),
        )
        self.held = caches.Held()
        try:
            self.check_and_time()
            if self.is_cold:
                self.cold()
        finally:
            self.held.close()
        if on_disk:
            self.write_day()

    @property
    def is_cold(self) -> bool:
        """Whether it has cold runs: it keeps rows on disk and can be started afresh."""
        cls = engines.load(self.name)
        can = cls.stores == "disk" and not cls.is_remote and not caches.droppable()
        return self.settings.cold and can

    def has_cold(self, id: str) -> bool:
        """Whether a query has cold runs."""
        return self.is_cold and (not self.settings.cold_only or id in self.settings.cold_only)

    def missing(self) -> list[str]:
        """What is to be done; an engine that has all of it isn't even started."""
        if self.store.get(self.name, "engine").get("skipped"):
            return ["engine"]
        on_disk = engines.load(self.name).stores == "disk"
        wanted = ["answer"] + ["warm", "again"] * self.settings.warm
        parts = [
            f"{id} {part}"
            for id in self.suite.questions
            for part in [*wanted, *["cold"] * self.has_cold(id)]
            if part not in self.store.get(self.name, id)
            and self.store.get(self.name, id).get("answer", {}).get("state", "right") == "right"
        ]
        parts += [f"clients {count}" for count in self.settings.clients if not self.clients_done(count)]
        if on_disk and not self.store.get(self.name, "W"):
            parts.append("W")
        return parts

    def clients_done(self, count: int) -> bool:
        return str(count) in self.store.get(self.name, "clients")

    def right(self) -> list[str]:
        return [id for id in self.suite.questions if self.state(id) == "right"]

    def state(self, id: str) -> str | None:
        return self.store.get(self.name, id).get("answer", {}).get("state")

    def check_and_time(self) -> None:
        """Answers first; then warm times, and clients in the last process of these."""
        try:
            for id in self.suite.questions:
                if self.state(id) is None:
                    self.check(id)
            if self.settings.warm:
                self.warm()
            if self.is_cold:
                self.hold()
            for count in self.settings.clients:
                if not self.clients_done(count) and self.right():
                    self.clients(count)
        finally:
            self.end()

    def up(self) -> Child:
        """The worker: the one at hand, or another if that ended."""
        if self.child is None or not self.child.alive:
            self.end()
            self.child = self.installed.opened(self.tables)
        return self.child

    def end(self) -> None:
        """Ends the worker, so that the next one starts afresh."""
        if self.child is not None:
            self.child.close()
            self.child = None

    def hold(self) -> None:
        """Keeps in the page cache what the engine's processes consist of."""
        child = self.up()
        self.held.add(caches.programs(memory.family(child.process.pid)))
        self.held.add(child.ask("programs", self.settings.limit_seconds))

    def check(self, id: str) -> None:
        """Asks a query once and compares its answer."""
        child = self.up()
        answer, path = {"state": "right", "detail": ""}, self.installed.folder / "answer.arrow"
        variants = min(CHECKED_RUNS, len(self.suite.questions[id].variants))
        try:
            for run in range(variants):
                times, peak = child.ask_measured("ask", self.settings.limit_seconds, id=id, run=run, to=str(path))
                if run == 0:
                    answer["first_ms"] = times["client_ms"]
                if run == 0 and not self.installed.cls.is_remote:
                    answer |= {"peak_bytes": peak.peak, "growth_bytes": peak.growth}
                answer["state"], answer["detail"], answer["rows"] = self.suite.compare(id, run, path)
                if answer["state"] != "right":
                    break
        except Failed as failure:
            answer |= {"state": "error", "detail": str(failure)}
        except Exception as error:  # noqa: BLE001  an answer that can't be compared is wrong
            answer |= {"state": "wrong", "detail": f"{error} ({type(error).__name__})"}
        path.unlink(missing_ok=True)
        self.store.add(self.name, id, answer=answer)
        if answer["state"] != "right":
            tell(f"  {id}: {answer['state']}: {answer['detail'][:200]}")

    def warm(self) -> None:
        """Both runs' warm times of all queries with right answers."""
        ids = [id for id in self.right() if not set(SITTINGS) <= self.store.get(self.name, id).keys()]
        if not ids:
            return
        half = self.settings.passes // 2
        found = {part: {id: {"client_ms": [], "engine_ms": [], "yardstick_ms": []} for id in ids} for part in SITTINGS}
        with quiet.watched() as others:
            for number, part in enumerate(SITTINGS):
                if number:
                    self.end()
                before = half * SITTINGS[:number].count(part)
                for sitting in range(half):
                    for id in ids:
                        self.slice(id, before + sitting, found[part][id])
        for part, queries in found.items():
            for id, times in queries.items():
                self.store.add(self.name, id, **{part: times | {"others_cores": others.cores}})
            tell(f"  {part} ms: {', '.join(map(in_words, queries.items()))}")

    def slice(self, id: str, number: int, times: dict) -> None:
        """Pass ``number``'s part of a query's runs, added to ``times``."""
        settings, done = self.settings, times["client_ms"]
        enough = len(done) >= settings.rounds_min and sum(done) > settings.seconds * 1e3
        if "failed" in times or len(done) >= settings.rounds_max or enough:
            return
        child = self.up()
        times["yardstick_ms"].append(self.suite.yardstick.milliseconds())
        is_first_of_process = number % (settings.passes // 2) == 0
        rounds = settings.rounds * (number + 1) // settings.passes - settings.rounds * number // settings.passes
        try:
            found = child.ask(
                "time",
                settings.limit_seconds * (rounds + 1),
                id=id,
                first=len(done),
                rounds=rounds,
                rounds_max=settings.rounds_max // settings.passes,
                for_seconds=settings.short_seconds / settings.passes,
                warm_seconds=settings.warm_up_seconds / (1 if is_first_of_process else settings.passes),
            )
        except Failed as failure:
            times["failed"] = str(failure)
            return
        for name, values in found.items():
            times[name] += values

    def clients(self, count: int) -> None:
        settings, child = self.settings, self.up()
        limit = settings.limit_seconds * len(self.right())
        try:
            found = child.ask("clients", limit, ids=self.right(), clients=count, for_seconds=settings.client_seconds)
            tell(f"  {count} clients: {found['per_second']:.0f} queries/s")
        except Failed as failure:
            found = {"failed": str(failure)}
            tell(f"  {count} clients: {failure}")
        self.store.add(self.name, "clients", **{str(count): found})

    def cold(self) -> None:
        """Each run in a fresh process, after the page cache was dropped; what the program consists of stays in it."""
        told = []
        for id in self.right():
            if "cold" in self.store.get(self.name, id) or not self.has_cold(id):
                continue
            times = {"client_ms": [], "engine_ms": [], "open_ms": [], "peak_bytes": [], "growth_bytes": []}
            try:
                for run in range(self.settings.cold_rounds):
                    self.cold_run(id, run, times)
            except Failed as failure:
                times["failed"] = str(failure)
            self.store.add(self.name, id, cold=times)
            told.append(f"{id} {statistics.median(times['client_ms']):.1f}" if times["client_ms"] else f"{id} failed")
        if told:
            tell(f"  cold ms: {', '.join(told)}")

    def cold_run(self, id: str, run: int, times: dict) -> None:
        child = self.installed.start()
        try:
            caches.drop()
            times["open_ms"].append(child.ask("open", self.settings.limit_seconds))
            found, peak = child.ask_measured("ask", self.settings.limit_seconds, id=id, run=run)
            times["client_ms"].append(found["client_ms"])
            if found["engine_ms"] is not None:
                times["engine_ms"].append(found["engine_ms"])
            times["peak_bytes"].append(peak.peak)
            times["growth_bytes"].append(peak.growth)
        finally:
            child.close()

    def write_day(self) -> None:
        """W: the write day from CSV, until it can be queried and was synced; totals are compared before the time counts."""
        if self.store.get(self.name, "W"):
            return
        if self.installed.cls.is_remote:
            # The server's tables are made anew.
            self.installed.forget()
        files = self.suite.data.write_day
        for path in files.values():
            caches.fill(path)
        child = self.installed.start("write")
        try:
            found = child.ask(
                "write", self.settings.load_limit_seconds, files={table: str(path) for table, path in files.items()}
            )
            found["state"], found["detail"] = self.compare_totals(found.pop("totals"))
        except Failed as failure:
            found = {"state": "error", "detail": str(failure)}
        finally:
            child.close()
        if found["state"] == "right":
            found["mb_per_second"] = self.suite.data.write_bytes / 1e6 / found["seconds"]
        self.store.put(self.name, "W", found)
        tell(f"  W: {found.get('mb_per_second', 0):.0f} MB/s {found['detail']}")

    def compare_totals(self, found: dict) -> tuple[str, str]:
        expected = json.loads((self.suite.expected / "totals.json").read_text())
        for name, value in expected.items():
            if abs(found[name] - value) > 1e-9 * abs(value):
                return "wrong", f"{name}: {found[name]} instead of {value}"
        return "right", ""
