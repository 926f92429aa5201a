"""Writers of rows that come one by one: batches, back-pressure, and each row stored once.

A :class:`TickWriter` gathers rows, and a thread of its own sends them as batches, one at a time and in order.

- A batch has a producer and a number. What isn't acknowledged is sent again under the same number, and whoever stores it
  passes over numbers that were there before: a row is neither lost nor doubled by a connection that breaks.
- Rows that wait are bounded; ``append`` blocks until there is room.
- Where the rows go is a :class:`Transport`: over HTTP (:mod:`splay.remote`), into the journal of a database of this process
  (:class:`DatabaseTransport`, :class:`CaptureTransport`), or whatever has the two methods.
"""

import asyncio
import atexit
import collections
import dataclasses
import logging
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias

import pyarrow

from splay._ack import Ack
from splay._columns import Columns
from splay._elsewhere import WRITER, refusal
from splay.errors import (
    ClosedError,
    Error,
    ProducerError,
    RejectedError,
    RowError,
    SchemaError,
    SettingError,
    TooLargeError,
)

LOG = logging.getLogger("splay.writer")

AckClass: TypeAlias = Literal["memory", "process", "disk", "replica"]
"""What an ack promises: rows are visible to queries; survive the end of the process; survive the loss of power; are on a follower's disk, too."""

ACK_CLASSES = ("memory", "process", "disk", "replica")

BATCH_ROWS = 5_000
BATCH_BYTES_MAX = 32 << 20
"""Bytes in memory beyond which a batch is sent in parts; servers take 64 MiB unless they are told otherwise."""
LINGER_MS = 100.0
PRODUCER_BYTES_MAX = 256
RETRY_SECONDS = 60.0
RETRY_WAIT_SECONDS_FIRST = 0.05
RETRY_WAIT_SECONDS_MAX = 5.0
EXIT_SECONDS = 5.0
"""Seconds that a writer which nobody closed has at the end of the program."""


class Transport(Protocol):
    """Takes batches to a database."""

    def write_batch(self, table: str, rows: pyarrow.Table, ack: AckClass, producer: str, sequence: int) -> Ack:
        """Store a batch, whole or not at all, and wait for the ack. Called by one thread at a time.

        Raises
        ------
        Error
            With ``retryable`` true if the same batch may be sent again: it was not stored, or perhaps stored.
        """
        ...

    def close(self) -> None:
        """Let go of what is held open. Called once."""
        ...


class CaptureTransport:
    """Takes batches to the journal of a database of this process."""

    def __init__(self, capture: Any):
        self._capture = capture

    def write_batch(self, table: str, rows: pyarrow.Table, ack: AckClass, producer: str, sequence: int) -> Ack:
        """As :meth:`Transport.write_batch`."""
        acknowledged: Ack = self._capture.append(table, rows, ack=ack, producer=producer, sequence=sequence)
        return acknowledged

    def close(self) -> None:
        """Others may write yet; whoever began the capture closes it."""


class DatabaseTransport(CaptureTransport):
    """Takes batches to the journal of a database, for which capture runs as long as there are writers.

    Writers of one folder share it. The last one that closes writes the rows to the table's files.
    """

    _shared: dict[str, tuple[Any, int]] = {}
    _lock = threading.Lock()

    def __init__(self, database: Any):
        self._place = os.path.realpath(database.path)
        with self._lock:
            capture, writers = self._shared.get(self._place) or (database.capture(), 0)
            self._shared[self._place] = (capture, writers + 1)
        super().__init__(capture)

    def close(self) -> None:
        """As :meth:`Transport.close`. Rows that can't be written to files now stay in the journal, and are safe there."""
        with self._lock:
            capture, writers = self._shared[self._place]
            if writers > 1:
                self._shared[self._place] = (capture, writers - 1)
                return
            del self._shared[self._place]
            try:
                capture.close()
            except Error as error:
                LOG.warning("rows stay in the journal until capture begins again: %s", error)


OnReject: TypeAlias = Callable[[Error, pyarrow.Table | list[Mapping[str, Any]]], object]
"""Called from the writer's thread with what was refused and why."""


