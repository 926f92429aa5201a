"""One engine's part of the finance suite: answers, sittings of warm times, clients, cold times, the load of the write day."""

import shutil
import statistics
import sys
import time

import engines

from . import caches, memory, parts, quiet
from .child import Child, Failed
from .engine_child import Installed

CHECKED_RUNS = 8
"""Variants of a query that are compared; most have one."""


STARTED = time.monotonic()


def tell(words: str) -> None:
    """Progress, with the seconds since the start."""
    print(f"{time.monotonic() - STARTED:6.0f} s  {words}", file=sys.stderr, flush=True)


def in_words(of: tuple[str, dict]) -> str:
    """A query and its median, for the progress."""
    id, times = of
    return f"{id} {statistics.median(times['client_ms']):.2f}" if times["client_ms"] else f"{id} failed"


def is_over(values: dict) -> bool:
    """Whether no further pass of a part will be made."""
    return "failed" in values or "absent" in values


def about(name: str) -> dict:
    cls = engines.load(name)
    return {
        "title": cls.title,
        "stores": cls.stores,
        "starts": cls.starts,
        "best": cls.best,
        "answers": cls.answers,
        "transport": cls.transport,
        "is_server": cls.is_server,
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

    def begin(self) -> bool:
        """Installs, loads and compares answers, unless all of its part is there; whether anything is to be done."""
        missing = self.missing()
        if not missing:
            tell("  all of it is there")
            return False
        folder = self.settings.work.resolve() / f"databases-{self.suite.name}" / self.name
        self.installed = Installed(self.name, self.settings, folder)
        loaded = self.installed.load(self.tables)
        self.store.put(
            self.name,
            "engine",
            about(self.name)
            | {"version": self.installed.version}
            | ({"load_seconds": loaded["seconds"], "bytes": loaded["bytes"]} if self.is_on_disk else {}),
        )
        try:
            for id in self.suite.questions:
                if self.state(id) is None:
                    self.check(id)
        finally:
            self.end()
        return True

    def finish(self) -> None:
        """Clients, cold times, the load of the write day."""
        self.held = caches.Held()
        try:
            self.ask_as_clients()
            if self.is_cold:
                self.dropped()
                self.cold()
        finally:
            self.end()
            self.held.close()
        if self.writes:
            self.write_day()

    @property
    def is_on_disk(self) -> bool:
        return engines.load(self.name).stores == "disk"

    @property
    def writes(self) -> bool:
        """Whether the write day is loaded."""
        return self.is_on_disk and engines.load(self.name).takes_write_day

    @property
    def is_cold(self) -> bool:
        """Whether it has cold runs: it keeps rows on disk and can be started afresh."""
        cls = engines.load(self.name)
        can = self.is_on_disk and cls.takes_cold and not cls.is_remote and not caches.droppable()
        return self.settings.cold and self.suite.is_largest and can

    def has_cold(self, id: str) -> bool:
        """Whether a query has cold runs."""
        return self.is_cold and (not self.settings.cold_only or id in self.settings.cold_only)

    def missing(self) -> list[str]:
        """What is to be done; an engine that has all of it isn't even started."""
        if self.store.get(self.name, "engine").get("skipped"):
            return ["engine"]
        wanted = ["answer"] + ([part.name for part in self.timed] if self.settings.warm else [])
        missing = [
            f"{id} {part}"
            for id in self.suite.questions
            for part in [*wanted, *["cold", "dropped"] * self.has_cold(id)]
            if not self.is_whole(id, part)
            and self.store.get(self.name, id).get("answer", {}).get("state", "right") == "right"
        ]
        missing += [f"clients {count}" for count in self.settings.clients if not self.clients_done(count)]
        if self.writes and not self.store.get(self.name, "W"):
            missing.append("W")
        return missing

    @property
    def timed(self) -> list[parts.Part]:
        """All parts of warm times that this run has."""
        return [*parts.wanted(self.settings.kinds, self.settings.paced_rounds), parts.AGAIN]

    def is_whole(self, id: str, part: str) -> bool:
        """Whether a part of a query has been measured to its end."""
        values = self.store.get(self.name, id).get(part)
        if values is None or part not in parts.NAMES:
            return values is not None
        return is_over(values) or values["passes"] >= self.settings.passes

    def clients_done(self, count: int) -> bool:
        return str(count) in self.store.get(self.name, "clients")

    def right(self) -> list[str]:
        return [id for id in self.suite.questions if self.state(id) == "right"]

    def state(self, id: str) -> str | None:
        return self.store.get(self.name, id).get("answer", {}).get("state")

    def ask_as_clients(self) -> None:
        for count in self.settings.clients:
            if not self.clients_done(count) and self.right():
                self.clients(count)

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
        """Keeps in the page cache what the engine's processes consist of; a query is asked, which imports the rest."""
        child = self.up()
        child.ask("ask", self.settings.limit_seconds, id=self.right()[0], run=0)
        self.held.add(caches.programs(memory.family(child.process.pid)))
        self.held.add(child.ask("programs", self.settings.limit_seconds))
        self.end()

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
        if answer["state"] == "right":
            answer["kinds"] = {kind: self.check_kind(id, kind, variants, path) for kind in self.settings.kinds}
        path.unlink(missing_ok=True)
        self.store.add(self.name, id, answer=answer)
        if answer["state"] != "right":
            tell(f"  {id}: {answer['state']}: {answer['detail'][:200]}")

    def check_kind(self, id: str, kind: str, variants: int, path) -> str:
        """Compares the answers of a kind of asking: ``right``, ``absent`` if the engine hasn't got it, or what is wrong."""
        try:
            for run in range(variants):
                self.up().ask("ask", self.settings.limit_seconds, id=id, run=run, to=str(path), kind=kind)
                state, detail, _ = self.suite.compare(id, run, path)
                if state != "right":
                    return f"{state}: {detail}"
        except Failed as failure:
            if failure.kind == "Absent":
                return "absent"
            tell(f"  {id}, {kind}: {failure}")
            return f"error: {failure}"
        except Exception as error:  # noqa: BLE001  an answer that can't be compared is wrong
            return f"wrong: {error} ({type(error).__name__})"
        return "right"

    def sit(self, number: int, is_again: bool) -> None:
        """One sitting, in a process of its own: pass ``number`` over all queries with right answers.

        What was measured is kept when the sitting ends: a run that was stopped goes on with the sitting that it was in.
        """
        asked = [part for part in self.timed if (part is parts.AGAIN) == is_again]
        found = {}
        try:
            with quiet.watched() as others:
                every = {(id, part): self.values(id, part) for id in self.right() for part in asked}
                # A sitting that failed as a whole is missing from a part's runs; the others go on.
                due = {key: values for key, values in every.items() if values["passes"] <= number}
                if any(not is_over(values) for values in due.values()):
                    self.settle()
                for (id, part), values in due.items():
                    found[id, part.name] = values
                    if not is_over(values):
                        self.slice(id, part, number, values)
        finally:
            self.end()
        for (id, name), values in found.items():
            cores = [value for value in (values.pop("others_cores", None), others.cores) if value is not None]
            self.store.add(self.name, id, **{name: values | ({"others_cores": max(cores)} if cores else {})})
        if found:
            first = {id: values for (id, name), values in found.items() if name == asked[0].name}
            tell(f"  {self.name}, {asked[0].words}, ms: {', '.join(map(in_words, first.items()))}")

    def settle(self) -> None:
        """Lets an engine that compiles while it runs come to its speed: all that is asked of it, in turn, off the clock."""
        seconds = engines.load(self.name).settle_seconds
        asked = [(id, kind) for id in self.right() for kind in self.right_kinds(id)]
        if seconds and asked:
            self.up().ask("settle", self.settings.limit_seconds, asked=asked, for_seconds=seconds)

    def right_kinds(self, id: str) -> list[str]:
        kinds = self.store.get(self.name, id)["answer"].get("kinds", {})
        return ["known", *(kind for kind, state in kinds.items() if state == "right")]

    def values(self, id: str, part: parts.Part) -> dict:
        """What a part of a query has so far."""
        kept = self.store.get(self.name, id)
        empty = {"client_ms": [], "engine_ms": [], "yardstick_ms": [], "passes": 0}
        state = kept["answer"].get("kinds", {}).get(part.kind, "right")
        if state != "right":
            empty |= {"absent": True} if state == "absent" else {"failed": state}
        return kept.get(part.name) or empty

    def slice(self, id: str, part: parts.Part, number: int, values: dict) -> None:
        """Pass ``number``'s part of a query's runs, added to ``values``."""
        settings, done = self.settings, values["client_ms"]
        values["passes"] = number + 1
        enough = len(done) >= settings.rounds_min and sum(done) > settings.seconds * 1e3
        if len(done) >= settings.rounds_max or enough:
            return
        child = self.up()
        values["yardstick_ms"].append(self.suite.yardstick.milliseconds())
        wanted = settings.paced_rounds if part.is_paced else settings.rounds
        rounds = wanted * (number + 1) // settings.passes - wanted * number // settings.passes
        try:
            found = child.ask(
                "time",
                settings.limit_seconds * (rounds + 1),
                id=id,
                first=len(done),
                rounds=rounds,
                rounds_max=rounds if part.is_paced else settings.rounds_max // settings.passes,
                for_seconds=settings.short_seconds / settings.passes,
                warm_seconds=0 if part.is_paced else settings.warm_up_seconds / settings.passes,
                kind=part.kind,
                pace_seconds=settings.pace_seconds if part.is_paced else 0,
            )
        except Failed as failure:
            values["failed"] = str(failure)
            return
        for name, times in found.items():
            values[name] += times

    def clients(self, count: int) -> None:
        settings, child = self.settings, self.up()
        limit = settings.limit_seconds * len(self.right())
        try:
            self.settle()
            found = child.ask("clients", limit, ids=self.right(), clients=count, for_seconds=settings.client_seconds)
            tell(f"  {count} clients: {found['per_second']:.0f} queries/s")
        except Failed as failure:
            found = {"failed": str(failure)}
            tell(f"  {count} clients: {failure}")
        self.store.add(self.name, "clients", **{str(count): found})

    def dropped(self) -> None:
        """Each run after the page cache was dropped, in one process that has asked all queries before and opens its tables anew."""
        told = []
        for id in self.right():
            if "dropped" in self.store.get(self.name, id) or not self.has_cold(id):
                continue
            times = {"client_ms": []}
            try:
                child = self.up()
                child.ask("ask", self.settings.limit_seconds, id=id, run=0)
                for run in range(self.settings.cold_rounds):
                    if not child.ask("forget", self.settings.load_limit_seconds):
                        times["absent"] = True
                        break
                    caches.drop()
                    times["client_ms"].append(child.ask("ask", self.settings.limit_seconds, id=id, run=run)["client_ms"])
            except Failed as failure:
                times["failed"] = str(failure)
            self.store.add(self.name, id, dropped=times)
            told += [f"{id} {statistics.median(times['client_ms']):.1f}"] if times["client_ms"] else []
        self.end()
        if told:
            tell(f"  page cache dropped, ms: {', '.join(told)}")

    def cold(self) -> None:
        """Each run in a fresh process, after the page cache was dropped; what the program consists of stays in it."""
        told = []
        for id in self.right():
            if "cold" in self.store.get(self.name, id) or not self.has_cold(id):
                continue
            if not self.held.maps:
                self.hold()
            times = {"client_ms": [], "engine_ms": [], "open_ms": [], "peak_bytes": [], "growth_bytes": []}
            try:
                for run in range(self.settings.cold_rounds):
                    self.cold_run(id, run, times)
            except Failed as failure:
                times["failed"] = str(failure)
            self.store.add(self.name, id, cold=times)
            told.append(f"{id} {statistics.median(times['client_ms']):.1f}" if times["client_ms"] else f"{id} failed")
        if told:
            tell(f"  cold start, ms: {', '.join(told)}")

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
        files = self.suite.written.write_day
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
            shutil.rmtree(self.installed.folder / "write", ignore_errors=True)
        if found["state"] == "right":
            found["mb_per_second"] = self.suite.written.write_bytes / 1e6 / found["seconds"]
        self.store.put(self.name, "W", found)
        tell(f"  W: {found.get('mb_per_second', 0):.0f} MB/s {found['detail']}")

    def compare_totals(self, found: dict) -> tuple[str, str]:
        for name, value in self.suite.expected_totals().items():
            if abs(found[name] - value) > 1e-9 * abs(value):
                return "wrong", f"{name}: {found[name]} instead of {value}"
        return "right", ""
