"""The suites `ingest` and `compression`: their parts, on small data. No rate is asserted."""

import pathlib
import socket
import threading
import types
import xml.etree.ElementTree

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import small_crypto

from engine.data import Data, Sizes
from engine.measure import Rounds
from ingest import keeping, latency, latest, lines, servers, sustained
from ingest.figures import Figure, middle_and_last, percentile
from splay_bench import compression, compression_page, compression_rivals

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPLAY = ROOT / "target" / "release" / "splay"


def test_percentiles_are_by_the_nearest_rank():
    values = [float(value) for value in range(1, 101)]
    assert percentile(values, 99) == 100.0 and percentile(values, 50) == 51.0 and percentile([7.0], 99) == 7.0
    assert middle_and_last(values) == (50.5, 100.0)


def test_a_figure_says_what_was_wanted_and_what_the_rival_does():
    assert Figure("rate", "2 M rows/s", "1 M rows/s", "3 M rows/s").line() == (
        "rate: 2 M rows/s; QuestDB 3 M rows/s (wanted 1 M rows/s)"
    )
    assert Figure("size", "5 MB").line() == "size: 5 MB"


def receiver(answer: bytes):
    """A server of one connection that answers each message; gives its address and what it got."""
    listener, got = socket.create_server(("127.0.0.1", 0)), []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            while message := connection.recv(65_536):
                got.append(message)
                if answer:
                    connection.sendall(answer)
        listener.close()

    thread = threading.Thread(target=serve)
    thread.start()
    return listener.getsockname(), got, thread


def test_rows_are_sent_one_a_message():
    made = lines.trades("trades", 0, 50, 0, 1)
    address, got, thread = receiver(b"")
    lines.one_by_one(made, 0)(address)
    thread.join()
    assert b"".join(got).decode() == "".join(made)


@pytest.mark.parametrize("status", [204, 503])
def test_a_row_that_is_not_taken_is_an_error(status, monkeypatch):
    monkeypatch.setattr(lines, "CONNECTIONS", 1)
    made = lines.trades("trades", 0, 3, 0, 1)
    address, got, thread = receiver(f"HTTP/1.1 {status} Said\r\n\r\n".encode())
    send = lines.requests(made, 0)
    if status == 204:
        send(address)
        thread.join()
        assert len(got) == 3 and got[1].endswith(made[1].encode()) and b"ack=process" in got[1]
    else:
        with pytest.raises(RuntimeError, match="wasn't taken: b'HTTP/1.1 503"):
            send(address)
        thread.join()


