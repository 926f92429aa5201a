"""A client of ``splay serve``, over HTTP: statements, frames, and writers of rows that come one by one.

>>> import splay
>>> db = splay.connect("http://127.0.0.1:7750")                  # doctest: +SKIP
>>> db.sql("select count(*) from trade").to_pandas()              # doctest: +SKIP
>>> with db.tick("trade") as trades:                              # doctest: +SKIP
...     trades.append(ts_event=1_700_000_000_000_000_000, symbol="BTC-USD", price=37_000.5, size=0.25)

Needs pyarrow and nothing else that isn't in Python's standard library; the compiled module is not used.
"""

import dataclasses
import datetime
import decimal
import http.client
import json
import math
import ssl
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow
import pyarrow.ipc

from splay import errors, subscription
from splay._ack import Ack
from splay._elsewhere import DATABASE, PREPARED, TABLES, refusal
from splay._answers import AnswerMethods, TableMethods, dropped
from splay._html import SHOWN_TABLES, database_html, table_html
from splay._shown import database_text, order_text, size_text, span_of, table_text
from splay._http import Address, Connections, broken_as_unreachable
from splay.subscription import Subscription
from splay.writer import (
    ACK_CLASSES,
    BATCH_ROWS,
    LINGER_MS,
    RETRY_SECONDS,
    AckClass,
    AsyncTickWriter,
    OnReject,
    TickWriter,
    as_table,
)

if TYPE_CHECKING:
    import pandas
    import polars

    from splay.frames.frame import Frame

TIMEOUT_SECONDS = 60.0
"""Seconds for which a connection may stand still before it is given up."""

_ARROW_STREAM = "application/vnd.apache.arrow.stream"


def connect(
    url: str,
    token: str | None = None,
    *,
    timeout_seconds: float = TIMEOUT_SECONDS,
    tls: ssl.SSLContext | None = None,
) -> "Client":
    """A client of the server at `url`. Nothing is sent before the first call.

    Parameters
    ----------
    url
        Such as ``"http://127.0.0.1:7750"`` or ``"https://ticks.example.com"``.
    token
        What the server asks of its clients, if it does.
    timeout_seconds
        Seconds for which a connection may stand still. A write with an ack of class ``disk`` waits for a sync.
    tls
        Certificates to trust, where the system's are not those.

    Raises
    ------
    SettingError
        If `url` isn't one of HTTP.
    """
    return Client(Address(url, token, timeout_seconds, tls))


