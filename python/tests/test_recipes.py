"""Every statement of docs/guide/market-recipes.md runs, and gives what plain loops over the rows give."""

import math
import pathlib
import re
import subprocess

import pandas as pd
import pytest

import splay

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = ROOT / "target" / "release" / "splay"
DOCUMENT = ROOT / "docs" / "guide" / "market-recipes.md"
RECIPES = dict(re.findall(r"^### ([^\n]+)\n(?:(?!\n##).)*?```sql\n(.*?)```", DOCUMENT.read_text(), re.M | re.S))


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipes")
    taq = ["--symbols", "12", "--quotes", "30000", "--trades", "9000", "--seed", "3"]
    for command in (
        ["gen", "taq", "--out", folder / "taq", *taq],
        ["gen", "crypto", "--out", folder / "crypto", "--scale", "0.001", "--days", "1"],
    ):
        subprocess.run([BINARY, *command], check=True, capture_output=True)
    database = splay.open(folder / "db")
    database.load("trade", [str(folder / "taq" / "EQY_US_ALL_TRADE_*.gz")], recipe="nyse-taq-trade")
    database.load("quote", [str(folder / "taq" / "SPLITS_US_ALL_BBO_*.gz")], recipe="nyse-taq-quote")
    database.load("crypto", [str(folder / "crypto" / "trades_*.csv")], symbol="symbol", time="timestamp")
    return database


@pytest.fixture(scope="module")
def trade(database):
    columns = "Symbol, Exchange, Time, Sequence_Number, Trade_Price, Trade_Volume"
    return frame(database, f"select {columns} from trade order by Symbol, Time, Sequence_Number")


@pytest.fixture(scope="module")
def quote(database):
    columns = "Symbol, Exchange, Time, Sequence_Number, Bid_Price, Bid_Size, Offer_Price, Offer_Size"
    return frame(database, f"select {columns} from quote order by Symbol, Exchange, Time, Sequence_Number")


def frame(database, text):
    """Rows as pandas, symbols as text and times as whole nanoseconds."""
    answer = database.sql(text).to_pandas()
    for name in answer.columns:
        if isinstance(answer[name].dtype, pd.CategoricalDtype):
            answer[name] = answer[name].astype(object)
        elif pd.api.types.is_datetime64_any_dtype(answer[name]):
            answer[name] = answer[name].astype("int64")
    return answer