class Hand:
    """A clock that only its users move."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(
    ("took_ms", "rate", "missed"),
    [
        (lambda number: 0.25, 50_000, False),
        (lambda number: 30.0 if number == 500 else 0.25, 50_000, False),
        (lambda number: 1.04, 48_077, False),
        (lambda number: 1.06, 47_170, True),
        (lambda number: 4.0, 12_500, True),
    ],
    ids=["in time", "one late", "almost", "too slow", "much too slow"],
)
def test_a_fixed_rate_is_kept_or_said_to_be_missed(monkeypatch, took_ms, rate, missed):
    hand = Hand()
    monkeypatch.setattr(latency, "time", hand)
    sent = []

    def send(number: int) -> None:
        sent.append(number)
        hand.sleep(took_ms(number) / 1000)

    found = latency.paced(send, 1.0)
    assert sent == list(range(len(sent)))
    assert found.rate == pytest.approx(rate, rel=1e-3)
    assert found.times_ms[0] == pytest.approx(took_ms(0))
    assert ("MISSED THE RATE: less than 95% of 50,000" in found.words()) is missed
    assert f"at {found.rate:,.0f} rows/s" in found.words()


def test_a_block_of_lines_moves_on_in_time(monkeypatch):
    monkeypatch.setattr(sustained, "BLOCK_ROWS", 3)
    blocks = [sustained.Block("t", producer, 2) for producer in (0, 1)]
    first = bytes(blocks[0].at(0)).decode().splitlines()
    assert first == [line.rstrip() for line in lines.trades("t", 0, 3, 0, 2)]
    times = [int(line.split()[-1]) for number in (0, 1) for block in blocks for line in bytes(block.at(number)).decode().splitlines()]
    assert len(set(times)) == 12 and sorted(times) == [lines.START_NS + row * lines.STEP_NS for row in range(12)]
    assert bytes(blocks[0].at(0)).decode().splitlines() == first


def test_rows_of_a_long_run_are_counted_in_files_and_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(sustained, "BLOCK_ROWS", 1_000)
    server = servers.Splay(str(SPLAY), tmp_path / "db")
    server.start()
    try:
        for table, producers in (("one", 1), ("two", 2)):
            found = sustained.measure(server, table, producers, 0.2)
            assert found.rows == server.count(table) and found.rows % 1_000 == 0 and found.rows >= 1_000 * producers
            assert found.in_files == found.rows - server.live_rows(table) and found.seconds >= 0.2
    finally:
        server.kill()


def test_latest_rows_are_found_at_each_length(tmp_path):
    found = list(latest.latest(str(SPLAY), tmp_path / "latest", 160_000, 0.01))
    lengths = [rows for rows, _, _ in found]
    assert len(lengths) == len(latest.STEPS) and lengths == sorted(lengths)
    assert all(rows >= 10_000 * step for rows, step in zip(lengths, latest.STEPS, strict=True))
    assert all(0 < one[0] <= one[1] and 0 < everyone[0] <= everyone[1] for _, one, everyone in found)


@pytest.mark.parametrize("ask", [latest.one, latest.everyone])
def test_an_answer_without_the_latest_row_has_no_time(ask):
    server = types.SimpleNamespace(ask=lambda statement: [["t", "SYM007", 1.5, -6]])
    with pytest.raises(RuntimeError, match="the latest row is"):
        ask(types.SimpleNamespace(server=server), ["t", "SYM007", 1.5, -7])


def test_a_roll_moves_all_rows_to_files(tmp_path):
    seconds, size = keeping.roll(tmp_path / "rolled", 2 * keeping.BATCH_ROWS)
    assert seconds > 0 and size > 2 * keeping.BATCH_ROWS * 20
    assert not (tmp_path / "rolled").exists()


def test_all_formats_hold_the_same_rows(tmp_path):
    folder = small_crypto.write(tmp_path / "data")
    rows = {}
    for table in ("trades", "books"):
        parts = [pq.read_table(path) for path in sorted(folder.glob(f"{table}_2022-06-*.parquet"))[:2]]
        rows[table] = pa.concat_tables(map(compression.ordered, parts)).unify_dictionaries().combine_chunks()
    given = types.SimpleNamespace(splay=SPLAY, threads=1)
    folder = tmp_path / "files"
    readers = compression.files(folder, rows) | compression.rivals(given, folder, rows) | compression.ours(given, folder, rows)
    sections = []
    for name, values in rows.items():
        found = compression.table(name, values, readers, Rounds(1, 0))
        assert [row[0] for row in found["rows"]] == list(readers) and len(found["head"]) == len(found["rows"][0])
        assert all("wrong" not in row for row in found["rows"]), found
        plain, hot = found["rows"][0], found["rows"][-2]
        assert float(plain[1]) > 0 and float(hot[1]) > 0
        # 1,024 rows at random, and the speed of writing.
        assert float(hot[-2].replace(",", "")) > 0 and hot[-1] != ""
        sections.append(found)
    section = {"title": "compression", "note": "Rows.", "tables": sections}
    means = compression_page.means(section)
    assert means[compression.YARDSTICK][0] == 1 and set(means) == set(readers)
    page = compression_page.markdown(section)
    assert all(f"## {found['title']}" in page for found in sections) and "| SplayDB, small | " in page


def test_sizes_are_drawn_against_speeds():
    points = {"SplayDB, fast": (0.9, 2.3), "Parquet, zstd": (1.06, 0.6), "ClickHouse": (0.8, None)}
    picture = xml.etree.ElementTree.fromstring(compression_page.svg(points))
    drawn = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"SplayDB, fast", "Parquet, zstd"} < set(drawn) and "ClickHouse" not in drawn
    places = [float(dot.get("cx")) for dot in picture.iter("{http://www.w3.org/2000/svg}circle")]
    assert places == sorted(places), "the smaller one is further left"
    assert "</svg>" in compression_page.svg({})


def test_given_files_are_measured_in_the_tables_order(tmp_path):
    path = tmp_path / "my rows.csv"
    lines = [f"2024-01-02T10:00:{59 - n % 60:02}Z,{'BA'[n % 2]},{n / 4},{n}" for n in range(500)]
    path.write_text("\n".join(["time,symbol,price,size", *lines]))
    (tmp_path / "made").mkdir()
    data = Data(SPLAY, tmp_path, Sizes(symbols=0, quotes=0, scale=0), 1)
    given = types.SimpleNamespace(files=[path], size="smoke", data=data)
    ((name, values),) = compression.files_given(given, tmp_path / "made").items()
    assert name.startswith("my_rows_") and values.column_names == ["time", "symbol", "price", "size"]
    assert compression.time_and_symbol(name, values) == ("time", "symbol") and compression.ONE_COLUMN[name] == "price"
    keys = list(zip(values["symbol"].to_pylist(), values["time"].cast(pa.int64()).to_pylist(), strict=True))
    assert keys == sorted(keys) and len(keys) == 500


def test_clickhouse_takes_the_best_codec_of_each_column(tmp_path):
    pytest.importorskip("chdb", reason="chdb isn't installed here")
    numbers = pa.array(range(20_000), pa.int64())
    rows = {"t": pa.table({"number": numbers, "half": pc.divide(numbers.cast(pa.float64()), 2.0)})}
    clickhouse = compression_rivals.ClickHouse(tmp_path / "clickhouse")
    clickhouse.make(rows)
    # Numbers that rise by one take next to nothing as differences.
    assert 0 < clickhouse.size("t") < 100_000


def test_sums_that_differ_are_wrong():
    assert not compression.differ([1.0, 2.0], [1.0, 2.0 + 1e-12])
    assert compression.differ([1.0, 2.0], [1.0, 2.1]) and compression.differ([1.0], [1.0, 2.0])
