"""The runner's end of a worker: starts it, asks it, watches its memory, ends it."""

import json
import os
import pathlib
import queue
import signal
import subprocess
import threading

from engines.server import end_with_parent

from . import memory
import contextlib

BENCHMARKS = pathlib.Path(__file__).resolve().parents[1]
CLOSE_SECONDS = 90
"""Longer than a server is given to stop: a worker that is killed leaves what its server has to recover."""


class Failed(Exception):
    """The engine said no, was too slow or ended."""

    def __init__(self, message: str, kind: str = ""):
        super().__init__(message)
        self.kind = kind


class Child:
    """A worker of one engine, with the servers that it starts."""

    def __init__(self, python: pathlib.Path, name: str, folder: pathlib.Path, threads: int, settings: dict, log):
        paths = [str(BENCHMARKS), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
        environment |= {"POLARS_MAX_THREADS": str(threads), "OMP_NUM_THREADS": str(threads), "TZ": "UTC"}
        folder.mkdir(parents=True, exist_ok=True)
        arguments = [python, "-m", "splay_bench.worker", name, folder, str(threads), json.dumps(settings)]
        # A session of its own, so that it can be ended with all that it started; and it ends with the runner.
        self.process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
        self.lines: queue.Queue = queue.Queue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def ask(self, do: str, seconds: float, **request):
        """The reply to one request.

        Raises
        ------
        Failed
            If the engine failed, didn't reply in ``seconds`` or ended; it is ended in the latter cases.
        """
        try:
            self.process.stdin.write((json.dumps({"do": do} | request) + "\n").encode())
            self.process.stdin.flush()
            line = self.lines.get(timeout=seconds)
        except queue.Empty:
            self.kill()
            raise Failed(f"no answer in {seconds:.0f} s", "Timeout") from None
        except (BrokenPipeError, ValueError):
            line = None
        if line is None:
            self.kill()
            raise Failed(f"the process ended with {self.process.returncode}", "Ended")
        reply = json.loads(line)
        if "error" in reply:
            raise Failed(reply["error"], reply["kind"])
        return reply["ok"]

    def ask_measured(self, do: str, seconds: float, **request):
        """The reply, and the memory that it took: ``memory.Peak``."""
        with memory.watched(self.process.pid) as peak:
            reply = self.ask(do, seconds, **request)
        return reply, peak

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        """Ends it, and what it started."""
        if self.alive:
            try:
                self.ask("close", CLOSE_SECONDS)
                self.process.stdin.close()
                self.process.wait(CLOSE_SECONDS)
            except (Failed, OSError, subprocess.TimeoutExpired):
                pass
        self.kill()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
