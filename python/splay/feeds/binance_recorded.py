"""Replays recordings of Binance's websocket streams into a database.

A recording is a text file, perhaps packed by gzip, of lines ``<nanoseconds of receipt> <message>``. Messages are those of the
combined streams ``@trade``, ``@bookTicker`` and ``@depth``, and depth snapshots as the REST interface gives them. This is the
format of hftbacktest's recorder (https://github.com/nkaz001/hftbacktest); the fields are those of Binance's manuals for
`spot <https://developers.binance.com/docs/binance-spot-api-docs/web-socket-streams>`_ and `futures
<https://developers.binance.com/docs/derivatives>`_.

Tables, each row with ``ts_event``, ``symbol`` (as Binance spells it), ``ts_recv`` and ``venue`` before the columns named here:

- ``trade``: ``side`` (of the aggressor), ``price``, ``size``, ``trade_id``, ``order_type``, where Binance says it.
- ``quote``: ``bid_price``, ``bid_size``, ``ask_price``, ``ask_size``, ``sequence``.
- ``change``: a row for each level that a depth message changes: ``side`` (bid or ask), ``price``, ``size`` (0 for a level that is
  gone), ``sequence_first`` and ``sequence`` (of the message), ``sequence_before`` (of the message before, on futures).
- ``book``: the best levels after each depth message, rebuilt from snapshot and changes: ``sequence``, ``bid_price``,
  ``bid_size``, ``ask_price``, ``ask_size``. Nothing before the first snapshot, nor from a gap on to the next.

``ts_event`` is the time of the transaction, or of the message where Binance says no other, or ``ts_recv`` where it says none, as
for quotes of the spot market. Sequence numbers are Binance's update ids. Rows keep the order of receipt.
"""

import bisect
import collections
import contextlib
import dataclasses
import gzip
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow

from splay._columns import arrow_type
from splay.errors import DamagedFileError, SettingError
from splay.writer import tick

BATCH_ROWS = 20_000
DEPTH = 20
SHOWN_BYTES = 80
"""Of a line that isn't one of a recording."""
CHANGES_KEPT = 1_000
"""Depth messages that are kept for the next snapshot."""

VENUES = {"spot": "BINANCE", "usdm": "BINANCE_FUTURES", "cm": "BINANCE_DELIVERY"}
"""Venues by name of the folder that a recording lies in; spelled as Cryptofeed does."""

_KEYS = {"ts_event": "timestamp", "symbol": "symbol", "ts_recv": "timestamp", "venue": "symbol"}
_QUOTE = ("bid_price", "bid_size", "ask_price", "ask_size")


@dataclasses.dataclass
class Counts:
    """What a replay found."""

    messages: int = 0
    """Lines that were read."""
    rows: dict[str, int] = dataclasses.field(default_factory=dict)
    """Rows by table. Of these, those that a server had before are not stored again."""
    snapshots: int = 0
    """Depth snapshots."""
    gaps: int = 0
    """Depth messages that don't follow the one before: the book is unknown from there to the next snapshot."""
    unknown: int = 0
    """Messages of other streams, which are passed over."""


class Change(NamedTuple):
    """A depth message."""

    when: int
    """Nanoseconds since the epoch."""
    first: int
    """Number of its first change."""
    last: int
    """Number of its last change."""
    before: int | None
    """Number of the last change of the message before; futures have it."""
    bids: list[tuple[float, float]]
    """Prices with what is left there."""
    asks: list[tuple[float, float]]


