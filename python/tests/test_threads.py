"""Threads share a database, and calls that block let others run."""

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import splay

ENDLESS = "select sum(a.value) from generate_series(1, 1000000) a cross join generate_series(1, 1000000) b"


@pytest.fixture
def db(tmp_path):
    return splay.open(tmp_path, threads=2)


def test_threads_ask_one_database(db, trades):
    db.write("trade", trades)

    def ask(n):
        return db.sql("select count(*) + $1 as n from trade where sym = 'IBM'", [n]).to_arrow()["n"].to_pylist()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(64))) == [[3 + n] for n in range(64)]


def test_threads_share_the_batches_of_one_answer(db):
    rows = 200_000
    db.write("t", pa.table({"time": pa.array(range(rows), pa.timestamp("ns"))}))
    batches = iter(db.sql("select time from t"))
    with ThreadPoolExecutor(4) as pool:
        counted = pool.map(lambda _: sum(batch.num_rows for batch in batches), range(4))
    assert sum(counted) == rows


@pytest.mark.parametrize("read", ["answer.to_arrow()", "pyarrow.table(answer)", "answer.to_polars()"])
def test_others_run_while_a_query_is_awaited(tmp_path, read):
    """The query has no end but the one that another thread makes, while the first one waits for it."""
    code = f"""
    import _thread, sys, threading, time, polars, pyarrow, splay
    answer = splay.open(sys.argv[1], threads=2).sql({ENDLESS!r})
    main = threading.get_ident()
    def read():
        {read}
    def is_reading():
        frame = sys._current_frames()[main]
        while frame is not None and frame.f_code is not read.__code__:
            frame = frame.f_back
        return frame is not None
    def other():
        while not is_reading():
            time.sleep(0.01)
        time.sleep(0.2)
        print("another thread ran", flush=True)
        _thread.interrupt_main()
    threading.Thread(target=other).start()
    read()
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert (ended.stdout, ended.returncode != 0) == ("another thread ran\n", True), ended.stderr


def test_readers_see_whole_commits(db):
    size, parts = 1000, 20

    def write():
        for part in range(parts):
            time = pa.array(range(part * size, (part + 1) * size), pa.timestamp("ns"))
            db.write("t", pa.table({"time": time}))

    write_first = pa.table({"time": pa.array([], pa.timestamp("ns"))})
    db.write("t", write_first)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while True:
            done = writing.done()
            (rows,) = db.sql("select count(*) as n from t").to_arrow()["n"].to_pylist()
            assert rows % size == 0
            if done:
                break
        writing.result()
    assert rows == size * parts
