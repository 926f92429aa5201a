"""Back ends for Cryptofeed: its feed handler streams any of its venues into SplayDB.

>>> from cryptofeed import FeedHandler                                              # doctest: +SKIP
>>> from cryptofeed.defines import L2_BOOK, TRADES                                  # doctest: +SKIP
>>> from cryptofeed.exchanges import Bitstamp                                       # doctest: +SKIP
>>> db = "http://127.0.0.1:7750"                                                    # doctest: +SKIP
>>> callbacks = {TRADES: TradeSplay(db), L2_BOOK: BookSplay(db, depth=20, sample=40)}  # doctest: +SKIP
>>> handler = FeedHandler()                                                         # doctest: +SKIP
>>> handler.add_feed(Bitstamp(symbols=["BTC-USD"], channels=list(callbacks), callbacks=callbacks))  # doctest: +SKIP
>>> handler.run()                                                                   # doctest: +SKIP

- One back end takes one channel, of as many feeds as you give it to, into one table. Symbols are spelled as Cryptofeed
  normalises them (``BTC-USD``), venues as it calls them (``COINBASE``).
- Nothing is dropped. If the database doesn't keep up or can't be reached, rows wait in a buffer of fixed size; then the feeds
  wait. Rows that the table can't take are logged and counted, and the feeds go on.
- Cryptofeed has times as floats of seconds. They are rounded to microseconds, finer than which such floats don't go today.
- Books are stored as snapshots of their best levels, not as changes: a row says the whole top of the book by itself, so that
  rows can be sampled, and a lost connection leaves a hole and nothing wrong behind it.

Cryptofeed itself is not imported, but by :func:`coinbase`. Written for version 2.4.1.
"""

import asyncio
import datetime
import json
import logging
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

from splay.errors import Error, SettingError
from splay.remote import connect
from splay.writer import AckClass, AsyncTickWriter, WriterStats, tick

LOG = logging.getLogger("splay.feeds.cryptofeed")

BATCH_ROWS = 1_000
DEPTH = 10
DEPTH_MAX = 1024

Row: TypeAlias = dict[str, Any]

_KEYS = {"ts_event": "timestamp", "symbol": "symbol", "ts_recv": "timestamp", "venue": "symbol"}


class SplayCallback:
    """Base of the back ends: takes what Cryptofeed calls back with, and appends a row for it.

    A subclass names its table and columns, and makes the rows.

    Parameters
    ----------
    database
        Address of a server, or what :func:`splay.connect` gives, or capture into a database of this process.
    table
        Name of the table, if it shall be another.
    token
        The server's token, if `database` is an address.
    ack
        What the server shall promise, see :meth:`splay.Client.write`.
    batch_rows
        Rows of a batch.
    linger_ms
        Milliseconds after which a batch is sent though it is not full.
    buffer_rows
        Rows that may wait for the database. Default: four batches.
    retry_seconds
        Seconds for which the database may be away before the feeds fail. Default: for ever.
    """

    default_table: ClassVar[str]
    types: ClassVar[Mapping[str, str]]

    def __init__(
        self,
        database: Any = "http://127.0.0.1:7750",
        *,
        table: str | None = None,
        token: str | None = None,
        ack: AckClass = "disk",
        batch_rows: int = BATCH_ROWS,
        linger_ms: float | None = 100.0,
        buffer_rows: int | None = None,
        retry_seconds: float | None = None,
    ):
        self.table = table or self.default_table
        self.__name__ = type(self).__name__
        self._database: Any = connect(database, token) if isinstance(database, str) else database
        self._settings: dict[str, Any] = {
            "ack": ack,
            "batch_rows": batch_rows,
            "linger_ms": linger_ms,
            "buffer_rows": buffer_rows,
            "retry_seconds": retry_seconds,
            "types": {**_KEYS, **self.column_types()},
            "on_reject": self._on_reject,
        }
        self._writer: AsyncTickWriter | None = None
        self._feeds = 0

    def column_types(self) -> Mapping[str, str]:
        """Types of the columns behind the first four."""
        return self.types

    def row(self, event: Any) -> Row | None:
        """The columns behind the first four for an object of Cryptofeed; None if it makes no row."""
        raise NotImplementedError

    @property
    def stats(self) -> WriterStats:
        """What was written since the feeds started."""
        return self._writer.stats if self._writer else WriterStats()

    async def __call__(self, event: Any, receipt_timestamp: float | str) -> None:
        """Append a row. Cryptofeed calls this; waits while the buffer is full."""
        row = self.row(event)
        if row is None:
            return
        received = nanoseconds(receipt_timestamp)
        happened = nanoseconds(event.timestamp) if event.timestamp else received
        if self._writer is None or self._writer.is_closed:
            self._writer = AsyncTickWriter(tick(self._database, self.table, **self._settings))
        await self._writer.append(ts_event=happened, symbol=event.symbol, ts_recv=received, venue=event.exchange, **row)

    def start(self, loop: asyncio.AbstractEventLoop, multiprocess: bool = False) -> None:
        """A feed with this back end starts. Rows are sent by a thread of this process, whatever `multiprocess` says."""
        self._feeds += 1

    async def stop(self) -> None:
        """A feed with this back end stops: what it gave is stored when this returns. The last one closes the connection."""
        self._feeds = max(0, self._feeds - 1)
        if self._writer is None or self._writer.is_closed:
            return
        try:
            if self._feeds > 0:
                await self._writer.flush()
            else:
                await self._writer.close()
        except Error as error:
            # Cryptofeed has other back ends to stop.
            LOG.error("table %s: %s rows are not stored: %s", self.table, self._writer.stats.waiting, error)

    def _on_reject(self, error: Error, rows: Any) -> None:
        LOG.error("table %s: %s rows are left out: %s", self.table, len(rows), error)


