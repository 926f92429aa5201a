"""Sign-in by an OpenID Connect provider: the console's, and tokens over every way in. The provider is `oidc_provider.py`'s."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import adbc_driver_manager
import pytest
from test_server import SPLAY, Server, eventually, lines, make_certificate

import splay

pytest.importorskip("cryptography", reason="the provider signs with it")
psycopg = pytest.importorskip("psycopg")

from oidc_provider import SECRET, Browser, Key, Provider, signed_by_public_key, unsigned  # noqa: E402

USERS = (
    "create user admin superuser",
    "create user ann",
    "create user left nologin",
    "create role desk",
    "grant select on trade to desk",
    "grant desk to ann",
    "create role owner",
    "grant create on database market to owner",
    "create policy own on fill to desk using (trader = current_user)",
    "grant select on fill to desk",
)


class Desk(Server):
    """A server whose users a provider signs in, and whose logs have everything."""

    def __init__(self, folder: pathlib.Path, provider: Provider, extra: str = "", tables: str = "") -> None:
        folder.mkdir(exist_ok=True)
        secret = folder / "client.secret"
        secret.write_text(SECRET + "\n")
        groups = 'roles_claim = "realm.groups"\nroles = { traders = "desk", owners = "owner", admins = "admin" }\n'
        oidc = f'[auth.oidc]\nissuer = "{provider.issuer}"\nclient_id = "splay"\nname = "Test"\nclient_secret_file = "client.secret"\n'
        config = f'{oidc}{groups}{extra}[audit]\nlog = "statements"\n[log]\nslow_statement_milliseconds = 0\n{tables}'
        if not (folder / "db").exists():
            self.make(folder / "db")
        super().__init__(folder / "db", "--postgres", "127.0.0.1:0", config=config, environment={"SPLAY_LOG": "debug"})
        self.provider = provider

    @staticmethod
    def make(database: pathlib.Path) -> None:
        with Server(database) as server:
            assert server.send("/write", lines(0, 100))[0] == 204
            assert server.send("/write", b"fill,trader=ann price=1 1\nfill,trader=eve price=2 2\n")[0] == 204
        for statement in USERS:
            subprocess.run([SPLAY, "sql", str(database), statement], check=True, capture_output=True)

    def ask(self, token: str, sql: str = "select count(*) from trade") -> tuple[int, dict[str, Any]]:
        status, body = self.send("/query", sql.encode(), content_type="text/plain", authorization=f"Bearer {token}")
        return status, json.loads(body)

    def postgres(self, user: str, password: str) -> Any:
        port = self.said["postgres"].rpartition(":")[2]
        return psycopg.connect(f"host=127.0.0.1 port={port} dbname=market", user=user, password=password, autocommit=True)

    def sign_in(self, browser: Browser) -> tuple[str, Any]:
        return browser.go(f"{self.http}/auth/oidc")

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Those of a kind in the audit log, once there is one."""
        for _ in range(100):
            files = (self.folder / "db" / ".audit").glob("*.jsonl")
            records = [json.loads(line) for path in files for line in path.read_text().splitlines()]
            if found := [record for record in records if record["kind"] == kind]:
                return found
            time.sleep(0.1)
        return []


@pytest.fixture
def provider() -> Iterator[Provider]:
    running = Provider()
    yield running
    running.stop()


@pytest.fixture
def desk(tmp_path: pathlib.Path, provider: Provider) -> Iterator[Desk]:
    with Desk(tmp_path / "desk", provider) as running:
        yield running
    # Whatever was done, nothing secret is in a log.
    told = running.logged() + "".join(path.read_text() for path in (tmp_path / "desk" / "db" / ".audit").glob("*.jsonl"))
    for secret in provider.secrets:
        assert secret not in told


