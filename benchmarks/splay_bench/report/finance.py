"""What the results of the finance suite say: medians, ratios to the best rival, how far two runs agree, who is better at what."""

import statistics
from dataclasses import dataclass, field

from engine.report import geometric_mean
from engines import NAMES

OURS = "splay"
OUR_SERVER = "splay-http"
"""What rivals that are servers are set beside: one of our wires, so that the best of three isn't chosen."""
OUR_PREPARING_SERVER = "splay-postgres"
"""The same for prepared statements, which HTTP hasn't got and which rivals have over the same wire."""
AGREE = 0.15
"""Two runs agree if their medians differ by no more than this share of the smaller."""
LEVEL = 1.15
"""Who is better by less than this factor is level with the other: so far do two runs of the same differ."""
CLAIM_ROUNDS = 9
"""Of fewer runs nothing is claimed."""
TIMES = {
    "warm": "known text, tight loop",
    "prepared": "prepared, tight loop",
    "unseen": "text never seen, tight loop",
    "paced": "known text, one question every 50 ms",
    "prepared_paced": "prepared, one question every 50 ms",
    "unseen_paced": "text never seen, one question every 50 ms",
    "dropped": "page cache dropped, in a warm process",
    "cold": "cold start: page cache dropped, in a fresh process",
}
"""The fields of a cell that are times."""
GROWTH_LEAST_BYTES = 65_536
PREPARED_ROWS_MAX = 10_000
"""Larger answers of prepared statements are no part of a mean over servers: over PostgreSQL's wire Python puts their rows into
columns one by one, which is the client's time and not the server's."""
QUERIES = [
    "T-V1", "T-V2", "T-VWAP", "O-T", "O-B1", "O-B2", "O-S", "O-V1", "O-V2", "O-NBBO", "C-R", "C-VT", "C-VO1", "C-VO2",
]  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One engine's part of one query; times in milliseconds, memory in bytes, ``None`` where there is none."""

    state: str = ""
    """``right``, ``wrong``, ``error``, or empty if it wasn't asked."""
    detail: str = ""
    warm: float | None = None
    again: float | None = None
    engine_side: float | None = None
    prepared: float | None = None
    unseen: float | None = None
    paced: float | None = None
    prepared_paced: float | None = None
    unseen_paced: float | None = None
    dropped: float | None = None
    cold: float | None = None
    cold_rounds: int = 0
    dropped_rounds: int = 0
    spread: tuple[float, float] | None = None
    """First and third quartile of the warm times."""
    growth: float | None = None
    peak: float | None = None
    rounds: int = 0
    rows: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    """What went wrong in one way of asking alone, by its field: it has no time, the others have."""

    def text(self, value, of: str = "") -> str:
        """What a table shows in the value's place, which is of the field ``of``."""
        if self.state in ("wrong", "error"):
            return self.state
        if of in self.failures:
            return "wrong" if self.failures[of].startswith("wrong") else "error"
        return "" if value is None else value


@dataclass(frozen=True)
class Loss:
    """A rival is better than SplayDB at something, by a factor."""

    what: str
    rival: str
    factor: float


def quartiles(values) -> tuple[float, float] | None:
    if not values or len(values) < 2:
        return None
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def median(values) -> float | None:
    values = [value for value in (values or []) if value is not None]
    return statistics.median(values) if values else None


def least(growth: float | None) -> float | None:
    """Growth is measured in pages and by processes that do other things besides: less than 64 KiB is taken for that."""
    return None if growth is None else max(growth, GROWTH_LEAST_BYTES)


def cell(values: dict) -> Cell:
    """From a query's file."""
    answer, warm, cold = values.get("answer", {}), values.get("warm", {}), values.get("cold", {})
    failed = warm.get("failed")
    state = "error" if failed and answer.get("state") == "right" else answer.get("state", "")
    if state != "right":
        return Cell(state, failed or answer.get("detail", ""))
    parts = {name: values[name] for name in (*TIMES, "again") if name in values}
    failures = {name: part["failed"] for name, part in parts.items() if part.get("failed")}
    times = {name: median(part.get("client_ms")) for name, part in parts.items() if name not in failures}
    return Cell(
        state,
        answer.get("detail", ""),
        engine_side=median(warm.get("engine_ms")),
        # Not that of cold runs, which some queries and some engines alone have: like is set beside like.
        growth=least(answer.get("growth_bytes")),
        peak=answer.get("peak_bytes"),
        rounds=len(warm.get("client_ms", [])),
        cold_rounds=len(cold.get("client_ms", [])),
        dropped_rounds=len(values.get("dropped", {}).get("client_ms", [])),
        spread=quartiles(warm.get("client_ms")),
        rows=answer.get("rows", 0),
        failures=failures,
        **times,
    )


