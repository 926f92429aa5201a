"""`splay tick status` and `splay tick write`, against a running server and against files; and text over HTTP."""

import json
import pathlib
import subprocess
import threading

import pyarrow as pa
import pytest
from test_serve import Served
from test_server import DAY_NS, SPLAY, Server, batch, eventually, lines, server  # noqa: F401, fixture

import splay

TYPES = ("--type", "time=timestamp", "--type", "sym=symbol", "--type", "price=float64", "--type", "size=int64")


def run(*arguments, text: bytes = b"", fails: bool = False) -> tuple[str, str]:
    done = subprocess.run([SPLAY, "tick", *map(str, arguments)], input=text, capture_output=True, timeout=120)
    assert (done.returncode != 0) == fails, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()


def csv(first: int, rows: int) -> bytes:
    return b"".join(b"%d,%s,%d.5,%d\n" % (DAY_NS + i, (b"AIG", b"IBM")[i % 2], i, i) for i in range(first, first + rows))


def ndjson(first: int, rows: int) -> bytes:
    made = ({"time": DAY_NS + i, "sym": ("AIG", "IBM")[i % 2], "price": i + 0.5, "size": i} for i in range(first, first + rows))
    return b"".join(json.dumps(row).encode() + b"\n" for row in made)


HEADER = b"time,sym,price,size\n"


def sizes(database: pathlib.Path) -> list[int]:
    return splay.open(database).sql("select size from trade order by size").to_arrow()["size"].to_pylist()


@pytest.fixture(params=["server", "folder"])
def place(request, tmp_path):
    """Where rows go, and how they are read afterwards."""
    if request.param == "folder":
        yield tmp_path / "db", lambda: sizes(tmp_path / "db")
        return
    with Server(tmp_path / "db") as running:
        yield running.http, lambda: [row[0] for row in running.query("select size from trade order by size")]


def test_lines_are_stored_and_bad_ones_named(place):
    where, stored = place
    text = HEADER + csv(0, 3) + b"\n" + b"soon,IBM,1,1\n" + csv(3, 2) + b"1,IBM,1,1.5\n1,IBM,1\n"
    said, complained = run("write", where, "trade", "--format", "csv", *TYPES, text=text)
    assert said == "stored 5 rows in trade (disk), refused 3 lines\n"
    assert complained.splitlines() == [
        'splay: line 6: time: "soon" is no timestamp',
        'splay: line 9: size: "1.5" is no int64',
        "splay: line 10: it has 3 fields, not 4",
    ]
    assert stored() == list(range(5))
    text = ndjson(5, 3) + b'{"time": 1, "prize": 2}\n' + ndjson(8, 1).rstrip()
    said, complained = run("write", where, "trade", "--format", "ndjson", "--ack", "process", text=text)
    assert said == "stored 4 rows in trade (process), refused 1 line\n"
    assert 'line 4: table "trade" has no column "prize"' in complained
    assert stored() == list(range(9))
    said, _ = run("write", where, "trade", "--format", "csv", "--columns", "size,time", "--unit", "us", text=b"9,1.001\n")
    assert said == "stored 1 row in trade (disk), refused 0 lines\n"
    assert stored() == list(range(10))


def test_the_same_input_is_stored_once(place):
    where, stored = place
    write = ("write", where, "trade", "--format", "csv", "--producer", "file of today", "--batch-rows", "7", *TYPES)
    first = HEADER + csv(0, 25) + b"bad\n" + csv(25, 25)
    said, complained = run(*write, text=first)
    assert said == "stored 50 rows in trade (disk), refused 1 line\n"
    assert "line 27: it has 1 fields, not 4" in complained
    assert stored() == list(range(50))
    said, _ = run(*write, text=first + csv(50, 30))
    assert said == "stored 30 rows in trade (disk), refused 0 lines, passed over 51 lines stored before\n"
    assert stored() == list(range(80))
    # In batches of another size, too.
    said, _ = run(*write[:-9], "1000", *TYPES, text=first + csv(50, 40))
    assert said.startswith("stored 10 rows")
    assert stored() == list(range(90))


def test_many_lines_come_through(place):
    where, stored = place
    said, _ = run("write", where, "trade", "--format", "csv", "--ack", "process", *TYPES, text=HEADER + csv(0, 50_000))
    assert said == "stored 50,000 rows in trade (process), refused 0 lines\n"
    assert stored() == list(range(50_000))


def test_a_table_and_its_columns_are_asked_for(place):
    where, _ = place
    _, complained = run("write", where, "trade", "--format", "csv", text=HEADER + csv(0, 1), fails=True)
    assert "trade" in complained
    run("write", where, "trade", "--format", "csv", "--time-zone", "Asia/Tokyo", *TYPES, text=HEADER + csv(0, 1))
    _, complained = run("write", where, "trade", "--format", "csv", text=b"time,venue\n1,X\n", fails=True)
    assert 'has no column "venue"; name its type to add it' in complained
    said, _ = run("write", where, "trade", "--format", "csv", "--type", "venue=symbol", text=b"time,venue,size\n1,X,1\n")
    assert said.startswith("stored 1 row ")
    _, complained = run("write", where, "trade", "--format", "csv", "--time", "sym", text=HEADER + csv(0, 1), fails=True)
    assert 'its time column is "time", not "sym"' in complained
    _, complained = run("write", where, "trade", "--format", "ndjson", "--type", "size=int8", text=ndjson(0, 1), fails=True)
    assert 'column \\"size\\"' in complained or "size" in complained


