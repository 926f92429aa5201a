"""InfluxDB 1.6 of Debian: its server on loopback, asked in InfluxQL over HTTP.

Symbol, exchange and side are tags, which are indexed and grouped by; prices and sizes are fields. Shards are days. Points of
one series and time replace each other, and equal times occur, so the k-th row of a symbol at one time is stored k nanoseconds
later; the data's times are whole microseconds, and the client cuts answers' times to them. Depth is a sum of means, since a
sub-query over five fields is slower. Version 1.6 has no logarithm: closing values come from the database, returns and their
deviation are worked out by the client, inside the clock.
"""

import collections
import pathlib
import queue
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from . import rows, server
from .base import Base, Skipped, folder_bytes, sync
from .influxdb_lines import UniqueTimes, as_lines
from .influxdb_queries import DATABASE, Client

PACKAGE = "influxdb"
BATCH_ROWS = 5_000
"""Points of one request, as InfluxDB advises."""
SETTLED_SECONDS, SETTLE_SECONDS_MAX = 10, 300
"""Files that don't change for so long are taken for settled; and how long that is waited for."""


class Engine(Base):
    name = "influxdb"
    title = "InfluxDB 1.6"
    requirements = ("numpy", "pyarrow==26.0.1")
    layout = ("engines.influxdb_lines", "engines.influxdb_queries", "engines.rows")
    is_server = True
    starts = "its server, unpacked from Debian's package, started by the worker, bound to 127.0.0.1; asked over HTTP"
    best = (
        "Codes as tags, daily shards, the TSI index; times nudged by nanoseconds where rows of a symbol share one; closing "
        "values by `last`, logarithms by the client, since 1.6 has none; answers as CSV parsed by Arrow."
    )

    transport = "HTTP, CSV"
    write_path = "/write"
    write_parameters = {"db": DATABASE, "precision": "ns"}

    @classmethod
    def program(cls, cache: pathlib.Path) -> pathlib.Path:
        return cache / "influxdb" / "usr/bin/influxd"

    @classmethod
    def unavailable(cls, settings):
        have = shutil.which("influxd") or cls.program(pathlib.Path(settings["cache"])).exists()
        return None if have or shutil.which("apt-get") else "no influxd, and no apt-get to get Debian's package by"

    @classmethod
    def fetch(cls, cache, settings) -> None:
        """Debian's package, unpacked beside the other downloads: nothing is installed into the system."""
        if shutil.which("influxd") or cls.program(cache).exists():
            return
        folder = cache / "influxdb"
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["apt-get", "download", PACKAGE], cwd=folder, capture_output=True, text=True)
        packages = list(folder.glob("*.deb"))
        if done.returncode != 0 or not packages:
            raise Skipped(f"apt-get download {PACKAGE}: {' '.join(done.stderr.split())[-200:]}")
        subprocess.run(["dpkg", "-x", packages[0], folder], check=True)

    def influxd(self) -> str:
        return shutil.which("influxd") or str(self.program(pathlib.Path(self.settings["cache"])))

    def version(self) -> str:
        said = subprocess.run([self.influxd(), "version"], capture_output=True, text=True).stdout
        return said.split()[1].lstrip("v") if said else "?"

    def start(self) -> None:
        self.port = server.free_port()
        root, log = self.folder / "root", self.folder / "server.log"
        root.mkdir(parents=True, exist_ok=True)
        config = root / "influxdb.conf"
        config.write_text(
            f"""reporting-disabled = true
bind-address = "127.0.0.1:{server.free_port()}"
[meta]
dir = "{root}/meta"
[data]
dir = "{root}/data"
wal-dir = "{root}/wal"
index-version = "tsi1"
query-log-enabled = false
cache-max-memory-size = "4g"
cache-snapshot-write-cold-duration = "2s"
compact-full-write-cold-duration = "4s"
compact-throughput = "1g"
compact-throughput-burst = "1g"
[monitor]
store-enabled = false
[coordinator]
write-timeout = "300s"
[http]
bind-address = "127.0.0.1:{self.port}"
log-enabled = false
max-body-size = 0
max-row-limit = 0
"""
        )
        self.server = server.start([self.influxd(), "run", "-config", config], log)
        server.wait(self.server, self.is_up, log)
        self.client = Client(self.port)

    def is_up(self) -> bool:
        try:
            return Client(self.port).request("GET", "/ping") == b""
        except OSError:
            return False

    def create(self) -> None:
        self.client.run(f"DROP DATABASE {DATABASE}")
        self.client.run(f"CREATE DATABASE {DATABASE} WITH SHARD DURATION 1d NAME days")

    def fill(self, table: str, pieces) -> None:
        """Writes rows by as many connections as there are threads: the next lines are made while others are on their way."""
        clients, under_way, times = queue.SimpleQueue(), collections.deque(), UniqueTimes()
        for _ in range(self.threads):
            clients.put(self.session())
        with ThreadPoolExecutor(self.threads) as pool:
            for piece in pieces:
                lines = as_lines(table, piece, times)
                for start in range(0, len(lines), BATCH_ROWS):
                    under_way.append(pool.submit(self.send, clients, lines.slice(start, BATCH_ROWS)))
                    if len(under_way) > 2 * self.threads:
                        under_way.popleft().result()
            for sent in under_way:
                sent.result()

    def send(self, clients, lines) -> None:
        body = "\n".join(lines.to_pylist()).encode()
        client = clients.get()
        try:
            client.request("POST", self.write_path, body, **self.write_parameters)
        finally:
            clients.put(client)

    def load(self, tables) -> None:
        shutil.rmtree(self.folder / "root", ignore_errors=True)
        self.start()
        self.create()
        for table, paths in tables.items():
            self.fill(table, rows.from_parquet(paths))
        self.settle()
        self.close()
        sync()

    def settle(self) -> None:
        """Waits until compactions are over: the write-ahead log is taken up, and files don't change for a while.

        By default a shard is compacted in full four hours after its last row; the settings above make it seconds.
        """
        last, start = -1, time.monotonic()
        since = start
        while time.monotonic() - since < SETTLED_SECONDS and time.monotonic() - start < SETTLE_SECONDS_MAX:
            size = self.size()
            if size != last:
                last, since = size, time.monotonic()
            time.sleep(0.5)

    def open(self) -> None:
        self.start()

    def prepare(self, question, parameters, variant):
        return self.client.prepare(question, parameters, variant)

    def unseen(self, question, parameters, variant, mark: int):
        """InfluxQL keeps no plans, and has no other name for a measurement: the text differs by a comment."""
        return self.client.prepare(question, parameters, variant, f"/* {mark} */ ")

    def session(self) -> Client:
        return Client(self.port)

    def write_open(self, files) -> None:
        shutil.rmtree(self.folder / "root", ignore_errors=True)
        self.start()
        self.create()

    def write(self, files) -> None:
        for table, path in files.items():
            self.fill(table, rows.from_csv(path))
        sync()

    def totals(self):
        found = {}
        for table, field, name in (("trades", "amount", "amount"), ("books", "a20s", "a20s")):
            series = self.client.run(f"SELECT count({field}), sum({field}) FROM {table}")
            _, found[table], found[name] = series[0]["values"][0]
        return found

    def size(self) -> int:
        return folder_bytes(self.folder / "root" / "data") + folder_bytes(self.folder / "root" / "wal")

    def close(self) -> None:
        if hasattr(self, "server"):
            server.stop(self.server)
            del self.server
