"""The server as clients in Python meet it: `splay serve` as a process, plain HTTP, the ADBC Flight SQL driver, plain Flight."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import adbc_driver_flightsql.dbapi as adbc
import adbc_driver_manager
import pyarrow as pa
import pyarrow.flight as flight
import pytest
from adbc_driver_flightsql import DatabaseOptions

import splay

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPLAY = os.environ.get("SPLAY", str(ROOT / "target" / "release" / "splay"))
DAY_NS = 1_767_225_600_000_000_000


class Server:
    """A server on free ports, until the end of the block."""

    environment: dict[str, str] | None = None
    """That of the process; none for that of the tests."""

    def __init__(
        self, database: pathlib.Path, *arguments: str, config: str = "", environment: dict[str, str] | None = None
    ) -> None:
        """``environment`` is what the process gets besides that of the tests."""
        self.folder, self.environment = database.parent, os.environ | (environment or {})
        settings = self.folder / "server.toml"
        settings.write_text(config)
        free = ["--http", "127.0.0.1:0", "--flight", "127.0.0.1:0"]
        free += [] if "--read-only" in arguments else ["--line", "127.0.0.1:0"]
        self._start("serve", database, "--config", str(settings), *free, *arguments)

    def _start(self, command: str, database: pathlib.Path, *arguments: str) -> None:
        """Starts the command and reads where it listens."""
        self.log = open(self.folder / f"{command}.log", "w+")
        self.process = subprocess.Popen(
            [SPLAY, command, str(database), *arguments],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=self.environment,
        )
        self.said: dict[str, str] = {}
        assert self.process.stdout is not None
        for line in self.process.stdout:
            name, _, rest = line.strip().partition(" ")
            self.said[name] = rest.strip()
            if name == "line":
                break

    def __enter__(self) -> Server:
        assert "line" in self.said, self.logged()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, self.logged()
        self.log.close()

    def logged(self) -> str:
        return pathlib.Path(self.log.name).read_text()

    @property
    def http(self) -> str:
        return self.said["http"]

    @property
    def flight(self) -> str:
        return self.said["flight"]

    def line(self, text: bytes) -> None:
        host, _, port = self.said["line"].removeprefix("tcp://").rpartition(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(text)

    def send(self, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.http + path, data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def query(self, sql: str, **headers: str) -> list:
        status, body = self.send("/query", sql.encode(), content_type="text/plain", **headers)
        assert status == 200, body
        return json.loads(body)["rows"]


@pytest.fixture
def server(tmp_path: pathlib.Path):
    with Server(tmp_path / "db") as running:
        yield running


def lines(first: int, rows: int, table: str = "trade") -> bytes:
    symbols = ("AIG", "IBM")
    made = (f"{table},sym={symbols[i % 2]} price={i}.5,size={i}i {DAY_NS + i}\n" for i in range(first, first + rows))
    return "".join(made).encode()


def batch(first: int, rows: int) -> pa.RecordBatch:
    at = range(first, first + rows)
    return pa.record_batch(
        {
            "time": pa.array([DAY_NS + i for i in at], pa.timestamp("ns", "UTC")),
            "sym": pa.array([("AIG", "IBM")[i % 2] for i in at]).dictionary_encode(),
            "price": pa.array([i + 0.5 for i in at]),
            "size": pa.array(list(at), pa.int64()),
        }
    )


def eventually(happened) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_rows_are_there_right_after_the_ack(server: Server) -> None:
    for i in range(20):
        assert server.send("/api/v2/write?precision=ns", lines(i, 1))[0] == 204
        assert server.query("select count(*), max(size) from trade") == [[i + 1, i]]


def test_every_way_in_meets_in_one_table(server: Server) -> None:
    assert server.send("/write?db=any&precision=n", lines(0, 100))[0] == 204
    server.line(lines(100, 100))
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, batch(0, 1).schema) as writer:
        writer.write_batch(batch(200, 60))
        writer.write_batch(batch(260, 40))
    status, body = server.send("/api/v1/write?table=trade&ack=process", stream.getvalue().to_pybytes())
    assert status == 200, body
    ack = json.loads(body)
    assert (ack["class"], ack["rows"], ack["duplicate"]) == ("process", 100, False)
    client = flight.connect(server.flight)
    writer, _ = client.do_put(flight.FlightDescriptor.for_path("trade"), batch(0, 1).schema)
    writer.write_batch(batch(300, 100))
    writer.close()
    eventually(lambda: server.query("select count(*) from trade") == [[400]])
    assert server.query("select sym, sum(size), min(price) from trade group by sym order by sym") == [
        ["AIG", sum(range(0, 400, 2)), 0.5],
        ["IBM", sum(range(1, 400, 2)), 1.5],
    ]


def test_acknowledged_rows_survive_kill(tmp_path: pathlib.Path) -> None:
    server = Server(tmp_path / "db")
    for i in range(10):
        assert server.send("/write", lines(i * 10, 10))[0] == 204
    server.process.kill()
    server.process.wait()
    with Server(tmp_path / "db") as again:
        assert "recovered" in again.said, again.said
        assert again.query("select count(*) from trade") == [[100]]


def test_formats_hold_the_same_rows(server: Server) -> None:
    server.send("/write", lines(0, 1000))
    sql = urllib.parse.quote("select sym, price, size from trade order by size")
    _, body = server.send(f"/query?query={sql}&format=arrow")
    table = pa.ipc.open_stream(body).read_all()
    assert table.num_rows == 1000
    assert pa.types.is_dictionary(table.schema.field("sym").type)
    rows = [list(row.values()) for row in table.to_pylist()]
    assert json.loads(server.send(f"/query?query={sql}")[1])["rows"] == rows
    _, ndjson = server.send(f"/query?query={sql}", None, accept="application/x-ndjson")
    assert [list(json.loads(line).values()) for line in ndjson.splitlines()] == rows
    _, csv = server.send(f"/query?query={sql}&format=csv")
    assert csv.decode().splitlines()[1] == "AIG,0.5,0"
    assert len(csv.splitlines()) == 1001


def test_adbc_runs_queries(server: Server) -> None:
    server.send("/write", lines(0, 20_000))
    with adbc.connect(server.flight, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("select sym, count(*) as n from trade group by sym order by sym")
        assert [column[0] for column in cursor.description] == ["sym", "n"]
        assert cursor.fetchall() == [("AIG", 10_000), ("IBM", 10_000)]
        cursor.execute("select * from trade")
        assert cursor.fetch_arrow_table().num_rows == 20_000
        cursor.execute("select count(*) from trade where sym = $1 and size < $2", ("IBM", 100))
        assert cursor.fetchall() == [(50,)]
        cursor.execute("select count(*) from trade where sym = $1 and size < $2", ("AIG", 10))
        assert cursor.fetchall() == [(5,)]
        assert cursor.adbc_execute_schema("select price from trade").names == ["price"]
        tables = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
        assert tables[0]["catalog_db_schemas"][0]["db_schema_tables"][0]["table_name"] == "trade"
        assert connection.adbc_get_table_schema("trade").names == ["time", "sym", "price", "size"]
        assert connection.adbc_get_info()["vendor_name"] == "SplayDB"
        for sql in ("drop table nothing", "select * from nothing", "selec 1"):
            with pytest.raises(adbc_driver_manager.Error):
                cursor.execute(sql)


def test_adbc_ingests_tables(server: Server) -> None:
    with adbc.connect(server.flight, autocommit=True) as connection, connection.cursor() as cursor:
        stored = cursor.adbc_ingest("trade", pa.table(batch(0, 500)), mode="create_append")
        assert stored == 500
    assert server.query("select count(*) from trade") == [[500]]


def test_flight_acks_name_sequence_and_class(server: Server) -> None:
    client = flight.connect(server.flight)
    options = flight.FlightCallOptions(headers=[(b"splay-ack", b"disk"), (b"splay-producer", b"feed")])
    writer, acks = client.do_put(flight.FlightDescriptor.for_path("trade"), batch(0, 1).schema, options)
    seen = []
    for sequence, first in ((1, 0), (2, 10), (2, 10), (3, 20)):
        writer.write_with_metadata(batch(first, 10), json.dumps({"sequence": sequence}).encode())
        seen.append(json.loads(acks.read().to_pybytes()))
    writer.done_writing()
    writer.close()
    assert [ack["duplicate"] for ack in seen] == [False, False, True, False]
    assert {ack["class"] for ack in seen} == {"disk"}
    assert server.query("select count(*) from trade") == [[30]]


def test_subscriptions_are_resumed_without_loss_or_repeat(server: Server) -> None:
    server.send("/write", lines(0, 5))
    client = flight.connect(server.flight)

    @contextlib.contextmanager
    def subscribed(**ask):
        writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(json.dumps({"table": "trade", **ask})))
        try:
            yield writer, reader
        finally:
            reader.cancel()
            with contextlib.suppress(pa.ArrowException):
                writer.close()

    def update(reader) -> tuple[dict, list[int]]:
        chunk = reader.read_chunk()
        return json.loads(chunk.app_metadata.to_pybytes()), chunk.data.column("size").to_pylist()

    with subscribed(credit=2) as (_, reader):
        metadata, sizes = update(reader)
        assert (metadata["kind"], sorted(sizes)) == ("snapshot", [0, 1, 2, 3, 4])
        server.send("/write", lines(5, 1))
        metadata, sizes = update(reader)
        assert (metadata["kind"], sizes) == ("delta", [5])
    for i in range(6, 10):
        server.send("/write", lines(i, 1))
    with subscribed(after=metadata["sequence"], columns=["size", "price"]) as (_, reader):
        got = []
        while len(got) < 4:
            got += update(reader)[1]
        assert got == [6, 7, 8, 9]
    with subscribed(**{"from": "now", "symbols": ["IBM"]}) as (_, reader):
        threading.Timer(0.3, lambda: server.send("/write", lines(10, 4))).start()
        assert update(reader)[1] == [11, 13]


def test_hostile_requests_are_refused_and_nothing_else_suffers(tmp_path: pathlib.Path) -> None:
    config = "[limits]\nmessage_bytes_max = 1500000\nline_bytes_max = 1000\nbody_seconds_max = 1\nhead_seconds_max = 1\n"
    with Server(tmp_path / "db", config=config) as server:
        server.send("/write", lines(0, 10))
        assert server.send("/query", b"x" * 2_000_000)[0] == 413
        assert server.send("/write", b"t a=" + b"1" * 5000 + b" 1\n")[0] == 400
        for sql in (
            "create table t (a nonsense)",
            "alter table trade partition by month",
            "copy trade to '/tmp/splay-stolen.csv'",
            "create external table t stored as csv location '/etc/passwd'",
            "select * from '/etc/passwd'",
            "select * from read_parquet('/etc/passwd')",
            "set datafusion.execution.batch_size = 1",
        ):
            status, body = server.send("/query", sql.encode())
            assert status in (400, 403, 404), (sql, body)
            assert json.loads(body)["retryable"] is False
        address = server.http.removeprefix("http://").rpartition(":")
        halves = [b"", b"GET /he", b"POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\nsel", b"\x16\x03\x01"]
        for half in halves:
            with socket.create_connection((address[0], int(address[2]))) as connection:
                connection.sendall(half)
                connection.settimeout(20)
                with contextlib.suppress(ConnectionError):
                    while connection.recv(1000):
                        pass
        server.line(b"\x00\xff" * 5000 + b"\n" + lines(10, 1) + b"trade,sym=half")
        eventually(lambda: server.query("select count(*) from trade") == [[11]])
        assert server.send("/query", b"select 1", origin="https://example.com")[0] == 403


def make_certificate(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def test_a_start_that_can_not_serve_leaves_no_journal(tmp_path: pathlib.Path) -> None:
    with Server(tmp_path / "db") as server:
        taken = server.http.removeprefix("http://")
        free = ["--flight", "127.0.0.1:0", "--line", "127.0.0.1:0"]
        (tmp_path / "wrong.toml").write_text('[tls]\ncertificate = "none.pem"\nkey = "none.pem"\n')
        for arguments, said in [
            (["--http", taken, *free], f"can't listen on {taken}"),
            (["--http", "127.0.0.1:0", *free, "--config", tmp_path / "wrong.toml"], "none.pem"),
        ]:
            done = subprocess.run([SPLAY, "serve", tmp_path / "other", *arguments], capture_output=True, text=True, timeout=60)
            assert done.returncode == 1 and said in done.stderr, done.stderr
            assert not (tmp_path / "other").exists()


def served_certificate(address: str, protocol: str | None = None) -> bytes:
    """The certificate that a server shows to a new connection, as DER."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2" if protocol == "flight" else "http/1.1"] if protocol != "postgres" else ["postgresql"])
    with socket.create_connection((host, int(port)), timeout=30) as plain:
        if protocol == "postgres":
            plain.sendall(struct.pack("!ii", 8, 80877103))
            assert plain.recv(1) == b"S"
        with context.wrap_socket(plain) as connection:
            shown = connection.getpeercert(binary_form=True)
    assert shown is not None
    return shown