def test_the_console_signs_in_and_out(desk: Desk) -> None:
    browser, home = Browser(), desk.http
    signed_out = {"oidc": {"name": "Test", "path": "/auth/oidc"}, "session": None}
    assert json.loads(browser.page(f"{home}/auth").body) == signed_out
    assert browser.page(f"{home}/tables").status == 401
    url, answer = desk.sign_in(browser)
    assert (url, answer.status) == (f"{home}/", 200)
    # What a script can't read, and what no other site sends.
    (began, session, over) = browser.set
    assert "HttpOnly" in began and "SameSite=Lax" in began and "Max-Age=0" in over
    assert "HttpOnly" in session and "SameSite=Strict" in session and "Path=/;" in session and "Max-Age=28800" in session
    (name,) = browser.cookies["127.0.0.1"]
    assert name == f"splay-session-{home.rpartition(':')[2]}"
    desk.provider.secrets |= set(browser.cookies["127.0.0.1"].values())
    assert json.loads(browser.page(f"{home}/auth").body)["session"] == {"user": "ann"}
    query = json.dumps({"sql": "select count(*) from trade", "format": "json"}).encode()
    asked = browser.page(f"{home}/query", "POST", query, content_type="application/json", origin=home)
    assert json.loads(asked.body)["rows"] == [[100]]
    assert [table["name"] for table in json.loads(browser.page(f"{home}/tables").body)] == ["fill", "trade"]
    # A cookie is sent by pages of other ports of this machine as well: they get nothing by it.
    for headers in ({}, {"sec_fetch_site": "none"}):
        assert browser.ask(f"{home}/tables", **headers).status == 401, headers
        assert browser.ask(f"{home}/auth/sign-out", "POST", b"", **headers).status == 204
    for headers in ({"sec_fetch_site": "same-site"}, {"sec_fetch_site": "cross-site"}):
        assert browser.ask(f"{home}/tables", **headers).status == 403, headers
        assert browser.ask(f"{home}/auth/sign-out", "POST", b"", **headers).status == 403
    assert browser.ask(f"{home}/tables", origin="http://127.0.0.1:1").status == 403
    # A token goes before a cookie.
    assert browser.page(f"{home}/tables", authorization="Bearer wrong").status == 401
    other = Browser()
    other.cookies = {"127.0.0.1": dict(browser.cookies["127.0.0.1"])}
    assert browser.page(f"{home}/auth/sign-out", "POST", b"", origin=home).status == 204
    assert not browser.cookies["127.0.0.1"]
    assert other.page(f"{home}/tables").status == 401
    assert json.loads(other.page(f"{home}/auth").body) == signed_out
    assert other.page(f"{home}/auth/sign-out", "POST", b"", origin=home).status == 204
    # Of the session that there was, and of no other.
    assert [record["user"] for record in desk.records("sign_out")] == ["ann"]


def test_a_session_is_held_to_what_the_user_may_now(desk: Desk) -> None:
    browser, home = Browser(), desk.http
    desk.sign_in(browser)

    def status(sql: str) -> int:
        return browser.page(f"{home}/query", "POST", sql.encode(), content_type="text/plain", origin=home).status

    assert status("select * from trade limit 1") == 200
    assert status("delete from trade") == status("create user eve") == status("alter user ann password 'x'") == 403
    command = [SPLAY, "sql", str(desk.folder / "db")]
    subprocess.run([*command, "revoke desk from ann"], check=True, capture_output=True)
    assert status("select * from trade limit 1") == 404
    subprocess.run([*command, "alter user ann nologin"], check=True, capture_output=True)
    assert status("select 1") == 403
    # Who left isn't let in by his groups.
    desk.provider.person = {"sub": "ann", "realm": {"groups": ["traders"]}}
    assert desk.sign_in(Browser())[1].status == 403


