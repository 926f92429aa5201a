"""The official clients of QuestDB and InfluxDB, of its versions 1 and 2, unmodified, against `splay serve`."""

import datetime
import json
import math
import os
import pathlib
import re
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from test_server import Server, new_token

import splay

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("SPLAY_BINARY", ROOT / "target" / "release" / "splay"))

NOW = time.time_ns() // 1000 * 1000


class Ports:
    """Where a server listens, and a client of it to ask."""

    def __init__(self, found: dict[str, tuple[str, int]]):
        self.http, self.line = found["http"], found["line"]
        self.client = splay.connect(f"http://{self.http[0]}:{self.http[1]}")

    def rows(self, statement: str) -> list[dict]:
        return self.client.sql(statement).to_arrow().to_pylist()

    def await_rows(self, table: str, rows: int) -> None:
        """Line protocol over TCP has no answer: wait until the rows are seen."""
        ended = time.monotonic() + 30
        while time.monotonic() < ended:
            try:
                if self.rows(f"select count(*) as n from {table}")[0]["n"] >= rows:
                    return
            except splay.NoSuchTableError:
                pass
            time.sleep(0.02)
        pytest.fail(f"{table} has no {rows} rows after half a minute")


@pytest.fixture
def ports(tmp_path):
    if not BINARY.exists():
        pytest.skip(f"there is no {BINARY}: cargo build --release, or set SPLAY_BINARY")
    command = [BINARY, "serve", tmp_path / "db", "--http", "127.0.0.1:0", "--flight", "off", "--line", "127.0.0.1:0"]
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        found = {}
        for line in process.stdout:
            if match := re.match(r"(http|line)\s+\S+://([\d.]+):(\d+)", line):
                found[match[1]] = (match[2], int(match[3]))
            if len(found) == 2:
                break
        else:
            pytest.fail(f"splay serve did not start: {(tmp_path / 'log').read_text()[-2000:]}")
        yield Ports(found)
        process.terminate()
        process.wait(60)
        process.stdout.close()


def send_trades(sender, questdb) -> None:
    for row in range(1000):
        sender.row(
            "trades",
            symbols={"symbol": f"SYM{row % 7}", "side": "buy"},
            columns={"price": 100 + row / 8, "size": row, "firm": row % 2 == 0, "note": 'say "a, b=c"\n\\'},
            at=questdb.TimestampNanos(NOW + row * 1000),
        )


@pytest.mark.parametrize("protocol", ["tcp", "http"])
def test_questdbs_client_writes_rows(ports, protocol):
    questdb = pytest.importorskip("questdb.ingress", reason="questdb is not installed")
    host, port = ports.line if protocol == "tcp" else ports.http
    with questdb.Sender.from_conf(f"{protocol}::addr={host}:{port};") as sender:
        send_trades(sender, questdb)
        sender.flush()
    ports.await_rows("trades", 1000)
    found = ports.rows(
        "select count(*) as n, sum(price) as p, sum(size) as s, count(distinct symbol) as k, min(note) as note, "
        "count(*) filter (where firm) as firm from trades"
    )
    expected = {"n": 1000, "p": 100_000 + sum(range(1000)) / 8, "s": 499_500, "k": 7, "firm": 500}
    assert found == [{**expected, "note": 'say "a, b=c"\n\\'}]
    times = ports.rows("select min(time) as first, max(time) as last from trades")[0]
    assert (times["first"].value, times["last"].value) == (NOW, NOW + 999_000)


def test_questdbs_client_writes_frames(ports):
    questdb = pytest.importorskip("questdb.ingress", reason="questdb is not installed")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "sym": pandas.Categorical(["A", "B", "A"]),
            "price": [1.5, 2.5, None],
            "at": pandas.to_datetime([NOW, NOW + 1000, NOW + 2000], utc=True),
        }
    )
    with questdb.Sender.from_conf(f"http::addr={ports.http[0]}:{ports.http[1]};") as sender:
        sender.dataframe(frame, table_name="frames", at="at")
    assert ports.rows("select sym, count(*) as n, sum(price) as p from frames group by sym order by sym") == [
        {"sym": "A", "n": 2, "p": 1.5},
        {"sym": "B", "n": 1, "p": 2.5},
    ]


