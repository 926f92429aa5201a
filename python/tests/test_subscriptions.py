"""Ways out as Python meets them: rows live, a day again, bars; over WebSocket and over Flight, with the same updates."""

from __future__ import annotations

import contextlib
import json
import math
import pathlib
import random
import subprocess
import threading

import pyarrow as pa
import pyarrow.flight as flight
import pytest
from test_server import DAY_NS, SPLAY, Server, batch, lines

import splay
from splay import errors

DATE = "2026-01-01"
MINUTE_NS = 60_000_000_000


class Replayed(Server):
    """A server that replays, on free ports."""

    def __init__(self, database: pathlib.Path, *arguments: str) -> None:
        self.folder = database.parent
        self._start("replay", database, "--http", "127.0.0.1:0", "--flight", "127.0.0.1:0", *arguments)


@pytest.fixture
def server(tmp_path: pathlib.Path):
    with Server(tmp_path / "db") as running:
        yield running


def trades(seed: int, rows: int, first_ns: int = DAY_NS, spread_ns: int = 10 * MINUTE_NS) -> pa.Table:
    """Rows at random times of some minutes, not in order, with ties and nulls."""
    draw = random.Random(seed)
    return pa.table(
        {
            "time": pa.array(
                [first_ns + draw.randrange(spread_ns) // 1000 * 1000 for _ in range(rows)], pa.timestamp("ns", "UTC")
            ),
            "sym": pa.array([draw.choice(["AIG", "IBM", None]) for _ in range(rows)]).dictionary_encode(),
            "price": pa.array([draw.choice([None, *(i / 4 for i in range(40))]) for _ in range(rows)], pa.float64()),
            "size": pa.array([draw.choice([None, *range(100)]) for _ in range(rows)], pa.int64()),
        }
    )


def plain(rows: pa.Table) -> list[tuple]:
    """Rows as tuples, dictionaries as their texts."""
    return [tuple(row.values()) for row in rows.to_pylist()]


def over_websocket(address: str, ask: dict) -> list[tuple[str, int, str, list[tuple]]]:
    ask = dict(ask)
    start = ask.pop("from", "snapshot")
    with splay.connect(address).subscribe(ask.pop("table", None) or ask.pop("tables"), start=start, **ask) as updates:
        given = []
        while (update := updates.next()) is not None:
            given.append((update.table, update.sequence, update.kind, plain(update.rows)))
        return given


def over_flight(address: str, ask: dict) -> list[tuple[str, int, str, list[tuple]]]:
    client = flight.connect(address)
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(json.dumps(ask)))
    given = []
    with contextlib.suppress(StopIteration):
        while True:
            chunk = reader.read_chunk()
            told = json.loads(chunk.app_metadata.to_pybytes())
            rows = plain(pa.Table.from_batches([chunk.data]))
            given.append((told["table"], told["sequence"], told["kind"], rows))
    writer.close()
    return given


def test_a_subscription_goes_on_after_a_break(server: Server) -> None:
    server.send("/write", lines(0, 5))
    client = splay.connect(server.http)
    with client.subscribe("trade", columns=["size"], credit=2) as updates:
        assert updates.subscribed == "trade"
        first = updates.next()
        assert (first.kind, first.more, sorted(first.rows["size"].to_pylist())) == ("snapshot", False, [0, 1, 2, 3, 4])
        for i in range(5, 9):
            server.send("/write", lines(i, 1))
        # More than the credit that it began with: it is given as updates are taken.
        seen = [updates.next() for _ in range(3)]
        assert [update.rows["size"].to_pylist() for update in seen] == [[5], [6], [7]]
    with client.subscribe("trade", after=seen[-1].sequence) as updates:
        update = updates.next()
        assert (update.kind, update.rows["size"].to_pylist()) == ("delta", [8])
        assert updates.next(timeout_seconds=0.01) is None
        server.send("/write", lines(9, 1))
        assert updates.next().rows["size"].to_pylist() == [9]