@dataclasses.dataclass(frozen=True)
class WriterStats:
    """What a writer did so far."""

    rows: int = 0
    """Rows that were acknowledged, with those that were set aside or left out."""
    batches: int = 0
    """Batches that were acknowledged."""
    duplicates: int = 0
    """Batches of these that had been stored before."""
    resent: int = 0
    """Times that a batch was sent once more."""
    rejected: int = 0
    """Rows that were refused."""
    quarantined: int = 0
    """Rows that were stored aside, their time being out of range."""
    duplicate_rows: int = 0
    """Rows that were left out as duplicates of others."""
    waiting: int = 0
    """Rows that are not acknowledged yet."""


class TickWriter:
    """Takes rows for one table. Made by :func:`tick`. Threads may share it.

    After an error every method raises it: what is not acknowledged then is not stored, or perhaps stored if the connection
    broke. ``stats.waiting`` says how many rows that are.

    Parameters
    ----------
    transport
        Where the rows go. The writer closes it.
    table
        Name of the table; it is made if there is none and the server allows that.
    ack
        What the ack shall promise.
    batch_rows
        Rows of a batch.
    linger_ms
        Milliseconds that a row waits for others before its batch is sent though it is not full. None: until it is full.
    buffer_rows
        Rows that may wait. Default: four batches. ``append`` blocks beyond.
    producer
        Name under which batches are numbered, for one writer at a time. Default: one that nobody else has.
    sequence
        Number of the first batch. Give it, together with `producer`, where the same rows make the same batches each time,
        such as the replay of a file: what was stored before is then passed over. Batches are cut by their number of rows
        alone. Default: 1, or with `producer` the time in microseconds, which is above those of earlier runs.
    types
        Types of columns by name, as for :meth:`splay.Database.write`, where the values' own are not wanted.
    retry_seconds
        Seconds for which a batch is sent again and again before the writer fails. None: for ever.
    on_reject
        Called with rows that were refused, from the writer's thread; the others go on. Default: the writer fails.
    """

    def __init__(
        self,
        transport: Transport,
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
    ):
        buffer_rows = 4 * batch_rows if buffer_rows is None else buffer_rows
        _check("ack", ack in ACK_CLASSES, f"{ack!r} is none of {', '.join(ACK_CLASSES)}")
        _check("batch_rows", batch_rows >= 1, "must be at least 1")
        _check("buffer_rows", buffer_rows >= batch_rows, "must hold a batch")
        _check("sequence", sequence is None or producer is not None, "numbers belong to a producer")
        _check("producer", producer is None or 1 <= len(producer.encode()) <= PRODUCER_BYTES_MAX, "has 1 to 256 bytes")
        self.table = table
        self.producer = producer or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:12]}"
        self._transport, self._ack, self._columns = transport, ack, Columns(types)
        self._batch_rows, self._buffer_rows = batch_rows, buffer_rows
        self._linger = None if linger_ms is None or sequence is not None else linger_ms / 1e3
        self._is_replay = sequence is not None
        self._retry_seconds, self._on_reject = retry_seconds, on_reject
        first = 1 if producer is None else time.time_ns() // 1_000
        # The state below belongs to whoever holds `_changed`; the numbers and the columns to the thread.
        self._changed = threading.Condition()
        self._rows: list[Mapping[str, Any]] = []
        self._opened_at = 0.0
        self._batches: collections.deque[list[Mapping[str, Any]] | pyarrow.Table] = collections.deque()
        self._taken = self._done = 0
        self._failure: Error | None = None
        self._is_closing = False
        self._stats = WriterStats()
        self._last_ack: Ack | None = None
        self._next_sequence = first if sequence is None else sequence
        self._thread = threading.Thread(target=self._run, name=f"splay-writer-{table}", daemon=True)
        self._thread.start()
        atexit.register(self._at_exit)

    if not TYPE_CHECKING:
        __getattr__ = refusal("a writer", WRITER)

    def append(self, **columns: Any) -> None:
        """Add a row; wait while the buffer is full.

        Parameters
        ----------
        **columns
            Values by name of column. Columns that are left out are null. Integers in a column named ``ts_event``,
            ``timestamp``, ``time`` or ``ts_recv`` are nanoseconds since the epoch.

        Raises
        ------
        ClosedError
            If the writer is closed.
        Error
            What the writer failed of.
        """
        self._add(columns, wait=True)

    def append_nowait(self, **columns: Any) -> bool:
        """Add a row if there is room; whether there was. Raises as :meth:`append`."""
        return self._add(columns, wait=False)

    def append_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows, each a mapping as the arguments of :meth:`append`. Raises as that, and ``TypeError`` if a row is none."""
        if hasattr(rows, "__arrow_c_stream__") or isinstance(rows, Mapping):
            raise TypeError(f"append_rows takes a list of rows, not a {type(rows).__name__}: append_frame takes frames, append(**row) one row")
        for row in rows:
            # A wrong one found later would stop the writer, and the rows before it with that.
            if not isinstance(row, Mapping):
                raise TypeError(f"a row is a mapping such as {{'price': 1.5}}, not {row!r}")
            self._add(row, wait=True)

    def append_frame(self, frame: Any) -> None:
        """Add the rows of a frame, as batches of their own that are cut after each `batch_rows`.

        Parameters
        ----------
        frame
            Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``. Its columns go as they are, without `types`.

        Raises
        ------
        TypeError
            If it has neither.
        As :meth:`append`.
        """
        rows = as_table(frame)
        with self._changed:
            self._cut()
            for start in range(0, rows.num_rows, self._batch_rows):
                part = rows.slice(start, self._batch_rows)
                self._wait_for_room()
                self._taken += part.num_rows
                self._batches.append(part)
                self._changed.notify_all()

    def flush(self, timeout: float | None = None) -> Ack | None:
        """Send what there is and wait until it is acknowledged, or refused where `on_reject` is given.

        Returns
        -------
        Ack or None
            The last ack; None if nothing was sent yet.

        Raises
        ------
        TimeoutError
            If that takes longer than `timeout` seconds.
        As :meth:`append`, but not for a closed writer.
        """
        with self._changed:
            self._cut()
            until = self._taken
            if not self._changed.wait_for(lambda: self._failure or self._done >= until, timeout):
                raise TimeoutError(f"rows for table {self.table!r} are not acknowledged after {timeout} s")
            if self._failure:
                raise self._failure
            return self._last_ack

    def close(self, timeout: float | None = None) -> None:
        """Flush, and end the thread. A second call does nothing.

        Raises
        ------
        As :meth:`flush`. The writer is closed then, too.
        """
        with self._changed:
            if self._is_closing:
                return
            self._cut()
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(timeout)
        atexit.unregister(self._at_exit)
        if self._thread.is_alive():
            raise TimeoutError(f"rows for table {self.table!r} are not acknowledged after {timeout} s")
        if self._failure:
            raise self._failure

    @property
    def stats(self) -> WriterStats:
        """What the writer did so far."""
        with self._changed:
            return dataclasses.replace(self._stats, waiting=self._taken - self._done)

    @property
    def is_closed(self) -> bool:
        """Whether it takes no more rows."""
        return self._is_closing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Close. If the block failed, rows that were appended are still sent, and the block's error stays the first."""
        try:
            self.close()
        except Error:
            if error is None:
                raise

    def _add(self, row: Mapping[str, Any], *, wait: bool) -> bool:
        with self._changed:
            if not wait and self._is_full() and not (self._failure or self._is_closing):
                return False
            self._wait_for_room()
            if not self._rows:
                self._opened_at = time.monotonic()
                # The thread begins to count the time that the row lingers.
                self._changed.notify_all()
            self._rows.append(row)
            self._taken += 1
            if len(self._rows) >= self._batch_rows:
                self._cut()
            return True

    def _is_full(self) -> bool:
        return self._taken - self._done >= self._buffer_rows

    def _wait_for_room(self) -> None:
        while True:
            if self._failure:
                raise self._failure
            if self._is_closing:
                raise ClosedError(f"the writer for table {self.table!r} is closed")
            if not self._is_full():
                return
            # What fills the buffer may be rows that would linger.
            self._cut()
            self._changed.wait()

    def _cut(self) -> None:
        if self._rows:
            self._batches.append(self._rows)
            self._rows = []
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while (batch := self._next_batch()) is not None:
                self._send(batch)
        except Error as error:
            self._fail(error)
        except Exception as error:
            # What a transport or `on_reject` raised of its own must not leave the appending threads waiting.
            failure = Error(f"the writer for table {self.table!r} failed: {error}")
            failure.__cause__ = error
            self._fail(failure)
        finally:
            self._transport.close()

    def _fail(self, error: Error) -> None:
        with self._changed:
            self._failure = error
            waiting = self._taken - self._done
            self._changed.notify_all()
        LOG.error("table %s: %s; %s rows are not acknowledged", self.table, error, waiting)

    def _next_batch(self) -> list[Mapping[str, Any]] | pyarrow.Table | None:
        with self._changed:
            while True:
                if self._batches:
                    return self._batches.popleft()
                if self._is_closing:
                    return None
                left = None
                if self._rows and self._linger is not None:
                    left = self._opened_at + self._linger - time.monotonic()
                    if left <= 0:
                        self._cut()
                        continue
                self._changed.wait(left)

    def _send(self, batch: list[Mapping[str, Any]] | pyarrow.Table) -> None:
        if isinstance(batch, pyarrow.Table):
            self._deliver(batch)
            return
        try:
            rows = self._columns.table(batch)
        except SchemaError as error:
            if len(batch) == 1 or self._on_reject is None:
                self._reject(error, batch)
                return
            # One wrong value is no reason to refuse its neighbours.
            for row in batch:
                self._send([row])
        else:
            self._deliver(rows)

    def _deliver(self, rows: pyarrow.Table) -> None:
        if rows.nbytes > BATCH_BYTES_MAX and rows.num_rows > 1:
            self._deliver_in_parts(rows)
            return
        sequence, self._next_sequence = self._next_sequence, self._next_sequence + 1
        sent = self._stats.resent
        try:
            ack = self._send_until_acked(rows, sequence)
        except TooLargeError as error:
            # A batch that was sent before may have been stored by a server that took more; its parts would have other numbers.
            if rows.num_rows > 1 and self._stats.resent == sent:
                self._deliver_in_parts(rows)
            else:
                self._reject(error, rows)
        except (RejectedError, SchemaError, RowError) as error:
            self._reject(error, rows)
        else:
            if ack.duplicate and self._stats.resent == sent and not self._is_replay:
                raise _producer_error(self.producer, sequence)
            self._count(rows.num_rows, ack)

    def _deliver_in_parts(self, rows: pyarrow.Table) -> None:
        half = rows.num_rows // 2
        self._deliver(rows.slice(0, half))
        self._deliver(rows.slice(half))

    def _send_until_acked(self, rows: pyarrow.Table, sequence: int) -> Ack:
        started, wait, level = time.monotonic(), RETRY_WAIT_SECONDS_FIRST, logging.WARNING
        while True:
            try:
                return self._transport.write_batch(self.table, rows, self._ack, self.producer, sequence)
            except Error as error:
                is_late = self._retry_seconds is not None and time.monotonic() - started + wait > self._retry_seconds
                if is_late or not getattr(error, "retryable", False):
                    raise
                LOG.log(level, "table %s: %s; batch %s is sent again", self.table, error, sequence)
            level = logging.DEBUG
            with self._changed:
                self._stats = dataclasses.replace(self._stats, resent=self._stats.resent + 1)
            _sleep(wait)
            wait = min(2 * wait, RETRY_WAIT_SECONDS_MAX)

    def _count(self, rows: int, ack: Ack) -> None:
        with self._changed:
            stats = self._stats
            self._stats = dataclasses.replace(
                stats,
                rows=stats.rows + rows,
                batches=stats.batches + 1,
                duplicates=stats.duplicates + ack.duplicate,
                quarantined=stats.quarantined + ack.quarantined,
                duplicate_rows=stats.duplicate_rows + ack.duplicate_rows,
            )
            self._last_ack = ack
            self._done += rows
            self._changed.notify_all()

    def _reject(self, error: Error, rows: pyarrow.Table | list[Mapping[str, Any]]) -> None:
        if self._on_reject is None:
            raise error
        LOG.warning("table %s: %s rows are refused: %s", self.table, len(rows), error)
        self._on_reject(error, rows)
        with self._changed:
            self._stats = dataclasses.replace(self._stats, rejected=self._stats.rejected + len(rows))
            self._done += len(rows)
            self._changed.notify_all()

    def _at_exit(self) -> None:
        if self._failure:
            return
        try:
            self.close(EXIT_SECONDS)
        except (Error, TimeoutError) as error:
            LOG.error("table %s: %s rows are lost at the end of the program: %s", self.table, self.stats.waiting, error)