class TradeSplay(SplayCallback):
    """Trades, into ``trade``: ``side`` (of the aggressor: buy or sell), ``price``, ``size``, ``trade_id`` (the venue's, a text),
    ``order_type`` (where the venue says it)."""

    default_table = "trade"
    types = {"side": "symbol", "price": "float64", "size": "float64", "trade_id": "text", "order_type": "symbol"}

    def row(self, event: Any) -> Row:
        """The columns of a ``Trade``."""
        return {
            "side": event.side,
            "price": float(event.price),
            "size": float(event.amount),
            "trade_id": event.id,
            "order_type": event.type,
        }


_QUOTE = {"bid_price": "float64", "bid_size": "float64", "ask_price": "float64", "ask_size": "float64"}


class TickerSplay(SplayCallback):
    """Tickers, into ``quote``: ``bid_price`` and ``ask_price``. Cryptofeed has no sizes there; they are null."""

    default_table = "quote"
    types = _QUOTE

    def row(self, event: Any) -> Row:
        """The columns of a ``Ticker``."""
        return {"bid_price": _float(event.bid), "bid_size": None, "ask_price": _float(event.ask), "ask_size": None}


class L1BookSplay(SplayCallback):
    """Best bids and offers, into ``quote``: ``bid_price``, ``bid_size``, ``ask_price``, ``ask_size``."""

    default_table = "quote"
    types = _QUOTE

    def row(self, event: Any) -> Row:
        """The columns of an ``L1Book``."""
        return {name: _float(getattr(event, name)) for name in _QUOTE}


class BookSplay(SplayCallback):
    """The best levels of books, into ``book``: ``sequence`` (the venue's, where it numbers its messages), ``bid_price``,
    ``bid_size``, ``ask_price``, ``ask_size``.

    The last four are lists of `depth` floats, best first. Levels that the book doesn't have are null. Takes L2 books, and L3
    books with the orders of a level added up.

    Parameters
    ----------
    depth
        Levels of each side.
    sample
        Of each symbol and venue the first update is stored, then every `sample`-th.
    """

    default_table = "book"

    def __init__(
        self, database: Any = "http://127.0.0.1:7750", *, depth: int = DEPTH, sample: int = 1, **settings: Any
    ):
        _check("depth", 1 <= depth <= DEPTH_MAX, f"must be 1 to {DEPTH_MAX}")
        _check("sample", sample >= 1, "must be at least 1")
        self.depth, self.sample = depth, sample
        self._seen: dict[tuple[str, str], int] = {}
        super().__init__(database, **settings)

    def column_types(self) -> Mapping[str, str]:
        """Lists as long as the depth."""
        levels = f"levels({self.depth})"
        return {"sequence": "int64", **dict.fromkeys(_QUOTE, levels)}

    def row(self, event: Any) -> Row | None:
        """The columns of an ``OrderBook``, for one in `sample`."""
        key = (event.exchange, event.symbol)
        seen = self._seen.get(key, 0)
        self._seen[key] = (seen + 1) % self.sample
        if seen:
            return None
        bid_price, bid_size = self._levels(event.book.bids)
        ask_price, ask_size = self._levels(event.book.asks)
        sequence = event.sequence_number
        return {
            "sequence": None if sequence is None else int(sequence),
            "bid_price": bid_price,
            "bid_size": bid_size,
            "ask_price": ask_price,
            "ask_size": ask_size,
        }

    def _levels(self, side: Any) -> tuple[list[float | None], list[float | None]]:
        prices: list[float | None] = [None] * self.depth
        sizes: list[float | None] = [None] * self.depth
        for level in range(min(self.depth, len(side))):
            price, size = side.index(level)
            prices[level] = float(price)
            # Levels of L3 books are orders by their number.
            sizes[level] = float(sum(size.values()) if isinstance(size, dict) else size)
        return prices, sizes


