"""How far a follower is behind its leader at a steady rate of rows, and how long a promotion takes.

A leader and a follower run on this machine. One process sends batches of rows at a fixed rate, another asks the follower for the newest row over and
over: a batch is behind from the moment before it is sent until an answer has it. Then the leader is killed, and the follower promoted: the time is
that from the kill to the first row that the new leader acknowledges.

Run it by `make bench-followers`.
"""

import argparse
import http.client
import json
import multiprocessing
import pathlib
import re
import subprocess
import tempfile
import time

START_NS = 1_767_225_600_000_000_000


class Node:
    """``splay serve``, over HTTP alone."""

    def __init__(self, command: pathlib.Path, folder: pathlib.Path, *arguments: str):
        serve = [command, "serve", folder, "--http", "127.0.0.1:0", "--flight", "off", "--line", "off", *arguments]
        self.log = open(folder.with_suffix(".log"), "ab")
        self.process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.address = ""
        for line in self.process.stdout:
            if found := re.match(r"http\s+http://(\S+)", line):
                self.address = found[1]
            if line.startswith("line"):
                return
        raise RuntimeError(f"splay serve ended: {folder.with_suffix('.log').read_text()[-500:]}")

    def ask(self, method: str, path: str, body: bytes | None = None) -> dict:
        return ask(self.address, method, path, body)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def ask(address: str, method: str, path: str, body: bytes | None = None) -> dict:
    """One request."""
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        return answer(connection, method, path, body)
    finally:
        connection.close()


def answer(connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None) -> dict:
    connection.request(method, path, body)
    told = connection.getresponse()
    text = told.read()
    return {"status": told.status} | (json.loads(text) if text.startswith(b"{") else {})


def lines(first: int, rows: int) -> bytes:
    made = (f"trade,sym=S{n % 100} id={n}i,price={n % 1000}.5,size={n % 700}i {START_NS + n * 1000}\n" for n in range(first, first + rows))
    return "".join(made).encode()


def send(address: str, rate: int, seconds: float, batches_a_second: int, sent: multiprocessing.Queue) -> None:
    """Sends batches at their times, each under the number of its last row."""
    rows = rate // batches_a_second
    bodies = [(n * rows, lines(n * rows, rows)) for n in range(int(seconds * batches_a_second))]
    connection = http.client.HTTPConnection(address, timeout=60)
    begun, times = time.monotonic(), []
    for number, (first, body) in enumerate(bodies):
        time.sleep(max(0.0, begun + number / batches_a_second - time.monotonic()))
        times.append((first + rows - 1, time.monotonic()))
        told = answer(connection, "POST", "/api/v2/write?ack=disk", body)
        if told["status"] != 204:
            raise RuntimeError(f"refused: {told}")
    sent.put((times, time.monotonic() - begun))


def watch(address: str, last: int) -> list[tuple[int, float]]:
    """The newest row by the time of the answer that had it, until the last one is there."""
    connection, seen = http.client.HTTPConnection(address, timeout=60), [(-1, 0.0)]
    deadline = time.monotonic() + 600
    while seen[-1][0] < last:
        told = answer(connection, "POST", "/query?format=json", b"select max(id) from trade")
        newest = (told.get("rows") or [[None]])[0][0]
        if newest is not None and newest > seen[-1][0]:
            seen.append((newest, time.monotonic()))
        if time.monotonic() > deadline:
            raise RuntimeError(f"row {last} doesn't come: {told}")
    return seen[1:]


def percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def measure(command: pathlib.Path, folder: pathlib.Path, given: argparse.Namespace) -> None:
    """Runs it and prints the figures."""
    leader = Node(command, folder / "leader")
    follower = Node(command, folder / "follower", "--follow", f"http://{leader.address}")
    try:
        while follower.ask("GET", "/ready")["status"] != "following":
            time.sleep(0.02)
        rows = given.rate // given.batches * int(given.seconds * given.batches)
        sent: multiprocessing.Queue = multiprocessing.Queue()
        sender = multiprocessing.Process(target=send, args=(leader.address, given.rate, given.seconds, given.batches, sent))
        sender.start()
        seen = watch(follower.address, rows - 1)
        times, took = sent.get()
        sender.join()
        lags, at = [], 0
        for last, when in times:
            while seen[at][0] < last:
                at += 1
            lags.append((seen[at][1] - when) * 1e3)
        p50, p99 = percentile(lags, 0.5), percentile(lags, 0.99)
        print(
            f"{rows / took:,.0f} rows/s, batches of {given.rate // given.batches:,}: a row can be asked for at the follower after {p50:.1f} ms, P99 {p99:.1f} ms (wanted: P99 below 50 ms)"
        )
        told = leader.ask("GET", "/status")["replication"]
        print(
            f"from a sync of the leader's journal to the news that the follower has synced it: P99 {told['lag_ms_p99']} ms (upper bound of its bucket)"
        )
        leader.process.kill()
        begun = time.monotonic()
        subprocess.run([command, "promote", f"http://{follower.address}"], check=True, stdout=subprocess.DEVNULL)
        promoted = time.monotonic() - begun
        told = follower.ask("POST", "/api/v2/write?ack=disk", lines(rows, 1))
        if told["status"] != 204:
            raise RuntimeError(f"refused: {told}")
        print(f"promotion: {promoted:.2f} s, first row acknowledged after {time.monotonic() - begun:.2f} s (wanted: below 5 s)")
    finally:
        leader.end()
        follower.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--splay", type=pathlib.Path, default=pathlib.Path("target/release/splay"), help="the command")
    parser.add_argument("--rate", type=int, default=200_000, help="rows a second")
    parser.add_argument("--batches", type=int, default=100, help="batches a second")
    parser.add_argument("--seconds", type=float, default=20, help="length of the run")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="followers-") as folder:
        measure(given.splay.resolve(), pathlib.Path(folder), given)


if __name__ == "__main__":
    main()
