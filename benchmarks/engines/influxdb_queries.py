"""The fourteen queries in InfluxQL, the client that asks them, and the client's part of the work."""

import datetime
import http.client
import json
import urllib.parse

DATABASE = "market"
TAGS = ("symbol", "exchange", "side")

DAY = "time >= $day_start AND time < $day_end"
WEEK = "time >= $day_start AND time < $week_end"
MONTH = "time >= $day_start AND time < $month_end"
NBBO = "time >= $nbbo_start AND time < $nbbo_end"
MID = "(last(b1p) + last(a1p)) / 2"


def depth(levels: int, within: str, width: str) -> str:
    bids, asks = (" + ".join(f"mean({side}{level}s)" for level in range(1, levels + 1)) for side in "ba")
    return f"SELECT {bids} AS bid_depth, {asks} AS ask_depth FROM books WHERE {within} GROUP BY symbol, time({width}) fill(none)"


def closes(table: str, value: str, within: str, width: str) -> str:
    return f"SELECT {value} AS close FROM {table} WHERE {within} GROUP BY symbol, time({width}) fill(none)"


def volume(within: str, width: str) -> str:
    return f"SELECT sum(amount) AS volume FROM trades WHERE {within} GROUP BY symbol, side, time({width}) fill(none)"


BTC = f"symbol = 'BTC-USD' AND {DAY}"
TEXTS = {
    "T-V1": volume(DAY, "1m"),
    "T-V2": volume(MONTH, "1d"),
    "T-VWAP": "SELECT sum(value) / sum(amount) AS vwap FROM (SELECT price * amount AS value, amount FROM trades "
    f"WHERE {BTC}) WHERE {DAY} GROUP BY time(1m) fill(none)",
    "O-T": "SELECT b1p, b1s, a1p, a1s FROM books WHERE symbol = $symbol AND time <= $instant AND time > $instant - 1d "
    "ORDER BY time DESC LIMIT 1",
    "O-B1": f"SELECT max(b1p) AS max_bid FROM books WHERE {WEEK} GROUP BY symbol",
    "O-B2": f"SELECT max(b1p) AS max_bid FROM books WHERE {MONTH} GROUP BY symbol",
    "O-S": f"SELECT a1p - b1p AS spread FROM books WHERE {DAY} GROUP BY symbol",
    "O-V1": depth(1, WEEK, "1m"),
    "O-V2": depth(5, MONTH, "1h"),
    "O-NBBO": f"SELECT max(b1p) AS best_bid, min(a1p) AS best_ask FROM books WHERE {NBBO} GROUP BY symbol",
    "C-R": closes("books", MID, DAY, "5m"),
    "C-VT": closes("trades", "last(price)", DAY, "5m"),
    "C-VO1": closes("books", MID, DAY, "5m"),
    "C-VO2": closes("books", MID, WEEK, "1h"),
}
TIME_NAMES = {"T-V1": "bucket", "T-V2": "bucket", "T-VWAP": "bucket", "O-V1": "bucket", "O-V2": "bucket"}
TIME_NAMES |= {
    "O-T": "timestamp",
    "O-S": "timestamp",
    "C-R": "bucket",
    "C-VT": "bucket",
    "C-VO1": "bucket",
    "C-VO2": "bucket",
}
"""What the answer calls InfluxDB's ``time``; the others leave it out."""
COARSE = {"C-VT": 3_600, "C-VO1": 3_600, "C-VO2": 14_400}
"""Seconds of the buckets that returns are gathered in."""


def literal(value) -> str:
    """Instants are whole microseconds; the nanoseconds above tell rows of one time apart."""
    if isinstance(value, datetime.datetime):
        return f"'{value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat()}Z'"
    return "'" + value.replace("'", "\\'") + "'"