class Book:
    """A book that is rebuilt from snapshots and changes.

    A snapshot is asked for while changes come in, so those that it lacks may have come before it: the newest changes are kept,
    and applied to it. Binance's rules: a change that ends before the snapshot is passed over; the first one behind it begins at
    or before the snapshot's number plus one; each other follows the one before, by its ``pu`` on futures, by its ``U`` on spot.
    """

    def __init__(self) -> None:
        self.sequence: int | None = None
        """Number of the last change; None while the book isn't known."""
        self.when = 0
        """Time of the last change."""
        self._is_fresh = False
        self._newest: collections.deque[Change] = collections.deque(maxlen=CHANGES_KEPT)
        # Prices in ascending order, bids negative, so that the best level is the first of both.
        self._sizes: dict[str, dict[float, float]] = {"bid": {}, "ask": {}}
        self._prices: dict[str, list[float]] = {"bid": [], "ask": []}

    def reset(self, when: int, sequence: int, bids: list[tuple[float, float]], asks: list[tuple[float, float]]) -> bool:
        """Begin with a snapshot and go on with the changes it lacks. Whether they follow it."""
        for side, sign, levels in (("bid", -1.0, bids), ("ask", 1.0, asks)):
            self._sizes[side] = {sign * price: size for price, size in levels}
            self._prices[side] = sorted(self._sizes[side])
        self.when, self.sequence, self._is_fresh = when, sequence, True
        return all([self._apply(change) for change in self._newest])  # noqa: C419, each is applied

    def apply(self, change: Change) -> bool:
        """Apply a change. Whether it follows what was there; one that doesn't makes the book unknown."""
        self._newest.append(change)
        return self._apply(change)

    def _apply(self, change: Change) -> bool:
        if self.sequence is None or change.last <= self.sequence:
            return True
        before = change.first - 1 if change.before is None else change.before
        follows = min(change.first - 1, before) <= self.sequence if self._is_fresh else before == self.sequence
        if not follows:
            self.sequence = None
            return False
        self.when, self.sequence, self._is_fresh = change.when, change.last, False
        self._change("bid", -1.0, change.bids)
        self._change("ask", 1.0, change.asks)
        return True

    def levels(self, depth: int) -> dict[str, list[float | None]]:
        """The best `depth` levels of both sides, best first; null where there are none."""
        found: dict[str, list[float | None]] = {}
        for side, sign in (("bid", -1.0), ("ask", 1.0)):
            best, sizes = self._prices[side][:depth], self._sizes[side]
            rest = [None] * (depth - len(best))
            found[f"{side}_price"] = [*(sign * price for price in best), *rest]
            found[f"{side}_size"] = [*(sizes[price] for price in best), *rest]
        return found

    def _change(self, side: str, sign: float, levels: Iterable[tuple[float, float]]) -> None:
        prices, sizes = self._prices[side], self._sizes[side]
        for price, size in levels:
            key = sign * price
            if size:
                if key not in sizes:
                    bisect.insort(prices, key)
                sizes[key] = size
            elif sizes.pop(key, None) is not None:
                del prices[bisect.bisect_left(prices, key)]


