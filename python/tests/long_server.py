"""`splay serve` with its ports kept over all its lives, and what its tables must hold after each."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.request

import numpy as np
import pyarrow as pa
from long_rows import COLUMNS, of_answer
from long_ways import TcpLine, Way, Wrong

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPLAY = os.environ.get("SPLAY", str(ROOT / "target" / "release" / "splay"))
SECONDS_MAX = 600


class LongServer:
    """A database's server, which is started, stopped and killed again and again."""

    def __init__(self, folder: pathlib.Path, config: str):
        self.folder, self.database = folder, folder / "db"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "server.toml").write_text(config)
        self.addresses = dict.fromkeys(("http", "flight", "line", "postgres"), "127.0.0.1:0")
        self.process: subprocess.Popen | None = None
        self.start_seconds = 0.0

    def start(self) -> None:
        """Returns once the server says where it listens."""
        begun = time.monotonic()
        command = [SPLAY, "serve", str(self.database), "--config", str(self.folder / "server.toml")]
        for name, address in self.addresses.items():
            command += [f"--{name}", address]
        self.log = open(self.folder / "serve.log", "ab")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        told = {}
        for line in self.process.stdout:
            name, _, rest = line.strip().partition(" ")
            told[name] = rest.strip().partition("://")[2]
            if name == "line":
                break
        if "line" not in told:
            raise Wrong(f"no start: {self.logged()[-3000:]}")
        self.addresses.update({name: told[name] for name in self.addresses})
        self.start_seconds = time.monotonic() - begun

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        if (code := self.wait()) != 0:
            raise Wrong(f"ended with {code}: {self.logged()[-3000:]}")

    def wait(self) -> int:
        code = self.process.wait(SECONDS_MAX)
        self.process.stdout.close()
        self.log.close()
        return code

    def logged(self) -> str:
        return (self.folder / "serve.log").read_text()

    def get(self, path: str, body: bytes | None = None) -> bytes:
        with urllib.request.urlopen(f"http://{self.addresses['http']}{path}", body, timeout=SECONDS_MAX) as answer:
            return answer.read()

    def query(self, statement: str) -> pa.Table:
        return pa.ipc.open_stream(self.get("/query?format=arrow", statement.encode())).read_all()

    def tables(self) -> list[str]:
        return [table["table"] for table in json.loads(self.get("/status"))["tables"]]

    def capture_status(self) -> dict:
        return json.loads(self.get("/status"))["capture"]


def over_tables(columns: str, where: str, tables: list[str]) -> str:
    return " union all ".join(f"select {columns} from {table} where {where}" for table in tables)


def batches_from(ask, way: int, number: int, tables: list[str]) -> dict[int, int]:
    """Rows of each batch of a way, from a number on."""
    if not tables:
        return {}
    inner = over_tables("number", f"way = {way} and number >= {number}", tables)
    found = ask(f"select number, count(*) as rows from ({inner}) as t group by number")
    return dict(zip(found["number"].to_pylist(), found["rows"].to_pylist()))


def settle(ask, ways: list[Way], tables: list[str]) -> None:
    """What became of batches without an answer, which nobody sends again: as a whole or not at all."""
    for way in ways:
        if isinstance(way, TcpLine):
            way.settle(batches_from(ask, way.way, way.acknowledged, tables))
        elif not way.has_producer:
            for number in sorted(number for number in way.unsure if number not in way.partial):
                rows = batches_from(ask, way.way, number, tables).get(number, 0)
                if rows not in (0, way.shape.size(way.way, number)):
                    raise Wrong(f"{way.name} {number}: {rows} rows of {way.shape.size(way.way, number)}")
                way.partial[number] = rows


def expected(ways: list[Way], found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """All rows that have to be there, those among them that may be and are."""
    parts = []
    for way in ways:
        numbers = np.arange(way.acknowledged + 1)
        sizes = way.shape.sizes(way.way, numbers)
        sizes[-1] = 0
        for number, rows in way.partial.items():
            sizes[number] = rows
        if way.has_producer:
            # Sent, not acknowledged: as a whole or not at all.
            more = np.unique(found["number"][(found["way"] == way.way) & (found["number"] >= way.acknowledged)])
            if len(more) and more[-1] >= way.sent:
                raise Wrong(f"{way.name}: batch {more[-1]} was never sent")
            numbers = np.concatenate([numbers[:-1], more])
            sizes = np.concatenate([sizes[:-1], way.shape.sizes(way.way, more)])
        repeated = np.repeat(numbers, sizes)
        places = np.arange(len(repeated)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        parts.append(way.shape.of(way.way, repeated, places))
    return {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}


def all_rows(ask, tables: list[str]) -> dict[str, np.ndarray]:
    if not tables:
        return {name: np.zeros(0, np.int64) for name in COLUMNS}
    return of_answer(ask(over_tables(", ".join(COLUMNS), "true", tables)))


def in_order(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    order = np.lexsort((rows["place"], rows["number"], rows["way"]))
    return {name: values[order] for name, values in rows.items()}


def compare(ways: list[Way], rows: dict[str, np.ndarray]) -> int:
    """Compares each row with what was sent: none is missing, doubled or another. Gives their number."""
    found = in_order(rows)
    wanted = in_order(expected(ways, found))
    if len(found["way"]) == len(wanted["way"]) and all((found[name] == wanted[name]).all() for name in COLUMNS):
        return len(found["way"])
    raise Wrong(difference(ways, found, wanted))


def difference(ways: list[Way], found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> str:
    def keys(rows: dict[str, np.ndarray]) -> np.ndarray:
        return (rows["way"] << 44) | (rows["number"] << 12) | rows["place"]

    there, there_counts = np.unique(keys(found), return_counts=True)
    must = keys(wanted)
    told = []
    kinds = {
        "lost": np.setdiff1d(must, there),
        "that nobody sent": np.setdiff1d(there, must),
        "doubled": there[there_counts > 1],
    }
    for kind, rows in kinds.items():
        names = [f"{ways[row >> 44].name} {(row >> 12) & ((1 << 32) - 1)}.{row & 4095}" for row in rows[:8].tolist()]
        told.append(f"{len(rows)} rows {kind} {names}")
    state = {way.name: (way.acknowledged, way.sent, len(way.unsure)) for way in ways}
    return f"{'; '.join(told)}; values differ if all are 0; ways {state}"