def bars(trade, minutes=5):
    """Open, high, low, close and volume of each symbol and bucket, by symbol."""
    found = {}
    width = minutes * 60_000_000_000
    for row in trade.itertuples():
        bar = found.setdefault(row.Symbol, {}).setdefault(row.Time // width * width, [])
        bar.append((row.Trade_Price, row.Trade_Volume))
    return {
        symbol: [
            (
                start,
                prints[0][0],
                max(price for price, _ in prints),
                min(price for price, _ in prints),
                prints[-1][0],
                sum(size for _, size in prints),
            )
            for start, prints in sorted(of_symbol.items())
        ]
        for symbol, of_symbol in sorted(found.items())
    }


def close(one, other):
    missing = [x is None or (isinstance(x, float) and math.isnan(x)) or x is pd.NA or x is pd.NaT for x in (one, other)]
    if any(missing):
        return all(missing)
    if isinstance(other, (str, pd.DateOffset)):
        return one == other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


def assert_rows(answer, expected):
    expected = list(expected)
    assert len(answer) == len(expected) > 0
    for found, wanted in zip(answer.itertuples(index=False, name=None), expected):
        assert len(found) == len(wanted) and all(map(close, found, wanted)), f"{found}\n{wanted}"


def ema(values, alpha):
    smoothed = []
    for value in values:
        smoothed.append(value if not smoothed else smoothed[-1] + alpha * (value - smoothed[-1]))
    return smoothed


def wilder(values, n):
    """The smoothed value behind each of `values` that is a number."""
    smoothed, seen = [], []
    for value in values:
        if value is None:
            smoothed.append(None)
            continue
        seen.append(value)
        if len(seen) < n:
            smoothed.append(None)
        elif len(seen) == n:
            smoothed.append(sum(seen) / n)
        else:
            before = next(x for x in reversed(smoothed) if x is not None)
            smoothed.append(before + (value - before) / n)
    return smoothed


def last(values, n):
    """The last `n` values at each place."""
    return [values[max(0, place + 1 - n) : place + 1] for place in range(len(values))]


def mean(values):
    return sum(values) / len(values)


def deviation(values):
    return math.sqrt(mean([(x - mean(values)) ** 2 for x in values]))


def log_returns(closes):
    return [None] + [math.log(b) - math.log(a) for a, b in zip(closes, closes[1:])]


def sign(x):
    return int(x > 0) - int(x < 0)


def by_symbol(trade, of_bars):
    """Rows (symbol, start, *values) where `of_bars` gives a tuple of values for each bar."""
    for symbol, rows in bars(trade).items():
        for row, values in zip(rows, of_bars(rows)):
            yield (symbol, row[0], *values)


def closes(rows):
    return [row[4] for row in rows]


def true_ranges(rows):
    befores = [None] + closes(rows)[:-1]
    return [
        high - low if before is None else max(high - low, abs(high - before), abs(low - before))
        for (_, _, high, low, _, _), before in zip(rows, befores)
    ]


def ohlcv(trade, quote):
    counts = trade.groupby(["Symbol", trade.Time // 300_000_000_000]).size()
    for symbol, rows in bars(trade).items():
        for row in rows:
            yield (symbol, *row, counts[symbol, row[0] // 300_000_000_000])


def bars_without_gaps(trade, quote):
    opening = 1_570_455_000_000_000_000
    minutes = range(opening, opening + 390 * 60_000_000_000, 60_000_000_000)
    in_session = trade[(trade.Time >= minutes[0]) & (trade.Time < minutes[-1] + 60_000_000_000)]
    for symbol, rows in bars(in_session, 1).items():
        known = {row[0]: row for row in rows}
        price = None
        for minute in minutes:
            row = known.get(minute)
            price = row[4] if row else price
            yield symbol, minute, price, row[5] if row else 0


def vwap_so_far(trade, quote):
    width = 300_000_000_000
    for symbol, prints in trade.groupby("Symbol"):
        value = volume = 0
        for start, bar in prints.groupby(prints.Time // width * width):
            bar_value = (bar.Trade_Price * bar.Trade_Volume).sum()
            value, volume = value + bar_value, volume + bar.Trade_Volume.sum()
            yield symbol, start, bar_value / bar.Trade_Volume.sum(), value / volume


def step_average(times, values):
    times, values = list(times), list(values)
    whole = times[-1] - times[0]
    if whole == 0:
        return values[-1]
    return sum(x * (b - a) for x, a, b in zip(values, times, times[1:])) / whole


def twap(trade, quote):
    for (symbol, venue), rows in quote.groupby(["Symbol", "Exchange"]):
        yield symbol, venue, step_average(rows.Time, 0.5 * (rows.Bid_Price + rows.Offer_Price))


def realised_volatility(trade, quote):
    for symbol, rows in bars(trade).items():
        squares = [r * r for r in log_returns(closes(rows)) if r is not None]
        yield symbol, math.sqrt(sum(squares)), math.sqrt(252 * sum(squares))


def rolling_deviation(rows):
    for window in last(log_returns(closes(rows)), 20):
        known = [r for r in window if r is not None]
        yield (deviation(known) if known else None,)


def rate_of_change(rows):
    prices = closes(rows)
    for place, price in enumerate(prices):
        yield (100 * (price / prices[place - 12] - 1) if place >= 12 else None,)


def max_drawdown(trade, quote):
    for symbol, rows in trade.groupby("Symbol"):
        peak, deepest = -math.inf, 0.0
        for price in rows.Trade_Price:
            peak = max(peak, price)
            deepest = min(deepest, price / peak - 1)
        yield symbol, deepest


def bollinger(rows):
    for window in last(closes(rows), 20):
        middle, width = mean(window), deviation(window)
        yield middle, middle + 2 * width, middle - 2 * width, 4 * width / middle


def donchian(rows):
    for window in last(rows, 20):
        upper, lower = max(row[2] for row in window), min(row[3] for row in window)
        yield upper, lower, 0.5 * (upper + lower)


def keltner(rows):
    for middle, width in zip(ema(closes(rows), 2 / 21), wilder(true_ranges(rows), 10)):
        yield (middle, None, None) if width is None else (middle, middle + 2 * width, middle - 2 * width)


def rsi(rows):
    prices = closes(rows)
    changes = [None] + [b - a for a, b in zip(prices, prices[1:])]
    gains = wilder([None if c is None else max(c, 0) for c in changes], 14)
    losses = wilder([None if c is None else max(-c, 0) for c in changes], 14)
    for gain, loss in zip(gains, losses):
        yield (None if gain is None or gain + loss == 0 else 100 * gain / (gain + loss),)


def macd(rows):
    lines = [fast - slow for fast, slow in zip(ema(closes(rows), 2 / 13), ema(closes(rows), 2 / 27))]
    for line, signal in zip(lines, ema(lines, 2 / 10)):
        yield line, signal, line - signal


def stochastic(rows):
    places = []
    for window in last(rows, 14):
        floor, ceiling = min(row[3] for row in window), max(row[2] for row in window)
        places.append(None if floor == ceiling else 100 * (window[-1][4] - floor) / (ceiling - floor))
    for place, window in zip(places, last(places, 3)):
        known = [k for k in window if k is not None]
        yield place, mean(known) if known else None


def obv(rows):
    total, before = 0, None
    for row in rows:
        total += 0 if before is None else sign(row[4] - before) * row[5]
        before = row[4]
        yield (total,)


def volume_profile(trade, quote):
    levels = (trade.Trade_Price * 4 + 1e-9).apply(math.floor) / 4
    for (symbol, level), volume in trade.groupby(["Symbol", levels]).Trade_Volume.sum().items():
        yield symbol, level, volume


def volume_spikes(trade, quote):
    for symbol, rows in bars(trade).items():
        for place, row in enumerate(rows):
            before = [other[5] for other in rows[max(0, place - 20) : place]]
            if before and row[5] > 2 * mean(before):
                yield symbol, row[0], row[5], mean(before)


def runs(trade, quote):
    for symbol, rows in trade.groupby("Symbol"):
        run, price, start, volume = 0, None, None, 0
        for row in rows.itertuples():
            if row.Trade_Price != price:
                if run:
                    yield symbol, run, price, start, volume
                run, price, start, volume = run + 1, row.Trade_Price, row.Time, 0
            volume += row.Trade_Volume
        yield symbol, run, price, start, volume


def vpin(trade, quote):
    for symbol, rows in trade.groupby("Symbol"):
        buckets, total, before, side = {}, 0, None, 0
        for row in rows.itertuples():
            change = 0 if before is None else row.Trade_Price - before
            side = sign(change) or side
            bucket = buckets.setdefault(total // 50_000, [0, 0])
            bucket[0] += side * row.Trade_Volume
            bucket[1] += row.Trade_Volume
            total, before = total + row.Trade_Volume, row.Trade_Price
        numbers = sorted(buckets)
        for window in last(numbers, 50):
            yield symbol, window[-1], sum(abs(buckets[b][0]) for b in window) / sum(buckets[b][1] for b in window)


def quoted_spread(trade, quote):
    for (symbol, venue), rows in quote.groupby(["Symbol", "Exchange"]):
        spread = rows.Offer_Price - rows.Bid_Price
        points = 20000 * spread / (rows.Offer_Price + rows.Bid_Price)
        yield symbol, venue, step_average(rows.Time, spread), step_average(rows.Time, points)


def effective_spread(trade, quote):
    mids = {key: rows for key, rows in quote.groupby(["Symbol", "Exchange"])}  # noqa: C416, a grouping is taken for a mapping
    for (symbol, venue), rows in trade.groupby(["Symbol", "Exchange"]):
        weighted = weight = 0
        quotes = mids.get((symbol, venue))
        for row in rows.itertuples():
            place = -1 if quotes is None else quotes.Time.searchsorted(row.Time, side="right") - 1
            if place >= 0:
                best = quotes.iloc[place]
                weighted += row.Trade_Volume * 2 * abs(row.Trade_Price - 0.5 * (best.Bid_Price + best.Offer_Price))
                weight += row.Trade_Volume
        yield symbol, venue, weighted / weight if weight else None


def standing_mids(quote):
    """For each symbol a function from an instant to the mid of the last quote at or before it, with that quote's time."""
    found = {}
    for symbol, rows in quote.sort_values(["Time", "Sequence_Number"], kind="stable").groupby("Symbol"):
        times, mids = rows.Time.to_numpy(), (0.5 * (rows.Bid_Price + rows.Offer_Price)).to_numpy()

        def mid(instant, times=times, mids=mids):
            place = times.searchsorted(instant, side="right") - 1
            return (mids[place], times[place]) if place >= 0 else None

        found[symbol] = mid
    return found


def slippage(trade, quote):
    mids = standing_mids(quote)
    for row in trade.itertuples():
        mid = mids[row.Symbol](row.Time)
        stands = mid is not None and row.Time - mid[1] <= 60_000_000_000
        yield row.Symbol, row.Time, row.Sequence_Number, 10000 * (row.Trade_Price / mid[0] - 1) if stands else None


def markout(trade, quote):
    mids = standing_mids(quote)
    for seconds in (-10, 0, 1, 10, 60):
        found = [(mids[row.Symbol](row.Time + seconds * 1_000_000_000), row.Trade_Price) for row in trade.itertuples()]
        moves = [mid[0] - price for mid, price in found if mid]
        yield pd.DateOffset(months=0, days=0, nanoseconds=seconds * 1_000_000_000), len(moves), sum(moves) / len(moves)


def with_mids(trade, quote):
    """Trades with the mid at their time (None before the first quote), their side from it, and the mids of their symbol."""
    mids = standing_mids(quote)
    for row in trade.itertuples():
        found = mids[row.Symbol](row.Time)
        mid = found[0] if found else None
        yield row, mid, None if mid is None else sign(row.Trade_Price - mid), mids[row.Symbol]


def mid_at(mids, instant):
    found = mids(instant)
    return found[0] if found else None


def weighted(pairs):
    """The mean of values by weight, or None without any."""
    pairs = [(weight, value) for weight, value in pairs if value is not None]
    total = sum(weight for weight, _ in pairs)
    return sum(weight * value for weight, value in pairs) / total if total else None


def slippage_by_hour(trade, quote):
    mids, hours = standing_mids(quote), {}
    for row in trade.itertuples():
        mid = mids[row.Symbol](row.Time)
        stands = mid is not None and row.Time - mid[1] <= 60_000_000_000
        points = 10000 * abs(row.Trade_Price / mid[0] - 1) if stands else None
        hours.setdefault((row.Symbol, row.Time // HOUR * HOUR), []).append((row.Trade_Volume, points))
    for (symbol, hour), pairs in sorted(hours.items()):
        known = [points for _, points in pairs if points is not None]
        yield symbol, hour, len(known), weighted(pairs), max(known, default=None)


HOUR = 3_600_000_000_000
MIDNIGHT = 1_570_406_400_000_000_000
ORDERS = [
    (1, "AAPL", 1, MIDNIGHT + 14 * HOUR, 8000),
    (2, "MSFT", -1, MIDNIGHT + 15 * HOUR + HOUR // 2, 5000),
    (3, "SPY", 1, MIDNIGHT + 17 * HOUR, 9000),
]


def fills_of(trade, symbol, decided, quantity):
    rows = trade[(trade.Symbol == symbol) & (trade.Exchange == "N") & (trade.Time >= decided) & (trade.Time < decided + HOUR)]
    filled = 0
    for row in rows.sort_values(["Time", "Sequence_Number"], kind="stable").itertuples():
        filled += row.Trade_Volume
        if filled <= quantity:
            yield row


def shortfall_by_fill(trade, quote):
    mids = standing_mids(quote)
    for number, symbol, side, decided, quantity in ORDERS:
        arrival = mid_at(mids[symbol], decided)
        for row in fills_of(trade, symbol, decided, quantity):
            moved = side * (row.Trade_Price - arrival)
            yield number, row.Time, row.Sequence_Number, row.Trade_Volume * moved, 10000 * moved / arrival


def shortfall_by_order(trade, quote):
    mids = standing_mids(quote)
    for number, symbol, side, decided, quantity in ORDERS:
        fills = list(fills_of(trade, symbol, decided, quantity))
        filled = sum(row.Trade_Volume for row in fills)
        paid = sum(row.Trade_Volume * row.Trade_Price for row in fills)
        arrival, beginning, ending = (mid_at(mids[symbol], at) for at in (decided, fills[0].Time, decided + HOUR))
        parts = (
            side * filled * (beginning - arrival),
            side * (paid - filled * beginning),
            side * (quantity - filled) * (ending - arrival),
        )
        yield number, filled, *parts, 10000 * sum(parts) / (quantity * arrival)


def post_trade(trade, quote):
    found = {}
    for row, mid, side, mids in with_mids(trade, quote):
        later = mid_at(mids, row.Time + 60_000_000_000)
        effective = None if mid is None else 20000 * side * (row.Trade_Price - mid) / mid
        realised = None if mid is None or later is None else 20000 * side * (row.Trade_Price - later) / mid
        impact = None if realised is None else effective - realised
        found.setdefault(row.Symbol, []).append((row.Trade_Volume, row.Trade_Price, effective, realised, impact))
    for symbol, rows in sorted(found.items()):
        means = [weighted([(row[0], row[place]) for row in rows]) for place in range(1, 5)]
        yield symbol, len(rows), sum(row[0] for row in rows), *means


def venue_scorecard(trade, quote):
    found, volume = {}, trade.Trade_Volume.sum()
    for row, mid, side, mids in with_mids(trade, quote):
        laters = [mid_at(mids, row.Time + seconds * 1_000_000_000) for seconds in (1, 60)]
        marks = [None if side is None or later is None else 10000 * side * (later / row.Trade_Price - 1) for later in laters]
        spread = None if mid is None else 20000 * abs(row.Trade_Price / mid - 1)
        found.setdefault(row.Exchange, []).append((row.Trade_Volume, spread, *marks))
    for venue, rows in sorted(found.items()):
        marks = [weighted([(1, row[place]) for row in rows]) for place in (2, 3)]
        size = sum(row[0] for row in rows)
        yield venue, size / volume, size / len(rows), weighted([row[:2] for row in rows]), *marks


def last_look(trade, quote):
    found = {}
    for row, mid, side, mids in with_mids(trade, quote):
        for milliseconds in (-100, -10, 10, 100):
            later = mid_at(mids, row.Time + milliseconds * 1_000_000)
            moved = None if mid is None or later is None else 10000 * side * (later / mid - 1)
            found.setdefault((row.Exchange, milliseconds), []).append((later is not None, moved))
    for (venue, milliseconds), moves in sorted(found.items()):
        known = [(1, moved) for _, moved in moves]
        offset = pd.DateOffset(months=0, days=0, nanoseconds=milliseconds * 1_000_000)
        yield venue, offset, sum(has_quote for has_quote, _ in moves), weighted(known)


def gamma_scalping(trade, quote):
    quote = quote.sort_values(["Symbol", "Time", "Sequence_Number"], kind="stable")
    mids = 0.5 * (quote.Bid_Price + quote.Offer_Price)
    closing = mids.groupby([quote.Symbol, quote.Time // 300_000_000_000 * 300_000_000_000]).last()
    for symbol, bars_of_symbol in closing.groupby(level=0):
        before, net = None, 0
        for (_, start), mid in bars_of_symbol.items():
            if before is not None:
                gain, decay = 50 * (mid - before) ** 2, 50 * (0.25 * before) ** 2 * 5 / (252 * 390)
                net += gain - decay
                yield symbol, start, gain, decay, net
            before = mid


def weighted_mid(trade, quote):
    width = 600_000_000_000
    mids = (quote.Bid_Price * quote.Offer_Size + quote.Offer_Price * quote.Bid_Size) / (quote.Bid_Size + quote.Offer_Size)
    for (symbol, start), mid in mids.groupby([quote.Symbol, quote.Time // width * width]).mean().items():
        yield symbol, start, mid


def order_flow_imbalance(trade, quote):
    sums, width = {}, 600_000_000_000
    for key, rows in quote.groupby(["Symbol", "Exchange"]):
        before = None
        for row in rows.itertuples():
            if before is not None:
                flow = (row.Bid_Size if row.Bid_Price >= before.Bid_Price else 0) - (
                    before.Bid_Size if row.Bid_Price <= before.Bid_Price else 0
                )
                flow += (before.Offer_Size if row.Offer_Price >= before.Offer_Price else 0) - (
                    row.Offer_Size if row.Offer_Price <= before.Offer_Price else 0
                )
                place = (*key, row.Time // width * width)
                sums[place] = sums.get(place, 0) + flow
            before = row
    for place in sorted(sums):
        yield (*place, sums[place])


def venue_liquidity(trade, quote):
    shares = trade.groupby("Exchange").Trade_Volume.sum() / trade.Trade_Volume.sum()
    spread = 20000 * (quote.Offer_Price - quote.Bid_Price) / (quote.Offer_Price + quote.Bid_Price)
    for venue, rows in quote.groupby("Exchange"):
        yield venue, shares.get(venue, 0), rows.Bid_Size.mean(), rows.Offer_Size.mean(), spread[rows.index].mean()


def tick_and_trin(trade, quote):
    width, starts = 1_800_000_000_000, {}
    for _symbol, rows in trade.groupby("Symbol"):
        opening, before, volume = rows.Trade_Price.iloc[0], None, 0
        for start, bar in rows.groupby(rows.Time // width * width):
            change = 0
            for price in bar.Trade_Price:
                change = (0 if before is None else sign(price - before)) or change
                before = price
            volume += bar.Trade_Volume.sum()
            starts.setdefault(start, []).append((change, sign(before - opening), volume))
    for start in sorted(starts):
        rows = starts[start]
        up, down = ([row for row in rows if row[1] == way] for way in (1, -1))
        trin = None
        if up and down:
            trin = (len(up) / len(down)) / (sum(row[2] for row in up) / sum(row[2] for row in down))
        yield start, sum(row[0] for row in rows), trin


def sessions(trade, quote):
    names = ["pre", "morning", "midday", "close", "post"]
    bounds = [4 * 60, 9 * 60 + 30, 11 * 60 + 30, 15 * 60, 16 * 60]
    minutes = (trade.Time // 60_000_000_000 - 4 * 60) % 1440
    places = minutes.apply(lambda minute: sum(bound <= minute for bound in bounds) - 1)
    for place, volume in trade.groupby(places).Trade_Volume.sum().items():
        yield names[place] if place >= 0 else None, volume


def halves(trade, quote):
    opening, half = 1_570_455_000_000_000_000, 195 * 60_000_000_000
    for name, start in (("first half", opening), ("second half", opening + half)):
        rows = trade[(trade.Time >= start) & (trade.Time < start + half)]
        yield name, len(rows), rows.Trade_Volume.sum()


def exchange_days(trade, quote):
    day, opening = 86_400_000_000_000, 1_570_455_000_000_000_000
    yield from trade.groupby((trade.Time - opening) // day * day + opening).Trade_Volume.sum().items()


def extremes(trade, quote):
    for symbol, rows in trade.groupby("Symbol"):
        for row in rows[rows.Trade_Price == rows.Trade_Price.max()].itertuples():
            yield symbol, row.Time, row.Trade_Price


def pivot(trade, quote):
    width = 600_000_000_000
    for symbol, rows in trade.groupby("Symbol"):
        known = dict.fromkeys("NPQ")
        for start, bar in rows.groupby(rows.Time // width * width):
            known.update({row.Exchange: row.Trade_Price for row in bar.itertuples() if row.Exchange in known})
            yield symbol, start, *known.values()


def over_bars(of_bars):
    return lambda trade, quote: by_symbol(trade, of_bars)


EXPECTED = {
    "OHLCV bars": ohlcv,
    "Bars without gaps": bars_without_gaps,
    "VWAP by bar, and so far": vwap_so_far,
    "TWAP": twap,
    "Log returns": over_bars(lambda rows: [(r,) for r in log_returns(closes(rows))]),
    "Realised volatility": realised_volatility,
    "Rolling standard deviation": over_bars(rolling_deviation),
    "Rate of change": over_bars(rate_of_change),
    "Cumulative product": over_bars(lambda rows: [(row[4] / rows[0][4],) for row in rows]),
    "Compound interest": lambda trade, quote: [(1, 1050), (2, 1050 * 1.03), (3, 1050 * 1.03**2)],
    "Maximum drawdown": max_drawdown,
    "Bollinger bands": over_bars(bollinger),
    "Donchian channel": over_bars(donchian),
    "Average true range": over_bars(lambda rows: [(x,) for x in wilder(true_ranges(rows), 14)]),
    "Keltner channel": over_bars(keltner),
    "RSI": over_bars(rsi),
    "MACD": over_bars(macd),
    "Stochastic oscillator": over_bars(stochastic),
    "On-balance volume": over_bars(obv),
    "Volume profile": volume_profile,
    "Volume spikes": volume_spikes,
    "Volume per run of equal price": runs,
    "VPIN": vpin,
    "Quoted spread": quoted_spread,
    "Effective spread": effective_spread,
    "Slippage": slippage,
    "Markout": markout,
    "Liquidity-weighted mid": weighted_mid,
    "Order-flow imbalance": order_flow_imbalance,
    "Venue liquidity": venue_liquidity,
    "Slippage by hour": slippage_by_hour,
    "Implementation shortfall by fill": shortfall_by_fill,
    "Implementation shortfall by order": shortfall_by_order,
    "Post-trade overview": post_trade,
    "Venue scorecard": venue_scorecard,
    "Last look": last_look,
    "Gamma scalping": gamma_scalping,
    "TICK and TRIN": tick_and_trin,
    "Days of an exchange": exchange_days,
    "Sessions by a list of bounds": sessions,
    "Sessions by a table of bounds": halves,
    "Rows at a group's extreme": extremes,
    "Pivot, filled forward": pivot,
}


def test_every_statement_of_the_document_is_tested():
    assert len(RECIPES) == DOCUMENT.read_text().count("```sql")
    assert set(RECIPES) == set(EXPECTED) | {"Aggressor imbalance"}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_recipe(database, trade, quote, name):
    assert_rows(frame(database, RECIPES[name]), EXPECTED[name](trade, quote))


def test_aggressor_imbalance(database):
    rows = frame(database, "select symbol, timestamp, side, amount from crypto")
    bought = rows.amount.where(rows.side == "buy", -rows.amount)
    keys = [rows.symbol, rows.timestamp // 60_000_000_000 * 60_000_000_000]
    sums = pd.DataFrame({"net": bought, "amount": rows.amount}).groupby(keys).sum()
    expected = [(*key, row.net / row.amount) for key, row in zip(sums.index, sums.itertuples())]
    assert_rows(frame(database, RECIPES["Aggressor imbalance"]), expected)
