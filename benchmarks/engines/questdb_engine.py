"""QuestDB: its open-source server in Java, asked over HTTP on loopback.

Tables have a designated timestamp in nanoseconds and daily partitions, so that a range of time is a slice of the columns; codes
are SYMBOL. No symbol has an index: each of three is a third of the rows, which a scan with compiled filters reads faster. Rows
come in the order of time and by one writer, so the tables do without the write-ahead log, which would write them twice. The
native words are used: `SAMPLE BY`, `last`, and a limit on the reversed designated timestamp, which reads from the end.

Answers come by HTTP's export (`/exp`): as CSV parsed by Arrow, which is the quickest way to columns in Python for small answers, and
as Parquet for those of tens of thousands of rows. HTTP tells no time of the engine's own for an export. Prepared statements exist
over PostgreSQL's wire alone; they are asked there, in binary.
"""

import datetime
import hashlib
import http.client
import json
import pathlib
import shutil
import time
import urllib.parse
import urllib.request

from . import server
from .base import TOTALS, Base, Skipped, sync
from .postgresql_client import Client as WireClient
from .translate import never_seen

VERSION = "9.3.4"
"""The last whose jar runs on Java 17."""
JAR = f"https://repo1.maven.org/maven2/org/questdb/questdb/{VERSION}/questdb-{VERSION}.jar"

BOOK_COLUMNS = [f"{side}{level}{kind}" for side in "ba" for kind in "ps" for level in range(1, 21)]
COLUMNS = {
    "trades": "symbol SYMBOL CAPACITY 256, exchange SYMBOL CAPACITY 256, side SYMBOL CAPACITY 256, price DOUBLE, "
    "amount DOUBLE, id LONG",
    "books": "symbol SYMBOL CAPACITY 256, exchange SYMBOL CAPACITY 256, "
    + ", ".join(f"{name} DOUBLE" for name in BOOK_COLUMNS),
}

DAY = "timestamp >= $day_start AND timestamp < $day_end"
WEEK = "timestamp >= $day_start AND timestamp < $week_end"
MONTH = "timestamp >= $day_start AND timestamp < $month_end"
NBBO = "timestamp >= $nbbo_start AND timestamp < $nbbo_end"
MID = "(b1p + a1p) / 2"


def depth(levels: int, within: str, width: str) -> str:
    bids, asks = ("+".join(f"{side}{level}s" for level in range(1, levels + 1)) for side in "ba")
    return (
        f"SELECT symbol, timestamp AS bucket, avg({bids}) AS bid_depth, avg({asks}) AS ask_depth FROM books "
        f"WHERE {within} SAMPLE BY {width} ORDER BY symbol, bucket"
    )


def returns(table: str, value: str, within: str, width: str) -> str:
    closes = f"SELECT symbol, timestamp AS bucket, last({value}) AS close FROM {table} WHERE {within} SAMPLE BY {width}"
    lag = "lag(close) OVER (PARTITION BY symbol ORDER BY bucket)"
    changes = f"SELECT symbol, bucket, ln(close) - ln(previous) AS ret FROM (SELECT symbol, bucket, close, {lag} AS previous FROM ({closes}))"
    return f"SELECT symbol, bucket, ret FROM ({changes}) WHERE ret IS NOT NULL"


def volatility(table: str, value: str, within: str, fine: str, coarse: str) -> str:
    return (
        f"SELECT symbol, timestamp_floor('{coarse}', bucket) AS coarse, stddev_samp(ret) AS volatility "
        f"FROM ({returns(table, value, within, fine)}) ORDER BY symbol, coarse"
    )


