"""What a run was asked to do."""

import os
import pathlib
from dataclasses import dataclass, field

from . import machine

ROOT = machine.ROOT
KINDS = ("prepared", "unseen")
"""How a query may be asked besides as a text that is known: as a prepared statement, as a text that was never sent."""


@dataclass
class Settings:
    """Options of ``run``, with their defaults."""

    engines: list[str]
    out: pathlib.Path = pathlib.Path("results")
    scales: list[float] = field(default_factory=lambda: [0.02])
    warm: bool = True
    cold: bool = True
    clients: list[int] = field(default_factory=list)
    rounds: int = 10
    """Timed warm runs of each query."""
    rounds_min: int = 3
    """So many are made in any case when a query takes longer than ``seconds``."""
    passes: int = 4
    """The runs of a query are spread over so many passes. In a pass each engine asks all queries in a process of its own, one engine
    after the other, so that what slows the machine for minutes meets all of them."""
    kinds: list[str] = field(default_factory=lambda: ["prepared", "unseen"])
    """What is timed besides known texts."""
    paced_rounds: int = 12
    """Runs of each query, and of each kind of it, at one question every ``pace_seconds``; none if 0."""
    pace_seconds: float = 0.05
    short_seconds: float = 0.1
    """Queries that take less than this for all their runs are asked more often: for so long, up to ``rounds_max`` times."""
    rounds_max: int = 500
    warm_up_seconds: float = 0.1
    """A query is asked for so long off the clock before its first pass, and a share of that before the others."""
    seconds: float = 20
    """After so long no further pass of a query begins."""
    cold_rounds: int = 9
    write_scale: float | None = None
    """Scale of the write day; that of the run if none."""
    cold_only: list[str] = field(default_factory=list)
    """Queries that have cold runs; all if empty. Each run starts an engine anew, which takes most of a small benchmark."""
    client_seconds: float = 5
    """Each count of clients asks for so long, and then to the end of its round."""
    limit_seconds: float = 600
    """A request that takes longer ends the engine, and counts as failed."""
    load_limit_seconds: float = 3_600
    """The same for loads."""
    threads: int = os.cpu_count() or 1
    seed: int = 1
    again: bool = False
    only: list[str] = field(default_factory=list)
    """Queries; all if empty."""
    splay: pathlib.Path = ROOT / "target/release/splay"
    wheel: pathlib.Path | None = None
    """SplayDB's wheel; by default the newest in target/wheels."""
    work: pathlib.Path = ROOT / "target/bench"
    """Where data and databases are kept."""
    venvs: pathlib.Path = ROOT / "target/bench-venvs"
    command: str = ""
    commit: str = field(default_factory=lambda: machine.commit())
    """What all of the run belongs to, taken once: `+` behind it says that files were changed."""
    files: list[pathlib.Path] = field(default_factory=list)
    """Files and folders of the suite ``compression``, beside the simulated data."""
    size: str = "full"
    """``smoke`` or ``full``: how large the suites without a scale are."""

    def found_wheel(self) -> pathlib.Path | None:
        if self.wheel:
            return self.wheel
        wheels = sorted((ROOT / "target/wheels").glob("splay-*.whl"), key=lambda path: path.stat().st_mtime)
        return wheels[-1] if wheels else None

    def of_engines(self) -> dict[str, str]:
        """What engines are told."""
        wheel = self.found_wheel()
        addresses = {
            name: os.environ[f"SPLAY_BENCH_{name.upper()}"]
            for name in ("clickhouse", "timescaledb")
            if f"SPLAY_BENCH_{name.upper()}" in os.environ
        }
        return {"cache": str(self.work / "downloads"), "wheel": str(wheel) if wheel else ""} | addresses

    def rules(self) -> dict:
        """What two results must have in common to be the same measurement."""
        return {
            "rounds": self.rounds,
            "rounds_min": self.rounds_min,
            "passes": self.passes,
            "short_seconds": self.short_seconds,
            "rounds_max": self.rounds_max,
            "warm_up_seconds": self.warm_up_seconds,
            "seconds": self.seconds,
            "kinds": self.kinds,
            "paced_rounds": self.paced_rounds,
            "pace_seconds": self.pace_seconds,
            "write_scale": self.write_scale,
            "cold_rounds": self.cold_rounds,
            "client_seconds": self.client_seconds,
            "threads": self.threads,
            "seed": self.seed,
        }
