"""Long statements show a bar on terminals and in notebooks, short ones don't; Ctrl-C ends a frame's statement."""

import io
import signal
import threading

import frame_day
import pyarrow as pa
import pytest
from test_interrupt import interrupt

import splay
from splay.frames import progress

LONG = "splay.scan(sys.argv[1]).join(splay.scan(sys.argv[1]), how='cross').select((splay.col('k') * splay.col('k_right')).sum())"


class Terminal(io.StringIO):
    """Standard error that says it is one."""

    def isatty(self) -> bool:
        return True


class Answer:
    """An answer that is over when the test says so."""

    class Stats:
        rows_scanned = 100

    stats = Stats()

    def __init__(self, is_asked: threading.Event, is_over: threading.Event):
        self._is_asked, self._is_over = is_asked, is_over

    def to_arrow(self) -> pa.Table:
        self._is_asked.set()
        assert self._is_over.wait(30)
        return pa.table({"x": [1]})


class Files:
    """Files whose statements last."""

    def __init__(self):
        self.is_asked, self.is_over = threading.Event(), threading.Event()

    def sql(self, statement, params=None):
        return Answer(self.is_asked, self.is_over)


class Source(Files):
    """A database whose statements last."""

    def tables(self):
        return ["trade"]

    def table(self, name):
        assert name == "trade"
        return type("Table", (), {"rows": 400})()


@pytest.fixture
def frame(tmp_path):
    db = splay.open(tmp_path / "db")
    db.write("trade", frame_day.trades())
    return db["trade"]


@pytest.fixture
def show(monkeypatch):
    """Makes standard error a terminal, and gives what is written there; bars come at once. Within a test, since pytest puts its own there
    before one begins."""
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0.0)
    monkeypatch.setattr(progress, "INTERVAL_SECONDS", 0.001)

    def made() -> Terminal:
        terminal = Terminal()
        monkeypatch.setattr("sys.stderr", terminal)
        return terminal

    yield made
    splay.set_progress(None)


def ended(frame, source) -> None:
    """Runs a frame of a source and ends its statement when a bar has been drawn several times, or was not to be."""
    running = threading.Thread(target=splay.Frame(source, frame._query, frozenset({(1, "trade")})).to_arrow)
    running.start()
    assert source.is_asked.wait(30)
    return running


def test_a_long_statement_shows_how_far_it_is(frame, show):
    shown = show()
    source = Source()
    running = ended(frame, source)
    while "25%" not in shown.getvalue():
        assert running.is_alive()
    assert "100/400" in shown.getvalue()
    source.is_over.set()
    running.join()


def test_a_statement_of_unknown_length_shows_its_time(frame, show):
    shown = show()
    source = Files()
    running = ended(frame, source)
    while "rows: 00:0" not in shown.getvalue():
        assert running.is_alive()
    source.is_over.set()
    running.join()


def test_short_statements_show_nothing(frame, show, monkeypatch):
    shown = show()
    monkeypatch.setattr(progress, "DELAY_SECONDS", 60.0)
    assert frame.to_arrow().num_rows == 400
    assert shown.getvalue() == ""


def test_bars_are_shown_where_somebody_sees_them(frame, show, monkeypatch):
    show()
    splay.set_progress(False)
    assert not progress._is_shown()
    splay.set_progress(True)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert progress._is_shown()
    splay.set_progress(None)
    assert not progress._is_shown()


def test_loads_show_how_far_they_are(tmp_path, show):
    shown = show()
    (tmp_path / "a.csv").write_text("time,sym,n\n" + "".join(f"{1_700_000_000_000_000_000 + n},IBM,{n}\n" for n in range(200_000)))
    db = splay.open(tmp_path / "db")
    db.load("t", tmp_path / "a.csv")
    assert "load: " in shown.getvalue() and "B/s" in shown.getvalue()
    before = shown.getvalue()
    db.load("t", tmp_path / "a.csv", again=True, progress=False)
    told = []
    db.load("t", tmp_path / "a.csv", again=True, progress=lambda read, total: told.append((read, total)))
    assert told and shown.getvalue() == before
    assert db.table("t").rows == 600_000


def test_errors_end_the_bar(frame, show):
    show()
    before = threading.active_count()
    for _ in range(3):
        with pytest.raises(splay.Error):
            frame.select(splay.col("side").cast("int64")).to_arrow()
    assert threading.active_count() == before


@pytest.mark.parametrize("reading", ["to_arrow()", "df()", "pl()", "fetchall()", "to_parquet(sys.argv[2])"])
def test_ctrl_c_ends_a_frame(tmp_path, reading):
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"k": range(2_000_000)}), tmp_path / "big.parquet")
    code = f"""
    import sys, threading, pandas, polars, pyarrow, pyarrow.parquet, splay
    frame = {LONG}
    # Says so when the statement runs.
    start = frame._source.sql
    def run(*given):
        answer = start(*given)
        print("ready", flush=True)
        return answer
    frame._source.sql = run
    frame.{reading}
    """
    ended = interrupt(code, str(tmp_path / "big.parquet"), str(tmp_path / "out.parquet"))
    assert "KeyboardInterrupt" in ended.stderr
    assert ended.returncode == -signal.SIGINT
    assert [path.name for path in tmp_path.iterdir()] == ["big.parquet"]