def test_what_is_wrong_with_a_subscription_is_raised(server: Server) -> None:
    client = splay.connect(server.http)
    with pytest.raises(errors.NoSuchTableError):
        client.subscribe("nothing")
    server.send("/write", lines(0, 1))
    for wrong in (
        {"columns": ["nothing"]},
        {"start": "then"},
        {"bars": {"every": "1m", "price": "sym"}},
        {"bars": {"every": "1y", "price": "price"}},
        {"replay": {"date": "yesterday"}},
        {"replay": {"date": DATE, "speed": -1}},
    ):
        with pytest.raises(errors.Error) as raised:
            client.subscribe("trade", **wrong)
        assert not isinstance(raised.value, errors.UnreachableError), wrong
    with pytest.raises(errors.UnreachableError):
        splay.connect("http://127.0.0.1:9").subscribe("trade")


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A database with a day of two tables, in their files and in the journal."""
    folder = tmp_path_factory.mktemp("day") / "db"
    with Server(folder) as server:
        client = splay.connect(server.http)
        for part in range(4):
            client.write("trade", trades(part, 300))
            client.write("quote", trades(100 + part, 500).rename_columns(["time", "sym", "bid", "bid_size"]))
        assert server.query("select count(*) from trade") == [[1200]]
    # From the journal to the tables' files.
    subprocess.run([SPLAY, "roll", str(folder)], check=True, capture_output=True, timeout=60)
    return folder


def in_order(database: pathlib.Path, table: str) -> list[tuple]:
    """The rows of a table in order of time, then symbol, then arrival, which is the order of the table."""
    rows = splay.open(database).sql(f"select * from {table}").to_arrow().drop_columns(["date"])
    return sorted(plain(rows), key=lambda row: (row[0], row[1] or ""))


def test_a_replay_is_the_same_over_both_protocols_and_each_time(day: pathlib.Path) -> None:
    with Server(day) as server:
        ask = {"replay": {"date": DATE, "speed": "max", "batch_ms": 100}}
        one = over_websocket(server.http, {"table": "trade", **ask})
        assert one == over_flight(server.flight, {"table": "trade", **ask})
        assert one == over_websocket(server.http, {"table": "trade", **ask, "credit": 1})
        assert (one[0][1:], one[-1][2:]) == ((0, "snapshot", []), ("end", []))
        assert [row for _, _, kind, rows in one if kind == "delta" for row in rows] == in_order(day, "trade")
        # Behind any update the rest is what it was.
        resumed = over_flight(server.flight, {"table": "trade", **ask, "after": 100})
        assert resumed == [update for update in one if update[1] > 100 and update[2] == "delta"] + one[-1:]
        some = {**ask["replay"], "from": "00:02", "to": "00:03:00"}
        short = over_websocket(server.http, {"table": "trade", "replay": some, "symbols": ["IBM"]})
        is_wanted = [row for row in in_order(day, "trade") if row[1] == "IBM"]
        bound = [(DAY_NS + minutes * MINUTE_NS) for minutes in (2, 3)]
        ns = [pa.scalar(row[0], pa.timestamp("ns", "UTC")).value for row in is_wanted]
        assert short[0][3] == [row for row, at in zip(is_wanted, ns, strict=True) if at < bound[0]]
        assert [row for update in short if update[2] == "delta" for row in update[3]] == [
            row for row, at in zip(is_wanted, ns, strict=True) if bound[0] <= at < bound[1]
        ]


def test_a_replay_without_rows_ends_at_once(day: pathlib.Path) -> None:
    with Server(day) as server:
        for replay in ({"date": "2030-01-01"}, {"date": DATE, "from": "20:00", "to": "21:00"}, {"date": "2030-01-01", "recorded": True}):
            for more in ({}, {"credit": 1}, {"symbols": ["NONE"]}, {"bars": {"every": "1m", "price": "price"}}):
                ask = {"table": "trade", "from": "now", "replay": replay, **more}
                given = over_websocket(server.http, ask)
                assert given[-1][2:] == ("end", []), ask
        empty = {"table": "trade", "replay": {"date": "2030-01-01"}}
        expected = [("trade", 0, "snapshot", []), ("trade", 0, "end", [])]
        assert over_websocket(server.http, empty) == over_flight(server.flight, empty) == expected
        with splay.connect(server.http).subscribe("trade", start="now", replay={"date": "2030-01-01"}) as updates:
            assert list(updates) == []
            assert updates.next() is None


def test_tables_of_a_replay_are_merged_by_time(day: pathlib.Path) -> None:
    with Server(day, "--read-only") as server:
        ask = {"replay": {"date": DATE, "speed": 0}, "from": "now"}
        merged = over_websocket(server.http, {"tables": ["quote", "trade"], **ask})
        rows = [(row[0], table != "quote", row[1] or "") for table, _, _, rows in merged for row in rows]
        assert len(rows) == 1200 + 2000 and rows == sorted(rows)
        assert [update[1] for update in merged[:-1]] == list(range(1, len(merged)))
        # A Flight stream has one schema.
        with pytest.raises(pa.ArrowInvalid, match="one table for each"):
            over_flight(server.flight, {"tables": ["quote", "trade"], **ask})


def test_the_command_replays_to_all_who_come(day: pathlib.Path) -> None:
    with Replayed(day, "--date", DATE, "--speed", "max", "--table", "trade,quote") as server:
        whole = over_websocket(server.http, {"tables": ["trade", "quote"], "from": "now"})
        for table in ("trade", "quote"):
            # As if it were live; numbers are those that all tables share.
            alone = over_flight(server.flight, {"table": table, "from": "now"})
            assert alone[:-1] == [update for update in whole[:-1] if update[0] == table]
        only = over_websocket(server.http, {"table": "trade", "from": "now", "symbols": ["AIG"], "columns": ["size", "sym"]})
        assert {row[1] for update in only for row in update[3]} == {"AIG"}
        assert server.query("select count(*) from trade") == [[1200]]
        assert server.send("/write", lines(0, 1))[0] == 501
        with pytest.raises(errors.NoSuchTableError):
            splay.connect(server.http).subscribe("nothing")
    with Replayed(day, "--recorded", "--table", "trade", "--speed", "max") as server:
        recorded = over_websocket(server.http, {"table": "trade"})
        assert [len(update[3]) for update in recorded] == [0, 300, 300, 300, 300, 0]
        assert [row for update in recorded for row in update[3]] == [
            row for part in range(4) for row in plain(trades(part, 300))
        ]
    for wrong in (["--date", "yesterday"], ["--date", DATE, "--speed", "-1"], ["--date", DATE, "--table", "nothing"], []):
        ran = subprocess.run([SPLAY, "replay", str(day), *wrong], capture_output=True, text=True, timeout=60)
        assert ran.returncode != 0, wrong


def test_a_replay_keeps_time(day: pathlib.Path) -> None:
    # Ten minutes in a tenth of a second: what is due is sent, nothing before it is.
    with Replayed(day, "--date", DATE, "--speed", "6000", "--table", "trade") as server:
        paced = over_websocket(server.http, {"table": "trade", "from": "now"})
        assert [row for update in paced for row in update[3]] == in_order(day, "trade")


BARS = """select time_bucket('1 minute', time) as time, sym, first(price) as open, max(price) as high, min(price) as low,
    last(price) as close, sum(size) as volume, vwap(price, size) as vwap, count(*) as count
    from trade group by 1, 2 order by 2, 1"""


def same_bars(one: list[dict], other: list[dict]) -> None:
    assert len(one) == len(other)
    for mine, right in zip(one, other, strict=True):
        for name, value in right.items():
            if name == "vwap" and value is not None:
                assert math.isclose(mine[name], value, rel_tol=1e-9), (mine, right)
            else:
                assert mine[name] == value, (name, mine, right)


def by_key(bars: dict) -> list[dict]:
    return [bars[key] for key in sorted(bars, key=lambda key: (key[1] is not None, key[1] or "", key[0]))]


def right_bars(server: Server) -> list[dict]:
    rows = splay.connect(server.http).sql(BARS).to_arrow().to_pylist()
    return sorted(rows, key=lambda row: (row["sym"] is not None, row["sym"] or "", row["time"]))


def test_bars_are_those_of_sql(server: Server) -> None:
    client = splay.connect(server.http)
    client.write("trade", trades(0, 500))
    ask = {"every": "1m", "price": "price", "size": "size", "late": "40s"}
    bars: dict = {}
    with client.subscribe("trade", bars=ask) as updates:
        first = updates.next()
        assert (first.kind, first.more) == ("snapshot", False)
        for bar in first.rows.to_pylist():
            bars[bar["time"], bar["sym"]] = bar
        same_bars(by_key(bars), right_bars(server))
        sequence = first.sequence
        # Later minutes, the same ones, late ones, one by one, and a minute long before.
        writes = [
            trades(1, 300),
            trades(2, 200, DAY_NS + 8 * MINUTE_NS, 4 * MINUTE_NS),
            *(trades(10 + i, 1, DAY_NS + 12 * MINUTE_NS, 1000) for i in range(5)),
            trades(3, 10, DAY_NS, MINUTE_NS),
            trades(4, 10, DAY_NS - 100 * MINUTE_NS, MINUTE_NS),
        ]
        for rows in writes:
            sequence = client.write("trade", rows, ack="process").sequence
            while True:
                update = updates.next()
                for bar in update.rows.to_pylist():
                    before = bars.get((bar["time"], bar["sym"]))
                    assert bar != before, "only bars that changed"
                    bars[bar["time"], bar["sym"]] = bar
                if update.sequence >= sequence:
                    break
            same_bars(by_key(bars), right_bars(server))
        latest = max(time for time, _ in bars)
        assert not any(bar["final"] for bar in bars.values() if bar["time"] == latest)
        assert all(bar["final"] for bar in bars.values() if (latest - bar["time"]).total_seconds() >= 120)


def test_bars_of_a_replay_are_those_of_sql_over_both_protocols(day: pathlib.Path) -> None:
    with Replayed(day, "--date", DATE, "--speed", "max") as server:
        ask = {"table": "trade", "bars": {"every": "1m", "price": "price", "size": "size"}}
        given = over_websocket(server.http, ask)
        assert given == over_flight(server.flight, ask)
        names = ["time", "sym", "open", "high", "low", "close", "volume", "vwap", "count", "final"]
        bars = {row[:2]: dict(zip(names, row, strict=True)) for update in given for row in update[3]}
        assert all(bar["final"] for bar in bars.values())
        same_bars(by_key(bars), right_bars(server))


def test_a_slow_subscriber_gets_what_it_asked_for(tmp_path: pathlib.Path) -> None:
    config = "[limits]\nsubscription_bytes_max = 65536\n"
    with Server(tmp_path / "db", config=config) as server:
        client = splay.connect(server.http)
        client.write("trade", pa.table(batch(0, 10)))
        policies = ("snapshot", "disconnect", "catch_up")
        slow = {policy: client.subscribe("trade", start="now", slow=policy, credit=1) for policy in policies}
        for i in range(40):
            client.write("trade", pa.table(batch(10 + i * 1000, 1000)), ack="process")
        total = 10 + 40 * 1000
        rows: set[int] = set()
        while len(rows) < total:
            update = slow["snapshot"].next()
            if update.kind == "snapshot":
                rows.clear()
            rows |= set(update.rows["size"].to_pylist())
        assert rows == set(range(total))
        late: list[int] = []
        while len(late) < total - 10:
            late += slow["catch_up"].next().rows["size"].to_pylist()
        assert late == list(range(10, total)), "all of it, in order"
        seen: list[int] = []
        sequence = 1
        with pytest.raises(errors.BusyError, match="subscribe again after"):
            while True:
                update = slow["disconnect"].next()
                seen, sequence = seen + update.rows["size"].to_pylist(), update.sequence
        assert len(seen) < total - 10
        with client.subscribe("trade", after=sequence) as again:
            while len(seen) < total - 10:
                seen += again.next().rows["size"].to_pylist()
        assert seen == list(range(10, total))
        for subscription in slow.values():
            subscription.close()


def test_writing_goes_on_while_a_subscriber_reads_nothing(server: Server) -> None:
    client = splay.connect(server.http)
    client.write("trade", pa.table(batch(0, 10)))
    with client.subscribe("trade", credit=None) as _:
        done = threading.Event()

        def write() -> None:
            for i in range(30):
                client.write("trade", pa.table(batch(i * 20_000, 20_000)), ack="process")
            done.set()

        threading.Thread(target=write, daemon=True).start()
        assert done.wait(60)