class Recording:
    """Reads recordings, in order of time; books go on from one file to the next.

    Parameters
    ----------
    depth
        Levels of each side in ``book``.
    sample
        Of the depth messages of a symbol the first is stored in ``book``, then every `sample`-th.
    tables
        Tables to make rows for.
    batch_rows
        Rows of a frame, but for the last of a file.
    """

    def __init__(
        self,
        *,
        depth: int = DEPTH,
        sample: int = 1,
        tables: Iterable[str] = ("trade", "quote", "change", "book"),
        batch_rows: int = BATCH_ROWS,
    ):
        self.counts = Counts()
        self._depth, self._sample, self._batch_rows = depth, sample, batch_rows
        self._books: dict[tuple[str, str], Book] = {}
        self._seen: dict[tuple[str, str], int] = {}
        levels = f"levels({depth})"
        every = {
            "trade": {"side": "symbol", "price": "float64", "size": "float64", "trade_id": "int64", "order_type": "symbol"},
            "quote": {**dict.fromkeys(_QUOTE, "float64"), "sequence": "int64"},
            "change": {
                "side": "symbol",
                "price": "float64",
                "size": "float64",
                "sequence_first": "int64",
                "sequence": "int64",
                "sequence_before": "int64",
            },
            "book": {"sequence": "int64", **dict.fromkeys(_QUOTE, levels)},
        }
        selected = list(tables)
        for table in selected:
            if table not in every:
                error = SettingError(f"no table {table!r} is made of a recording; there are {', '.join(every)}")
                error.setting = "tables"
                raise error
        self._frames = {table: _Frame({**_KEYS, **every[table]}) for table in selected}

    def frames(self, path: str | os.PathLike[str], venue: str | None = None) -> Iterator[tuple[str, pyarrow.Table]]:
        """The rows of a file as frames of one table each; equal files make equal frames.

        Parameters
        ----------
        path
            The file.
        venue
            The venue. Default: by the folder's name, see :data:`VENUES`, else ``BINANCE``.

        Raises
        ------
        DamagedFileError
            If a line isn't one of a recording, or the file is cut short, or none of its messages is of a stream that is read.
        """
        path = Path(path)
        venue = venue or VENUES.get(path.parent.name, "BINANCE")
        symbol = path.name.split(".")[0].rsplit("_", 1)[0].upper()
        number, first, is_recognised = 0, b"", False
        try:
            with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as lines:
                for number, line in enumerate(lines, start=1):
                    first = first or line
                    received, _, text = line.partition(b" ")
                    is_recognised |= self._take(int(received), json.loads(text), venue, symbol)
                    yield from self._full(self._batch_rows)
        except (EOFError, gzip.BadGzipFile) as error:
            raise _damaged(path, number, error) from error
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise (_damaged(path, number, error) if is_recognised else _foreign(path, first)) from error
        if first and not is_recognised:
            raise _foreign(path, first)
        yield from self._full(1)

    def _full(self, rows: int) -> Iterator[tuple[str, pyarrow.Table]]:
        for table, frame in self._frames.items():
            if len(frame) >= rows:
                self.counts.rows[table] = self.counts.rows.get(table, 0) + len(frame)
                yield table, frame.take()

    def _take(self, received: int, message: Mapping[str, Any], venue: str, symbol: str) -> bool:
        """Make rows of a message. Whether it is a snapshot or of a stream that is read."""
        self.counts.messages += 1
        if "lastUpdateId" in message:
            # The spot market's snapshots don't name their symbol.
            self._snapshot(received, message, venue, message.get("symbol", symbol))
            return True
        data = message["data"]
        _, _, stream = message["stream"].partition("@")
        if stream == "trade":
            self._trade(received, data, venue)
        elif stream == "bookTicker":
            self._quote(received, data, venue)
        elif stream.startswith("depth"):
            self._depths(received, data, venue)
        else:
            self.counts.unknown += 1
            return False
        return True

    def _trade(self, received: int, data: Mapping[str, Any], venue: str) -> None:
        if frame := self._frames.get("trade"):
            # "m": the buyer was there first, so the seller came to him.
            side = "sell" if data["m"] else "buy"
            order_type = data.get("X")
            row = (side, float(data["p"]), float(data["q"]), data["t"], order_type.lower() if order_type else None)
            frame.append(_when(data, received), data["s"], received, venue, *row)

    def _quote(self, received: int, data: Mapping[str, Any], venue: str) -> None:
        if frame := self._frames.get("quote"):
            sides = (float(data["b"]), float(data["B"]), float(data["a"]), float(data["A"]))
            frame.append(_when(data, received), data["s"], received, venue, *sides, data["u"])

    def _depths(self, received: int, data: Mapping[str, Any], venue: str) -> None:
        levels = _levels(data["b"]), _levels(data["a"])
        symbol, change = data["s"], Change(_when(data, received), data["U"], data["u"], data.get("pu"), *levels)
        if frame := self._frames.get("change"):
            for side, changed in zip(("bid", "ask"), levels):
                for price, size in changed:
                    frame.append(change.when, symbol, received, venue, side, price, size, *change[1:4])
        book = self._book(venue, symbol)
        was = book.sequence
        if not book.apply(change):
            self.counts.gaps += 1
        elif book.sequence != was:
            self._store(book, symbol, received, venue)

    def _snapshot(self, received: int, message: Mapping[str, Any], venue: str, symbol: str) -> None:
        self.counts.snapshots += 1
        book = self._book(venue, symbol)
        levels = _levels(message["bids"]), _levels(message["asks"])
        if not book.reset(_when(message, received), message["lastUpdateId"], *levels):
            self.counts.gaps += 1
        else:
            self._store(book, symbol, received, venue)

    def _book(self, venue: str, symbol: str) -> Book:
        return self._books.setdefault((venue, symbol), Book())

    def _store(self, book: Book, symbol: str, received: int, venue: str) -> None:
        seen = self._seen.get((venue, symbol), 0)
        self._seen[venue, symbol] = (seen + 1) % self._sample
        frame = self._frames.get("book")
        if frame and seen == 0:
            levels = book.levels(self._depth)
            frame.append(book.when, symbol, received, venue, book.sequence, *(levels[name] for name in _QUOTE))


