"""Threads share a database, and calls that block let others run."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import splay

LONG = "select sum(a.value * b.value) as n from generate_series(1, 4000) a cross join generate_series(1, 4000) b"


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


@pytest.mark.parametrize("read", [lambda a: a.to_arrow(), lambda a: pa.table(a), lambda a: a.to_polars()])
def test_others_run_while_a_query_is_awaited(db, read):
    answer = db.sql(LONG)
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1

    counter = threading.Thread(target=count)
    counter.start()
    before = counted[0]
    read(answer)
    during = counted[0] - before
    stop.set()
    counter.join()
    assert during > 1000


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