def test_a_sign_in_is_ended_by_the_browser_that_began_it(desk: Desk) -> None:
    home = desk.http
    ours, theirs = Browser(), Browser()
    returned, _ = ours.go(f"{home}/auth/oidc", stop="/auth/oidc/callback")
    # Another browser that is led to the address, with and without a sign-in of its own.
    assert theirs.ask(returned).status == 401
    theirs.go(f"{home}/auth/oidc", stop="/auth/oidc/callback")
    assert theirs.ask(returned).status == 401
    code = returned.partition("code=")[2].partition("&")[0]
    for wrong in (returned.replace("state=", "state=x"), returned.replace("iss=http", "iss=https"), returned.replace(code, "x")):
        attempt = Browser()
        attempt.cookies = {host: dict(kept) for host, kept in ours.cookies.items()}
        answer = attempt.ask(wrong)
        assert answer.status == 401 and "session" not in "".join(attempt.set), wrong
        assert code.encode() not in answer.body
    used = Browser()
    used.cookies = {host: dict(kept) for host, kept in ours.cookies.items()}
    assert ours.go(returned)[1].status == 200
    # A code is used once.
    assert used.ask(returned).status == 401
    desk.provider.error = "access_denied<script>"
    url, answer = desk.sign_in(Browser())
    assert answer.status == 401 and b"access_deniedscript" in answer.body
    assert answer.headers["content-type"].startswith("text/plain") and answer.headers["cache-control"] == "no-store"


def test_id_tokens_that_are_not_this_sign_ins_are_refused(desk: Desk) -> None:
    provider, now = desk.provider, int(time.time())
    attacker = Key("first", "RS256")
    makes = {
        "none": lambda claims: unsigned(claims, provider.keys[0]),
        "shared": lambda claims: signed_by_public_key(claims, provider.keys[0]),
        "key": attacker.token,
        "embedded": lambda claims: attacker.token(claims, jwk=attacker.public()),
        "critical": lambda claims: provider.keys[0].token(claims, crit=["exp"]),
        "text": lambda claims: "no token",
        "long": lambda claims: provider.keys[0].token(claims | {"x": "y" * 20_000}),
    }
    changes: list[dict[str, Any]] = [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another"},
        {"aud": ["splay", "another"]},
        {"azp": "another"},
        {"iss": "https://another.example.com"},
        {"exp": now - 3600, "iat": now - 7200},
        {"exp": None},
        {"iat": now + 3600},
        {"nbf": now + 3600},
    ]
    for change in changes:
        provider.changes = change
        assert desk.sign_in(Browser())[1].status == 401, change
    provider.changes, usual = {}, provider.make
    for name, make in makes.items():
        provider.make = make
        browser = Browser()
        assert desk.sign_in(browser)[1].status == 401, name
        assert not browser.cookies["127.0.0.1"], name
    provider.make = usual
    assert desk.sign_in(Browser())[1].status == 200
    for claim in ({"sub": None}, {"sub": "nobody"}, {"sub": "left"}, {"sub": "ANN"}):
        provider.changes = claim
        answer = desk.sign_in(Browser())[1]
        assert answer.status == 403 and b"forbidden" in answer.body, claim


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"])
def test_every_algorithm_of_key_pairs_signs(tmp_path: pathlib.Path, provider: Provider, algorithm: str) -> None:
    provider.keys = [Key("other", "RS256"), Key("one", algorithm)]
    provider.keys.reverse()
    with Desk(tmp_path / "desk", provider) as desk:
        token = provider.token()
        assert desk.ask(token)[0] == 200
        head, _, signature = token.rpartition(".")
        flipped = ("B" if signature[10] == "A" else "A").join((signature[:10], signature[11:]))
        assert desk.ask(f"{head}.{flipped}")[0] == 401