class _Frame:
    """Columns that grow."""

    def __init__(self, types: Mapping[str, str]):
        self._schema = pyarrow.schema([(name, arrow_type(kind)) for name, kind in types.items()])
        self._rows: list[tuple[Any, ...]] = []

    def append(self, *row: Any) -> None:
        self._rows.append(row)

    def take(self) -> pyarrow.Table:
        columns = [pyarrow.array(column, field.type) for column, field in zip(zip(*self._rows), self._schema)]
        self._rows = []
        return pyarrow.table(columns, schema=self._schema)

    def __len__(self) -> int:
        return len(self._rows)

    def __bool__(self) -> bool:
        return True


def replay(
    database: Any,
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    depth: int = DEPTH,
    sample: int = 1,
    tables: Iterable[str] = ("trade", "quote", "change", "book"),
    ack: str = "disk",
) -> Counts:
    """Store recordings.

    Each recording is stored once: batches have the file's name and a number, so an interrupted replay can be run again.

    Parameters
    ----------
    database
        A client from :func:`splay.connect`, a database from :func:`splay.open`, or capture into a database of this process.
    paths
        Recordings, those of one symbol in order of time. Their folders name the venue, see :data:`VENUES`.
    depth, sample, tables
        As for :class:`Recording`.
    ack
        The acknowledgement to wait for, see :meth:`splay.Client.write`.

    Returns
    -------
    Counts

    Raises
    ------
    DamagedFileError
        If a file isn't a recording.
    As :meth:`splay.Client.tick` or :meth:`splay.Database.tick`.
    """
    recording = Recording(depth=depth, sample=sample, tables=tables)
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        _send(database, recording, Path(path), f"depth={depth} sample={sample}", ack)
    return recording.counts


def _send(database: Any, recording: Recording, path: Path, settings: str, ack: str) -> None:
    writers: dict[str, Any] = {}
    # The last message of a frame may bring more rows than fill it; they are no batch of their own.
    rows = {"batch_rows": 4 * BATCH_ROWS, "buffer_rows": 4 * BATCH_ROWS}
    with contextlib.ExitStack() as opened:
        for table, frame in recording.frames(path):
            if table not in writers:
                # Other settings make other batches, which must not be taken for these.
                producer = f"{path.parent.name}/{path.name} {table} {settings}"
                writer = tick(database, table, ack=ack, producer=producer, sequence=1, **rows)
                writers[table] = opened.enter_context(writer)
            writers[table].append_frame(frame)


def _damaged(path: Path, line: int, error: Exception) -> DamagedFileError:
    damage = DamagedFileError(f"{path}: line {line}: {type(error).__name__}: {error}")
    damage.file = str(path)
    return damage


def _foreign(path: Path, first: bytes) -> DamagedFileError:
    """The error of a file without a message that is known."""
    shown = first[:SHOWN_BYTES].decode(errors="replace").strip()
    damage = DamagedFileError(f"{path} isn't a recording of Binance's streams @trade, @bookTicker and @depth; it begins with {shown!r}")
    damage.file = str(path)
    return damage


def _levels(levels: list[list[str]]) -> list[tuple[float, float]]:
    return [(float(price), float(size)) for price, size in levels]


def _when(data: Mapping[str, Any], received: int) -> int:
    """Milliseconds of the transaction, or of the message, as nanoseconds."""
    milliseconds = data.get("T") or data.get("E")
    return received if milliseconds is None else milliseconds * 1_000_000
