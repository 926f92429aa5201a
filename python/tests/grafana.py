"""What Grafana's PostgreSQL data source makes of a panel: variables and macros become SQL, which is sent as one simple query, and its columns become
fields of a frame by their types.

Written from the behaviour of the data source of 2026, whose driver is pgx; releases before used lib/pq, which sends the same.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import re
from collections.abc import Iterable, Mapping

import psycopg
from psycopg.pq import ExecStatus

UTC = datetime.UTC
SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
MACRO = re.compile(r"\$(__\w+)\(([^)]*)\)")

TIMES = {1082: "date", 1114: "timestamp", 1184: "timestamptz"}
NUMBERS = {20: "int8", 21: "int2", 23: "int4", 700: "float4", 701: "float8", 1700: "numeric"}


@dataclasses.dataclass(frozen=True)
class Range:
    """The time range of a dashboard, and the interval that Grafana computes of it and the panel's width."""

    start: datetime.datetime
    end: datetime.datetime
    interval: str = "1m"
    timescale: bool = False
    """Whether the data source's switch TimescaleDB is on."""


def seconds(interval: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(ms|[smhdw])", interval).groups()
    return int(number) * SECONDS[unit]


def rfc3339(time: datetime.datetime) -> str:
    """With as many digits of the second as it needs."""
    fraction = f".{time.microsecond:06}".rstrip("0") if time.microsecond else ""
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def with_variables(sql: str, values: Mapping[str, str | list[str]]) -> str:
    """Variables in their places: quotes are doubled, and lists are quoted item by item. Done in the browser, before macros."""

    def value(match: re.Match[str]) -> str:
        held = values.get(match[1] or match[2])
        if held is None:
            return match[0]
        if isinstance(held, list):
            return ",".join("'" + item.replace("'", "''") + "'" for item in held)
        return held.replace("'", "''")

    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", value, sql)


def expanded(sql: str, over: Range) -> str:
    """A statement with its macros in SQL, as the data source's backend sends it."""
    sql = sql.replace("$__interval_ms", str(round(seconds(over.interval) * 1000))).replace("$__interval", over.interval)
    first, last = (int(time.timestamp()) for time in (over.start, over.end))
    sql = sql.replace("$__unixEpochFrom()", str(first)).replace("$__unixEpochTo()", str(last))

    def macro(match: re.Match[str]) -> str:
        name, arguments = match[1], [argument.strip() for argument in match[2].split(",")]
        # Before Grafana 5.3 $__timeGroup named its column, and still does right before a comma.
        if name == "__timeGroup" and sql[match.end() : match.end() + 1] == ",":
            name = "__timeGroupAlias"
        return _macro(name, arguments, over)

    return MACRO.sub(macro, sql)


def _macro(name: str, arguments: list[str], over: Range) -> str:
    column = arguments[0]
    start, end = rfc3339(over.start), rfc3339(over.end)
    first, last = over.start.timestamp(), over.end.timestamp()
    if name.endswith("GroupAlias"):
        return _macro(name.removesuffix("Alias"), arguments, over) + ' AS "time"'
    if name.endswith("Group"):
        width = seconds(arguments[1].strip("'"))
        if name == "__unixEpochGroup":
            return f"floor(({column})/{width:g})*{width:g}"
        return f"time_bucket('{width:.3f}s',{column})" if over.timescale else f"floor(extract(epoch from {column})/{width:g})*{width:g}"
    return {
        "__time": f'{column} AS "time"',
        "__timeEpoch": f'extract(epoch from {column}) as "time"',
        "__timeFilter": f"{column} BETWEEN '{start}' AND '{end}'",
        "__timeFrom": f"'{start}'",
        "__timeTo": f"'{end}'",
        "__unixEpochFilter": f"{column} >= {int(first)} AND {column} <= {int(last)}",
        "__unixEpochNanoFilter": f"{column} >= {int(first) * 10**9} AND {column} <= {int(last) * 10**9}",
        "__unixEpochNanoFrom": f"{int(first) * 10**9}",
        "__unixEpochNanoTo": f"{int(last) * 10**9}",
    }[name]


@dataclasses.dataclass
class Frame:
    """An answer as Grafana holds it: times, floats and texts."""

    names: list[str]
    kinds: list[str]
    rows: list[tuple[object, ...]]

    def column(self, name: str) -> list[object]:
        at = self.names.index(name)
        return [row[at] for row in self.rows]

    def kind(self, name: str) -> str:
        return self.kinds[self.names.index(name)]

    def check_series(self) -> None:
        """What makes a frame a time series: a time in each row, in ascending order, and numbers beside it. Texts are labels."""
        times = self.column("time")
        assert self.kind("time") in ("time", "number") and None not in times
        assert times == sorted(times), "a series is sorted by time"
        assert "number" in [kind for name, kind in zip(self.names, self.kinds) if name != "time"]


def asked(connection: psycopg.Connection, sql: str) -> list[Frame]:
    """The answers to a simple query, whose values are texts; a column that is called `time` and holds a number is one of seconds since 1970."""
    connection.pgconn.send_query(sql.encode())
    frames: list[Frame] = []
    error = None
    while (result := connection.pgconn.get_result()) is not None:
        if result.status == ExecStatus.FATAL_ERROR:
            error = psycopg.errors.error_from_result(result)
        elif result.status == ExecStatus.TUPLES_OK:
            frames.append(_frame(result))
        else:
            assert result.status == ExecStatus.EMPTY_QUERY, result.status
    if error is not None:
        raise error
    return frames


def _frame(result: psycopg.pq.abc.PGresult) -> Frame:
    at = range(result.nfields)
    assert all(result.fformat(column) == 0 for column in at)
    names = [result.fname(column).decode() for column in at]
    types = [result.ftype(column) for column in at]
    kinds = ["time" if oid in TIMES else "number" if oid in NUMBERS else "text" for oid in types]

    def value(row: int, column: int) -> object:
        held = result.get_value(row, column)
        if held is None:
            return None
        match kinds[column]:
            case "time":
                time = datetime.datetime.fromisoformat(held.decode())
                return time if time.tzinfo else time.replace(tzinfo=UTC)
            case "number":
                return float(held)
            case _:
                return held.decode()

    rows = [tuple(value(row, column) for column in at) for row in range(result.ntuples)]
    frame = Frame(names, kinds, rows)
    if "time" in names and frame.kind("time") == "number":
        place = names.index("time")
        assert all(9 <= math.log10(row[place]) < 10 for row in rows), "seconds since 1970 have ten digits"
        frame.rows = [(*row[:place], datetime.datetime.fromtimestamp(row[place], UTC), *row[place + 1 :]) for row in rows]
    return frame


def targets(dashboard: Mapping[str, object]) -> Iterable[tuple[Mapping[str, object], Mapping[str, object]]]:
    """Panels of a dashboard with each of their targets."""
    return ((panel, target) for panel in dashboard["panels"] for target in panel.get("targets", ()))