def test_a_hangup_reloads_the_certificate_and_ends_nothing(tmp_path: pathlib.Path) -> None:
    assert shutil.which("openssl"), "the test needs openssl"
    certificate, key = make_certificate(tmp_path)
    (tmp_path / "next").mkdir()
    next_certificate, next_key = make_certificate(tmp_path / "next")
    der = [ssl.PEM_cert_to_DER_cert(path.read_text()) for path in (certificate, next_certificate)]
    token, digest = new_token("test")
    config = f'{digest}\n[tls]\ncertificate = "{certificate}"\nkey = "{key}"\n'
    with Server(tmp_path / "db", "--postgres", "127.0.0.1:0", config=config) as server:
        addresses = [(server.http, "http"), (server.flight, "flight"), (server.said["postgres"], "postgres")]

        def hangup(outcome: str, times: int) -> None:
            server.process.send_signal(signal.SIGHUP)
            counted = f'splay_tls_reloads_total{{outcome="{outcome}"}} {times}'
            headers = {"Authorization": f"Bearer {token}"}
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            request = urllib.request.Request(server.http + "/metrics", headers=headers)
            eventually(lambda: counted in urllib.request.urlopen(request, context=context).read().decode())

        # A key that isn't the certificate's, and no certificate at all: the old one stays.
        shutil.copy(next_certificate, certificate)
        hangup("failed", 1)
        certificate.write_text("nothing")
        hangup("failed", 2)
        assert "the certificate was not reloaded: the old one stays" in server.logged()
        assert [served_certificate(*address) for address in addresses] == [der[0]] * 3
        shutil.copy(next_certificate, certificate)
        shutil.copy(next_key, key)
        hangup("ok", 1)
        assert [served_certificate(*address) for address in addresses] == [der[1]] * 3


