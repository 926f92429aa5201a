"""All ways in of `splay serve`, as senders that outlive it: each notes what was acknowledged, and what became of what was not.

A sender with a producer's name sends what has no answer again under the same number, so each of its batches is there once. One
without does not send again: its batch is there as a whole or not at all. Line protocol over TCP has no answers: of the lines of
a connection a beginning is there, no shorter than what a statement has seen.
"""

from __future__ import annotations

import collections
import contextlib
import http.client
import json
import socket
import threading
import time
import urllib.parse

import adbc_driver_flightsql.dbapi as adbc
import adbc_driver_manager
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.flight as flight
from long_rows import COLUMNS, TABLES, Shape, arrow_stream, csv, line_protocol, ndjson, record_batch, texts

ANSWER_SECONDS_MAX = 300
"""Test machines may be busy: nothing here depends on how long an answer takes."""

Broken = (OSError, http.client.HTTPException, pa.ArrowException, adbc_driver_manager.Error, psycopg.OperationalError)
"""How clients say that the server has gone."""


class Unanswered(Exception):
    """Nobody knows whether the batch was taken."""


class Wrong(AssertionError):
    """An answer that goes against what is promised."""


class Way:
    """Sends batches one after the other in a thread of its own until it is told to end.

    `acknowledged` has every batch below it, but those in `unsure`, and `partial` ones that have that many rows.
    """

    has_producer = False

    def __init__(self, way: int, shape: Shape, addresses: dict[str, str], a_second: float = 0):
        self.way, self.shape, self.addresses, self.a_second = way, shape, addresses, a_second
        self.next, self.acknowledged, self.sent = 0, 0, 0
        self.unsure: set[int] = set()
        self.partial: dict[int, int] = {}
        self.refused = 0
        self.failure: BaseException | None = None
        self.is_over = threading.Event()
        self.thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        return type(self).__name__

    def table(self, number: int) -> str:
        return TABLES[number % len(TABLES)]

    def ack(self, number: int) -> str:
        return ("process", "disk")[number // 2 % 2]

    def start(self) -> None:
        self.is_over.clear()
        self.thread = threading.Thread(target=self.run, name=self.name, daemon=True)
        self.thread.start()

    def end(self) -> None:
        self.is_over.set()

    def join(self) -> None:
        if self.thread:
            self.thread.join(2 * ANSWER_SECONDS_MAX)
            if self.thread.is_alive():
                raise Wrong(f"{self.name} waits for an answer still")
        if self.failure:
            raise self.failure

    def run(self) -> None:
        try:
            while not self.is_over.is_set():
                begun = time.monotonic()
                self.step()
                if self.a_second:
                    self.is_over.wait(max(0, 1 / self.a_second - (time.monotonic() - begun)))
        except BaseException as failure:
            self.failure = failure
        finally:
            self.close()

    def step(self) -> None:
        """Sends the next batch, and notes its answer."""
        number = self.next
        self.sent = max(self.sent, number + 1)
        try:
            self.send(number)
        except (Unanswered, *Broken):
            self.close()
            if not self.has_producer:
                self.unsure.add(number)
                self.next = self.acknowledged = number + 1
            self.is_over.wait(0.01)
            return
        self.next = self.acknowledged = number + 1

    def send(self, number: int) -> None:
        """Returns once the batch is acknowledged."""
        raise NotImplementedError

    def close(self) -> None:
        """Lets go of the connection."""


class Http(Way):
    """By HTTP, on one connection while it holds."""

    connection: http.client.HTTPConnection | None = None

    def post(self, path: str, body: bytes, **headers: str) -> tuple[int, dict[str, str], bytes]:
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.addresses["http"], timeout=ANSWER_SECONDS_MAX)
        self.connection.request("POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = self.connection.getresponse()
        told = answer.read()
        if answer.status >= 500 or answer.status == 408:
            self.refused += 1
            raise Unanswered(told)
        if answer.status >= 300:
            raise Wrong(f"{self.name}: {answer.status} {told[:500]!r}")
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, told

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def write(self, number: int, body: bytes, **parameters: str) -> None:
        asked = {"table": self.table(number), "ack": self.ack(number), **parameters}
        if self.has_producer:
            asked |= {"producer": self.name, "sequence": str(number + 1)}
        _, _, told = self.post("/api/v1/write?" + urllib.parse.urlencode(asked), body)
        answer, rows = json.loads(told), self.shape.size(self.way, number)
        if (answer["rows"], answer["class"], answer["quarantined"]) != (rows, asked["ack"], 0):
            raise Wrong(f"{self.name} {number}: {answer}")


class HttpArrow(Http):
    has_producer = True

    def send(self, number: int) -> None:
        self.write(number, arrow_stream(self.shape.columns(self.way, number)), symbol="sym")


class HttpCsv(Http):
    has_producer = True
    types = "time:timestamp,sym:symbol,way:int64,number:int64,place:int64,price:float64"

    def send(self, number: int) -> None:
        self.write(number, csv(self.shape.columns(self.way, number)), format="csv", types=self.types)


class HttpJson(Http):
    def send(self, number: int) -> None:
        self.write(number, ndjson(self.shape.columns(self.way, number)), format="ndjson", types=HttpCsv.types)


class HttpLine(Http):
    """As InfluxDB's clients of version 2, with a producer in the headers. A body has rows of both tables."""

    has_producer = True

    def send(self, number: int) -> None:
        body = line_protocol([self.table(number), self.table(number + 1)], self.shape.columns(self.way, number))
        headers = {"splay_producer": self.name, "splay_sequence": str(number + 1)}
        _, told, _ = self.post(f"/api/v2/write?precision=ns&ack={self.ack(number)}", body, **headers)
        if told["splay-rows"] != str(self.shape.size(self.way, number)) or told["splay-quarantined"] != "0":
            raise Wrong(f"{self.name} {number}: {told}")


class HttpLineVersion1(Http):
    """As InfluxDB's clients of version 1, which know of no numbers."""

    def send(self, number: int) -> None:
        body = line_protocol(list(TABLES), self.shape.columns(self.way, number))
        self.post(f"/write?db=any&precision=n&ack={self.ack(number)}", body)


class TcpLine(Way):
    """Line protocol over TCP. What a statement saw is told by `seen`."""

    connection: socket.socket | None = None
    ahead_max = 64
    """Batches that nobody has seen yet."""

    def table(self, number: int) -> str:
        return TABLES[0]

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.next_ahead = threading.Event()

    def step(self) -> None:
        if self.next - self.acknowledged >= self.ahead_max:
            self.next_ahead.wait(0.1)
            self.next_ahead.clear()
            return
        try:
            self.send(self.next)
        except OSError:
            # Until `settle` has said how far the server came nothing more may be sent.
            self.is_over.set()

    def send(self, number: int) -> None:
        if self.connection is None:
            host, _, port = self.addresses["line"].rpartition(":")
            self.connection = socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS_MAX)
        self.sent = max(self.sent, number + 1)
        self.next = number + 1
        first = self.partial.pop(number, 0)
        columns = self.shape.columns(self.way, number, first)
        self.connection.sendall(line_protocol([self.table(number)], columns))

    def seen(self, rows: list[tuple[int, int]]) -> None:
        """All batches that a statement found, with their rows."""
        found = dict(rows)
        while self.acknowledged < self.sent and found.get(self.acknowledged) == self.shape.size(self.way, self.acknowledged):
            self.acknowledged += 1
        self.next_ahead.set()

    def settle(self, found: dict[int, int]) -> None:
        """Where to go on after the end of a server, which has these rows of batches from `acknowledged` on."""
        while found.get(self.acknowledged, 0) == self.shape.size(self.way, self.acknowledged) and self.acknowledged < self.sent:
            self.acknowledged += 1
        self.next = self.acknowledged
        self.partial = {self.next: found[self.next]} if found.get(self.next) else {}
        if beyond := [number for number in found if number > self.acknowledged]:
            raise Wrong(f"{self.name}: {beyond[:5]} are there, {self.acknowledged} before them isn't whole")

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class FlightPut(Way):
    """Flight's DoPut with a producer, some batches ahead of their acks."""

    has_producer = True
    ahead_max = 4

    def table(self, number: int) -> str:
        return TABLES[number // 8 % len(TABLES)]

    def ack(self, number: int) -> str:
        return ("process", "disk")[number // 16 % 2]

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.client: flight.FlightClient | None = None
        self.puts: dict[tuple[str, str], tuple] = {}
        self.waiting: collections.deque[tuple[int, tuple[str, str]]] = collections.deque()

    def step(self) -> None:
        try:
            if self.next < self.acknowledged:
                self.next = self.acknowledged
            key = self.table(self.next), self.ack(self.next)
            # Numbers of a producer ascend over its streams: what waits on another one has to be answered first.
            while self.waiting and (self.waiting[0][1] != key or len(self.waiting) >= self.ahead_max):
                self.answer()
            self.send(self.next)
            self.next += 1
        except Broken as error:
            self.close()
            if isinstance(error, pa.ArrowInvalid):
                raise Wrong(f"{self.name} {self.next}: {error}") from error
            self.next = self.acknowledged
            self.is_over.wait(0.01)

    def send(self, number: int) -> None:
        batch = record_batch(self.shape.columns(self.way, number))
        key = self.table(number), self.ack(number)
        if self.client is None:
            self.client = flight.connect("grpc://" + self.addresses["flight"])
        if key not in self.puts:
            headers = [(b"splay-ack", key[1].encode()), (b"splay-producer", self.name.encode())]
            options = flight.FlightCallOptions(headers=headers, timeout=24 * 3_600)
            self.puts[key] = self.client.do_put(flight.FlightDescriptor.for_path(key[0]), batch.schema, options)
        self.sent = max(self.sent, number + 1)
        self.puts[key][0].write_with_metadata(batch, json.dumps({"sequence": number + 1}).encode())
        self.waiting.append((number, key))

    def answer(self) -> None:
        number, key = self.waiting[0]
        told = self.puts[key][1].read()
        if told is None:
            raise pa.ArrowException("the stream has ended")
        answer, rows = json.loads(told.to_pybytes()), self.shape.size(self.way, number)
        if (answer["rows"], answer["class"], answer["quarantined"]) != (rows, key[1], 0):
            raise Wrong(f"{self.name} {number}: {answer}")
        self.waiting.popleft()
        self.acknowledged = number + 1

    def run(self) -> None:
        super().run()
        self.next = self.acknowledged

    def close(self) -> None:
        while self.waiting and self.is_over.is_set() and self.failure is None:
            try:
                self.answer()
            except Broken:
                break
        self.waiting.clear()
        for writer, _ in self.puts.values():
            with contextlib.suppress(*Broken):
                writer.close()
        self.puts.clear()
        if self.client is not None:
            self.client.close()
            self.client = None


class FlightSqlIngest(Way):
    """Flight SQL's bulk ingestion by ADBC's driver, which has no producers: a batch each call."""

    connection: adbc.Connection | None = None

    def send(self, number: int) -> None:
        if self.connection is None:
            self.connection = adbc.connect("grpc://" + self.addresses["flight"], autocommit=True)
        batch = record_batch(self.shape.columns(self.way, number))
        with self.connection.cursor() as cursor:
            cursor.adbc_ingest(self.table(number), pa.Table.from_batches([batch]), mode="create_append")

    def close(self) -> None:
        if self.connection is not None:
            with contextlib.suppress(*Broken):
                self.connection.close()
            self.connection = None


def with_written_times(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The rows with times as PostgreSQL's clients write them."""
    return columns | {"time": np.datetime_as_string(columns["time"].astype("datetime64[ns]"))}


class Postgres(Way):
    """By PostgreSQL's wire, which has no producers: a batch each statement."""

    connection: psycopg.Connection | None = None

    def send(self, number: int) -> None:
        if self.connection is None:
            host, _, port = self.addresses["postgres"].rpartition(":")
            self.connection = psycopg.connect(host=host, port=int(port), user="any", dbname="any", autocommit=True)
        try:
            self.write(number)
        except psycopg.errors.UndefinedTable as error:
            # Until another way has made the table.
            raise Unanswered(str(error)) from error

    def write(self, number: int) -> None:
        """Sends the batch by a statement of its own."""
        raise NotImplementedError

    def close(self) -> None:
        if self.connection is not None:
            with contextlib.suppress(*Broken):
                self.connection.close()
            self.connection = None


class PostgresCopy(Postgres):
    """`COPY ... FROM STDIN`, as CSV."""

    def write(self, number: int) -> None:
        statement = f"COPY {self.table(number)} ({', '.join(COLUMNS)}) FROM STDIN (FORMAT csv, HEADER)"
        with self.connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(csv(with_written_times(self.shape.columns(self.way, number))))


class PostgresInsert(Postgres):
    """`INSERT ... VALUES` with the rows in its text."""

    def write(self, number: int) -> None:
        rows = texts(with_written_times(self.shape.columns(self.way, number)))
        values = ", ".join(f"('{row[0]}', '{row[1]}', {', '.join(map(str, row[2:]))})" for row in rows)
        self.connection.execute(f"INSERT INTO {self.table(number)} ({', '.join(COLUMNS)}) VALUES {values}")


WAYS = (FlightPut, HttpArrow, HttpCsv, HttpJson, HttpLine, HttpLineVersion1, TcpLine, FlightSqlIngest, PostgresCopy, PostgresInsert)


def all_ways(shape: Shape, addresses: dict[str, str], a_second: float = 0) -> list[Way]:
    return [way(at, shape, addresses, a_second) for at, way in enumerate(WAYS)]