TEXTS = {
    "T-V1": f"SELECT symbol, side, timestamp AS bucket, sum(amount) AS volume FROM trades WHERE {DAY} SAMPLE BY 1m "
    "ORDER BY symbol, side, bucket",
    "T-V2": f"SELECT symbol, side, timestamp AS bucket, sum(amount) AS volume FROM trades WHERE {MONTH} SAMPLE BY 1d "
    "ORDER BY symbol, side, bucket",
    "T-VWAP": f"SELECT timestamp AS bucket, sum(price * amount) / sum(amount) AS vwap FROM trades "
    f"WHERE symbol = 'BTC-USD' AND {DAY} SAMPLE BY 1m ORDER BY bucket",
    "O-T": "SELECT timestamp, b1p, b1s, a1p, a1s FROM books WHERE symbol = $symbol AND timestamp <= $instant "
    "ORDER BY timestamp DESC LIMIT 1",
    "O-B1": f"SELECT symbol, max(b1p) AS max_bid FROM books WHERE {WEEK} ORDER BY symbol",
    "O-B2": f"SELECT symbol, max(b1p) AS max_bid FROM books WHERE {MONTH} ORDER BY symbol",
    "O-S": f"SELECT symbol, timestamp, a1p - b1p AS spread FROM books WHERE {DAY}",
    "O-V1": depth(1, WEEK, "1m"),
    "O-V2": depth(5, MONTH, "1h"),
    "O-NBBO": f"SELECT symbol, max(b1p) AS best_bid, min(a1p) AS best_ask FROM books WHERE {NBBO} ORDER BY symbol",
    "C-R": returns("books", MID, DAY, "5m") + " ORDER BY symbol, bucket",
    "C-VT": volatility("trades", "price", DAY, "5m", "1h"),
    "C-VO1": volatility("books", MID, DAY, "5m", "1h"),
    "C-VO2": volatility("books", MID, WEEK, "1h", "4h"),
}


EXPORT = {f"cairo.{of}.compression.codec": "UNCOMPRESSED" for of in ("parquet.export", "partition.encoder.parquet")}
"""Parquet that travels on loopback isn't compressed, which it is by default."""
LARGE = ("O-S", "O-V1")
"""Queries whose answers come as Parquet."""


def literal(value) -> str:
    if isinstance(value, datetime.datetime):
        return f"'{value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z'"
    return "'" + value.replace("'", "''") + "'"


class Client:
    """One connection to the server, kept open."""

    def __init__(self, port: int):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3600)

    def get(self, path: str, **parameters) -> bytes:
        self.connection.request("GET", f"{path}?{urllib.parse.urlencode(parameters)}")
        reply = self.connection.getresponse()
        content = reply.read()
        if reply.status != 200:
            raise RuntimeError(content.decode(errors="replace")[:500])
        return content

    def run(self, text: str) -> list:
        """The rows of a statement."""
        return json.loads(self.get("/exec", query=text)).get("dataset", [])

    def prepare(self, question, parameters, variant):
        return self.asking(question.id, self.text(question, parameters, variant))

    def text(self, question, parameters, variant) -> str:
        from engine.question import render

        return render(TEXTS[question.id], parameters, variant, literal)

    def asking(self, id: str, text: str):
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyarrow import csv

        if id in LARGE:
            return lambda: pq.read_table(pa.BufferReader(self.get("/exp", query=text, fmt="parquet")))
        return lambda: csv.read_csv(pa.BufferReader(self.get("/exp", query=text)))


class Text:
    """Our texts in the place of a dialect."""

    def text(self, question, parameters, variant, own: str) -> str:
        from engine.question import render

        return render(own, parameters, variant, literal)

    def template(self, question, own: str) -> str:
        return own