def test_a_hangup_without_a_certificate_ends_nothing(tmp_path: pathlib.Path) -> None:
    with Server(tmp_path / "db") as server:
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: "there is nothing to reload" in server.logged())
        assert server.query("select 1") == [[1]]


def test_the_command_trusts_a_servers_own_certificate(tmp_path: pathlib.Path) -> None:
    assert shutil.which("openssl"), "the test needs openssl"
    certificate, key = make_certificate(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    other, _ = make_certificate(tmp_path / "elsewhere")
    token, digest = new_token("test")
    (tmp_path / "token").write_text(token)
    config = f'{digest}\n[tls]\ncertificate = "{certificate}"\nkey = "{key}"\n'

    def ask(place: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [SPLAY, "sql", place, "select 42 as n", "--format", "csv", "--token-file", tmp_path / "token", *arguments]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)

    with Server(tmp_path / "db", config=config) as server:
        for place in (server.http, server.http.replace("127.0.0.1", "localhost")):
            done = ask(place, "--authority", certificate)
            assert (done.returncode, done.stdout) == (0, "n\n42\n"), done.stderr
        done = ask(server.http, "--authority", other)
        assert done.returncode == 1 and "answered, but its certificate" in done.stderr and "--authority" in done.stderr, done.stderr
        # The system's authorities don't know it, if there is a list of them.
        done = ask(server.http)
        assert done.returncode == 1 and ("answered, but its certificate" in done.stderr or "list of certificates" in done.stderr), done.stderr
        assert "Other(" not in done.stderr
        done = ask(server.http.replace("https", "http"))
        assert done.returncode == 1 and "answered, but not as HTTP does" in done.stderr and "https://" in done.stderr, done.stderr
        with splay.connect(server.http, token, tls=ssl.create_default_context(cafile=str(certificate))) as client:
            assert client.sql("select 42 as n").to_arrow().to_pylist() == [{"n": 42}]
    with Server(tmp_path / "plain") as server:
        done = ask(server.http.replace("http", "https"), "--authority", certificate)
        assert done.returncode == 1 and "tls" in done.stderr.lower(), done.stderr


def new_token(name: str) -> tuple[str, str]:
    said = subprocess.run([SPLAY, "token", name], check=True, capture_output=True, text=True).stdout
    token = next(line.removeprefix("#").strip() for line in said.splitlines()[1:2])
    return token, said


def test_tokens_and_tls_guard_every_way_in(tmp_path: pathlib.Path) -> None:
    assert shutil.which("openssl"), "the test needs openssl"
    certificate, key = make_certificate(tmp_path)
    token, digest = new_token("test")
    config = f'{digest}\n[tls]\ncertificate = "{certificate}"\nkey = "{key}"\n'
    with Server(tmp_path / "db", config=config) as server:
        assert server.http.startswith("https://")
        trusted = ssl.create_default_context(cafile=str(certificate))

        def status(**headers: str) -> int:
            request = urllib.request.Request(server.http + "/query?query=select%201", headers=headers)
            try:
                return urllib.request.urlopen(request, context=trusted).status
            except urllib.error.HTTPError as error:
                return error.code

        assert status() == 401
        assert status(Authorization="Bearer wrong") == 401
        assert status(Authorization=f"Bearer {token}") == 200
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(server.http + "/health", context=ssl.create_default_context())
        options = {
            DatabaseOptions.TLS_ROOT_CERTS.value: certificate.read_text(),
            DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {token}",
        }
        uri = server.flight.replace("127.0.0.1", "localhost")
        with adbc.connect(uri, db_kwargs=options, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("select 1")
            assert cursor.fetchall() == [(1,)]
        options[DatabaseOptions.AUTHORIZATION_HEADER.value] = "Bearer wrong"
        with pytest.raises(adbc_driver_manager.Error), adbc.connect(uri, db_kwargs=options) as connection:
            connection.cursor().execute("select 1")
        # A user's password is a token too.
        options = {
            DatabaseOptions.TLS_ROOT_CERTS.value: certificate.read_text(),
            "username": "anybody",
            "password": token,
        }
        with adbc.connect(uri, db_kwargs=options, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("select 2")
            assert cursor.fetchall() == [(2,)]
        assert token not in server.logged()


def test_an_open_address_is_refused(tmp_path: pathlib.Path) -> None:
    ran = subprocess.run(
        [SPLAY, "serve", str(tmp_path / "db"), "--http", "0.0.0.0:0"], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 1
    assert "[auth]" in ran.stderr and "[tls]" in ran.stderr


def test_a_reading_server_takes_no_rows(tmp_path: pathlib.Path) -> None:
    with Server(tmp_path / "db") as server:
        server.send("/write", lines(0, 10))
        _, body = server.send("/tables")
        assert json.loads(body)[0]["rows"] == 10
    ran = subprocess.run([SPLAY, "serve", str(tmp_path / "none"), "--read-only"], capture_output=True, timeout=60)
    assert ran.returncode == 1
    with Server(tmp_path / "db", "--read-only") as server:
        assert server.said["line"] == "off"
        assert server.send("/write", lines(0, 1))[0] == 501
        assert server.send("/health")[0] == 200


def test_logs_are_lines_of_json_on_request_and_refusals_are_in_a_log(tmp_path: pathlib.Path) -> None:
    environment = {"SPLAY_LOG_FORMAT": "json", "SPLAY_LOG": "info,splay_capture=debug"}
    with Server(tmp_path / "db", environment=environment) as server:
        assert server.send("/write", lines(0, 2) + b"no line\n")[0] == 400
        assert server.send("/api/v1/write?table=trade", b"no Arrow")[0] == 400
    events = [json.loads(line) for line in server.logged().splitlines()]
    assert {"timestamp", "level", "target", "message"} <= set.intersection(*map(set, events))
    assert [event["way"] for event in events if event["message"] == "refused"] == ["influx", "http"]
    rejected = [json.loads(line) for line in (tmp_path / "db/.journal/rejected.log").read_text().splitlines()]
    assert [(one["way"], one["sample"]) for one in rejected] == [("influx", "no line"), ("http", "")]
    # Who comes later still sees them.
    told = subprocess.run([SPLAY, "tick", "status", tmp_path / "db", "--format", "json"], capture_output=True, check=True)
    assert [one["reason"] for one in json.loads(told.stdout)["rejected_latest"]] == [one["reason"] for one in rejected]


def test_rows_that_come_again_are_left_out_by_all_ways_in(tmp_path):
    config = '[capture.dedupe.trade]\nkey = "seq"\nwindow_s = 60\n'
    csv = b"time,sym,seq,price\n" + b"".join(b"%d,IBM,%d,1.5\n" % (DAY_NS + number, number) for number in range(5))
    write = "/api/v1/write?table=trade&format=csv&types=time:timestamp,sym:symbol,seq:int64,price:float64"
    with Server(tmp_path / "db", config=config) as server:
        told = json.loads(server.send(write, csv)[1])
        assert (told["rows"], told["duplicate_rows"]) == (5, 0)
        told = json.loads(server.send(write, csv + b"%d,IBM,9,2.5\n" % (DAY_NS + 9))[1])
        assert (told["rows"], told["duplicate_rows"], told["duplicate"]) == (1, 5, False)
    with Server(tmp_path / "db", config=config) as server:
        line = b"trade,sym=IBM seq=%di,price=1.5 %d\n"
        request = urllib.request.Request(server.http + "/write", data=line % (3, DAY_NS + 3) + line % (10, DAY_NS + 10))
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert (answer.headers["splay-rows"], answer.headers["splay-duplicate-rows"]) == ("1", "1")
        again = "insert into trade (time, sym, seq, price) select time + interval '1 second', sym, seq, price from trade"
        assert server.query(again) == [["INSERT", 0, None]]
        client = flight.connect(server.flight)
        batch = pa.record_batch(
            {
                "time": pa.array([DAY_NS, DAY_NS + 11], pa.timestamp("ns", "UTC")),
                "sym": pa.array(["IBM", "IBM"]).dictionary_encode(),
                "seq": pa.array([0, 11], pa.int64()),
            }
        )
        writer, acks = client.do_put(flight.FlightDescriptor.for_path("trade"), batch.schema)
        with writer:
            writer.write_batch(batch)
            told = json.loads(acks.read().to_pybytes())
        assert (told["rows"], told["duplicate_rows"]) == (1, 1)
        assert server.query("select count(*), count(distinct seq) from trade") == [[8, 8]]
        told = json.loads(server.send("/status")[1])["capture"]
        (dedupe,) = [table["dedupe"] for table in told["tables"] if table["table"] == "trade"]
        assert (told["duplicate_rows"], dedupe["duplicate_rows"], dedupe["keys"]) == (9, 9, 8)
        counted = [line for line in server.send("/metrics")[1].decode().splitlines() if line.startswith("splay_capture_duplicate_rows")]
        assert counted == ["splay_capture_duplicate_rows_total{} 9"]


def test_the_command_lists_and_undoes_commits_of_a_server(tmp_path):
    database = tmp_path / "db"
    rows = pa.table({"time": pa.array([DAY_NS, DAY_NS + 1, DAY_NS + 2], pa.timestamp("ns", "UTC")), "size": [1, 2, 3]})
    splay.open(database).write("trade", rows)

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([SPLAY, *map(str, arguments)], capture_output=True, text=True, check=False)

    with Server(database) as there:
        address = there.http
        done = run("sql", address, "delete from trade where size > 1", "--format", "csv")
        commit = done.stdout.split()[-1].split(",")[-1]
        listed = run("loads", address, "TRADE", "-n", "1").stdout.splitlines()
        assert listed[0].split()[:2] == ["commit", "at"]
        assert listed[1].split()[0] == commit
        assert listed[1].split()[2:] == ["delete", "2", "2026-01-01", "yes"]
        undone = run("undo", address, "trade", commit).stdout
        assert undone.startswith(f"commit {commit} undone by commit")
        assert "2 rows came back or went" in undone
        count = run("sql", address, "select count(*) as n from trade", "--format", "csv").stdout.split()[-1]
        assert count == "3"
        refused = run("undo", address, "trade", 99)
        assert refused.returncode != 0
        assert "99" in refused.stderr
        assert run("sql", address, "drop table trade").returncode == 0
        drop = run("loads", address, "trade", "-n", "1").stdout.splitlines()[1].split()
        assert (drop[2], drop[-1]) == ("drop", "yes")
        assert run("undo", address, "trade", drop[0]).returncode == 0
        assert run("sql", address, "select count(*) as n from trade", "--format", "csv").stdout.split()[-1] == "3"
        (file := tmp_path / "day.csv").write_text("time,size\n2026-01-02 10:00:00,7\n")
        assert run("load", database, "other", file).returncode == 0
        of_folder, of_server = (run("loads", place, "other").stdout for place in (database, address))
        assert "day.csv (" in of_server
        assert of_server == of_folder
        refused = run("loads", address, "nothing")
        assert refused.returncode != 0
        assert "no table" in refused.stderr
