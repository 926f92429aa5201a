"""Followers as processes: the same answers as the leader's; kills, a partition and days away; promotion, and what becomes of the leader before."""

from __future__ import annotations

import json
import os
import pathlib
import random
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPLAY = os.environ.get("SPLAY", str(ROOT / "target" / "release" / "splay"))

START_NS = 1_767_225_600_000_000_000
SECONDS_MAX = 60

SMALL = """[capture]
live_rows_max = 200
journal_segment_bytes = 20000
journal_keep_bytes = 0
late_s = 0
roll_delay_s = 0
disk_reserve_bytes = 0
replica_timeout_ms = 3000
[views]
refresh_seconds = 1
"""


def command(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([SPLAY, *map(str, arguments)], capture_output=True, text=True, check=False)


class Node:
    """A server of a database, on one port for all its lives."""

    def __init__(self, folder: pathlib.Path, name: str, config: str = SMALL):
        self.database, self.log_path = folder / name, folder / f"{name}.log"
        self.settings = folder / f"{name}.toml"
        self.settings.write_text(config)
        self.address, self.process = "127.0.0.1:0", None

    def start(self, *arguments: str) -> Node:
        serve = [SPLAY, "serve", str(self.database), "--config", str(self.settings), "--http", self.address]
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(
            [*serve, "--flight", "off", "--line", "off", *arguments], stdout=subprocess.PIPE, stderr=log, text=True
        )
        log.close()
        for line in self.process.stdout:
            name, _, rest = line.strip().partition(" ")
            if name == "http":
                self.address = rest.strip().removeprefix("http://")
            if name == "line":
                return self
        raise AssertionError(f"no start: {self.logged()[-3000:]}")

    def follow(self, leader: Node, *arguments: str) -> Node:
        return self.start("--follow", leader.url, *arguments)

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def logged(self) -> str:
        return self.log_path.read_text()

    def send(self, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, dict]:
        request = urllib.request.Request(self.url + path, data=body, headers={"content-type": "text/plain"} | (headers or {}))
        try:
            with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
                told, status = answer.read(), answer.status
        except urllib.error.HTTPError as error:
            told, status = error.read(), error.code
        return status, json.loads(told) if told.startswith(b"{") else {}

    def run(self, statement: str) -> list:
        status, told = self.send("/query?format=json", statement.encode())
        assert status == 200, f"{statement}: {told}"
        return told.get("rows", [])

    def write(self, first: int, rows: int, table: str = "trade", ack: str = "disk") -> tuple[int, dict]:
        lines = "".join(
            f"{table},sym=S{number % 3} id={number}i,price={number}.5 {START_NS + number * 1_000_000}\n"
            for number in range(first, first + rows)
        )
        return self.send(f"/api/v2/write?ack={ack}", lines.encode())

    def ready(self) -> str:
        return self.send("/ready")[1]["status"]

    def status(self) -> dict:
        return self.send("/status")[1]["replication"]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> None:
        self.signal(signal.SIGTERM)
        assert self.wait() == 0, self.logged()[-3000:]

    def wait(self) -> int:
        code = self.process.wait(SECONDS_MAX)
        self.process.stdout.close()
        return code


@pytest.fixture
def nodes(tmp_path: pathlib.Path):
    made: dict[str, Node] = {}

    def node(name: str, config: str = SMALL) -> Node:
        return made.setdefault(name, Node(tmp_path, name, config))

    yield node
    for each in made.values():
        if each.process is not None and each.process.poll() is None:
            each.signal(signal.SIGCONT)
            each.kill()


def eventually(happened, what=lambda: "") -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not happened():
        assert time.monotonic() < deadline, what()
        time.sleep(0.01)


def follows(follower: Node) -> None:
    eventually(lambda: follower.ready() == "following", lambda: f"{follower.ready()}: {follower.logged()[-3000:]}")


def answer(node: Node, statement: str) -> tuple[int, list]:
    """Status and rows: a table may not be there yet."""
    status, told = node.send("/query?format=json", statement.encode())
    return status, told.get("rows", [])


def ids(node: Node, table: str = "trade") -> list[int]:
    return sorted(row[0] for row in answer(node, f"select id from {table}")[1])


STATEMENTS = (
    "show tables",
    "select * from trade order by id",
    "select sym, count(*), sum(id), last(price) from trade group by sym order by sym",
    "select * from minutes order by 1, 2",
    "select * from dear order by id",
    "select * from venue order by name",
    "describe trade",
    "show grants",
)


def same_answers(leader: Node, follower: Node, statements=STATEMENTS) -> None:
    def differences() -> list:
        answers = [(each, answer(leader, each), answer(follower, each)) for each in statements]
        return [
            (each, str(of_leader)[:500], str(of_follower)[:500]) for each, of_leader, of_follower in answers if of_leader != of_follower
        ]

    eventually(lambda: not differences(), lambda: f"{differences()}")


def test_a_follower_gives_the_leaders_answers(nodes):
    leader = nodes("leader").start()
    leader.write(0, 150)
    leader.run("create table venue (name symbol, city text) with (key = 'name')")
    leader.run("insert into venue values ('XNAS', 'New York'), ('XLON', 'London')")
    leader.run("create view dear as select * from trade where price > 100")
    leader.run(
        "create materialized view minutes as select time_bucket('1 minute', time) as minute, sym, sum(id) as ids from trade group by 1, 2"
    )
    follower = nodes("follower").follow(leader)
    follows(follower)
    same_answers(leader, follower)
    for round in range(8):
        leader.write(150 + round * 100, 100)
        same_answers(leader, follower)
    leader.run("delete from trade where id < 10")
    leader.run("update trade set price = 1 where id = 20")
    leader.run("alter table trade add column venue symbol")
    leader.run("create table other (time timestamp, n bigint)")
    leader.run("refresh materialized view minutes")
    same_answers(leader, follower)
    status, told = follower.write(5_000, 1)
    assert (status, told["code"]) == (403, "forbidden")
    assert leader.url in told["error"]
    # What was kept for undo is there, too.
    leader.run("create role desk")
    same_answers(leader, follower)
    follower.stop()
    verified = command("verify", follower.database)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_users_and_roles_come_along(nodes, tmp_path):
    leader = nodes("leader").start()
    leader.write(0, 10)
    leader.run("create user admin superuser password 'open sesame'")

    def admin(statement: str) -> str:
        basic = {"authorization": "Basic YWRtaW46b3BlbiBzZXNhbWU="}
        status, told = leader.send("/query?format=json", statement.encode(), basic)
        assert status == 200, told
        return told["rows"][0][-1] if told.get("rows") else ""

    token = admin("create token copy for admin")
    admin("create user ann password 'correct horse'")
    admin("grant select (time, id) on trade to ann")
    file = tmp_path / "token"
    file.write_text(token + "\n")
    follower = nodes("follower").follow(leader, "--follow-token-file", str(file))
    follows(follower)
    ann = {"authorization": "Basic YW5uOmNvcnJlY3QgaG9yc2U="}

    def asked(statement: str) -> int:
        return follower.send("/query?format=json", statement.encode(), ann)[0]

    assert follower.send("/query?format=json", b"select 1")[0] == 401
    eventually(lambda: asked("select id from trade") == 200)
    assert asked("select price from trade") >= 400
    admin("grant select on trade to ann")
    eventually(lambda: asked("select price from trade") == 200)
    admin("drop user ann")
    eventually(lambda: asked("select 1") == 401)
    # Who follows has everything: others may not.
    assert leader.send("/replica/state", b"{}", ann)[0] == 401
    assert token not in follower.logged()


class Sender(threading.Thread):
    """Sends rows of the class `replica` until it is told to stop, and notes which were acknowledged."""

    def __init__(self, leader: Node, first: int):
        super().__init__(daemon=True)
        self.leader, self.next, self.acknowledged = leader, first, []
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.is_set():
            first, self.next = self.next, self.next + 3
            try:
                status, _ = self.leader.write(first, 3, ack="replica")
            except OSError:
                return
            if status == 204:
                self.acknowledged += range(first, first + 3)
            else:
                time.sleep(0.005)


@pytest.mark.parametrize("seed", range(3))
def test_what_was_acknowledged_as_replica_outlives_the_leader(nodes, seed):
    chance = random.Random(seed)
    leader = nodes("leader").start()
    leader.write(10_000_000, 1)
    follower = nodes("follower").follow(leader)
    follows(follower)
    acknowledged: list[int] = []
    for turn in range(4):
        senders = [Sender(leader, turn * 1_000_000 + number * 100_000) for number in range(3)]
        for sender in senders:
            sender.start()
        eventually(lambda: sum(len(sender.acknowledged) for sender in senders) > 30, lambda: leader.logged()[-2000:])
        time.sleep(chance.uniform(0, 0.3))
        # The follower, the leader, and the last time the leader for good.
        killed = follower if turn < 3 and chance.random() < 0.5 else leader
        killed.kill()
        for sender in senders:
            sender.is_over.set()
        for sender in senders:
            sender.join()
            acknowledged += sender.acknowledged
        if turn < 3:
            killed.follow(leader) if killed is follower else killed.start()
            follows(follower)
    begun = time.monotonic()
    promoted = command("promote", follower.url)
    assert promoted.returncode == 0, promoted.stderr
    assert time.monotonic() - begun < SECONDS_MAX
    there = ids(follower)
    assert len(there) == len(set(there)), "a row is there twice"
    assert set(acknowledged) <= set(there), sorted(set(acknowledged) - set(there))[:10]
    assert follower.write(20_000_000, 1)[0] == 204
    # The former leader comes back, hears of it, and takes nothing.
    leader.start()
    eventually(lambda: leader.ready() == "fenced")
    for ack in ("memory", "disk", "replica"):
        assert leader.write(30_000_000, 1, ack=ack)[0] == 403
    leader.stop()
    # It follows, once what only it has is aside.
    leader.follow(follower, "--aside", str(leader.database.parent / "aside"))
    follows(leader)
    eventually(lambda: ids(leader) == ids(follower))


def test_a_leader_without_its_follower_acknowledges_nothing_as_replica(nodes):
    leader = nodes("leader").start()
    assert leader.write(0, 1, ack="replica")[0] == 503
    follower = nodes("follower").follow(leader)
    follows(follower)
    eventually(lambda: leader.write(1, 1, ack="replica")[0] == 204)
    follower.signal(signal.SIGSTOP)
    first = leader.write(2, 1, ack="replica")
    assert first[0] in (503, 504), first
    assert first[1]["code"] == "unavailable"
    eventually(lambda: leader.write(3, 1, ack="replica")[0] == 503)
    assert leader.write(4, 1, ack="disk")[0] == 204, "other classes wait for nobody"
    follower.signal(signal.SIGCONT)
    follows(follower)
    eventually(lambda: leader.write(5, 1, ack="replica")[0] == 204)
    eventually(lambda: ids(follower) == ids(leader))


def test_a_partitioned_leader_and_the_promoted_one_dont_both_acknowledge(nodes):
    leader = nodes("leader").start()
    follower = nodes("follower").follow(leader)
    leader.write(0, 10)
    follows(follower)
    eventually(lambda: ids(follower) == list(range(10)))
    # Cut off from everybody: it answers nobody, and isn't told of the promotion.
    leader.signal(signal.SIGSTOP)
    assert command("promote", follower.url).returncode == 0
    assert follower.write(100, 1)[0] == 204
    leader.signal(signal.SIGCONT)
    assert leader.write(200, 1, ack="replica")[0] in (403, 503, 504)
    eventually(lambda: leader.ready() == "fenced")
    assert leader.write(201, 1, ack="disk")[0] == 403
    assert leader.send("/query", b"create table t (time timestamp)")[0] == 403
    # Also after a start, and it never leads again by itself.
    leader.kill()
    leader.start()
    assert leader.ready() == "fenced"
    assert leader.write(202, 1, ack="memory")[0] == 403
    # The new leader goes on after a kill as well, whatever it was told to follow.
    follower.kill()
    follower.follow(leader)
    assert follower.ready() == "ready"
    assert follower.write(101, 1)[0] == 204


def test_a_follower_that_was_away_catches_up(nodes):
    leader = nodes("leader").start()
    leader.write(0, 100)
    leader.write(0, 50, table="quote")
    leader.write(0, 50, table="gone")
    follower = nodes("follower").follow(leader)
    follows(follower)
    same_answers(leader, follower, ("select * from trade order by id", "select * from gone order by id"))
    follower.stop()
    for round in range(12):
        leader.write(100 + round * 100, 100)
        leader.write(1_000 + round * 100, 100, table="quote")
    leader.run("delete from trade where id < 500")
    leader.run("create role desk")
    leader.stop()
    # At rest all rows are rolled and joined, and tables go and get other names.
    for arguments in (
        ["roll", leader.database],
        ["compact", leader.database, "trade"],
        ["sql", leader.database, "drop table gone"],
        ["alter", leader.database, "quote", "rename", "tape"],
    ):
        done = command(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
    leader.start()
    leader.write(0, 10, table="quote")
    for round in range(4):
        leader.write(5_000 + round * 100, 100)
    follower.follow(leader)
    follows(follower)
    same_answers(
        leader,
        follower,
        ("show tables", "select * from trade order by id", "select * from tape order by id", "select * from quote order by id"),
    )
    follower.stop()
    verified = command("verify", follower.database)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_a_leader_with_another_history_is_refused(nodes, tmp_path):
    leader = nodes("leader").start()
    leader.write(0, 100)
    assert command("backup", leader.database, tmp_path / "backup").returncode == 0
    leader.write(100, 100)
    follower = nodes("follower").follow(leader)
    follows(follower)
    eventually(lambda: ids(follower) == list(range(200)))
    follower.stop()
    leader.stop()
    assert command("restore", tmp_path / "backup", tmp_path / "restored").returncode == 0
    restored = nodes("restored")
    restored.address = leader.address
    restored.start()
    with pytest.raises(AssertionError, match="no start"):
        follower.follow(restored)
    assert "another database" in follower.logged()
    follower.wait()
    # What is there is still there.
    rows = command("sql", follower.database, "select count(*) from trade", "--format", "csv")
    assert "200" in rows.stdout, rows


def test_a_copy_that_no_process_follows_with_is_promoted_by_its_folder(nodes):
    leader = nodes("leader").start()
    leader.write(0, 100)
    follower = nodes("follower").follow(leader)
    follows(follower)
    eventually(lambda: len(ids(follower)) == 100)
    refused = command("promote", follower.database)
    assert refused.returncode == 1
    assert "by its address" in refused.stderr
    follower.stop()
    served = command("serve", follower.database, "--http", "off", "--flight", "off", "--line", "off")
    assert served.returncode == 1
    assert leader.url in served.stderr
    leader.kill()
    promoted = command("promote", follower.database)
    assert promoted.returncode == 0, promoted.stderr
    again = command("promote", follower.database)
    assert again.returncode == 1
    assert "this database can't be promoted: it follows none, and takes rows already" in again.stderr
    follower.start()
    assert ids(follower) == list(range(100))
    assert follower.write(100, 1)[0] == 204
