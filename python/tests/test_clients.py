"""The official clients of QuestDB and InfluxDB, unmodified, against `splay serve`."""

import datetime
import os
import pathlib
import re
import subprocess
import time

import pytest

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
