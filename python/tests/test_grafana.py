"""Grafana over PostgreSQL's wire and Prometheus over `/metrics`: what they ask, replayed against `splay serve`, and the dashboards of
`packaging/grafana`. Neither needs to be installed; where `promtool` is, it reads the expressions and the configuration, too."""

from __future__ import annotations

import base64
import datetime
import json
import pathlib
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator

import grafana
import pytest
import yaml
from grafana import UTC, Range, asked, expanded, with_variables
from test_postgres import Postgres
from test_server import DAY_NS, ROOT, SPLAY, lines

psycopg = pytest.importorskip("psycopg")

FOLDER = ROOT / "packaging" / "grafana"
DAY = datetime.datetime(2019, 10, 7, tzinfo=UTC)
OPEN = Range(DAY.replace(hour=13, minute=30), DAY.replace(hour=20), interval="1m")
BOTH = pytest.mark.parametrize("timescale", [False, True], ids=["plain", "timescale"])


def dashboard(name: str) -> dict:
    return json.loads((FOLDER / "dashboards" / f"{name}.json").read_text())


def constants(board: dict) -> dict[str, str]:
    return {one["name"]: one["query"] for one in board["templating"]["list"] if one["type"] == "constant"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A database as `make demo` makes it, of fewer rows."""
    folder = tmp_path_factory.mktemp("demo")

    def run(*arguments: object) -> None:
        subprocess.run([SPLAY, *map(str, arguments)], check=True, capture_output=True)

    run("gen", "taq", "--out", folder / "files", "--date", "2019-10-07", "--symbols", 10, "--quotes", 20_000, "--trades", 5_000)
    run("load", folder / "db", "trade", *(folder / "files").glob("EQY_US_ALL_TRADE_*.gz"), "--recipe", "nyse-taq-trade")
    run("load", folder / "db", "quote", *(folder / "files").glob("SPLITS_US_ALL_BBO_*.gz"), "--recipe", "nyse-taq-quote")
    return folder / "db"


@pytest.fixture(scope="module")
def server(demo: pathlib.Path) -> Iterator[Postgres]:
    with Postgres(demo) as running:
        for statement in (
            "create table events (time timestamp, ends timestamp, title text, note text, epoch int64)",
            "insert into events values (timestamp '2019-10-07 14:00:00', timestamp '2019-10-07 14:05:00', 'halt', 'LULD', 1570456800), "
            "(timestamp '2019-10-07 15:00:00', timestamp '2019-10-07 15:00:00', 'news', 'FOMC', 1570460400)",
            'create table "order" (time timestamp, "Filled Size" decimal(18, 4), flag bool, day date, depth levels(2))',
        ):
            status, body = running.send("/query", statement.encode(), content_type="text/plain")
            assert status == 200, body
        yield running


@pytest.fixture
def connection(server: Postgres) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.address, autocommit=True) as connected:
        yield connected


def one(connection: psycopg.Connection, sql: str) -> grafana.Frame:
    (frame,) = asked(connection, sql)
    return frame


def test_the_connection_and_its_version_are_checked(connection: psycopg.Connection) -> None:
    # Pings of pgx and of lib/pq.
    assert asked(connection, "-- ping") == [] and asked(connection, ";") == []
    assert one(connection, "SELECT current_setting('server_version_num')::int/100 AS version").rows == [(1600.0,)]
    # The extension would turn a switch of the data source on.
    found = one(connection, "SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'")
    assert (found.names, found.rows) == (["extversion"], [])


# Whether a schema is in the search path, as the query builder asks: by functions of lists in FROM, where an alias names a value.
IN_PATH = """quote_ident(table_schema) IN (
    SELECT CASE trim(path[n]) WHEN '"$user"' THEN user ELSE trim(path[n]) END
    FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
                         array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS n,
         string_to_array(current_setting('search_path'), ',') path)"""


def test_the_query_builder_lists_tables(connection: psycopg.Connection) -> None:
    schemas = "SELECT schema_name AS name FROM information_schema.schemata WHERE schema_name NOT IN ('information_schema', 'pg_catalog') ORDER BY 1"
    assert one(connection, schemas).rows == [("public",)]
    expected = ['"order"', "events", "quote", "trade"]
    of_schema = "SELECT quote_ident(table_name) AS \"table\" FROM information_schema.tables WHERE quote_ident(table_schema) = 'public' ORDER BY 1"
    assert one(connection, of_schema).column("table") == expected
    # Those of the search path first and by their names alone.
    named = f"CASE WHEN {IN_PATH} THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END"
    of_path = f'SELECT {named} AS "table" FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN (\'pg_catalog\')'
    found = one(connection, f"{of_path} ORDER BY CASE WHEN {IN_PATH} THEN 0 ELSE 1 END, 1").column("table")
    assert found[:4] == expected
    assert found[4:] == sorted(found[4:]) and "information_schema.columns" in found


TYPES = {
    "time": ("timestamp with time zone", "timestamptz"),
    '"Filled Size"': ("numeric", "numeric"),
    "flag": ("boolean", "bool"),
    "day": ("date", "date"),
    "depth": ("ARRAY", "_float8"),
}


@pytest.mark.parametrize("name", ['"order"', 'public."order"', 'PUBLIC . "order"', "trade"])
def test_the_query_builder_lists_columns(connection: psycopg.Connection, name: str) -> None:
    frame = one(
        connection,
        f"""SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns
            WHERE CASE WHEN array_length(parse_ident('{name}'), 1) = 2
                       THEN table_schema = (parse_ident('{name}'))[1] AND table_name = (parse_ident('{name}'))[2]
                       ELSE quote_ident(table_name) = '{name}' AND {IN_PATH} END""",
    )
    found = dict(frame.rows)
    if name == "trade":
        # In their spelling, so that what the builder makes of them is what PostgreSQL would take.
        assert {found[column] for column in ('"Time"', '"Symbol"', '"Trade_Price"', '"Trade_Volume"')} == {
            "timestamp with time zone",
            "text",
            "double precision",
            "bigint",
        }
    else:
        assert {column: found[column] for column in TYPES} == {column: shown for column, (shown, _) in TYPES.items()}


def test_schemas_are_asked_with_placeholders(connection: psycopg.Connection) -> None:
    tables = connection.execute(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_type IN ('BASE TABLE', 'VIEW') ORDER BY 1", ("public",)
    )
    assert [name for (name,) in tables] == ["events", "order", "quote", "trade"]
    columns = connection.execute(
        """SELECT column_name, udt_name, numeric_precision, numeric_scale, ordinal_position, is_nullable FROM information_schema.columns
           WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position""",
        ("public", "order"),
    ).fetchall()
    kinds = [(f'"{name}"' if " " in name else name, kind) for name, kind, *_ in columns]
    assert kinds[:5] == [(name, kind) for name, (_, kind) in TYPES.items()]
    assert columns[0][2:] == (None, None, 1, "NO") and columns[1][2:] == (18, 4, 2, "YES")
    values = one(connection, """SELECT 'Symbol' AS col, "Symbol"::text AS val FROM
        (SELECT DISTINCT "Symbol" FROM "public"."trade" WHERE "Symbol" IS NOT NULL ORDER BY "Symbol" LIMIT 100) one""")
    assert len(values.rows) == 10


@BOTH
def test_macros_group_by_time(server: Postgres, connection: psycopg.Connection, timescale: bool) -> None:
    over = Range(OPEN.start, OPEN.end.replace(microsecond=500_000), timescale=timescale)
    start, end = (round(time.timestamp() * 1_000_000) for time in (over.start, over.end))
    for interval in ("20ms", "7s", "1m", "5m", "1h", "1d", "12d"):
        width = round(grafana.seconds(interval) * 1_000_000)
        expected: dict[int, float] = defaultdict(float)
        for time, volume in server.query("select epoch_us(Time), Trade_Volume from trade where Symbol = 'AAPL'"):
            if start <= time <= end:
                expected[time // width * width] += volume
        for group in (f"$__timeGroupAlias(Time,'{interval}')", f"$__timeGroup(Time , '{interval}'), 1 as n", f"$__timeGroup(Time,'{interval}') as time"):
            sql = f"SELECT {group}, sum(Trade_Volume) AS volume FROM trade WHERE $__timeFilter(Time) AND Symbol = 'AAPL' GROUP BY 1 ORDER BY 1"
            frame = one(connection, expanded(sql, over))
            frame.check_series()
            # Floats of seconds tell microseconds apart, but not to the last of them.
            found = {round(time.timestamp() * 1000): volume for time, volume in zip(frame.column("time"), frame.column("volume"))}
            assert found == {time // 1000: volume for time, volume in expected.items()}, interval


@BOTH
def test_the_query_builders_statements_run(connection: psycopg.Connection, timescale: bool) -> None:
    """The builder puts functions, columns, aliases and conditions together; its groups are named by their expression."""
    over = Range(OPEN.start, OPEN.end, interval="5m", timescale=timescale)
    for sql in (
        'SELECT $__timeGroup("Time", $__interval), AVG("Trade_Price") AS "mean" FROM trade WHERE $__timeFilter("Time") '
        'GROUP BY $__timeGroup("Time", $__interval) ORDER BY $__timeGroup("Time", $__interval) LIMIT 50 ',
        'SELECT $__timeGroupAlias("Time", $__interval, NULL), "Symbol" AS metric, SUM("Trade_Volume") FROM public.trade '
        "WHERE ($__timeFilter(\"Time\") AND \"Symbol\" IN ('AAPL', 'MSFT') AND \"Trade_Price\" > 3) GROUP BY 1, \"Symbol\" ORDER BY 1 ",
        'SELECT $__time("Time"), "Trade_Price" FROM trade WHERE "Symbol" LIKE \'%A%\' AND $__timeFilter("Time") ORDER BY "Time" LIMIT 50 ',
        'SELECT $__timeEpoch("Time"), MAX("Trade_Price") AS high FROM trade GROUP BY "Time" ORDER BY 1 ASC LIMIT 50 ',
    ):
        expected_rows = one(connection, expanded(sql.replace("$__timeGroup(\"Time\", $__interval),", "$__timeGroupAlias(\"Time\", $__interval),"), over))
        expected_rows.check_series()
        assert expected_rows.rows
    table = one(connection, expanded('SELECT COUNT("Symbol"), MIN("Time"), "Exchange" FROM trade GROUP BY "Exchange" ORDER BY COUNT("Symbol") DESC LIMIT 3 ', over))
    assert table.kinds == ["number", "time", "text"] and len(table.rows) == 3


def test_macros_of_epochs_and_bounds(connection: psycopg.Connection) -> None:
    over = Range(OPEN.start, OPEN.start + datetime.timedelta(hours=1))
    for condition in (
        "$__unixEpochFilter(epoch)",
        "$__unixEpochNanoFilter(epoch * 1000000000)",
        "epoch between $__unixEpochFrom() and $__unixEpochTo()",
        "epoch * 1000000000 between $__unixEpochNanoFrom() and $__unixEpochNanoTo()",
        "time >= $__timeFrom() and time < $__timeTo()",
        "time between $__timeFrom()::timestamptz and $__timeTo()::timestamptz",
    ):
        assert one(connection, expanded(f"SELECT title FROM events WHERE {condition}", over)).rows == [("halt",)], condition
    for group in ("$__unixEpochGroupAlias(epoch,'5m')", "$__unixEpochGroup(epoch, '5m') AS time"):
        frame = one(connection, expanded(f"SELECT {group}, count(*) AS n FROM events GROUP BY 1 ORDER BY 1", over))
        assert frame.rows == [(DAY.replace(hour=14), 1.0), (DAY.replace(hour=15), 1.0)]
    assert one(connection, expanded("SELECT '$__interval', $__interval_ms", over)).rows == [("1m", 60_000.0)]


def test_annotations_and_variables(connection: psycopg.Connection) -> None:
    sql = "SELECT time AS \"time\", ends AS timeend, title, note AS text, 'splay,' || title AS tags FROM events WHERE $__timeFilter(time) ORDER BY time"
    frame = one(connection, expanded(sql, OPEN))
    assert frame.names == ["time", "timeend", "title", "text", "tags"]
    assert frame.rows[0] == (DAY.replace(hour=14), DAY.replace(hour=14, minute=5), "halt", "LULD", "splay,halt")
    assert one(connection, "SELECT title AS __text, epoch AS __value FROM events ORDER BY 1").rows == [("halt", 1570456800.0), ("news", 1570460400.0)]
    sql = with_variables("SELECT count(*) FROM trade WHERE Symbol IN ($symbol) AND '${one}' = 'it''s'", {"symbol": ["AAPL", "O'X"], "one": "it's"})
    assert one(connection, sql).rows[0][0] > 0
    # The text that somebody types into a variable's list.
    assert one(connection, "SELECT DISTINCT Symbol FROM trade WHERE Symbol LIKE 'AAP%' ORDER BY 1").rows == [("AAPL",)]


COLUMNS = {
    "Bars": ["time", "open", "high", "low", "close", "volume"],
    "The range": ["Last", "VWAP", "Volume", "Trades"],
    "Last prices": ["symbol", "price", "change", "volume", "last trade"],
    "Volume by minute": ["time", "volume"],
    "Spread": ["time", "spread"],
    "Bid and ask": ["time", "bid", "ask"],
    "Trades": ["time", "symbol", "price", "size"],
}


@BOTH
def test_the_dashboard_of_market_data(connection: psycopg.Connection, timescale: bool) -> None:
    board = dashboard("market-data")
    start, end = (datetime.datetime.fromisoformat(board["time"][side]) for side in ("from", "to"))
    over = Range(start, end, timescale=timescale)
    values: dict[str, str | list[str]] = {**constants(board)}
    queried = next(one for one in board["templating"]["list"] if one["type"] == "query")
    (bar,) = (one["current"]["value"] for one in board["templating"]["list"] if one["name"] == "bar")
    symbols = one(connection, with_variables(queried["query"], values)).rows
    assert len(symbols) == 10
    values |= {"symbol": symbols[0][0], "bar": bar}
    shown = {}
    for panel, target in grafana.targets(board):
        frame = one(connection, expanded(with_variables(target["rawSql"], values), over))
        shown[panel["title"]] = frame.names
        assert frame.rows and "$" not in expanded(with_variables(target["rawSql"], values), over), panel["title"]
        if target["format"] == "time_series" or panel["type"] == "candlestick":
            frame.check_series()
        for name, kind in zip(frame.names, frame.kinds):
            expected = {"time": "time", "last trade": "time", "symbol": "text"}.get(name, "number")
            assert kind == expected or (kind == "number" and expected == "time" and not timescale), (panel["title"], name)
        named = {override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]}
        assert named <= set(frame.names)
        if panel["type"] == "candlestick":
            assert set(panel["options"]["fields"].values()) <= set(frame.names)
            for row in frame.rows:
                bar_of = dict(zip(frame.names, row))
                assert bar_of["low"] <= min(bar_of["open"], bar_of["close"]) <= max(bar_of["open"], bar_of["close"]) <= bar_of["high"]
    assert shown == COLUMNS


@pytest.mark.parametrize("name", ["market-data", "operations"])
def test_dashboards_are_well_formed(name: str) -> None:
    board = dashboard(name)
    assert board["uid"] == f"splaydb-{name}" and board["title"]
    known = {one["name"] for one in board["templating"]["list"]} | {"__rate_interval"}
    assert sorted(panel["id"] for panel in board["panels"]) == list(range(1, len(board["panels"]) + 1))
    places = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        taken = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not taken & places, panel["title"]
        places |= taken
        for target in panel.get("targets", ()):
            assert target["datasource"] == panel["datasource"] and target["datasource"]["uid"] == "${source}"
            text = target.get("rawSql") or target["expr"]
            assert set(re.findall(r"\$(\w+)", text)) <= known | set(re.findall(r"\$(__\w+)\(", text)), text


def test_provisioning_names_what_the_dashboards_ask_for() -> None:
    sources = yaml.safe_load((FOLDER / "provisioning" / "datasources" / "splaydb.yaml").read_text())["datasources"]
    asked_for = {target["datasource"]["type"] for name in ("market-data", "operations") for _, target in grafana.targets(dashboard(name))}
    assert {source["type"] for source in sources} == asked_for
    assert sources[0]["secureJsonData"]["password"] == "${SPLAY_PASSWORD}"
    (provider,) = yaml.safe_load((FOLDER / "provisioning" / "dashboards" / "splaydb.yaml").read_text())["providers"]
    assert provider["type"] == "file" and provider["options"]["path"]
    (job,) = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    assert job["job_name"] == "splaydb"


def expressions() -> list[str]:
    """Those of the dashboard of operations, with variables and macros as Grafana puts them in."""
    put_in = {"$job": ".*", "$instance": ".*", "$__rate_interval": "1m"}
    texts = [target["expr"] for _, target in grafana.targets(dashboard("operations"))]
    for name, value in put_in.items():
        texts = [text.replace(name, value) for text in texts]
    return texts


def scraped(text: str) -> dict[str, set[str]]:
    """Names of the samples of an OpenMetrics text, with the labels that any of them has."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, labels = re.fullmatch(r"(\w+)(?:\{(.*)\})? \S+.*", line).groups()
            found[name] |= set(re.findall(r'(\w+)="', labels or ""))
    return found


def test_the_dashboard_of_operations(tmp_path: pathlib.Path) -> None:
    with Postgres(tmp_path / "db") as server:
        assert server.send("/write", lines(0, 100))[0] == 204
        # A number below the one before.
        assert server.send("/write", f"trade,sym=IBM price=1,size=1i {DAY_NS}\n".encode())[0] == 204
        with psycopg.connect(server.address, autocommit=True) as connection:
            assert one(connection, "select count(*) from trade").rows == [(101.0,)]
            samples = scraped(server.send("/metrics")[1].decode())
    own = {"job", "instance"}
    for text in expressions():
        names = set(re.findall(r"splay_\w+", text))
        assert names and names <= samples.keys(), text
        labels = {label for group in re.findall(r"by \(([^)]*)\)", text) for label in re.split(r",\s*", group)}
        labels |= set(re.findall(r"(\w+)=~?\"", text))
        assert all(labels - own <= samples[name] for name in names), (text, [samples[name] for name in names])
    assert "splay_uptime_seconds" in samples


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool of Prometheus")
def test_prometheus_takes_expressions_and_configuration(tmp_path: pathlib.Path) -> None:
    rules = [{"record": f"splaydb:{number}", "expr": text} for number, text in enumerate(expressions())]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    for kind, file in (("rules", tmp_path / "rules.yml"), ("config", FOLDER / "prometheus.yml")):
        ended = subprocess.run(["promtool", "check", kind, str(file)], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_user_sees_what_he_was_granted(tmp_path: pathlib.Path) -> None:
    """The users that docs/guide/grafana.md makes."""
    with Postgres(tmp_path / "db") as server:
        assert server.send("/write", lines(0, 100))[0] == 204
        assert server.send("/write", lines(0, 10, "secret"))[0] == 204
        server.query("create user admin superuser password 'open sesame'")
        admin = "Basic " + base64.b64encode(b"admin:open sesame").decode()
        for statement in (
            "create user grafana password 'correct horse'",
            "grant select on trade to grafana",
            "create user prometheus",
            "grant pg_monitor to prometheus",
        ):
            server.query(statement, authorization=admin)
        token = server.query("create token scrape for prometheus", authorization=admin)[0][2]
        with psycopg.connect(f"host=127.0.0.1 port={server.port} user=grafana password='correct horse' dbname=splay", autocommit=True) as connection:
            tables = f'SELECT quote_ident(table_name) AS "table" FROM information_schema.tables WHERE {IN_PATH} ORDER BY 1'
            assert one(connection, tables).rows == [("trade",)]
            assert one(connection, "SELECT DISTINCT table_name FROM information_schema.columns WHERE table_schema = 'public'").rows == [("trade",)]
            assert one(connection, "SELECT count(*) FROM trade").rows == [(100.0,)]
            with pytest.raises(psycopg.errors.UndefinedTable):
                asked(connection, "SELECT * FROM secret")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                asked(connection, "DELETE FROM trade")
        assert server.send("/metrics")[0] == 401
        assert server.send("/metrics", authorization=f"Bearer {token}")[0] == 200
        assert server.send("/query", b"select count(*) from trade", authorization=f"Bearer {token}", content_type="text/plain")[0] != 200
