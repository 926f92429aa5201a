"""Answers all questions by one system in a process of its own: ``python -m frames.worker SYSTEM KIND FOLDER OUT PASSES``.

Writes each answer of the first run to OUT, then the seconds of every further run as JSON. Runs of a question follow each other, so all
but the first find the files in the page cache.
"""

import importlib
import json
import pathlib
import sys
import time


def main() -> None:
    system, kind, folder, out, passes = *sys.argv[1:3], *map(pathlib.Path, sys.argv[3:5]), int(sys.argv[5])
    module = importlib.import_module(f"frames.systems.{system}_frames")
    import pyarrow.parquet as pq

    start = time.perf_counter()
    frames = module.frames(folder, kind)
    told = {"version": module.VERSION, "open": time.perf_counter() - start, "seconds": {}, "failed": {}}
    for name, ask in module.QUESTIONS.items():
        try:
            pq.write_table(ask(frames), out / f"{system}-{kind}-{name}.parquet")
            told["seconds"][name] = [_timed(ask, frames) for _ in range(passes)]
        except Exception as error:  # noqa: BLE001 - what a system can't do is told, and the others go on
            told["failed"][name] = f"{type(error).__name__}: {error}"[:300]
    told["peak_mb"] = _peak_mb()
    (out / f"{system}-{kind}.json").write_text(json.dumps(told))


def _peak_mb() -> float:
    """Most memory of this process since it began; what rusage says begins with the one that started it."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def _timed(ask, frames) -> float:
    start = time.perf_counter()
    ask(frames)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