class FundingSplay(SplayCallback):
    """Funding of perpetual contracts, into ``funding``: ``mark_price``, ``rate``, ``rate_predicted``, ``ts_next`` (when the next
    one is due). What a venue doesn't say is null."""

    default_table = "funding"
    types = {"mark_price": "float64", "rate": "float64", "rate_predicted": "float64", "ts_next": "timestamp"}

    def row(self, event: Any) -> Row:
        """The columns of a ``Funding``."""
        return {
            "mark_price": _float(event.mark_price),
            "rate": _float(event.rate),
            "rate_predicted": _float(event.predicted_rate),
            "ts_next": nanoseconds(event.next_funding_time) if event.next_funding_time else None,
        }


class CandlesSplay(SplayCallback):
    """Candles, into ``bar``: ``ts_start`` and ``ts_end`` of the interval, ``interval`` (such as ``1m``), ``open``, ``high``,
    ``low``, ``close``, ``volume``, ``trades`` (their number, where the venue says it), ``is_closed``.

    ``ts_event`` is when the venue said so. Unless the feed has ``candle_closed_only``, an interval has a row for each update
    of its candle.
    """

    default_table = "bar"
    types = {
        "ts_start": "timestamp",
        "ts_end": "timestamp",
        "interval": "symbol",
        "open": "float64",
        "high": "float64",
        "low": "float64",
        "close": "float64",
        "volume": "float64",
        "trades": "int64",
        "is_closed": "bool",
    }

    def row(self, event: Any) -> Row:
        """The columns of a ``Candle``."""
        return {
            "ts_start": nanoseconds(event.start),
            "ts_end": nanoseconds(event.stop),
            "interval": event.interval,
            "open": float(event.open),
            "high": float(event.high),
            "low": float(event.low),
            "close": float(event.close),
            "volume": float(event.volume),
            "trades": None if event.trades is None else int(event.trades),
            "is_closed": event.closed,
        }


def coinbase() -> type[Any]:
    """Cryptofeed's ``Coinbase``, mended: books with asks, and no keys.

    Version 2.4.1 looks in snapshots of books for levels of the side ``ask``, but Coinbase says ``offer``, so the books begin
    without asks. It signs subscriptions and the request for the list of products, for which one needs keys; Coinbase asks for
    none where data is public.

    Returns
    -------
    type
        A subclass, to be used in its place.

    Raises
    ------
    ImportError
        If Cryptofeed is not installed.
    """
    from cryptofeed.connection import RestEndpoint, Routes
    from cryptofeed.exchanges import Coinbase

    class MendedCoinbase(Coinbase):
        rest_endpoints = [RestEndpoint("https://api.coinbase.com/api/v3/brokerage", routes=Routes("/market/products"))]

        async def subscribe(self, connection: Any) -> None:
            # Without heartbeats Coinbase closes a channel that has been quiet for a minute.
            products = sorted({product for products in self.subscription.values() for product in products})
            self._l2_book: dict[str, Any] = {}
            for channel, wanted in [*self.subscription.items(), ("heartbeats", products)]:
                message = {"type": "subscribe", "channel": channel, "product_ids": list(wanted)}
                await connection.write(json.dumps(message))

        async def message_handler(self, message: str, connection: Any, timestamp: float) -> None:
            # Cryptofeed warns of each message of a channel it doesn't know.
            if '"channel":"heartbeats"' not in message:
                await super().message_handler(message, connection, timestamp)

        async def _pair_level2_snapshot(self, event: dict[str, Any], timestamp: float) -> None:
            sides = {"offer": "ask"}
            updates = [{**level, "side": sides.get(level["side"], level["side"])} for level in event["updates"]]
            await super()._pair_level2_snapshot({**event, "updates": updates}, timestamp)

    return MendedCoinbase


def nanoseconds(time: float | str | datetime.datetime) -> int:
    """Nanoseconds since the epoch, to the microsecond.

    Cryptofeed has floats of seconds, its playback has them as texts, and Coinbase's books have datetimes.
    """
    if isinstance(time, datetime.datetime):
        if time.tzinfo is None:
            time = time.replace(tzinfo=datetime.UTC)
        since = time - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return (since // datetime.timedelta(microseconds=1)) * 1_000
    return round(float(time) * 1e6) * 1_000


def _float(number: Any) -> float | None:
    return None if number is None else float(number)


def _check(setting: str, is_right: bool, what: str) -> None:
    if not is_right:
        error = SettingError(f"{setting}: {what}")
        error.setting = setting
        raise error
