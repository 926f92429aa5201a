"""Collects trades and books of crypto venues into a running server, through Cryptofeed.

    pip install 'cryptofeed==2.4.1' pyarrow target/wheels/splay-*.whl
    splay serve market &
    python examples/collect_crypto.py --server http://127.0.0.1:7750

This is the collection of a published benchmark of tick databases (its figure 9): trades and order books of BTC-USD, ETH-USD and
USDT-USD from Coinbase and four other venues, books cut to 20 levels a side, one update in 40. Two of its venues, FTX and FTX US,
no longer exist; Kraken and Gemini replace them. Ctrl-C, or the end of `--seconds`, stores what was received and stops.

No keys are needed. A venue that doesn't list a symbol is asked for the others only, and a venue that can't be reached is left out.
"""

import argparse
import asyncio
import logging
from typing import Any

from cryptofeed import FeedHandler
from cryptofeed.defines import L2_BOOK, TRADES
from cryptofeed.exchanges import BinanceUS, Bitstamp, Gemini, Kraken
from splay.feeds.cryptofeed import BookSplay, TradeSplay, coinbase

import splay

SYMBOLS = ["BTC-USD", "ETH-USD", "USDT-USD"]
VENUES = {"COINBASE": coinbase(), "BITSTAMP": Bitstamp, "KRAKEN": Kraken, "GEMINI": Gemini, "BINANCE_US": BinanceUS}

LOG = logging.getLogger("collect_crypto")


def collector(database: Any, depth: int, sample: int) -> FeedHandler:
    """A feed handler with a feed for each venue, all into the tables `trade` and `book`."""
    config = {"log": {"disabled": True}, "uvloop": False}
    handler = FeedHandler(config=config)
    callbacks = {TRADES: TradeSplay(database), L2_BOOK: BookSplay(database, depth=depth, sample=sample)}
    for name, venue in VENUES.items():
        try:
            listed = symbols_of(venue)
        except OSError as error:
            LOG.warning("%s can't be reached and is left out: %s", name, error)
            continue
        symbols = [symbol for symbol in SYMBOLS if symbol in listed]
        if symbols != SYMBOLS:
            LOG.warning("%s lists %s only", name, ", ".join(symbols) or "none of the symbols")
        if symbols:
            # Feeds try to connect for ever: a venue that is down for maintenance comes back.
            handler.add_feed(venue(symbols=symbols, channels=list(callbacks), callbacks=callbacks, config=config, retries=-1))
    if not handler.feeds:
        raise SystemExit(f"none of {', '.join(VENUES)} can be reached: is this machine online?")
    return handler


def symbols_of(venue: Any) -> Any:
    """The symbols that a venue lists; OSError if it can't be reached."""
    log = logging.getLogger("feedhandler")
    level = log.level
    log.setLevel(logging.CRITICAL)  # Cryptofeed logs a traceback for each venue besides.
    try:
        return venue.symbol_mapping()
    finally:
        log.setLevel(level)


async def collect(handler: FeedHandler, seconds: float | None) -> None:
    """Runs until it is cancelled or the time is over; then stores what is on its way."""
    handler.run(start_loop=False, install_signal_handlers=False)
    try:
        await asyncio.sleep(seconds) if seconds else await asyncio.Event().wait()
    finally:
        backends = {
            id(backend): backend for feed in handler.feeds for backend in (feed.callbacks[TRADES] + feed.callbacks[L2_BOOK])
        }
        await handler.stop_async()
        for backend in backends.values():
            LOG.info("%s: %s", backend.table, backend.stats)


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Collect trades and books of crypto venues into a running server.")
    parser.add_argument("--server", default="http://127.0.0.1:7750", help="address of the server")
    parser.add_argument("--token", help="the server's token")
    parser.add_argument("--depth", type=int, default=20, help="levels of each side of a book")
    parser.add_argument("--sample", type=int, default=40, help="store one of so many book updates of a symbol")
    parser.add_argument("--seconds", type=float, help="stop after so many seconds")
    return parser.parse_args(given)


def main() -> None:
    """Collects until Ctrl-C."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    given = arguments()
    database = splay.connect(given.server, given.token)
    try:
        database.sql("select 1").to_arrow()  # A wrong address shows before the venues are asked.
    except splay.errors.UnreachableError as error:
        raise SystemExit(f"no server answers at {given.server}: {error}") from None
    try:
        asyncio.run(collect(collector(database, given.depth, given.sample), given.seconds))
    except KeyboardInterrupt:
        LOG.info("stopped")


if __name__ == "__main__":
    main()