def test_influxdbs_client_writes_points_and_batches(ports):
    influx = pytest.importorskip("influxdb_client", reason="influxdb-client is not installed")
    from influxdb_client.client.write_api import SYNCHRONOUS

    with influx.InfluxDBClient(url=f"http://{ports.http[0]}:{ports.http[1]}", token="", org="-") as client:
        with client.write_api(write_options=SYNCHRONOUS) as writer:
            point = influx.Point("quotes").tag("sym", "IBM").field("bid", 140.25).field("size", 7)
            writer.write(bucket="market", record=point.time(NOW, influx.WritePrecision.NS))
            lines = [f"quotes,sym=AIG bid={row}.5,size={row}i {NOW // 1000 + row}" for row in range(100)]
            writer.write(bucket="market", record=lines, write_precision=influx.WritePrecision.US)
        with client.write_api(write_options=influx.WriteOptions(batch_size=50)) as writer:
            for row in range(120):
                when = datetime.datetime.fromtimestamp(NOW / 1e9 + row, datetime.UTC)
                writer.write(bucket="market", record=influx.Point("batched").tag("sym", "X").field("n", row).time(when))
    assert ports.rows("select sym, count(*) as n, sum(bid) as bid from quotes group by sym order by sym") == [
        {"sym": "AIG", "n": 100, "bid": 5000.0},
        {"sym": "IBM", "n": 1, "bid": 140.25},
    ]
    assert ports.rows("select count(*) as n, sum(n) as s from batched") == [{"n": 120, "s": 7140}]


def test_influxdbs_client_is_told_what_is_wrong(ports):
    influx = pytest.importorskip("influxdb_client", reason="influxdb-client is not installed")
    from influxdb_client.client.write_api import SYNCHRONOUS
    from influxdb_client.rest import ApiException

    with influx.InfluxDBClient(url=f"http://{ports.http[0]}:{ports.http[1]}", token="", org="-") as client:
        writer = client.write_api(write_options=SYNCHRONOUS)
        writer.write(bucket="market", record=f"t,sym=A v=1.5 {NOW}")
        with pytest.raises(ApiException) as refused:
            writer.write(bucket="market", record=f't,sym=A v="text" {NOW}')
        assert refused.value.status == 400
        assert "v" in refused.value.body
    assert ports.rows("select count(*) as n from t") == [{"n": 1}]


SECOND = 1_767_225_600
"""The first of 2026, in seconds since the epoch."""


@pytest.fixture
def influxdb():
    return pytest.importorskip("influxdb", reason="influxdb is not installed")


def of_version_1(influxdb, ports, **settings):
    """The client of InfluxDB 1, as its users make it: with a database, which isn't looked at, and with root's password."""
    return influxdb.InfluxDBClient(*ports.http, database="market", **settings)


def timed(ports, columns: str, table: str) -> list[tuple]:
    """Rows in order of time, which comes first, in nanoseconds."""
    found = ports.client.sql(f"select cast(time as bigint) as at, {columns} from {table} order by time, {columns}").to_arrow()
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def test_the_client_of_version_1_sees_who_is_there(ports, influxdb):
    with of_version_1(influxdb, ports) as client:
        assert re.fullmatch(r"v1\.8-splaydb-\d+\.\d+\.\d+", client.ping())


