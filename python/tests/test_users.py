"""Users as their clients meet them: rights over the package's client, ADBC and psycopg, and a log that keeps no secret."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import pathlib
import socket
import subprocess
from collections.abc import Iterator

import adbc_driver_flightsql.dbapi as adbc
import adbc_driver_manager
import pytest
from test_server import DAY_NS, SPLAY, Server, lines

import splay

psycopg = pytest.importorskip("psycopg")

SECRETS = ("open sesame", "correct horse")
USERS = (
    "create user admin superuser password 'open sesame'",
    "create user ann password 'correct horse'",
    "create role desk",
    "grant desk to ann",
    "grant select (time, sym, price) on trade to desk",
    "create policy own on trade to desk using (sym = 'IBM')",
)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class Desk(Server):
    """A server of a database with users, whose log has everything."""

    def __init__(self, folder: pathlib.Path) -> None:
        config = "[log]\nslow_statement_milliseconds = 0\n"
        super().__init__(folder / "db", "--postgres", "127.0.0.1:0", config=config, environment={"SPLAY_LOG": "debug"})
        self.tokens: dict[str, str] = {}

    def admin(self, sql: str) -> list:
        return self.query(sql, authorization=basic("admin", SECRETS[0]))

    def set_up(self) -> None:
        assert self.send("/write", lines(0, 100))[0] == 204
        assert self.send("/write", lines(0, 10, "secret"))[0] == 204
        first, *others = USERS
        # Before there are users the server is open to this machine.
        assert self.query(first) == [["CREATE ROLE", 0, None]]
        for statement in others:
            self.admin(statement)
        self.tokens = {user: self.admin(f"create token {user}_1 for {user}")[0][2] for user in ("admin", "ann")}

    def address(self, user: str, password: str) -> str:
        port = self.said["postgres"].rpartition(":")[2]
        return f"host=127.0.0.1 port={port} user={user} password='{password}' dbname=market"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with Desk(tmp_path_factory.mktemp("users")) as running:
        running.set_up()
        yield running


def test_the_packages_client_shows_a_token(desk: Desk) -> None:
    ann = splay.connect(desk.http, token=desk.tokens["ann"])
    assert ann.sql("select sym, count(*) as n from trade group by sym").fetchall() == [("IBM", 50)]
    assert ann.sql("select * from trade limit 1").to_arrow().column_names == ["time", "sym", "price", "date"]
    for statement in ("select * from secret", "select size from trade"):
        with pytest.raises(splay.Error) as refused:
            ann.sql(statement).to_arrow()
        assert "secret," not in str(refused.value)
    with pytest.raises(splay.AccessError):
        splay.connect(desk.http).sql("select 1").to_arrow()
    with pytest.raises(splay.AccessError):
        splay.connect(desk.http, token="wrong").sql("select 1").to_arrow()
    # What others have stored isn't told; the columns and rows that she may read are.
    assert repr(ann).splitlines()[1:] == ["  trade  an untold number of rows  no dates"]
    table = ann.table("trade")
    for shown in (repr(table), repr(ann["trade"]), table._repr_html_(), ann["trade"]._repr_html_(), ann._repr_html_()):
        assert "an untold number of rows" in shown and "AccessError" not in shown and "size" not in shown
    with pytest.raises(splay.AccessError):
        _ = table.partitions
    everything = splay.connect(desk.http, token=desk.tokens["admin"])
    assert everything.sql("select count(*) as n from trade").fetchall() == [(100,)]


def test_drivers_of_flight_sql_log_in_by_name_and_password(desk: Desk) -> None:
    options = {"username": "ann", "password": SECRETS[1]}
    with adbc.connect(desk.flight, db_kwargs=options, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("select count(*) from trade")
        assert cursor.fetchall() == [(50,)]
        tables = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
        found = [table["table_name"] for table in tables[0]["catalog_db_schemas"][0]["db_schema_tables"]]
        assert found == ["trade"]
        with pytest.raises(adbc_driver_manager.Error):
            cursor.execute("select * from secret")
    with pytest.raises(adbc_driver_manager.Error), adbc.connect(desk.flight, db_kwargs=options | {"password": "wrong"}) as connection:
        connection.cursor().execute("select 1")


def test_clients_of_postgresql_log_in_by_name_and_password(desk: Desk) -> None:
    for password in (SECRETS[1], desk.tokens["ann"]):
        with psycopg.connect(desk.address("ann", password), autocommit=True) as connection:
            assert connection.execute("select count(*) from trade where price > %s", (-1,)).fetchone() == (50,)
            with pytest.raises(psycopg.errors.UndefinedTable):
                connection.execute("select * from secret")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("delete from trade")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("create user eve")
            columns = "select attname from pg_attribute where attrelid = 'trade'::regclass and attnum > 0 order by attnum"
            assert connection.execute(columns).fetchall() == [("time",), ("sym",), ("price",)]
    for user, password in (("ann", "wrong"), ("admin", desk.tokens["ann"]), ("nobody", SECRETS[1])):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(desk.address(user, password))


def test_the_folder_asks_nobody_and_changes_count_at_once(desk: Desk) -> None:
    def command(sql: str) -> str:
        done = subprocess.run([SPLAY, "sql", str(desk.folder / "db"), sql, "--format", "csv"], check=True, capture_output=True, text=True)
        return done.stdout

    ann = {"authorization": f"Bearer {desk.tokens['ann']}"}
    assert "ann" in command("show users")
    assert desk.send("/query", b"select 1 from secret limit 1", content_type="text/plain", **ann)[0] == 404
    # While the server runs.
    command("grant select on secret to ann")
    assert desk.query("select count(*) from secret", **ann) == [[10]]
    command("revoke select on secret from ann")
    assert desk.send("/query", b"select 1 from secret limit 1", content_type="text/plain", **ann)[0] == 404


def test_policies_hold_for_rows_of_before_and_after(desk: Desk) -> None:
    admin = {"authorization": f"Bearer {desk.tokens['admin']}"}
    ann = {"authorization": f"Bearer {desk.tokens['ann']}"}
    more = f"trade,sym=IBM price=7.5,size=1i {DAY_NS + 1000}\ntrade,sym=AIG price=8.5,size=1i {DAY_NS + 1001}\n"
    assert desk.send("/write", more.encode(), **admin)[0] == 204
    count = "select count(*) from trade where price in (7.5, 8.5) and time >= timestamp '2026-01-01 00:00:00.000001'"
    assert desk.query(count, **admin) == [[2]]
    assert desk.query(count, **ann) == [[1]]
    assert desk.send("/write", more.encode(), **ann)[0] == 403
    status, body = desk.send("/tables/trade", **ann)
    assert status == 200 and json.loads(body)["rows"] is None


def test_no_log_keeps_a_secret(desk: Desk) -> None:
    desk.admin("alter user ann password 'correct horse'")
    admin = {"authorization": f"Bearer {desk.tokens['admin']}"}
    assert desk.send("/query", b"alter user ann pasword 'correct horse'", content_type="text/plain", **admin)[0] == 400
    logged = desk.logged()
    assert "slow statement" in logged and "PASSWORD …" in logged
    kept = (desk.folder / "db" / "access.json").read_text()
    for secret in (*SECRETS, *desk.tokens.values()):
        assert secret not in logged and secret not in kept


def verifier(desk: Desk, user: str, password: str) -> str:
    """The verifier of a password as libpq makes it, by the method that the server names."""
    with psycopg.connect(desk.address("admin", SECRETS[0])) as admin:
        method = admin.execute("show password_encryption").fetchone()[0]
        return admin.pgconn.encrypt_password(password.encode(), user.encode(), method.encode()).decode()


def test_a_user_with_a_verifier_proves_the_password(desk: Desk) -> None:
    password = "pa\u00aafe \u2168"  # Letters that SASLprep writes in another way: "paafe IX".
    stored = verifier(desk, "eve", password)
    assert stored.startswith("SCRAM-SHA-256$4096:")
    desk.admin(f"create user eve password '{stored}'")
    try:
        with psycopg.connect(desk.address("eve", password)) as eve:
            assert eve.execute("select current_user").fetchone() == ("eve",)
            assert eve.pgconn.used_password
        for wrong in ("correct horse", desk.admin("create token eve_1 for eve")[0][2], stored):
            with pytest.raises(psycopg.OperationalError, match="password is wrong"):
                psycopg.connect(desk.address("eve", wrong))
        # Where passwords are sent, the same one is right.
        for right in (password, "paafe IX"):
            assert desk.query("select 1", authorization=basic("eve", right)) == [[1]]
        assert desk.send("/query", b"select 1", authorization=basic("eve", stored))[0] == 401
        # A hash is her own to change, and takes the verifier's place.
        with psycopg.connect(desk.address("eve", password), autocommit=True) as eve:
            eve.execute("alter user eve password 'battery staple'")
        with psycopg.connect(desk.address("eve", "battery staple")) as eve:
            assert eve.execute("select 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(desk.address("eve", password))
    finally:
        desk.admin("drop user eve")
    assert stored not in desk.logged() and "paafe" not in desk.logged()


def test_clients_of_other_makes_prove_the_password(desk: Desk) -> None:
    asyncpg = pytest.importorskip("asyncpg")
    psycopg2 = pytest.importorskip("psycopg2")
    desk.admin(f"create user eve password '{verifier(desk, 'eve', 'battery staple')}'")
    port = int(desk.said["postgres"].rpartition(":")[2])

    async def ask(password: str) -> int:
        connection = await asyncpg.connect(host="127.0.0.1", port=port, user="eve", password=password, database="market")
        try:
            return await connection.fetchval("select 42")
        finally:
            await connection.close()

    try:
        assert asyncio.run(ask("battery staple")) == 42
        with pytest.raises(asyncpg.InvalidPasswordError):
            asyncio.run(ask("battery"))
        with contextlib.closing(psycopg2.connect(desk.address("eve", "battery staple"))) as connection:
            cursor = connection.cursor()
            cursor.execute("select 42")
            assert cursor.fetchone() == (42,)
    finally:
        desk.admin("drop user eve")


def test_what_isnt_a_verifier_is_no_password(desk: Desk) -> None:
    sound = verifier(desk, "eve", "battery staple")
    for wrong in (sound.replace("$4096", "$1"), sound[:-3], sound.replace(":", "$")):
        status, told = desk.send("/query", f"create user eve password '{wrong}'".encode(), authorization=basic("admin", SECRETS[0]))
        assert status == 400 and b"verifier of 4,096 iterations" in told and wrong[30:].encode() not in told


def asked_for(port: int, user: str) -> int:
    """What a server asks a client for: 3 for the password, 10 for a proof of it."""
    packet = (3 << 16).to_bytes(4, "big") + b"user\0" + user.encode() + b"\0\0"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall((len(packet) + 4).to_bytes(4, "big") + packet)
        answer = connection.recv(64)
    return int.from_bytes(answer[5:9], "big")


def test_who_there_is_isnt_told_where_all_have_verifiers(tmp_path: pathlib.Path, desk: Desk) -> None:
    with Server(tmp_path / "db", "--postgres", "127.0.0.1:0") as server:
        port = int(server.said["postgres"].rpartition(":")[2])
        server.query(f"create user admin superuser password '{verifier(desk, 'admin', 'open sesame')}'")
        assert [asked_for(port, user) for user in ("admin", "nobody", "")] == [10, 10, 10]
        with pytest.raises(psycopg.OperationalError, match="password is wrong, or there is no such user"):
            psycopg.connect(f"host=127.0.0.1 port={port} user=nobody password=x dbname=market")
        server.query("create user ann password 'correct horse'", authorization=basic("admin", "open sesame"))
        assert [asked_for(port, user) for user in ("admin", "ann", "nobody")] == [10, 3, 3]
        folder = tmp_path / "db" / "access.json"
        assert json.loads(folder.read_text())["version"] == 3
        psycopg.connect(f"host=127.0.0.1 port={port} user=admin password='open sesame' dbname=market").close()
    # Another start reads the file.
    with Server(tmp_path / "db", "--postgres", "127.0.0.1:0") as server:
        port = int(server.said["postgres"].rpartition(":")[2])
        psycopg.connect(f"host=127.0.0.1 port={port} user=admin password='open sesame' dbname=market").close()
