"""A made day of trades and quotes of two symbols, for tests of frames."""

import random

import pyarrow as pa

START = 1_704_205_800_000_000_000  # 2024-01-02 14:30 UTC, 09:30 in New York.
SECOND = 1_000_000_000


def trades(rows: int = 400, seed: int = 1) -> pa.Table:
    """Trades by time; several may stand at one time."""
    dice = random.Random(seed)
    times = sorted(START + dice.randrange(7 * 3600) * SECOND for _ in range(rows))
    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("ns", "UTC")),
            "symbol": pa.array([dice.choice("AB") for _ in times], pa.utf8()).dictionary_encode(),
            "price": pa.array([round(100 + dice.gauss(0, 1), 2) for _ in times], pa.float64()),
            "size": pa.array([dice.randrange(1, 500) for _ in times], pa.int64()),
            "side": pa.array([dice.choice(["buy", "sell"]) for _ in times], pa.utf8()),
        }
    )


def quotes(rows: int = 900, seed: int = 2) -> pa.Table:
    """Quotes by time, each at a time of its own."""
    dice = random.Random(seed)
    times = sorted(START + at * SECOND // 2 for at in dice.sample(range(2 * 7 * 3600), rows))
    bids = [round(100 + dice.gauss(0, 1), 2) for _ in times]
    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("ns", "UTC")),
            "symbol": pa.array([dice.choice("AB") for _ in times], pa.utf8()).dictionary_encode(),
            "bid": bids,
            "ask": [round(bid + dice.choice([0.01, 0.02, 0.05]), 2) for bid in bids],
        }
    )


def books(rows: int = 200, levels: int = 5, seed: int = 3) -> pa.Table:
    """Books of one symbol, a tick between levels, each at a time of its own."""
    dice = random.Random(seed)
    times = sorted(START + at * SECOND for at in dice.sample(range(7 * 3600), rows))
    middles = [100 + dice.randrange(-50, 50) / 100 for _ in times]

    def side(value) -> pa.Array:
        return pa.array([[value(middle, level) for level in range(levels)] for middle in middles], pa.list_(pa.float64(), levels))

    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("ns", "UTC")),
            "symbol": pa.array(["A"] * rows, pa.utf8()).dictionary_encode(),
            "bid_price": side(lambda middle, level: round(middle - 0.01 * (level + 1), 2)),
            "bid_size": side(lambda middle, level: float(dice.randrange(1, 100))),
            "ask_price": side(lambda middle, level: round(middle + 0.01 * (level + 1), 2)),
            "ask_size": side(lambda middle, level: float(dice.randrange(1, 100))),
        }
    )