@pytest.mark.parametrize("gzip", [False, True])
def test_points_of_version_1_arrive_as_they_were(ports, influxdb, gzip):
    fields = [
        {"price": 140.25, "size": 7, "firm": True, "note": 'say "a, b=c" \\'},
        {"price": -2.5e-300, "size": 2**63 - 1, "firm": False, "note": ""},
        {"price": 1e16, "size": -(2**63), "note": "Zürich €"},
        {"price": math.inf, "size": None, "firm": None},
        {"price": math.nan, "size": 0},
    ]
    points = [
        {
            "measurement": "trades",
            "tags": {"venue": "a b,c=d\\é", "sym": f"S{number}"},
            "fields": values,
            "time": SECOND * 10**9 + number,
        }
        for number, values in enumerate(fields)
    ]
    with of_version_1(influxdb, ports, gzip=gzip) as client:
        assert client.write_points(points, tags={"source": "test"})
    # The client leaves out what is None, and says nan where InfluxDB and we say null.
    expected = [
        (SECOND * 10**9 + number, f"S{number}", "a b,c=d\\é", "test")
        + tuple(None if values.get(name) != values.get(name) else values.get(name) for name in ("price", "size", "firm", "note"))
        for number, values in enumerate(fields)
    ]
    assert timed(ports, "sym, venue, source, price, size, firm, note", "trades") == expected
    schema = ports.client.sql("select price, size, firm, note from trades").to_arrow().schema
    assert [str(kind) for kind in schema.types[:3]] == ["double", "int64", "bool"]


