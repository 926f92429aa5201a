"""InfluxDB 1.6 of Debian: its server on loopback, asked in InfluxQL over HTTP.

Symbol, exchange and side are tags, which are indexed and grouped by; prices and sizes are fields. Shards are days. Points of
one series and time replace each other, and equal times occur, so the k-th row of a symbol at one time is stored k nanoseconds
later; the data's times are whole microseconds, and the client cuts answers' times to them. Depth is a sum of means, since a
sub-query over five fields is slower. Version 1.6 has no logarithm: closing values come from the database, returns and their
deviation are worked out by the client, inside the clock.

Version 2.7 would have to be built from its Go module together with a library in Rust; that isn't done here.
"""

import datetime
import http.client
import json
import pathlib
import shutil
import subprocess
import time
import urllib.parse

from . import rows, server
from .base import Base, Skipped, folder_bytes, sync

DATABASE = "market"
PACKAGE = "influxdb"
BATCH_ROWS = 5_000
"""Points of one request, as InfluxDB advises."""
SETTLED_SECONDS, SETTLE_SECONDS_MAX = 10, 300
"""Files that don't change for so long are taken for settled; and how long that is waited for."""
TAGS = ("symbol", "exchange", "side")

DAY = "time >= $day_start AND time < $day_end"
WEEK = "time >= $day_start AND time < $week_end"
MONTH = "time >= $day_start AND time < $month_end"
NBBO = "time >= $nbbo_start AND time < $nbbo_end"
MID = "(last(b1p) + last(a1p)) / 2"


def depth(levels: int, within: str, width: str) -> str:
    bids, asks = (" + ".join(f"mean({side}{level}s)" for level in range(1, levels + 1)) for side in "ba")
    return f"SELECT {bids} AS bid_depth, {asks} AS ask_depth FROM books WHERE {within} GROUP BY symbol, time({width}) fill(none)"


def closes(table: str, value: str, within: str, width: str) -> str:
    return f"SELECT {value} AS close FROM {table} WHERE {within} GROUP BY symbol, time({width}) fill(none)"


def volume(within: str, width: str) -> str:
    return f"SELECT sum(amount) AS volume FROM trades WHERE {within} GROUP BY symbol, side, time({width}) fill(none)"


BTC = f"symbol = 'BTC-USD' AND {DAY}"
TEXTS = {
    "T-V1": volume(DAY, "1m"),
    "T-V2": volume(MONTH, "1d"),
    "T-VWAP": "SELECT sum(value) / sum(amount) AS vwap FROM (SELECT price * amount AS value, amount FROM trades "
    f"WHERE {BTC}) WHERE {DAY} GROUP BY time(1m) fill(none)",
    "O-T": "SELECT b1p, b1s, a1p, a1s FROM books WHERE symbol = $symbol AND time <= $instant AND time > $instant - 1d "
    "ORDER BY time DESC LIMIT 1",
    "O-B1": f"SELECT max(b1p) AS max_bid FROM books WHERE {WEEK} GROUP BY symbol",
    "O-B2": f"SELECT max(b1p) AS max_bid FROM books WHERE {MONTH} GROUP BY symbol",
    "O-S": f"SELECT a1p - b1p AS spread FROM books WHERE {DAY} GROUP BY symbol",
    "O-V1": depth(1, WEEK, "1m"),
    "O-V2": depth(5, MONTH, "1h"),
    "O-NBBO": f"SELECT max(b1p) AS best_bid, min(a1p) AS best_ask FROM books WHERE {NBBO} GROUP BY symbol",
    "C-R": closes("books", MID, DAY, "5m"),
    "C-VT": closes("trades", "last(price)", DAY, "5m"),
    "C-VO1": closes("books", MID, DAY, "5m"),
    "C-VO2": closes("books", MID, WEEK, "1h"),
}
TIME_NAMES = {"T-V1": "bucket", "T-V2": "bucket", "T-VWAP": "bucket", "O-V1": "bucket", "O-V2": "bucket"}
TIME_NAMES |= {"O-T": "timestamp", "O-S": "timestamp", "C-R": "bucket", "C-VT": "bucket", "C-VO1": "bucket", "C-VO2": "bucket"}
"""What the answer calls InfluxDB's ``time``; the others leave it out."""
COARSE = {"C-VT": 3_600, "C-VO1": 3_600, "C-VO2": 14_400}
"""Seconds of the buckets that returns are gathered in."""


def literal(value) -> str:
    """Instants are whole microseconds; the nanoseconds above tell rows of one time apart."""
    if isinstance(value, datetime.datetime):
        return f"'{value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat()}Z'"
    return "'" + value.replace("'", "\\'") + "'"


class Client:
    """One connection to the server."""

    def __init__(self, port: int):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=7200)

    def request(self, method: str, path: str, body=None, headers=None, **parameters) -> bytes:
        self.connection.request(method, f"{path}?{urllib.parse.urlencode(parameters)}", body, headers or {})
        reply = self.connection.getresponse()
        content = reply.read()
        if reply.status >= 300:
            raise RuntimeError(content.decode(errors="replace")[:500])
        return content

    def run(self, text: str) -> list:
        """The series of a statement."""
        result = json.loads(self.request("POST", "/query", q=text, db=DATABASE, epoch="ns"))["results"][0]
        if "error" in result:
            raise RuntimeError(result["error"])
        return result.get("series", [])

    def prepare(self, question, parameters, variant):
        from engine.question import render

        id = question.id
        if "instant" in variant:
            # All rows of the instant's own microsecond belong to the answer.
            until = literal(variant["instant"]).removesuffix("Z'") + "999Z'"
            text = render(TEXTS[id].replace("<= $instant", f"<= {until}"), parameters, variant, literal)
        else:
            text = render(TEXTS[id], parameters, variant, literal)
        headers = {"Accept": "application/csv"}
        return lambda: columns(id, self.request("GET", "/query", None, headers, q=text, db=DATABASE, epoch="ns"))


