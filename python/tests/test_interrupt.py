"""Ctrl-C ends a query and a load at once, and neither leaves anything behind."""

import signal
import subprocess
import sys
import textwrap
import time

import pyarrow
import pytest

import splay

LONG = "select value from generate_series(1, 1000000000000) order by value % 1000 limit 5"
JOIN = "select sum(a.value) from generate_series(1, 1000000) a cross join generate_series(1, 1000000) b"


def interrupt(code: str, *arguments: str, after: float = 0, seconds: float = 20) -> subprocess.CompletedProcess:
    """Runs code until it says that it is ready, sends Ctrl-C some time after, and waits for its end."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=seconds)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


@pytest.mark.parametrize("reading", ["to_arrow()", "to_pandas()", "to_polars()", "__iter__().__next__()"])
def test_a_query_ends_with_keyboard_interrupt(tmp_path, reading):
    code = f"""
    import sys, pandas, polars, pyarrow, splay
    answer = splay.open(sys.argv[1]).sql({LONG!r})
    print("ready", flush=True)
    answer.{reading}
    """
    ended = interrupt(code, str(tmp_path))
    assert "KeyboardInterrupt" in ended.stderr
    assert ended.returncode == -signal.SIGINT


def test_a_cross_join_ends_with_keyboard_interrupt(tmp_path):
    code = f"""
    import sys, pandas, polars, pyarrow, splay
    answer = splay.open(sys.argv[1]).sql({JOIN!r})
    print("ready", flush=True)
    answer.to_arrow()
    """
    ended = interrupt(code, str(tmp_path), seconds=5)
    assert "KeyboardInterrupt" in ended.stderr


@pytest.mark.parametrize("prepared", [False, True])
def test_a_tick_plan_ends_in_the_middle(tmp_path, prepared):
    """All statements run within one call of the interpreter, which looks for Ctrl-C after it: unless a plan is left in the middle,
    all of them are answered first."""
    rows = 500_000
    seconds = pyarrow.array(range(rows), pyarrow.int64()).cast(pyarrow.timestamp("s"))
    frame = pyarrow.table({"time": seconds, "price": pyarrow.array(range(rows), pyarrow.float64())})
    splay.open(tmp_path).write("t", frame)
    running = "map(db.prepare(text).run, [None] * 40)" if prepared else "map(db.sql, [text] * 40)"
    code = f"""
    import sys, splay
    db = splay.open(sys.argv[1])
    text = "select " + ", ".join(f"med(price + {{i}})" for i in range(100)) + " from t where price >= 0"
    assert "none" not in db.sql("explain " + text).to_arrow()["plan"][0].as_py()
    answers, running = [], {running}
    try:
        print("ready", flush=True)
        any(map(answers.append, running))
    finally:
        print(len(answers))
    """
    ended = interrupt(code, str(tmp_path), after=0.2)
    assert "KeyboardInterrupt" in ended.stderr
    assert int(ended.stdout) < 40


def test_a_query_that_another_library_reads_ends_too(tmp_path):
    code = f"""
    import sys, pyarrow, splay
    answer = splay.open(sys.argv[1]).sql({LONG!r})
    print("ready", flush=True)
    try:
        pyarrow.table(answer)
        print("done")
    except OSError:
        for _ in range(1000):
            pass
    """
    ended = interrupt(code, str(tmp_path))
    assert "KeyboardInterrupt" in ended.stderr
    assert "done" not in ended.stdout


def test_a_write_ends_and_writes_nothing(tmp_path):
    code = """
    import itertools, sys, pyarrow, splay
    schema = pyarrow.schema({"time": pyarrow.timestamp("ns")})
    batch = pyarrow.record_batch([pyarrow.array(range(1000), schema.field(0).type)], schema=schema)
    def endless():
        for i in itertools.count():
            if i == 100:
                print("ready", flush=True)
            yield batch
    splay.open(sys.argv[1]).write("t", pyarrow.RecordBatchReader.from_batches(schema, endless()))
    """
    ended = interrupt(code, str(tmp_path))
    assert "KeyboardInterrupt" in ended.stderr
    assert splay.open(tmp_path).tables() == []


def test_a_load_ends_and_loads_nothing(tmp_path):
    """The same file is named so often that the load would take a minute."""
    big = tmp_path / "big.csv"
    lines = "".join(f"{1_700_000_000_000_000_000 + i},IBM,{i}\n" for i in range(200_000))
    big.write_text("time,sym,n\n" + lines)
    code = """
    import sys, splay
    ready = []
    def progress(read, total):
        if not ready:
            ready.append(print("ready", flush=True))
    splay.open(sys.argv[1]).load("t", [sys.argv[2]] * 500, progress=progress)
    """
    ended = interrupt(code, str(tmp_path / "db"), str(big))
    assert "KeyboardInterrupt" in ended.stderr
    assert splay.open(tmp_path / "db").tables() == []