class AsyncTickWriter:
    """A :class:`TickWriter` for coroutines: what blocks is done on a thread.

    As long as there is room, appending costs no thread. Rows of one coroutine keep their order.
    """

    def __init__(self, writer: TickWriter):
        self._writer = writer
        self._turn = asyncio.Lock()

    async def append(self, **columns: Any) -> None:
        """As :meth:`TickWriter.append`; the coroutine waits, others go on."""
        if self._turn.locked() or not self._writer.append_nowait(**columns):
            # Who waits for room goes before who comes later.
            async with self._turn:
                await asyncio.to_thread(lambda: self._writer.append(**columns))

    async def append_rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """As :meth:`TickWriter.append_rows`."""
        for row in rows:
            await self.append(**row)

    async def append_frame(self, frame: Any) -> None:
        """As :meth:`TickWriter.append_frame`."""
        async with self._turn:
            await asyncio.to_thread(self._writer.append_frame, frame)

    async def flush(self, timeout: float | None = None) -> Ack | None:
        """As :meth:`TickWriter.flush`."""
        return await asyncio.to_thread(self._writer.flush, timeout)

    async def close(self, timeout: float | None = None) -> None:
        """As :meth:`TickWriter.close`."""
        await asyncio.to_thread(self._writer.close, timeout)

    @property
    def stats(self) -> WriterStats:
        """As :attr:`TickWriter.stats`."""
        return self._writer.stats

    @property
    def is_closed(self) -> bool:
        """As :attr:`TickWriter.is_closed`."""
        return self._writer.is_closed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._writer.__exit__, kind, error, traceback)