def test_tokens_are_accepted_by_every_way_in(desk: Desk) -> None:
    token, stranger = desk.provider.token(), desk.provider.token(aud="another")
    assert desk.ask(token)[0] == 200
    assert desk.ask(stranger)[0] == 401
    ann = splay.connect(desk.http, token=token)
    assert ann.sql("select count(*) as n from trade").fetchall() == [(100,)]
    with ann.subscribe("trade", start="snapshot") as updates:
        assert next(iter(updates)).rows.num_rows == 100
    with pytest.raises(splay.AccessError):
        splay.connect(desk.http, token=stranger).sql("select 1").to_arrow()
    bearer = {"adbc.flight.sql.authorization_header": f"Bearer {token}"}
    for options in (bearer, {"username": "ann", "password": token}):
        with adbc.connect(desk.flight, db_kwargs=options, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("select count(*) from trade")
            assert cursor.fetchall() == [(100,)]
    with pytest.raises(adbc_driver_manager.Error), adbc.connect(desk.flight, db_kwargs={"username": "eve", "password": token}) as connection:
        connection.cursor().execute("select 1")
    with desk.postgres("ann", token) as connection:
        assert connection.execute("select count(*), current_user from trade").fetchone() == (100, "ann")
        assert connection.execute("select current_user, session_user, user from pg_user limit 1").description[0].name == "current_user"
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("delete from trade")
    for user, password in (("eve", token), ("ann", stranger), ("ann", token[:-4] + "AAAA")):
        with pytest.raises(psycopg.OperationalError):
            desk.postgres(user, password)
    # The programs' sign-ins have records with the user's name.
    signed_in = {(record["wire"], record["user"]) for record in desk.records("sign_in") if record["outcome"] == "ok"}
    assert {("http", "ann"), ("flight", "ann"), ("postgres", "ann")} <= signed_in


def test_groups_are_roles_of_those_who_are_no_users(desk: Desk) -> None:
    provider = desk.provider

    def token(name: str, *groups: str) -> str:
        return provider.token(sub=name, realm={"groups": list(groups)})

    eve = token("eve", "traders", "others")
    assert desk.ask(eve)[1]["rows"] == [[100]]
    # A policy sees the name that the provider gives.
    assert desk.ask(eve, "select trader from fill")[1]["rows"] == [["eve"]]
    assert desk.ask(token("bob", "traders"), "select trader from fill")[1]["rows"] == []
    with desk.postgres("eve", eve) as connection:
        assert connection.execute("select current_user").fetchone() == ("eve",)
    for statement in ("delete from trade", "create user mallory", "grant desk to eve", "create table own (time timestamp)"):
        assert desk.ask(token("eve", "traders", "owners", "admins"), statement)[0] == 403, statement
    for name, groups in (("eve", ["others"]), ("eve", []), ("eve", ["desk"]), ("pg_read_all_data", ["traders"]), ("public", ["traders"])):
        assert desk.ask(token(name, *groups))[0] == 403, (name, groups)
    for groups in ("traders", ["traders", 1, None], {"traders": 1}):
        status = desk.ask(provider.token(sub="eve", realm={"groups": groups}))[0]
        assert status == (403 if isinstance(groups, dict) else 200), groups
    # Users are who they are, whatever groups say.
    assert desk.ask(provider.token(sub="admin", realm={"groups": ["traders"]}), "create role more")[0] == 200
    assert desk.ask(token("left", "traders"))[0] == 403


def test_new_keys_are_asked_for_and_not_too_often(desk: Desk) -> None:
    provider = desk.provider
    old = provider.token()
    assert desk.ask(old)[0] == 200
    asked = provider.seen.count("/jwks")
    provider.keys = [Key("second", "ES256"), provider.keys[0]]
    new = provider.token()
    assert desk.ask(new)[0] == desk.ask(old)[0] == desk.ask(new)[0] == 200
    assert provider.seen.count("/jwks") == asked + 1
    # A key that was withdrawn is known until somebody asks again, and goes then.
    provider.keys = [Key("third", "EdDSA"), provider.keys[0]]
    assert desk.ask(provider.token())[0] == desk.ask(new)[0] == 200
    assert desk.ask(old)[0] == 401
    for at in range(50):
        assert desk.ask(Key(f"made-up-{at}", "ES256").token(provider.claims()))[0] == 401
    assert provider.seen.count("/jwks") <= 6
    assert desk.ask(new)[0] == 200


def test_while_the_provider_is_away_those_who_are_signed_in_go_on(tmp_path: pathlib.Path, provider: Provider) -> None:
    with Desk(tmp_path / "desk", provider) as desk:
        browser, home, token = Browser(), desk.http, provider.token()
        desk.sign_in(browser)
        provider.stop()
        assert browser.page(f"{home}/tables").status == 200
        assert desk.ask(token)[0] == 200
        status, said = desk.ask(Key("new", "ES256").token(provider.claims()))
        assert (status, said["code"], said["retryable"]) == (503, "provider", True)
    with Desk(tmp_path / "desk", provider) as desk:
        status, said = desk.ask(token)
        assert (status, said["code"]) == (503, "provider")
        answer = Browser().ask(f"{desk.http}/auth/oidc")
        assert answer.status == 503 and answer.headers["retry-after"] and b"provider" in answer.body
        with pytest.raises(psycopg.OperationalError, match="can't be asked"):
            desk.postgres("ann", token)
        provider.start()
        eventually(lambda: desk.ask(token)[0] == 200)
        provider.status = 500
        assert desk.sign_in(Browser())[1].status == 503
        provider.status = 200
        assert desk.sign_in(Browser())[1].status == 200


def test_the_provider_leads_nowhere_else(tmp_path: pathlib.Path, provider: Provider) -> None:
    token, jwks = provider.token(), f"http://localhost:{provider.port}/jwks"
    wrong: list[tuple[str, dict[str, Any]]] = [
        (f"{provider.issuer}/elsewhere", {}),
        ("", {"jwks_uri": jwks}),
        ("", {"token_endpoint": "http://example.com/token"}),
        ("", {"authorization_endpoint": "http://example.com/authorize"}),
        ("", {"issuer": "https://another.example.com"}),
    ]
    for moved, description in wrong:
        provider.moved, provider.description = moved or None, description
        with Desk(tmp_path / "desk", provider) as desk:
            assert desk.ask(token)[0] == 503, description
            assert "/elsewhere" not in provider.seen
    provider.moved, provider.description = None, {"jwks_uri": jwks}
    with Desk(tmp_path / "desk", provider, 'hosts = ["localhost"]\n') as desk:
        assert desk.ask(token)[0] == 200
    # A console that others reach has an address, and no other name.
    with Desk(tmp_path / "desk", provider, 'hosts = ["localhost"]\nurl = "https://ticks.example.com"\n') as desk:
        answer = Browser().ask(f"{desk.http}/auth/oidc")
        assert answer.status == 400 and b"https://ticks.example.com" in answer.body
        begun = Browser().ask(f"{desk.http}/auth/oidc", host="ticks.example.com")
        assert begun.status == 303 and "https%3A%2F%2Fticks.example.com%2Fauth%2Foidc%2Fcallback" in begun.headers["location"]
        assert begun.headers["set-cookie"].startswith("__Host-splay-sign-in-") and begun.headers["set-cookie"].endswith("; Secure")


def test_tls_is_checked(tmp_path: pathlib.Path) -> None:
    if not shutil.which("openssl"):
        pytest.skip("openssl isn't installed")
    certificate, key = tmp_path / "provider.pem", tmp_path / "provider.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    provider = Provider((str(certificate), str(key)))
    try:
        with Desk(tmp_path / "desk", provider, f'authority = "{certificate}"\n') as desk:
            assert desk.ask(provider.token())[0] == 200
        (tmp_path / "other").mkdir()
        unknown, _ = make_certificate(tmp_path / "other")
        with Desk(tmp_path / "desk", provider, f'authority = "{unknown}"\n') as desk:
            assert desk.ask(provider.token())[0] == 503
    finally:
        provider.stop()


def test_a_server_with_a_provider_is_open_to_nobody(tmp_path: pathlib.Path, provider: Provider) -> None:
    with Server(tmp_path / "db") as server:
        assert server.send("/write", lines(0, 10))[0] == 204
    config = f'[auth.oidc]\nissuer = "{provider.issuer}"\nclient_id = "splay"\n'
    with Server(tmp_path / "db", config=config) as server:
        # Neither users nor tokens of its own.
        assert server.send("/tables")[0] == 401
        status, body = server.send("/tables", authorization=f"Bearer {provider.token()}")
        assert (status, json.loads(body)["code"]) == (403, "forbidden")
    for wrong in ("http://login.example.com", "login.example.com", "https://a@login.example.com"):
        (tmp_path / "wrong.toml").write_text(f'[auth.oidc]\nissuer = "{wrong}"\nclient_id = "splay"\n')
        command = [SPLAY, "serve", str(tmp_path / "db"), "--config", str(tmp_path / "wrong.toml"), "--http", "127.0.0.1:0"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and "auth.oidc.issuer" in done.stderr, wrong
