"""Servers that an engine starts for itself: on loopback, ended with their worker."""

import ctypes
import os
import pathlib
import signal
import socket
import subprocess
import time

PR_SET_PDEATHSIG = 1
START_SECONDS = 300
"""At a cold start a server reads what it has from disk."""
STOP_SECONDS = 30


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def end_with_parent(by: int = signal.SIGTERM) -> None:
    """In the new process: it gets a signal when its worker dies."""
    ctypes.CDLL("libc.so.6").prctl(PR_SET_PDEATHSIG, by)


def start(command: list, log: pathlib.Path, ended_by: int = signal.SIGTERM, **options) -> subprocess.Popen:
    """Starts a server; what it prints goes to ``log``. It gets the signal ``ended_by`` when its worker dies."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        return subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=lambda: end_with_parent(ended_by),
            **options,
        )


def wait(server: subprocess.Popen, ready, log: pathlib.Path) -> None:
    """Waits until ``ready()`` is true.

    Raises
    ------
    RuntimeError
        If the server ended, or isn't ready in time; with the end of its log.
    """
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        if ready():
            return
        time.sleep(0.02)
    tail = " ".join(log.read_text(errors="replace").split()[-60:])
    raise RuntimeError(f"the server didn't start ({server.poll()}): {tail}")


def stop(server: subprocess.Popen, signal_number: int = signal.SIGTERM) -> None:
    """Ends a server in good order, by force if it takes too long."""
    if server.poll() is None:
        server.send_signal(signal_number)
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def user_of(name: str) -> dict:
    """Options of ``start`` that run a server as a system user, where we are root; nothing otherwise."""
    import pwd

    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam(name)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