def tick(database: Any, table: str, **settings: Any) -> TickWriter:
    """A writer for rows that come one by one.

    Parameters
    ----------
    database
        A client (:func:`splay.connect`), a database of this process (:func:`splay.open`), or capture into one
        (``splay.open(...).capture()``).
    table
        Name of the table.
    **settings
        Those of :class:`TickWriter`.
    """
    if hasattr(database, "tick"):
        writer: TickWriter = database.tick(table, **settings)
        return writer
    return TickWriter(CaptureTransport(database), table, **settings)


def tick_into(database: Any, table: str, **settings: Any) -> TickWriter:
    """A writer for a database of this process: what :meth:`splay.Database.tick` gives."""
    transport = DatabaseTransport(database)
    try:
        return TickWriter(transport, table, **settings)
    except BaseException:
        transport.close()
        raise


_UNNAMED_INDEX = re.compile(r"__index_level_[0-9]+__")
"""What pyarrow calls an index of pandas that has no name."""


def as_table(frame: Any) -> pyarrow.Table:
    """The rows of anything that speaks the Arrow C interface, without what pandas makes of an index that has no name.

    Raises
    ------
    TypeError
        If it doesn't.
    """
    if isinstance(frame, pyarrow.Table):
        rows = frame
    elif hasattr(frame, "__arrow_c_stream__"):
        rows = pyarrow.RecordBatchReader.from_stream(frame).read_all()
    elif hasattr(frame, "__arrow_c_array__"):
        rows = pyarrow.Table.from_batches([pyarrow.record_batch(frame)])
    else:
        raise TypeError(
            f"{type(frame).__name__} has neither __arrow_c_stream__ nor __arrow_c_array__: make a frame of it, as by "
            "pyarrow.table or pandas.DataFrame, and collect a lazy one"
        )
    return rows.drop_columns([name for name in rows.column_names if _UNNAMED_INDEX.fullmatch(name)])


def _check(setting: str, is_right: bool, what: str) -> None:
    if not is_right:
        error = SettingError(f"{setting}: {what}")
        error.setting = setting
        raise error


def _producer_error(producer: str, sequence: int) -> ProducerError:
    error = ProducerError(f"producer {producer!r} had a batch {sequence} before: another writer uses this name")
    error.producer, error.sequence = producer, sequence
    return error


# Tests have no time to wait.
_sleep = time.sleep
