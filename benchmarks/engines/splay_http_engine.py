"""SplayDB as a server: ``splay serve`` on loopback, asked over HTTP, answers as Arrow streams.

The rival of servers, as the embedded one is of libraries: its tables are those of ``splay``, its program is the one in the wheel.
A connection is kept open. The server reads only, since nothing is captured meanwhile; it has a thread for each core.
"""

import http.client
import os
import pathlib
import re
import subprocess
import sys

from . import server
from .splay_engine import Engine as Embedded
from .translate import never_seen

LISTENERS = ("http", "flight", "postgres")
LISTENS = re.compile(r"^(\w+)\s+\w+://([\d.]+):(\d+)", re.MULTILINE)


class Client:
    """One connection to the server; ``text`` renders a question's statement."""

    def __init__(self, address: tuple[str, int], text):
        self.connection = http.client.HTTPConnection(*address, timeout=3600)
        self.text = text

    def ask(self, statement: str):
        import pyarrow as pa

        self.connection.request("POST", "/query?format=arrow", statement.encode(), {"Content-Type": "text/plain"})
        reply = self.connection.getresponse()
        content = reply.read()
        if reply.status != 200:
            raise RuntimeError(content.decode(errors="replace")[:500])
        return pa.ipc.open_stream(content).read_all()

    def prepare(self, question, parameters, variant):
        statement = self.text(question, parameters, variant)
        return lambda: self.ask(statement)

    def unseen(self, question, parameters, variant, mark: int):
        statement = never_seen(self.text(question, parameters, variant), mark)
        return lambda: self.ask(statement)

    def prepared(self, question, parameters, variant):
        """HTTP has no prepared statements."""

    def close(self) -> None:
        self.connection.close()


class Engine(Embedded):
    name = "splay-http"
    title = "SplayDB, HTTP"
    is_server = True
    starts = "`splay serve`, started by the worker, bound to 127.0.0.1; asked over HTTP"
    transport = "HTTP, Arrow"
    takes_write_day = False
    shares = "splay"
    best = "The tables of SplayDB in process, behind `splay serve`; a connection that is kept; answers as Arrow streams."

    def prepare_process(self) -> None:
        """In the new process: it ends with its worker, and has as many cores as it may have threads, one of which it takes for each."""
        server.end_with_parent()
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: self.threads])

    @property
    def database(self):
        return self.folder.parents[1] / self.shares / self.folder.name / "db"

    def start(self) -> dict[str, tuple[str, int]]:
        """Starts the server; where each listener is."""
        log = self.folder / "server.log"
        program = pathlib.Path(sys.executable).parent / "splay"
        listeners = [word for name in LISTENERS for word in (f"--{name}", "127.0.0.1:0")]
        said = self.folder / "server.out"
        said.unlink(missing_ok=True)
        command = [program, "serve", self.database, *listeners, "--line", "off", "--read-only"]
        with open(said, "wb") as output, open(log, "ab") as errors:
            self.server = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                preexec_fn=self.prepare_process,
            )

        def addresses() -> dict:
            return {name: (host, int(port)) for name, host, port in LISTENS.findall(said.read_text())}

        server.wait(self.server, lambda: set(LISTENERS) <= addresses().keys(), log)
        return addresses()

    def text(self, question, parameters, variant) -> str:
        from engine.question import render
        from engine.systems.splaydb import literal

        return render(question.sql, parameters, variant, literal)

    def session(self):
        return Client(self.addresses["http"], self.text)

    def open(self) -> None:
        self.addresses = self.start()
        self.client = self.session()

    def prepare(self, question, parameters, variant):
        return self.client.prepare(question, parameters, variant)

    def prepared(self, question, parameters, variant):
        return self.client.prepared(question, parameters, variant)

    def unseen(self, question, parameters, variant, mark: int):
        return self.client.unseen(question, parameters, variant, mark)

    def engine_ms(self) -> None:
        """Not told beside an Arrow stream."""

    def close(self) -> None:
        if hasattr(self, "client"):
            self.client.close()
            del self.client
        if hasattr(self, "server"):
            server.stop(self.server)
            del self.server
