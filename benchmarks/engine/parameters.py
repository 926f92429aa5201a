"""What the questions of a TAQ day are about, drawn from its quotes with a seed: the same for every system."""

import datetime
import random
from dataclasses import dataclass

import pyarrow.compute as pc

MARKET_OFFSET = datetime.timedelta(hours=4)
"""UTC less New York on the simulated day, which is in October."""
FIFTY = 50
THOUSAND = 1_000


@dataclass(frozen=True)
class TaqParameters:
    """Symbols by how busy they are, and instants of the day."""

    day: datetime.date
    rare: str
    """A symbol of the quieter half."""
    busy: str
    """The symbol with the most quotes."""
    fifty: list[str]
    """Symbols of any kind."""
    thousand: list[str]
    """The rarest symbols: a thousand, or half of them if there are fewer than two thousand."""
    large: int
    """A volume that one trade in fifty reaches."""
    sequence: int
    """A sequence number in the middle of the busy symbol's day."""
    sequences: list[int]
    """A few sequence numbers that occur."""

    def time(self, clock: str) -> datetime.datetime:
        """An instant of the day, from New York's ``HHMM`` or ``HHMMSS``."""
        moment = datetime.time(int(clock[:2]), int(clock[2:4]), int(clock[4:6] or 0))
        return datetime.datetime.combine(self.day, moment, datetime.UTC) + MARKET_OFFSET


def draw(tables, seed: int) -> TaqParameters:
    """Draws parameters from the quotes."""
    rng = random.Random(seed)
    quotes = tables.read("quote", ["Symbol", "Sequence_Number", "Time"])
    counts = sorted(
        (entry["counts"], entry["values"]) for entry in pc.value_counts(quotes["Symbol"].cast("string")).to_pylist()
    )
    symbols = [symbol for _, symbol in counts]
    half = symbols[: max(1, len(symbols) // 2)]
    busy = symbols[-1]
    numbers = quotes.filter(pc.equal(quotes["Symbol"].cast("string"), busy))["Sequence_Number"]
    volumes = tables.read("trade", ["Trade_Volume"])["Trade_Volume"]
    first = quotes["Time"][0].as_py()
    return TaqParameters(
        day=(first - MARKET_OFFSET).date(),
        rare=half[len(half) // 2],
        busy=busy,
        fifty=sorted(rng.sample(symbols, min(FIFTY, max(1, len(symbols) // 4)))),
        thousand=sorted(half[:THOUSAND]),
        large=int(pc.quantile(volumes, 0.98)[0].as_py()),
        sequence=numbers[len(numbers) // 2].as_py(),
        sequences=sorted(quotes["Sequence_Number"][rng.randrange(len(quotes))].as_py() for _ in range(5)),
    )


CRYPTO_SYMBOLS = ["BTC-USD", "ETH-USD", "USDT-USD"]


class CryptoParameters:
    """Bounds of the ranges in QUERIES.md, and the pairs of O-T."""

    day_start = datetime.datetime(2022, 6, 18, tzinfo=datetime.UTC)
    day_end = datetime.datetime(2022, 6, 19, tzinfo=datetime.UTC)
    week_end = datetime.datetime(2022, 6, 25, tzinfo=datetime.UTC)
    month_end = datetime.datetime(2022, 7, 18, tzinfo=datetime.UTC)
    nbbo_start = datetime.datetime(2022, 7, 20, tzinfo=datetime.UTC)
    nbbo_end = datetime.datetime(2022, 7, 21, tzinfo=datetime.UTC)

    def __init__(self, seed: int, pairs: int = 32):
        rng = random.Random(seed)
        seconds = int((self.month_end - self.day_start).total_seconds())
        # From the second day on, so that there is a row before each instant.
        self.instants = [
            {
                "symbol": rng.choice(CRYPTO_SYMBOLS),
                "instant": self.day_start
                + datetime.timedelta(seconds=rng.randrange(86_400, seconds), microseconds=rng.randrange(10**6)),
            }
            for _ in range(pairs)
        ]