class Engine(Base):
    name = "questdb"
    title = "QuestDB"
    requirements = ("numpy", "psycopg[binary]==3.3.9", "pyarrow==26.0.1")
    is_server = True
    settle_seconds = 10
    transport = "HTTP, CSV or Parquet"
    starts = "its server, a Java process started by the worker, bound to 127.0.0.1; asked over HTTP"
    best = (
        "Designated timestamps in nanoseconds, daily partitions, SYMBOL codes, no write-ahead log for one writer in order; "
        "`SAMPLE BY` and `last`; answers as CSV parsed by Arrow, large ones as Parquet; prepared over PostgreSQL's wire."
    )

    @classmethod
    def unavailable(cls, settings):
        return None if shutil.which("java") else "no Java: install a runtime of version 17 or newer"

    @classmethod
    def jar(cls, cache: pathlib.Path) -> pathlib.Path:
        return cache / f"questdb-{VERSION}.jar"

    @classmethod
    def fetch(cls, cache, settings) -> None:
        """The jar from Maven Central, checked against the digest published beside it."""
        jar = cls.jar(cache)
        if jar.exists():
            return
        try:
            content = urllib.request.urlopen(JAR, timeout=300).read()
            digest = urllib.request.urlopen(JAR + ".sha1", timeout=60).read().decode().split()[0]
        except OSError as error:
            raise Skipped(f"its jar can't be had from {JAR}: {error}") from error
        if hashlib.sha1(content).hexdigest() != digest:
            raise Skipped(f"the digest of {JAR} is wrong")
        cache.mkdir(parents=True, exist_ok=True)
        jar.with_suffix(".partial").write_bytes(content)
        jar.with_suffix(".partial").rename(jar)

    def version(self) -> str:
        return f"{VERSION}, Java {self.java_version()}"

    @staticmethod
    def java_version() -> str:
        import subprocess

        said = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
        return said.split('"')[1] if '"' in said else "?"

    def start(self, copy_root: pathlib.Path) -> Client:
        """Starts the server; files may be read below ``copy_root``."""
        self.port, self.wire_port = server.free_port(), server.free_port()
        conf = self.folder / "root" / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        settings = {
            "http.bind.to": f"127.0.0.1:{self.port}",
            "http.min.enabled": "false",
            "http.export.connection.limit": 256,
            "pg.net.bind.to": f"127.0.0.1:{self.wire_port}",
            "line.tcp.enabled": "false",
            "telemetry.enabled": "false",
            "shared.worker.count": self.threads,
            "cairo.sql.copy.root": copy_root,
        } | EXPORT
        (conf / "server.conf").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        jar = self.jar(pathlib.Path(self.settings["cache"]))
        log = self.folder / "server.log"
        command = ["java", "-XX:+UseParallelGC", "-p", jar, "-m", "io.questdb/io.questdb.ServerMain"]
        self.server = server.start([*command, "-d", self.folder / "root"], log)
        server.wait(self.server, self.is_up, log)
        return Client(self.port)

    def is_up(self) -> bool:
        try:
            return Client(self.port).run("SELECT 1") == [[1]]
        except OSError:
            return False

    def create(self, client: Client) -> None:
        for table, columns in COLUMNS.items():
            client.run(f"DROP TABLE IF EXISTS {table}")
            client.run(
                f"CREATE TABLE {table} (timestamp TIMESTAMP_NS, {columns}) TIMESTAMP(timestamp) PARTITION BY DAY BYPASS WAL"
            )

    def load(self, tables) -> None:
        client = self.start(next(iter(tables.values()))[0].parent)
        self.create(client)
        for table, paths in tables.items():
            for path in paths:
                client.run(f"INSERT INTO {table} SELECT * FROM read_parquet('{path.name}')")
        self.close()
        sync()

    def open(self) -> None:
        self.client = self.start(self.folder)

    def prepare(self, question, parameters, variant):
        return self.client.prepare(question, parameters, variant)

    def unseen(self, question, parameters, variant, mark: int):
        return self.client.asking(question.id, never_seen(self.client.text(question, parameters, variant), mark))

    def prepared(self, question, parameters, variant):
        if not hasattr(self, "wire"):
            address = f"host=127.0.0.1 port={self.wire_port} user=admin password=quest dbname=qdb"
            self.wire = WireClient(address, TEXTS, Text())
        return self.wire.prepared(question, parameters, variant)

    def session(self) -> Client:
        return Client(self.port)

    def write_open(self, files) -> None:
        self.client = self.start(next(iter(files.values())).parent)
        self.create(self.client)

    def write(self, files) -> None:
        """`COPY`, which reads a file with all workers; it runs by itself and is waited for."""
        for table, path in files.items():
            text = (
                f"COPY {table} FROM '{path.name}' WITH HEADER true TIMESTAMP 'timestamp' "
                "FORMAT 'yyyy-MM-ddTHH:mm:ss.SSSUUUZ' ON ERROR ABORT"
            )
            self.await_copy(self.client, self.start_copy(self.client, text))
        sync()

    @staticmethod
    def start_copy(client: Client, text: str) -> str:
        """The import's number. One import runs at a time, and the last may be over but not out of the way."""
        while True:
            try:
                return client.run(text)[0][0]
            except RuntimeError as error:
                if "another import" not in str(error):
                    raise
                time.sleep(0.01)

    @staticmethod
    def await_copy(client: Client, job: str) -> None:
        while True:
            rows = client.run(
                f"SELECT status, message FROM sys.text_import_log WHERE id = '{job}' AND phase IS NULL ORDER BY ts DESC LIMIT 1"
            )
            status = rows[0][0] if rows else "started"
            if status == "finished":
                return
            if status in ("failed", "cancelled"):
                raise RuntimeError(f"COPY {status}: {rows[0][1]}")
            time.sleep(0.01)

    def totals(self):
        return {name: self.client.run(text)[0][0] for name, text in TOTALS.items()}

    def size(self) -> int:
        from .base import folder_bytes

        return sum(folder_bytes(path) for table in COLUMNS for path in (self.folder / "root" / "db").glob(f"{table}*"))

    def close(self) -> None:
        if hasattr(self, "wire"):
            self.wire.close()
            del self.wire
        if hasattr(self, "server"):
            server.stop(self.server)
            del self.server