def columns(id: str, content: bytes):
    """An answer in CSV as an Arrow table, with the client's part of the work."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    table = csv.read_csv(pa.BufferReader(content), convert_options=csv.ConvertOptions(column_types={"tags": pa.string()}))
    found = {}
    tags = table["tags"]
    for tag in TAGS:
        values = pc.extract_regex(tags, f"(?:^|,){tag}=(?P<value>[^,]*)")
        if id != "O-T" and values.null_count < len(values):
            found[tag] = pc.struct_field(values, "value")
    if id in TIME_NAMES:
        micros = pc.divide(table["time"], 1_000)
        found[TIME_NAMES[id]] = micros.cast(pa.timestamp("us", "UTC"))
    for name in table.column_names[3:]:
        found[name] = table[name]
    answer = pa.table(found)
    if id in ("T-V1", "T-V2"):
        # InfluxDB orders groups by the names of their tags: side before symbol.
        return answer.sort_by([(name, "ascending") for name in ("symbol", "side", "bucket")])
    return with_returns(id, answer) if id.startswith("C-") else answer


def with_returns(id: str, closes):
    """Logarithmic returns, and for all but C-R their deviation by coarse bucket; closes come by symbol and time."""
    import numpy as np
    import pyarrow as pa

    logs, symbols = np.log(closes["close"].to_numpy()), np.array(closes["symbol"])
    later = np.flatnonzero(symbols[1:] == symbols[:-1]) + 1
    returns = (logs[1:] - logs[:-1])[later - 1]
    table = pa.table({"symbol": symbols[later], "bucket": closes["bucket"].take(later), "ret": returns})
    if id not in COARSE:
        return table
    micros = COARSE[id] * 1_000_000
    coarse = table["bucket"].cast(pa.int64()).to_numpy() // micros * micros
    table = pa.table({"symbol": table["symbol"], "coarse": pa.array(coarse, pa.timestamp("us", "UTC")), "ret": returns})
    # A group of one has no deviation: null, as it should be.
    options = pa.compute.VarianceOptions(ddof=1)
    found = table.group_by(["symbol", "coarse"], use_threads=False).aggregate([("ret", "stddev", options)])
    found = found.rename_columns(["symbol", "coarse", "volatility"])
    return found.sort_by([("symbol", "ascending"), ("coarse", "ascending")])


class Engine(Base):
    name = "influxdb"
    title = "InfluxDB 1.6"
    requirements = ("numpy", "pyarrow==26.0.1")
    starts = "its server, unpacked from Debian's package, started by the worker, bound to 127.0.0.1; asked over HTTP"
    best = (
        "Codes as tags, daily shards, the TSI index; times nudged by nanoseconds where rows of a symbol share one; closing "
        "values by `last`, logarithms by the client, since 1.6 has none; answers as CSV parsed by Arrow."
    )

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
        for piece in pieces:
            lines = as_lines(table, piece)
            for start in range(0, len(lines), BATCH_ROWS):
                body = "\n".join(lines.slice(start, BATCH_ROWS).to_pylist()).encode()
                self.client.request("POST", "/write", body, db=DATABASE, precision="ns")

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


def as_lines(table: str, part):
    """Rows as line protocol, made by Arrow column by column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    part = rows.plain_texts(part)
    pieces = [table]
    for tag in TAGS:
        if tag in part.column_names:
            pieces += [f",{tag}=", part[tag]]
    separator = " "
    for name in part.column_names:
        if name == "timestamp" or name in TAGS:
            continue
        whole = pa.types.is_integer(part[name].type)
        pieces += [f"{separator}{name}=", part[name].cast(pa.string())] + ["i"] * whole
        separator = ","
    pieces += [" ", unique_times(part).cast(pa.string())]
    return pc.binary_join_element_wise(*pieces, "")


def unique_times(part):
    """Nanoseconds; the k-th row of a symbol at one time gets k more."""
    import numpy as np
    import pyarrow as pa

    times = part["timestamp"].cast(pa.timestamp("ns", "UTC")).cast(pa.int64()).to_numpy()
    codes = part["symbol"].dictionary_encode().combine_chunks()
    codes = (codes.indices if hasattr(codes, "indices") else codes.chunk(0).indices).to_numpy()
    order = np.lexsort((np.arange(len(times)), times, codes))
    sorted_times, sorted_codes = times[order], codes[order]
    starts = np.ones(len(times), bool)
    starts[1:] = (sorted_times[1:] != sorted_times[:-1]) | (sorted_codes[1:] != sorted_codes[:-1])
    first = np.maximum.accumulate(np.where(starts, np.arange(len(times)), 0))
    nudged = np.empty_like(times)
    nudged[order] = sorted_times + (np.arange(len(times)) - first)
    return pa.chunked_array([nudged])