def test_each_precision_of_version_1_is_read_in_its_unit(ports, influxdb):
    second = 10**9
    units = {None: 1, "n": 1, "u": 10**3, "ms": 10**6, "s": second, "m": 60 * second, "h": 3600 * second}
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)
    nanoseconds = (int(when.replace(tzinfo=datetime.UTC).timestamp()) * 10**6 + when.microsecond) * 1000
    expected = []
    with of_version_1(influxdb, ports) as client:
        for precision, unit in units.items():
            # Whole numbers are counted in the unit; the client converts dates, with zone and without, and texts.
            times = [SECOND * 10**9 // unit, when, when.replace(tzinfo=datetime.UTC), "2026-01-02T03:04:05.678901Z"]
            points = [
                {"measurement": "units", "tags": {"sym": f"in {precision}"}, "fields": {"n": number}, "time": at}
                for number, at in enumerate(times)
            ]
            assert client.write_points(points, time_precision=precision)
            expected += [(SECOND * 10**9 // unit * unit, f"in {precision}", 0)]
            expected += [(nanoseconds // unit * unit, f"in {precision}", number) for number in (1, 2, 3)]
    assert timed(ports, "sym, n", "units") == sorted(expected)


def test_precisions_that_there_are_not_are_refused_with_a_reason(ports):
    host, port = ports.http
    request = urllib.request.Request(f"http://{host}:{port}/write?precision=d", data=b"units n=1i 1")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    assert refused.value.code == 400
    assert json.load(refused.value)["error"] == '"d" is not a precision; there are ns, us, ms, s, m, h'
    with pytest.raises(splay.NoSuchTableError):
        ports.rows("select * from units")


def test_a_database_of_version_1_is_created_without_effect_and_its_language_is_refused(ports, influxdb):
    with of_version_1(influxdb, ports) as client:
        client.create_database("market")
        assert client.write_points(["made,sym=A n=1i 1"], protocol="line")
        with pytest.raises(influxdb.exceptions.InfluxDBServerError, match="send SQL as query="):
            client.query("select * from made")
    assert timed(ports, "sym, n", "made") == [(1, "A", 1)]


def test_points_without_a_time_have_that_of_receipt(ports, influxdb):
    before = time.time_ns()
    with of_version_1(influxdb, ports) as client:
        assert client.write_points([{"measurement": "untimed", "tags": {"sym": "A"}, "fields": {"n": 1}}])
    [(at, sym, number)] = timed(ports, "sym, n", "untimed")
    assert before <= at <= time.time_ns()
    assert (sym, number) == ("A", 1)


@pytest.mark.parametrize("gzip", [False, True])
def test_lines_and_batches_of_version_1_arrive_once(ports, influxdb, gzip):
    with of_version_1(influxdb, ports, gzip=gzip) as client:
        lines = [f"quotes,sym=S{row % 7} bid={row}.5,size={row}i {SECOND * 1000 + row}" for row in range(1000)]
        assert client.write_points(lines, time_precision="ms", protocol="line", batch_size=64)
        points = (
            {"measurement": "points", "tags": {"sym": f"S{row % 7}"}, "fields": {"n": row}, "time": SECOND + row}
            for row in range(1000)
        )
        assert client.write_points(points, time_precision="s", batch_size=300, retention_policy="autogen", consistency="all")
        assert client.write("single,sym=A n=1i 1", {"db": "market", "precision": "s"}, protocol="line")
    assert timed(ports, "sym, bid, size", "quotes") == [
        ((SECOND * 1000 + row) * 10**6, f"S{row % 7}", row + 0.5, row) for row in range(1000)
    ]
    assert timed(ports, "sym, n", "points") == [((SECOND + row) * 10**9, f"S{row % 7}", row) for row in range(1000)]
    assert timed(ports, "sym, n", "single") == [(10**9, "A", 1)]


# The client is older than pandas 3, which warns of what it does.
@pytest.mark.filterwarnings("ignore")
def test_frames_of_version_1_arrive_as_they_were(ports, influxdb):
    pandas = pytest.importorskip("pandas")
    at = [SECOND * 10**9, SECOND * 10**9 + 1]
    frame = pandas.DataFrame(
        {"sym": ["A", "B"], "price": [1.5, 2.5], "n": [1, -2], "ok": [True, False], "note": ["x", "y z"]},
        index=pandas.to_datetime(at, utc=True),
    )
    with influxdb.DataFrameClient(*ports.http, database="market") as client:
        assert client.write_points(frame, "frames", tag_columns=["sym"], time_precision="n")
    assert timed(ports, "sym, price, n, ok, note", "frames") == [
        (at[0], "A", 1.5, 1, True, "x"),
        (at[1], "B", 2.5, -2, False, "y z"),
    ]


def test_a_bad_point_of_version_1_costs_itself_alone_and_is_explained(ports, influxdb):
    points = [
        {"measurement": "trades", "tags": {"sym": "A"}, "fields": {"price": price}, "time": number}
        for number, price in enumerate([1.5, "high", 2.5, True, 3])
    ]
    with of_version_1(influxdb, ports) as client:
        with pytest.raises(influxdb.exceptions.InfluxDBClientError) as refused:
            client.write_points(points)
        assert refused.value.code == 400
        said = json.loads(refused.value.content)
        assert (said["code"], said["retryable"]) == ("invalid", False)
        assert said["message"] == said["error"]
        assert re.match(r"partial write: refused 2 lines: line 2, byte \d+: .*\"price\".*text.*; line 4, byte", said["error"])
        assert timed(ports, "price", "trades") == [(0, 1.5), (2, 2.5), (4, 3.0)]
        # What is there says what may come.
        with pytest.raises(influxdb.exceptions.InfluxDBClientError, match="price"):
            client.write_points(["trades,sym=B price=t 9"], protocol="line")
        with pytest.raises(influxdb.exceptions.InfluxDBClientError, match="line 2"):
            client.write_points(["trades,sym=B price=9 9", "nonsense"], protocol="line")
    assert timed(ports, "sym, price", "trades") == [(0, "A", 1.5), (2, "A", 2.5), (4, "A", 3.0), (9, "B", 9.0)]


def test_the_password_of_version_1_is_a_token(tmp_path, influxdb):
    token, settings = new_token("influx")
    with Server(tmp_path / "db", config=settings) as server:
        host, _, port = server.http.removeprefix("http://").rpartition(":")
        line = ["t,sym=A n=1i 1"]
        with influxdb.InfluxDBClient(host, int(port), "anybody", "wrong") as client:
            with pytest.raises(influxdb.exceptions.InfluxDBClientError) as refused:
                client.write_points(line, protocol="line")
            assert refused.value.code == 401
        with influxdb.InfluxDBClient(host, int(port), "anybody", token) as client:
            assert client.write_points(line, protocol="line")
            assert server.query("select sym, n from t", authorization=f"Bearer {token}") == [["A", 1]]