class Client:
    """One connection to the server."""

    def __init__(self, port: int, headers: dict[str, str] | None = None):
        self.headers = headers or {}
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=7200)

    def request(self, method: str, path: str, body=None, headers=None, **parameters) -> bytes:
        self.connection.request(
            method, f"{path}?{urllib.parse.urlencode(parameters)}", body, self.headers | (headers or {})
        )
        reply = self.connection.getresponse()
        content = reply.read()
        if reply.status >= 300:
            raise RuntimeError(content.decode(errors="replace")[:500])
        return content

    def run(self, text: str) -> list:
        """The series of a statement."""
        result = json.loads(self.request("POST", "/query", q=text, db=DATABASE, epoch="ns"))["results"][0]
        if "error" in result:
            raise RuntimeError(result["error"])
        return result.get("series", [])

    def prepare(self, question, parameters, variant, before: str = ""):
        # What ``columns`` uses is imported before the clock starts.
        import numpy.ma  # noqa: F401
        import pyarrow.acero
        import pyarrow.compute
        import pyarrow.csv  # noqa: F401
        from engine.question import render

        id = question.id
        if "instant" in variant:
            # All rows of the instant's own microsecond belong to the answer.
            until = literal(variant["instant"]).removesuffix("Z'") + "999Z'"
            text = render(TEXTS[id].replace("<= $instant", f"<= {until}"), parameters, variant, literal)
        else:
            text = render(TEXTS[id], parameters, variant, literal)
        return self.asking(id, before + text)

    def asking(self, id: str, text: str):
        headers = {"Accept": "application/csv"}
        return lambda: columns(id, self.request("GET", "/query", None, headers, q=text, db=DATABASE, epoch="ns"))


def columns(id: str, content: bytes):
    """An answer in CSV as an Arrow table, with the client's part of the work."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    table = csv.read_csv(
        pa.BufferReader(content), convert_options=csv.ConvertOptions(column_types={"tags": pa.string()})
    )
    found = {}
    # All rows of a series have the same text: it is taken apart once for each series, not for each row.
    tags = table["tags"].combine_chunks().dictionary_encode()
    tags = tags.combine_chunks() if isinstance(tags, pa.ChunkedArray) else tags
    for tag in TAGS:
        values = pc.extract_regex(tags.dictionary, f"(?:^|,){tag}=(?P<value>[^,]*)")
        if id != "O-T" and values.null_count < len(values):
            found[tag] = pc.struct_field(values, "value").take(tags.indices)
    if id in TIME_NAMES:
        micros = pc.divide(table["time"], 1_000)
        found[TIME_NAMES[id]] = micros.cast(pa.timestamp("us", "UTC"))
    for name in table.column_names[3:]:
        found[name] = table[name]
    answer = pa.table(found)
    if id in ("T-V1", "T-V2"):
        # InfluxDB orders groups by the names of their tags: side before symbol.
        return answer.sort_by([(name, "ascending") for name in ("symbol", "side", "bucket")])
    return with_returns(id, answer) if id.startswith("C-") else answer


def with_returns(id: str, closes):
    """Logarithmic returns, and for all but C-R their deviation by coarse bucket; closes come by symbol and time."""
    import numpy as np
    import pyarrow as pa

    logs, symbols = np.log(closes["close"].to_numpy()), np.array(closes["symbol"])
    later = np.flatnonzero(symbols[1:] == symbols[:-1]) + 1
    returns = (logs[1:] - logs[:-1])[later - 1]
    table = pa.table({"symbol": symbols[later], "bucket": closes["bucket"].take(later), "ret": returns})
    if id not in COARSE:
        return table
    micros = COARSE[id] * 1_000_000
    coarse = table["bucket"].cast(pa.int64()).to_numpy() // micros * micros
    table = pa.table({"symbol": table["symbol"], "coarse": pa.array(coarse, pa.timestamp("us", "UTC")), "ret": returns})
    # A group of one has no deviation: null, as it should be.
    options = pa.compute.VarianceOptions(ddof=1)
    found = table.group_by(["symbol", "coarse"], use_threads=False).aggregate([("ret", "stddev", options)])
    found = found.rename_columns(["symbol", "coarse", "volatility"])
    return found.sort_by([("symbol", "ascending"), ("coarse", "ascending")])