class Client:
    """A database that a server holds. Made by :func:`connect`. Threads may share it.

    Connections are used again; :meth:`close`, or the end of a ``with`` block, closes those that are kept for that.
    """

    def __init__(self, address: Address):
        self._address, self._connections = address, Connections(address)
        self._transport = HttpTransport(address, self._connections)

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._address.url

    def sql(self, statement: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> "RemoteAnswer":
        """Run a statement.

        Parameters
        ----------
        statement
            A query.
        params
            Values for ``$1``, ``$2`` as a sequence, or for ``$name`` as a dict: None, booleans, numbers, texts, dates and
            times. Dates and times go as text, so cast them where they are computed with, ``time - $1::timestamp``; a ``datetime`` without
            a zone is taken as UTC. ``Decimal`` goes as a float.

        Returns
        -------
        RemoteAnswer
            Batches as they come, to be read once.

        Raises
        ------
        StatementError, NoSuchTableError, ReadOnlyError, MemoryLimitError, ExecutionError
            As :meth:`splay.Database.sql`.
        AccessError
            If the server wants another token.
        UnreachableError
            If no server answers.
        TypeError, OverflowError
            If a value can't be a parameter; the message names the placeholder.
        """
        body: dict[str, Any] = {"sql": statement, "format": "arrow"}
        if params is not None:
            if isinstance(params, str):
                raise TypeError("params must be a list or a dict of values, not one str")
            if isinstance(params, Mapping):
                body["params"] = {name: _parameter(name, value) for name, value in params.items()}
            else:
                body["params"] = [_parameter(place, value) for place, value in enumerate(params, start=1)]
        connection = self._connections.take()
        headers = {"Content-Type": "application/json", "Accept": _ARROW_STREAM}
        try:
            response = self._address.request(connection, "POST", "/query", json.dumps(body).encode(), headers)
            return RemoteAnswer(self._connections, connection, response)
        except BaseException:
            connection.close()
            raise

    def tables(self) -> list[str]:
        """Names of its tables, sorted.

        Raises
        ------
        AccessError
            If the server wants another token.
        UnreachableError
            If it doesn't answer.
        """
        return sorted(str(table["name"]) for table in self._get("/tables"))

    def table(self, name: str) -> "RemoteTable":
        """What a table is. Its rows are ``client[name]``, a lazy frame.

        Raises
        ------
        NoSuchTableError
            If there is none.
        """
        return RemoteTable(self._get("/tables/" + urllib.parse.quote(name, safe="")), self)

    def __getitem__(self, name: str) -> "Frame":
        """A lazy frame of a table or view."""
        from splay.frames.opening import table_frame

        return table_frame(self, name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in (table.lower() for table in self.tables())

    def _ipython_key_completions_(self) -> list[str]:
        return self.tables()

    def __iter__(self) -> Iterator[str]:
        """Names of its tables, sorted."""
        return iter(self.tables())

    def prepare(self, statement: str) -> "RemotePrepared":
        """A statement that is run many times with other values for its placeholders. The server is asked when it runs.

        Parameters
        ----------
        statement
            A query, with ``$1``, ``$2`` or ``$name`` for the values.
        """
        return RemotePrepared(self, statement)

    def _get(self, path: str) -> Any:
        """What a path of the server says, of JSON."""
        connection = self._connections.take()
        try:
            response = self._address.request(connection, "GET", path, None, {})
            with broken_as_unreachable("the answer broke off"):
                body = response.read()
        except BaseException:
            connection.close()
            raise
        self._connections.give_back(connection)
        try:
            return json.loads(body)
        except ValueError as error:
            raise errors.UnreachableError(f"this isn't an answer of a SplayDB server: {error}") from error

    def last_number(self, producer: str) -> int | None:
        """The number of the last batch of a producer that was taken, which is on disk then; None if it is not known.

        What has higher numbers was not taken: a producer that starts again goes on behind it.

        Raises
        ------
        AccessError
            If the server wants another token.
        UnreachableError
            If it doesn't answer.
        """
        answer = self._get("/api/v1/write?" + urllib.parse.urlencode({"producer": producer}, quote_via=urllib.parse.quote))
        try:
            number = answer["sequence"]
            return None if number is None else int(number)
        except (ValueError, KeyError, TypeError) as error:
            raise errors.UnreachableError(f"this isn't an answer of a SplayDB server: {error}") from error

    def write(
        self,
        table: str,
        rows: Any,
        ack: AckClass = "disk",
        *,
        time: str | None = None,
        symbol: str | None = None,
        time_zone: str | None = None,
        day_start: str | None = None,
        create: bool = True,
    ) -> Ack:
        """Store rows, all of them or none, in one message. For more than a message holds take :meth:`tick`.

        Nothing is sent a second time: after :class:`splay.UnreachableError` the rows are not stored, or perhaps stored.

        Parameters
        ----------
        table
            Its name. It is made if there is none and the server allows that: its time column is the first timestamp, its
            symbol column the first dictionary (category), else texts named ``sym``, ``symbol``, ``ticker`` or similar, or none.
        rows
            Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``.
        ack
            What the ack shall promise: ``"memory"``: the rows are visible to queries; ``"process"``: they survive the end of
            the server's process; ``"disk"``: they survive the loss of power; ``"replica"``: they are on a follower's disk, too.

        Raises
        ------
        RejectedError
            If the rows don't fit the table.
        TooLargeError
            If the server takes no message of this size.
        FullError, BusyError, UnreachableError
            If it may succeed later.
        AccessError
            If the server wants another token.
        TypeError
            If `rows` doesn't speak the Arrow C interface.
        """
        wishes = {
            "time": time,
            "symbol": symbol,
            "time_zone": time_zone,
            "day_start": day_start,
            "create": None if create else "false",
        }
        return self._transport.send(table, as_table(rows), ack, wishes=wishes)

    def tick(
        self,
        table: str,
        *,
        ack: AckClass = "disk",
        batch_rows: int = BATCH_ROWS,
        linger_ms: float | None = LINGER_MS,
        buffer_rows: int | None = None,
        producer: str | None = None,
        sequence: int | None = None,
        types: Mapping[str, str] | None = None,
        retry_seconds: float | None = RETRY_SECONDS,
        on_reject: OnReject | None = None,
    ) -> TickWriter:
        """A writer for rows that come one by one; its parameters are those of :class:`splay.writer.TickWriter`.

        Returns
        -------
        TickWriter
            With a connection and a thread of its own. Close it, or use it in a ``with`` block.

        Raises
        ------
        SettingError
            If a parameter has a value it can't have.
        """
        return TickWriter(
            HttpTransport(self._address, Connections(self._address)),
            table,
            ack=ack,
            batch_rows=batch_rows,
            linger_ms=linger_ms,
            buffer_rows=buffer_rows,
            producer=producer,
            sequence=sequence,
            types=types,
            retry_seconds=retry_seconds,
            on_reject=on_reject,
        )

    def tick_async(self, table: str, **settings: Any) -> AsyncTickWriter:
        """The same for coroutines; takes the parameters of :meth:`tick`."""
        return AsyncTickWriter(self.tick(table, **settings))

    def subscribe(
        self,
        tables: str | Sequence[str],
        *,
        symbols: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        start: str = "snapshot",
        after: int | None = None,
        slow: str = "snapshot",
        credit: int | None = 16,
        replay: Mapping[str, Any] | None = None,
        bars: Mapping[str, Any] | None = None,
    ) -> Subscription:
        """Follow a table: its newest date as a snapshot, then each batch as it comes.

        Parameters
        ----------
        tables
            The table; several for a replay.
        symbols, columns
            What of it; all if not given.
        start
            ``"snapshot"``, or ``"now"`` for what comes from now on.
        after
            Go on behind the update of this number, without loss or repeat; goes before `start`.
        slow
            What becomes of a subscriber that reads more slowly than rows come: ``"snapshot"`` drops what waits and gives a new
            snapshot, ``"disconnect"`` raises :class:`BusyError`, ``"catch_up"`` gives everything, late, from the journal.
        credit
            Updates that the server sends before the first of them is taken. None: any number.
        replay
            A day instead of what comes: ``{"date": "2024-03-10", "speed": 10}``; also ``from``, ``to``, ``batch_ms``, ``recorded``.
        bars
            Bars instead of rows: ``{"every": "1m", "price": "price", "size": "size"}``; also ``late``.

        Returns
        -------
        Subscription
            With a connection of its own.

        Raises
        ------
        NoSuchTableError, RejectedError, AccessError, UnreachableError, ServerError
            As the server has it.
        """
        request = subscription.ask(
            tables if isinstance(tables, str) else list(tables),
            symbols=None if symbols is None else list(symbols),
            columns=None if columns is None else list(columns),
            start=start,
            after=after,
            slow=slow,
            credit=credit,
            replay=None if replay is None else dict(replay),
            bars=None if bars is None else dict(bars),
        )
        return Subscription(self._address, request)

    def _tables(self) -> tuple[list[tuple[str, str, str]], int]:
        """Name, rows and dates of the tables that are shown, and how many there are; what failed if the server doesn't answer."""
        try:
            tables = sorted(self._get("/tables"), key=lambda table: str(table["name"]))
            lines = [(str(table["name"]), size_text(table["rows"], None, None), _dates(table)) for table in tables[:SHOWN_TABLES]]
            return lines, len(tables)
        except (errors.Error, LookupError, TypeError, ValueError) as error:
            return [(type(error).__name__, str(error), "")], 1

    def _repr_html_(self) -> str:
        return database_html("splay.Client", self.url, self._tables()[0])

    if not TYPE_CHECKING:
        __getattr__ = refusal("a client", {**DATABASE, "load": "write(name, frame), or splay load where the server is"}, TABLES)

    def close(self) -> None:
        """Close the connections that nobody uses. The client may be used on."""
        self._connections.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        lines, count = self._tables()
        return database_text("Client", self.url, lines, count - len(lines))


class RemotePrepared:
    """A statement to be run with values, made by :meth:`Client.prepare`."""

    def __init__(self, client: Client, text: str):
        self.text: str = text
        """The statement."""
        self._client = client

    def run(self, params: Sequence[Any] | Mapping[str, Any] | None = None) -> "RemoteAnswer":
        """Run it; as :meth:`Client.sql` in all but the text."""
        return self._client.sql(self.text, params)

    if not TYPE_CHECKING:
        __getattr__ = refusal("a prepared statement", PREPARED)


@dataclasses.dataclass(frozen=True)
class RemotePartition:
    """Rows of one date, as a server counts them."""

    date: datetime.date
    """The date, in the table's time zone."""
    rows: int
    """Its rows, those in memory among them."""
    segments: int
    """Its segments."""
    bytes: int
    """Bytes of those and their indexes."""


class RemoteTable(TableMethods):
    """What a server says of a table, at the time of the question. Its rows are read by the methods of a local table."""

    def __init__(self, description: Mapping[str, Any], database: Client):
        self.database: Client = database
        """The client that asked."""
        self.name: str = description["name"]
        """Its name as it was made."""
        self.columns: dict[str, str] = {column["name"]: column["type"] for column in description["columns"]}
        """Types of its columns by name, without the virtual column ``date``."""
        self.time: str | None = description["time"]
        """Name of the time column; None of a reference table without one."""
        self.key: list[str] | None = description.get("key")
        """Columns of the key of a reference table; None of other tables."""
        self.symbol: str | None = description["symbol"]
        """Name of the symbol column, by which rows are ordered before time."""
        self.time_zone: str = description["time_zone"]
        """IANA time zone in which a row's date is taken."""
        self.day_start: str = description.get("day_start", "00:00")
        """When a date begins by the clock of that zone: ``"17:00"`` of the day before, or ``"00:00"``."""
        self.rows: int = description["rows"]
        """Rows of all partitions."""
        self.bytes: int = description["bytes"]
        """Bytes of all segments and indexes."""
        self.dates: tuple[str, str] | None = (description["first_date"], description["last_date"]) if description["first_date"] else None
        """First and last date, None of a table without rows."""
        self._partition_count: int | None = description.get("partitions")

    @property
    def partitions(self) -> list[RemotePartition]:
        """Partitions by date, as the server has them now; of more than 1,000 the newest. ``AccessError`` if the user may not read the whole table."""
        path = f"/tables/{urllib.parse.quote(self.name, safe='')}/storage"
        return [
            RemotePartition(datetime.date.fromisoformat(one["date"]), one["rows"], one["segments"], one["bytes"])
            for one in reversed(self.database._get(path)["partitions"])
        ]

    def rename(self, name: str) -> "RemoteTable":
        """Give the table another name, by one commit, and give the table of that name.

        Parameters
        ----------
        name
            The new name.

        Raises
        ------
        InvalidNameError
            If a table or a view has the name, or it can't be one.
        ExecutionError
            If views read the table, or it keeps the rows of one.
        BusyError
            If the server has captured rows of the table that are in no file yet.
        """
        from splay.frames.text import identifier

        self._change("ALTER TABLE", f"RENAME TO {identifier(name)}")
        return self.database.table(name)

    def retain(self, *, days: int | None = None, bytes: int | str | None = None) -> None:
        """Set how long rows stay; without bounds for ever. The server removes whole dates, within ten minutes; the newest stays.

        Parameters
        ----------
        days
            Days that the table has, the newest date's among them.
        bytes
            Bytes that its files may have: a number, or a size such as ``"2G"``, in powers of 1,024.
        """
        self.set_options(retain_days=days, retain_bytes=bytes)

    def set_partition(self, period: Literal["day", "month", "year", "all"]) -> None:
        """Change what a partition spans, by one commit that writes all rows anew. Commits from before can't be undone or read any more.

        Raises
        ------
        BusyError
            If the server captures rows into the table.
        """
        from splay.frames.text import identifier

        self._change("ALTER TABLE", f"PARTITION BY {identifier(period)}")

    def _facts(self) -> list[str]:
        """Rows and order, as the server told them."""
        return [size_text(self.rows, self._partition_count, self.dates), order_text(self.time, self.symbol, self.key)]

    def __repr__(self) -> str:
        return table_text(f'splay.RemoteTable "{self.name}": {", ".join(self._facts())}', self.frame())

    def _repr_html_(self) -> str:
        told = [] if self.bytes is None else [f"{self.bytes:,} bytes"]
        return table_html("splay.RemoteTable", self.name, [*self._facts(), *told], self.frame())


class RemoteAnswer(AnswerMethods):
    """The answer to a statement: batches as they come from the server.

    It is read as :class:`splay.Answer` is: once, by :meth:`to_arrow`, :meth:`to_pandas`, :meth:`to_polars`, iteration, or a
    library that takes Arrow streams. Two things differ: ``schema`` is pyarrow's, and there are no ``stats``. An answer that is
    dropped or left in the middle closes its connection, which stops the statement.
    """

    def __init__(
        self, connections: Connections, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ):
        self._connections, self._connection, self._response = connections, connection, response
        with broken_as_unreachable("the answer broke off"):
            self._reader = pyarrow.ipc.open_stream(response)
        self._is_consumed = False

    @property
    def schema(self) -> pyarrow.Schema:
        """Columns with their types, known before the first row."""
        return self._reader.schema

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        names: list[str] = self._reader.schema.names
        return names

    def to_arrow(self) -> pyarrow.Table:
        """All rows; shape: rows of the answer by its columns.

        Raises
        ------
        UnreachableError
            If the answer breaks off, because the connection or the statement failed: what came is not returned.
        ConsumedError
            If the rows were read before.
        """
        return pyarrow.Table.from_batches(list(self), self.schema)

    def to_pandas(self, **options: Any) -> "pandas.DataFrame":
        """All rows as pandas has them, with a ``RangeIndex``. Raises as :meth:`to_arrow`.

        Parameters
        ----------
        **options
            Those of ``pyarrow.Table.to_pandas``, such as ``types_mapper``.
        """
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> "polars.DataFrame":
        """All rows as Polars has them. Raises as :meth:`to_arrow`."""
        import polars

        return polars.DataFrame(self.to_arrow())

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        """The rows batch by batch, without collecting them. Raises as :meth:`to_arrow`."""
        if self._is_consumed:
            raise errors.ConsumedError("the rows of this answer were read before; run the statement again")
        self._is_consumed = True
        return self._batches()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for whoever takes Arrow streams."""
        return pyarrow.RecordBatchReader.from_batches(self.schema, iter(self)).__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The schema for whoever takes Arrow schemas."""
        return self.schema.__arrow_c_schema__()

    def __enter__(self) -> "RemoteAnswer":
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the statement, if nobody has read its rows."""
        if not self._is_consumed:
            dropped(self)
            self._response.close()
            self._connection.close()

    @property
    def _was_read(self) -> bool:
        return self._is_consumed

    def _batches(self) -> Iterator[pyarrow.RecordBatch]:
        try:
            with broken_as_unreachable("the answer broke off"):
                yield from self._reader
                # Arrow takes the end of the bytes for the end of the rows; HTTP knows whether it was.
                self._response.read()
        except BaseException:
            # One of them has the socket.
            self._response.close()
            self._connection.close()
            raise
        self._connections.give_back(self._connection)


class HttpTransport:
    """Takes batches to a server, over connections that are made anew after a failure."""

    def __init__(self, address: Address, connections: Connections):
        self._address, self._connections = address, connections

    def write_batch(self, table: str, rows: pyarrow.Table, ack: AckClass, producer: str, sequence: int) -> Ack:
        """As :meth:`splay.writer.Transport.write_batch`."""
        return self.send(table, rows, ack, producer, sequence)

    def send(
        self,
        table: str,
        rows: pyarrow.Table,
        ack: AckClass,
        producer: str | None = None,
        sequence: int | None = None,
        wishes: Mapping[str, str | None] | None = None,
    ) -> Ack:
        """Send one message and wait for its ack."""
        if ack not in ACK_CLASSES:
            error = errors.SettingError(f"ack: {ack!r} is none of {', '.join(ACK_CLASSES)}")
            error.setting = "ack"
            raise error
        query: dict[str, str | int] = {"table": table, "ack": ack}
        if producer is not None and sequence is not None:
            query |= {"producer": producer, "sequence": sequence}
        query |= {name: wish for name, wish in (wishes or {}).items() if wish is not None}
        sink = pyarrow.BufferOutputStream()
        # A stream has one dictionary for a column, as one batch has.
        rows = rows.combine_chunks().unify_dictionaries()
        with pyarrow.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        body = sink.getvalue()
        path = "/api/v1/write?" + urllib.parse.urlencode(query, quote_via=urllib.parse.quote)
        headers = {"Content-Type": _ARROW_STREAM, "Content-Length": str(body.size)}
        connection = self._connections.take()
        try:
            response = self._address.request(connection, "POST", path, memoryview(body), headers)
            with broken_as_unreachable("the ack broke off"):
                answer = response.read()
            receipt = _ack(answer)
        except errors.RejectedError as error:
            self._connections.give_back(connection)
            error.table = table
            raise
        except BaseException:
            # It isn't known how much of the message was read.
            connection.close()
            raise
        self._connections.give_back(connection)
        return receipt

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()


def _dates(document: Mapping[str, Any]) -> str:
    return span_of(document["first_date"], document["last_date"]) if document["first_date"] else "no dates"


def _ack(body: bytes) -> Ack:
    try:
        document = json.loads(body)
        return Ack(
            sequence=int(document["sequence"]),
            ack_class=str(document["class"]),
            rows=int(document["rows"]),
            duplicate=bool(document["duplicate"]),
            quarantined=int(document["quarantined"]),
            # Servers of before say nothing of them.
            duplicate_rows=int(document.get("duplicate_rows", 0)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise errors.UnreachableError(f"this is no ack of a SplayDB server: {body[:200]!r}") from error


def _parameter(name: int | str, value: Any) -> Any:
    """A value as JSON has it; what JSON has no word for goes as text, which the engine reads as what it is compared with."""
    kind = type(value).__name__
    if kind in ("NaTType", "NAType"):
        return None
    if kind == "datetime64":
        # NumPy's own value of nanoseconds is a number.
        text = str(value.astype("datetime64[ns]"))
        return None if text == "NaT" else text
    if hasattr(value, "item") and not isinstance(value, (str, bytes)) and getattr(value, "ndim", None) == 0:
        value = value.item()
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise OverflowError(f"${name}: the int is beyond 64 bits")
        return value
    if isinstance(value, decimal.Decimal):
        value = float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, (datetime.date, datetime.time)):
        # pandas' timestamps say nanoseconds in their text, too.
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        raise TypeError(f"${name} can't be a timedelta: write it into the statement, as interval '90 seconds'")
    if isinstance(value, Iterable) and not isinstance(value, (bytes, Mapping)):
        raise TypeError(f"${name} can't be a {kind}: each value has a placeholder of its own, x IN ($1, $2)")
    raise TypeError(f"${name} can't be a {kind}")
