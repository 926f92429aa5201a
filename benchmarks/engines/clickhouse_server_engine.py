"""ClickHouse as a server that the user names, asked over HTTP: the tables and texts of the embedded one.

A server is in none of the registries that this benchmark installs from, so it runs only where ``SPLAY_BENCH_CLICKHOUSE`` holds
the address of an empty database, such as ``http://default:password@127.0.0.1:8123/bench``. Rows go there as Parquet and CSV files,
which the server parses; answers come as Arrow streams without compression, by a connection that is kept open.

No server was there when this was written: it was run against chDB behind the same HTTP interface.
"""

import http.client
import json
import pathlib
import urllib.parse

from .base import TOTALS, sync
from .clickhouse_engine import ANSWERS, DIALECT, OWN, structure
from .clickhouse_engine import Engine as Embedded
from .translate import never_seen

VARIABLE = "SPLAY_BENCH_CLICKHOUSE"
ARRIVAL = "{first} + rowNumberInAllBlocks()"
IN_ORDER = {"max_threads": 1, "max_insert_threads": 1, "input_format_parquet_preserve_order": 1}


class Client:
    """One connection to the server."""

    def __init__(self, address: str, threads: int):
        found = urllib.parse.urlsplit(address)
        kind = http.client.HTTPSConnection if found.scheme == "https" else http.client.HTTPConnection
        self.connection = kind(found.hostname, found.port or 8123, timeout=7200)
        user, password = (urllib.parse.unquote(word or "") for word in (found.username, found.password))
        self.headers = {"X-ClickHouse-User": user or "default", "X-ClickHouse-Key": password}
        self.settings = {
            "database": found.path.strip("/") or "default",
            "max_threads": threads,
        } | ANSWERS

    def post(self, text: str, body=None, **settings) -> bytes:
        """What a statement gives; ``body`` are the rows of an insert.

        Raises
        ------
        RuntimeError
            With what the server says.
        """
        query = urllib.parse.urlencode(self.settings | settings | ({"query": text} if body is not None else {}))
        content = text.encode() if body is None else body
        headers = self.headers
        if hasattr(body, "fileno"):
            headers = headers | {"Content-Length": str(pathlib.Path(body.name).stat().st_size)}
        if body is not None:
            # Servers end connections that rest. A statement may be sent again, rows may not: they get a new one.
            self.connection.close()
        for attempt in range(2):
            try:
                self.connection.request("POST", f"/?{query}", content, headers)
                reply = self.connection.getresponse()
                break
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.connection.close()
                if attempt or body is not None:
                    raise
        answer = reply.read()
        if reply.status != 200 or reply.getheader("X-ClickHouse-Exception-Code"):
            raise RuntimeError(answer.decode(errors="replace")[:500])
        return answer

    def rows(self, text: str) -> list:
        return json.loads(self.post(f"{text} FORMAT JSONCompact"))["data"]

    def prepare(self, question, parameters, variant):
        return self.asking(DIALECT.text(question, parameters, variant, OWN.get(question.id)))

    def unseen(self, question, parameters, variant, mark: int):
        return self.asking(never_seen(DIALECT.text(question, parameters, variant, OWN.get(question.id)), mark))

    def asking(self, text: str):
        import pyarrow as pa

        return lambda: pa.ipc.open_stream(self.post(f"{text} FORMAT ArrowStream")).read_all()


class Engine(Embedded):
    name = "clickhouse-server"
    title = "ClickHouse (server)"
    requirements = ("numpy", "pyarrow==26.0.1")
    is_server = True
    is_remote = True
    starts = f"a server named by {VARIABLE}, asked over HTTP"
    transport = "HTTP, Arrow"

    @classmethod
    def unavailable(cls, settings):
        return None if settings.get("clickhouse") else f"in no package registry; {VARIABLE} doesn't name a server"

    def connect(self) -> Client:
        return Client(self.settings["clickhouse"], self.threads)

    @property
    def client(self) -> Client:
        if not hasattr(self, "connected"):
            self.connected = self.connect()
        return self.connected

    def version(self) -> str:
        return self.client.rows("SELECT version()")[0][0]

    def run(self, text: str) -> None:
        self.client.post(text)

    def insert(self, table: str, kind: str, body, first: int, **settings) -> None:
        source = f"input('{structure(table)}')"
        text = f"INSERT INTO {table} SELECT *, {ARRIVAL.format(first=first)} FROM {source} FORMAT {kind}"
        self.client.post(text, body, **settings)

    def load(self, tables) -> None:
        self.create()
        for table, paths in tables.items():
            for number, path in enumerate(paths):
                self.insert(table, "Parquet", path.read_bytes(), number * 1_000_000_000, **IN_ORDER)
            self.run(f"OPTIMIZE TABLE {table} FINAL")
        sync()

    def open(self) -> None:
        self.run("SELECT 1")

    def size(self) -> int:
        text = "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase()"
        return int(self.client.rows(f"{text} AND table IN ('trades', 'books')")[0][0])

    def prepare(self, question, parameters, variant):
        return self.client.prepare(question, parameters, variant)

    def unseen(self, question, parameters, variant, mark: int):
        return self.client.unseen(question, parameters, variant, mark)

    def session(self) -> Client:
        return self.connect()

    def engine_ms(self) -> None:
        """The server tells its time only once an answer is whole, which it would have to hold back for that."""

    def write(self, files) -> None:
        for table, path in files.items():
            with open(path, "rb") as body:
                self.insert(table, "CSVWithNames", body, 0, date_time_input_format="best_effort", max_insert_threads=self.threads)
        sync()

    def totals(self):
        return {name: float(self.client.rows(text)[0][0]) for name, text in TOTALS.items()}

    def close(self) -> None:
        if hasattr(self, "connected"):
            self.connected.connection.close()
            del self.connected
