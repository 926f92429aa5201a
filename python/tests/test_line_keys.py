"""Line protocol over TCP by QuestDB's client with a key and TLS, and certificates of clients."""

from __future__ import annotations

import base64
import contextlib
import pathlib
import shutil
import socket
import ssl
import subprocess

import pytest
from test_server import SPLAY, Server, eventually, new_token

import splay

questdb = pytest.importorskip("questdb")
ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")

TIME_NS = 1_767_225_600_000_000_000


def encoded(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(32, "big")).decode().rstrip("=")


class Key:
    """A private key, and its line in the server's file."""

    def __init__(self, name: str):
        numbers = ec.generate_private_key(ec.SECP256R1()).private_numbers()
        self.name, self.private = name, encoded(numbers.private_value)
        self.x, self.y = encoded(numbers.public_numbers.x), encoded(numbers.public_numbers.y)

    def line(self) -> str:
        return f"{self.name} ec-p-256-sha256 {self.x} {self.y}\n"

    def settings(self) -> str:
        return f"username={self.name};token={self.private};token_x={self.x};token_y={self.y};"


def certificate_of_server(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """A certificate that is no authority's, as QuestDB's client wants it, and its key."""
    certificate, key = folder / "server.pem", folder / "server.key"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout {key} -out {certificate}"
    command += " -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
    subprocess.run(command.split(), check=True, capture_output=True)
    return certificate, key


def send(server: Server, settings: str, price: float, scheme: str = "tcp") -> None:
    with questdb.Sender.from_conf(f"{scheme}::addr={server.said['line'].removeprefix('tcp://')};{settings}") as sender:
        sender.row("trade", symbols={"sym": "IBM"}, columns={"price": price}, at=questdb.TimestampNanos(TIME_NS))


def prices(server: Server, **headers: str) -> list:
    try:
        return [row[0] for row in server.query("select price from trade order by price", **headers)]
    except AssertionError:
        return []


def test_questdbs_client_shows_a_key(tmp_path: pathlib.Path) -> None:
    feed, other = Key("feed"), Key("other")
    keys = tmp_path / "auth.txt"
    keys.write_text("# keys of feeds\n" + feed.line())
    with Server(tmp_path / "db", config=f'[line]\nkeys = "{keys}"\n') as server:
        send(server, feed.settings(), 1.0)
        eventually(lambda: prices(server) == [1.0])
        # No key, one that isn't listed, and that of another beside the name.
        for settings in ("", other.settings(), feed.settings().replace(feed.private, other.private)):
            try:
                send(server, settings, 2.0)
            except questdb.QuestDBError:
                continue
        eventually(lambda: server.logged().count("a connection for line protocol was refused") == 3)
        assert prices(server) == [1.0]
        # Keys count from the next connection on.
        keys.write_text(other.line())
        send(server, other.settings(), 3.0)
        eventually(lambda: prices(server) == [1.0, 3.0])
        keys.write_text("nothing")
        with pytest.raises(questdb.QuestDBError):
            for _ in range(100):
                send(server, other.settings(), 4.0)
        assert prices(server) == [1.0, 3.0]
        assert "auth.txt, line 1" in server.logged() and feed.private not in server.logged()


def test_a_key_is_a_users(tmp_path: pathlib.Path) -> None:
    feed, reader, nobody = Key("feed"), Key("reader"), Key("nobody")
    keys = tmp_path / "auth.txt"
    keys.write_text(feed.line() + reader.line() + nobody.line())
    admin = "Basic " + base64.b64encode(b"admin:open sesame").decode()
    with Server(tmp_path / "db", config=f'[line]\nkeys = "{keys}"\n') as server:
        send(server, feed.settings(), 1.0)
        eventually(lambda: prices(server) == [1.0])
        server.query("create user admin superuser password 'open sesame'")
        for statement in ("create user feed", "create user reader", "grant insert on trade to feed", "grant select on trade to reader"):
            server.query(statement, authorization=admin)
        send(server, feed.settings(), 2.0)
        eventually(lambda: prices(server, authorization=admin) == [1.0, 2.0])
        for key in (reader, nobody):
            try:
                send(server, key.settings(), 3.0)
            except questdb.QuestDBError:
                continue
        eventually(lambda: "belongs to no user who may log in" in server.logged())
        send(server, feed.settings(), 4.0)
        eventually(lambda: prices(server, authorization=admin) == [1.0, 2.0, 4.0])


def test_lines_over_tls_and_settings_that_are_refused(tmp_path: pathlib.Path) -> None:
    assert shutil.which("openssl"), "the test needs openssl"
    certificate, key = certificate_of_server(tmp_path)
    feed = Key("feed")
    (tmp_path / "auth.txt").write_text(feed.line())
    tls = f'[tls]\ncertificate = "{certificate}"\nkey = "{key}"\n'
    config = f'{tls}[line]\nkeys = "{tmp_path / "auth.txt"}"\ntls = true\n'
    context = ssl.create_default_context(cafile=str(certificate))
    with Server(tmp_path / "db", config=config) as server:
        roots = f"tls_roots={certificate};"
        send(server, feed.settings() + roots, 1.0, "tcps")
        with splay.connect(server.http, tls=context) as client:
            eventually(lambda: "trade" in client.tables() and client.sql("select price from trade").fetchall() == [(1.0,)])
            # Lines without TLS aren't taken.
            host, _, port = server.said["line"].removeprefix("tcp://").rpartition(":")
            with socket.create_connection((host, int(port)), timeout=60) as connection:
                connection.sendall(b"trade,sym=IBM price=2 1767225600000000000\n" * 2)
                connection.settimeout(60)
                with contextlib.suppress(OSError):
                    while connection.recv(4096):
                        pass
            assert client.sql("select count(*) as n from trade").fetchall() == [(1,)]

    def refused(config: str) -> str:
        (tmp_path / "wrong.toml").write_text(config)
        command = [SPLAY, "serve", str(tmp_path / "wrong"), "--config", str(tmp_path / "wrong.toml")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        return done.stderr

    open_line = '[line]\naddress = "0.0.0.0:0"\n'
    assert "needs line.keys and line.tls" in refused(open_line)
    assert "needs line.keys and line.tls" in refused(f'{open_line}keys = "auth.txt"\n')
    assert "[tls]" in refused("[line]\ntls = true\n")
    assert "No such file" in refused('[line]\nkeys = "absent.txt"\n')
    (tmp_path / "odd.txt").write_text("feed rsa x y\n")
    assert "odd.txt, line 1: the algorithm" in refused('[line]\nkeys = "odd.txt"\n')


def signed_certificate(folder: pathlib.Path, authority: pathlib.Path, name: str) -> pathlib.Path:
    """A file of a client's certificate and its key."""
    signed, key = folder / f"{name}.crt", folder / f"{name}.key"
    command = f"openssl req -x509 -CA {authority}.pem -CAkey {authority}.key -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {signed}"
    command += f" -subj /CN={name} -addext basicConstraints=critical,CA:FALSE"
    subprocess.run(command.split(), check=True, capture_output=True)
    both = folder / f"{name}.pem"
    both.write_text(signed.read_text() + key.read_text())
    return both


def test_clients_need_a_certificate_of_the_authority(tmp_path: pathlib.Path) -> None:
    assert shutil.which("openssl"), "the test needs openssl"
    certificate, key = certificate_of_server(tmp_path)
    for name in ("desk", "strangers"):
        command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {tmp_path / name}.key -out {tmp_path / name}.pem -subj /CN={name}"
        subprocess.run(command.split(), check=True, capture_output=True)
    ours = signed_certificate(tmp_path, tmp_path / "desk", "research")
    theirs = signed_certificate(tmp_path, tmp_path / "strangers", "stranger")
    token, digest = new_token("test")
    (tmp_path / "token").write_text(token)
    config = f'{digest}\n[tls]\ncertificate = "{certificate}"\nkey = "{key}"\nclient_authority = "{tmp_path / "desk"}.pem"\n'

    def ask(server: Server, shown: pathlib.Path | None) -> subprocess.CompletedProcess[str]:
        command = [SPLAY, "sql", server.http, "select 42 as n", "--format", "csv", "--token-file", str(tmp_path / "token")]
        environment = {} if shown is None else {"SPLAY_CLIENT_CERTIFICATE": str(shown)}
        return subprocess.run([*command, "--authority", str(certificate)], capture_output=True, text=True, timeout=60, env=environment)

    with Server(tmp_path / "db", "--postgres", "127.0.0.1:0", config=config) as server:
        done = ask(server, ours)
        assert (done.returncode, done.stdout) == (0, "n\n42\n"), done.stderr
        done = ask(server, None)
        assert done.returncode == 1 and "SPLAY_CLIENT_CERTIFICATE" in done.stderr, done.stderr
        assert ask(server, theirs).returncode == 1
        assert "it holds no certificate" in ask(server, tmp_path / "token").stderr
        context = ssl.create_default_context(cafile=str(certificate))
        with pytest.raises(splay.Error):
            splay.connect(server.http, token, tls=context).sql("select 1").to_arrow()
        context.load_cert_chain(ours)
        with splay.connect(server.http, token, tls=context) as client:
            assert client.sql("select 42 as n").fetchall() == [(42,)]
        psycopg = pytest.importorskip("psycopg")
        port = server.said["postgres"].rpartition(":")[2]
        place = f"host=127.0.0.1 port={port} user=any password={token} dbname=market sslmode=require"
        (tmp_path / "research.key").chmod(0o600)
        with psycopg.connect(f"{place} sslcert={tmp_path / 'research.crt'} sslkey={tmp_path / 'research.key'}") as connection:
            assert connection.execute("select 42").fetchone() == (42,)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(place)