def test_lines_go_on_their_way_before_the_input_ends(server):  # noqa: F811
    command = [SPLAY, "tick", "write", server.http, "trade", "--format", "csv", "--linger-ms", "10", *TYPES]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(HEADER + csv(0, 3))
        process.stdin.flush()
        eventually(lambda: "trade" in dict(tables(server)) and server.query("select count(*) from trade") == [[3]])
        process.stdin.write(csv(3, 2))
        process.stdin.close()
        assert process.stdout.read() == b"stored 5 rows in trade (disk), refused 0 lines\n"


def tables(server) -> list:  # noqa: F811
    return [(table["name"], table) for table in json.loads(server.send("/tables")[1])]


def test_a_server_that_goes_away_and_comes_back_gets_each_line_once(tmp_path):
    """The lines of one process, while the server is killed and started again on the same port."""
    served = Served(tmp_path)
    command = [SPLAY, "tick", "write", f"http://{served.address}", "trade", "--format", "csv", "--batch-rows", "100", *TYPES]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

        def feed():
            process.stdin.write(HEADER + csv(0, 20_000))
            process.stdin.close()

        feeding = threading.Thread(target=feed)
        feeding.start()
        for rows in (500, 5_000):
            eventually(lambda rows=rows: count(served) > rows)
            served.kill()
            served.start()
        feeding.join()
        assert process.stdout.read() == b"stored 20,000 rows in trade (disk), refused 0 lines\n"
    client = served.client()
    found = client.sql("select count(*) as n, count(distinct size) as sizes from trade").to_arrow().to_pylist()
    assert found == [{"n": 20_000, "sizes": 20_000}]
    served.stop()


def count(served) -> int:
    try:
        return served.client().sql("select count(*) as n from trade").to_arrow()["n"][0].as_py()
    except splay.NoSuchTableError:
        return 0


def test_without_a_server_it_says_so(tmp_path):
    write = ("write", "http://127.0.0.1:1", "trade", "--format", "csv", "--retry-seconds", "0")
    _, complained = run(*write, text=HEADER + csv(0, 1), fails=True)
    assert "http://127.0.0.1:1 doesn't answer" in complained
    assert "stored 0 rows" in complained
    _, complained = run("status", "http://127.0.0.1:1", fails=True)
    assert "doesn't answer" in complained
    _, complained = run("status", tmp_path / "nowhere", fails=True)
    assert complained.startswith("splay: ")
    _, complained = run("status", "https://127.0.0.1:1", fails=True)
    assert "https://127.0.0.1:1 doesn't answer" in complained


def test_text_over_http(server):  # noqa: F811
    types = "types=time:timestamp,sym:symbol,price:float64,size:int64"
    status, told = server.send(f"/api/v1/write?table=trade&{types}", HEADER + csv(0, 2) + b"x\n", content_type="text/csv")
    assert status == 200, told
    assert json.loads(told) == {
        "sequence": 1,
        "class": "disk",
        "rows": 2,
        "duplicate": False,
        "quarantined": 0,
        "duplicate_rows": 0,
        "last_line": 4,
        "refused": 1,
        "errors": [{"line": 4, "reason": "it has 1 fields, not 4"}],
    }
    path = "/api/v1/write?table=trade&format=ndjson&producer=me&line=100"
    assert json.loads(server.send(path, ndjson(2, 3))[1])["last_line"] == 102
    assert json.loads(server.send(path, ndjson(2, 3))[1])["duplicate"] is True
    assert json.loads(server.send("/api/v1/write?producer=me")[1]) == {"producer": "me", "sequence": 102}
    assert json.loads(server.send("/api/v1/write?producer=other")[1]) == {"producer": "other", "sequence": None}
    assert server.query("select size from trade order by size") == [[i] for i in range(5)]
    told = json.loads(server.send("/api/v1/write?table=trade&format=ndjson", b"nothing\n")[1])
    assert (told["rows"], told["refused"], told["sequence"]) == (0, 1, None)
    for path, body, code in [
        ("table=other&format=csv", HEADER + csv(0, 1), "rejected"),
        ("table=other&format=csv&create=false", HEADER + csv(0, 1), "not_found"),
        ("table=trade&format=csv", b"", "bad_request"),
        ("table=trade&format=csv", b"time,time\n1,1\n", "bad_request"),
        ("table=trade&format=csv", b"time,other\n1,1\n", "rejected"),
        ("table=trade&format=xml", b"<a/>", "bad_request"),
        ("table=trade&format=csv&unit=days", b"time\n1\n", "bad_request"),
        ("table=trade&format=csv&types=x", b"time\n1\n", "bad_request"),
        ("table=trade&format=csv&sequence=3", b"time\n1\n", "bad_request"),
        ("table=trade&columns=a", b"", "bad_request"),
    ]:
        status, told = server.send(f"/api/v1/write?{path}", body)
        assert status >= 400 and json.loads(told)["code"] == code, (path, told)
    refused = [refusal["reason"] for refusal in json.loads(server.send("/status")[1])["rejected_latest"]]
    assert refused[0] == 'table "trade": line 4: it has 1 fields, not 4'
    assert "splay_capture_rejected_total{} 2" in server.send("/metrics")[1].decode().splitlines()