class FinanceSet:
    """The results at one scale."""

    def __init__(self, name: str, parts: dict):
        self.name = name
        self.scale = float(name.removeprefix("scale-"))
        self.run = parts.get("", {}).get("run", {})
        others = [engine for engine in parts if engine and engine not in NAMES]
        self.parts = {engine: parts[engine] for engine in [*NAMES, *others] if engine in parts}
        asked = {query for engine in self.parts.values() for query in engine}
        self.queries = [query for query in QUERIES if query in asked]
        self.cells = {
            engine: {query: cell(values[query]) for query in self.queries if query in values}
            for engine, values in self.parts.items()
        }

    def is_server(self, engine: str) -> bool:
        """Whether it answers from another process than its client's."""
        return bool(self.about(engine).get("is_server"))

    def ours(self, servers: bool, field: str = "warm") -> str:
        """What rivals of a kind are set beside."""
        if not servers:
            return OURS
        return OUR_PREPARING_SERVER if field.startswith("prepared") else OUR_SERVER

    def side(self, servers: bool) -> list[str]:
        """Engines that are servers, or those that aren't."""
        return [engine for engine in self.ran if self.is_server(engine) == servers]

    def about(self, engine: str) -> dict:
        return self.parts[engine].get("engine", {})

    def title(self, engine: str) -> str:
        return self.about(engine).get("title", engine)

    @property
    def ran(self) -> list[str]:
        """Engines that have answers."""
        return [engine for engine in self.parts if self.cells[engine]]

    def absent(self) -> list[tuple[str, str]]:
        """Engines that don't, with the reason."""
        return [
            (self.title(engine), self.about(engine).get("skipped") or self.about(engine).get("failed") or "no results")
            for engine in self.parts
            if engine not in self.ran
        ]

    def one(self, engine: str, query: str) -> Cell:
        return self.cells[engine].get(query, Cell())

    def best_rival(self, query: str, field: str, servers: bool = False) -> tuple[str, float] | None:
        """The rival with the least value of ``field``, of those in process or of the servers.

        Memory is compared among engines on disk: those in memory hold all rows before a query begins.
        """
        found = [
            (getattr(self.one(engine, query), field), engine)
            for engine in self.side(servers)
            if not engine.startswith(OURS)
            and getattr(self.one(engine, query), field) is not None
            and self.counts(engine, query, field)
            and (field != "growth" or self.about(engine).get("stores") == "disk")
        ]
        if not found:
            return None
        value, engine = min(found)
        return engine, value

    def factor(self, query: str, field: str, servers: bool = False) -> tuple[str, float] | None:
        """The best rival and its value over SplayDB's: above 1, SplayDB is faster. Like is set beside like: servers beside ours."""
        rival, own = self.best_rival(query, field, servers), self.ours(servers, field)
        ours = getattr(self.one(own, query), field) if own in self.ran else None
        return (rival[0], rival[1] / ours) if rival and ours else None

    def counts(self, engine: str, query: str, field: str) -> bool:
        """Whether a query is part of the engine's mean, and of comparisons with it."""
        is_of_rows = field.startswith("prepared") and self.is_server(engine)
        return not is_of_rows or self.one(engine, query).rows <= PREPARED_ROWS_MAX

    def left_out(self, field: str, servers: bool) -> list[str]:
        """Queries that are no part of the means of some engine."""
        return [query for query in self.queries if not all(self.counts(engine, query, field) for engine in self.side(servers))]

    def has(self, engine: str, field: str) -> bool:
        """Whether the engine has such a time of any query."""
        return any(getattr(self.one(engine, query), field) is not None for query in self.queries)

    def mean(self, engine: str, field: str) -> tuple[float | None, int]:
        """Geometric mean over the queries that the engine answered, and how many these are."""
        values = [getattr(self.one(engine, query), field) for query in self.queries if self.counts(engine, query, field)]
        values = [value for value in values if value]
        return geometric_mean(values), len(values)

    def against(self, engine: str, field: str) -> float | None:
        """Geometric mean of the engine's values over SplayDB's, where both have one: SplayDB's server's if it is a server."""
        own = self.ours(self.is_server(engine), field)
        ratios = [
            getattr(self.one(engine, query), field) / getattr(self.one(own, query), field)
            for query in self.queries
            if own in self.ran and self.counts(engine, query, field)
            and getattr(self.one(engine, query), field) and getattr(self.one(own, query), field)
        ]
        return geometric_mean(ratios)

    def cold_over_warm(self, engine: str) -> float | None:
        """Geometric mean of the engine's cold times over its own warm ones."""
        cells = [self.one(engine, query) for query in self.queries]
        return geometric_mean([cell.cold / cell.warm for cell in cells if cell.cold and cell.warm])

    def load(self, engine: str) -> dict:
        """``mb_per_second`` of W, or its state."""
        return self.parts[engine].get("W", {})

    def size_share(self, engine: str) -> float | None:
        """SE: bytes on disk over bytes of the same rows as CSV."""
        size, raw = self.about(engine).get("bytes"), self.run.get("raw_bytes")
        return size / raw if size and raw else None

    def clients(self, engine: str) -> dict[int, dict]:
        """Throughput by count of clients."""
        values = self.parts[engine].get("clients", {})
        return {int(count): found for count, found in values.items() if count.isdigit() and "per_second" in found}

    def agreement(self) -> tuple[int, int, list[str]]:
        """Cells whose two runs agree, all cells that have two, and the worst that don't."""
        gaps = []
        for engine in self.ran:
            for query in self.queries:
                one = self.one(engine, query)
                if one.warm and one.again:
                    gaps.append((max(one.warm, one.again) / min(one.warm, one.again) - 1, engine, query))
        far = sorted((gap for gap in gaps if gap[0] > AGREE), reverse=True)
        return len(gaps) - len(far), len(gaps), [f"{engine} {query} {gap:.0%}" for gap, engine, query in far[:8]]

    def others_cores(self) -> tuple[float, float] | None:
        """Cores that other programs kept busy while warm times were measured: the median over engines, and the most."""
        found = [
            max(
                values[part]["others_cores"]
                for values in parts.values()
                if values.get(part, {}).get("others_cores") is not None
            )
            for parts in self.parts.values()
            for part in ("warm", "again")
            if any(values.get(part, {}).get("others_cores") is not None for values in parts.values())
        ]
        return (statistics.median(found), max(found)) if found else None

    def yardstick(self, engine: str) -> float | None:
        """What the yardstick took in the middle while the engine's warm times were measured."""
        return median(
            taken
            for values in self.parts[engine].values()
            for part in ("warm", "again")
            for taken in values.get(part, {}).get("yardstick_ms", [])
        )

    def yardstick_ms(self) -> list[float]:
        """What the yardstick took while warm times were measured, least first."""
        return sorted(
            taken
            for parts in self.parts.values()
            for values in parts.values()
            for part in ("warm", "again")
            for taken in values.get(part, {}).get("yardstick_ms", [])
        )

    def failures(self) -> list[str]:
        """Every wrong answer and error, in full."""
        lines = [
            f"{self.title(engine)}, {query}: {one.state}: {one.detail}"
            for engine, cells in self.cells.items()
            for query, one in cells.items()
            if one.state in ("wrong", "error")
        ]
        lines += [
            f"{self.title(engine)}, {query}, {TIMES.get(of, of)}: {why}"
            for engine, cells in self.cells.items()
            for query, one in cells.items()
            for of, why in one.failures.items()
        ]
        for engine in self.ran:
            load = self.load(engine)
            if load.get("state") in ("wrong", "error"):
                lines.append(f"{self.title(engine)}, W: {load['state']}: {load['detail']}")
            if self.about(engine).get("failed"):
                lines.append(f"{self.title(engine)}: {self.about(engine)['failed']}")
            clients = self.parts[engine].get("clients", {})
            for count, found in clients.items():
                if isinstance(found, dict) and "failed" in found:
                    lines.append(f"{self.title(engine)}, {count} clients: {found['failed']}")
        return lines

    def stale(self) -> list[str]:
        """Parts that were measured at another commit than the last run, or by other rules."""
        wanted = (self.run.get("commit"), self.run.get("rules"))
        return [
            f"{self.title(engine)}, {part}: measured at commit {stamp.get('commit')}"
            for engine in self.parts
            for part, values in self.parts[engine].items()
            if (stamp := values.get("stamp")) and (stamp.get("commit"), stamp.get("rules")) != wanted
        ]

    def losses(self) -> list[Loss]:
        """All that a rival is better at than SplayDB, the largest factors first."""
        if OURS not in self.ran:
            return []
        found = []
        fields = TIMES | {"growth": "memory beyond the start"}
        for query in self.queries:
            for part, name in fields.items():
                for servers in (False, True):
                    factor = self.factor(query, part, servers)
                    if factor and factor[1] < 1:
                        found.append(Loss(f"{query}, {name}", self.title(factor[0]), 1 / factor[1]))
        rivals = [engine for engine in self.ran if not engine.startswith(OURS)]
        sizes = {engine: self.size_share(engine) for engine in [OURS, *rivals]}
        rates = {engine: self.load(engine).get("mb_per_second") for engine in [OURS, *rivals]}
        for engine in rivals:
            if sizes[OURS] and sizes[engine] and sizes[engine] < sizes[OURS]:
                found.append(Loss("SE, size on disk", self.title(engine), sizes[OURS] / sizes[engine]))
            if rates[OURS] and rates[engine] and rates[engine] > rates[OURS]:
                found.append(Loss("W, load of the write day", self.title(engine), rates[engine] / rates[OURS]))
            for count, mine in self.clients(self.ours(self.is_server(engine))).items():
                theirs = self.clients(engine).get(count)
                if theirs and theirs["per_second"] > mine["per_second"]:
                    found.append(
                        Loss(f"{count} clients", self.title(engine), theirs["per_second"] / mine["per_second"])
                    )
        return sorted((loss for loss in found if loss.factor >= LEVEL), key=lambda loss: -loss.factor)
