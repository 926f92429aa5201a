"""Memory that a question needs, measured from outside: a child asks it once, its parent watches.

Anonymous memory counts; mapped files don't, since the system drops their pages when it needs room. What the answer itself
holds is given apart.
"""

import ctypes
import multiprocessing
import os
import time
import contextlib

INTERVAL_SECONDS = 0.002
GIVE_BACK = {
    "MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0",
    "_RJEM_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0",
    "DUCKDB_JE_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0",
    "MIMALLOC_PURGE_DELAY": "0",
}
"""For the allocators of a child: freed memory goes back at once. What loading left behind would hide what a question takes."""
SETTLE_SECONDS = 0.3
"""Wait after opening, in which allocators give back what loading took."""


def anonymous_bytes(pid: int) -> int:
    """Anonymous resident memory of a process; 0 where the system doesn't say (only Linux does)."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("RssAnon"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def trim() -> None:
    """Gives back what the C library's allocator holds."""
    with contextlib.suppress(OSError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def child(pipe, name, tables, make, id, arguments) -> None:
    """Opens one system, waits for the word, asks one question, tells what it gave."""
    from . import systems

    try:
        system = systems.load(name)()
        system.open(tables)
        question, parameters = make(id, *arguments)
        call = system.prepare(question, parameters, question.variant(0))
        time.sleep(SETTLE_SECONDS)
        trim()
        pipe.send("ready")
        pipe.recv()
        answer = call()
        pipe.send(("done", system.arrow(answer).nbytes))
        pipe.recv()
    except Exception as error:  # noqa: BLE001
        pipe.send(("error", str(error)))


def peak(name: str, tables, make, id: str, arguments: tuple) -> dict:
    """Bytes of the answer, and most bytes beyond the start, of a question that ``make(id, *arguments)`` gives."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=child, args=(theirs, name, tables, make, id, arguments))
    os.environ.update(GIVE_BACK)  # of this process, too, whose allocators read it long ago
    process.start()
    theirs.close()
    try:
        word = ours.recv()
        if word != "ready":
            return {"error": word[1]}
        start = highest = anonymous_bytes(process.pid)
        ours.send("go")
        while not ours.poll(INTERVAL_SECONDS):
            highest = max(highest, anonymous_bytes(process.pid))
        word, value = ours.recv()
        highest = max(highest, anonymous_bytes(process.pid))
        if word != "done":
            return {"error": value}
        ours.send("end")
        return {"answer_bytes": value, "peak_bytes": highest - start}
    except EOFError:
        return {"error": "the process ended without a word"}
    finally:
        process.join(10)
        if process.is_alive():
            process.terminate()