def test_the_status_of_a_server(server):  # noqa: F811
    rows = pa.table({**{name: batch(0, 4)[name] for name in ("time", "sym")}, "sequence": [1, 2, 5, 5], "bid": [2.0] * 4, "ask": [1.0] * 4})
    client = splay.connect(server.http)
    with client.tick("quote", producer="feed", sequence=41, linger_ms=None) as quotes:
        quotes.append_frame(rows)
    server.send("/write", b"bad\n")
    told = json.loads(run("status", server.http, "--format", "json")[0])
    assert told["state"] == "running"
    capture = told["capture"]
    assert (capture["rows"], capture["batches"], capture["rejected"], capture["sequence"]) == (4, 1, 1, 1)
    assert [(producer["name"], producer["sequence"]) for producer in capture["producers_latest"]] == [("feed", 41)]
    (quote,) = capture["tables"]
    assert (quote["table"], quote["live_rows"], quote["last_sequence"], quote["written_sequence"]) == ("quote", 4, 1, 0)

    def measured() -> dict:
        (quote,) = json.loads(server.send("/status")[1])["capture"]["tables"]
        return quote

    # Rows are looked at once they are acknowledged.
    eventually(lambda: measured()["quality"]["rows"] == 4)
    quality = measured()["quality"]
    # Each of the two symbols begins with a row that is compared with nothing.
    assert {name: quality[name] for name in ("gaps", "missing", "duplicates", "out_of_order", "crossed")} == {
        "gaps": 2,
        "missing": 5,
        "duplicates": 0,
        "out_of_order": 0,
        "crossed": 4,
    }
    assert [(series["symbol"], series["missing"]) for series in quality["worst"]] == [("AIG", 3), ("IBM", 2)]
    for latency in measured()["latencies"].values():
        assert sum(latency["counts"]) == 4
    shown = run("status", server.http)[0]
    assert "running, and takes rows" in shown
    for expected in ("quote", "feed", "median and 99th percentile", "all 2", "refused last"):
        assert expected in shown, shown
    metrics = server.send("/metrics")[1].decode().splitlines()
    for expected in (
        'splay_feed_gaps_total{table="quote",symbol="AIG",venue=""} 1',
        'splay_feed_missing_total{table="quote",symbol="IBM",venue=""} 2',
        'splay_feed_crossed_total{table="quote",symbol="_other",venue=""} 0',
        'splay_feed_rows_total{table="quote"} 4',
        'splay_feed_series{table="quote"} 2',
        "# TYPE splay_ingest_visible_seconds histogram",
        "# UNIT splay_ingest_visible_seconds seconds",
        'splay_ingest_durable_seconds_count{table="quote"} 4',
        'splay_ingest_received_seconds_bucket{le="+Inf",table="quote"} 4',
    ):
        assert expected in metrics, "\n".join(line for line in metrics if "feed" in line or "ingest" in line)


def test_the_status_of_files(tmp_path):
    with Server(tmp_path / "db") as running:
        running.send("/api/v1/write?table=trade&format=csv&producer=feed&" + "types=time:timestamp,size:int64", b"time,size\n1,1\n2,2\n")
        told = json.loads(run("status", tmp_path / "db", "--format", "json")[0])
        assert told["state"] == "elsewhere"
        assert "ask that by its address" in run("status", tmp_path / "db")[0]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "db").rglob("*")}
    told = json.loads(run("status", tmp_path / "db", "--format", "json")[0])
    assert (told["state"], told["journal_damage"]) == ("at_rest", None)
    assert told["capture"]["producers_latest"][0]["name"] == "feed"
    assert told["capture"]["producers_latest"][0]["sequence"] == 3
    (trade,) = told["capture"]["tables"]
    assert (trade["live_rows"], trade["last_sequence"], trade["written_sequence"]) == (2, 1, 0)
    assert told["tables"][0]["stored_rows"] == 0
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "db").rglob("*")}, "nothing is changed"
    subprocess.run([SPLAY, "roll", tmp_path / "db"], check=True, capture_output=True)
    told = json.loads(run("status", tmp_path / "db", "--format", "json")[0])
    (trade,) = told["capture"]["tables"]
    assert (trade["live_rows"], told["tables"][0]["stored_rows"]) == (0, 2)
    newest = max((tmp_path / "db" / ".journal").glob("*.jnl"))
    newest.write_bytes(newest.read_bytes() + b"torn")
    assert "no whole frame" in run("status", tmp_path / "db")[0]
    with Server(tmp_path / "empty"):
        pass
    assert "at rest" in run("status", tmp_path / "empty")[0]
