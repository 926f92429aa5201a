"""Servers under test, on loopback, each in a folder of its own."""

import http.client
import json
import pathlib
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

from engines import questdb_engine
from engines.server import free_port


class Splay:
    """``splay serve`` over a folder; started again it recovers."""

    name = "SplayDB"

    def __init__(self, command: str, folder: pathlib.Path, ack: str = "process", capture: dict | None = None):
        """``capture`` are settings of capture that aren't as usual."""
        self._command, self.folder, self._ack, self._capture = command, folder, ack, capture or {}
        self.process: subprocess.Popen | None = None

    def start(self) -> float:
        """Start it, and give the seconds until it says where it listens."""
        settings = self.folder.with_suffix(".toml")
        settings.write_text(
            '[http]\naddress = "127.0.0.1:0"\n[flight]\naddress = "127.0.0.1:0"\n[line]\naddress = "127.0.0.1:0"\n'
            f'ack = "{self._ack}"\n[capture]\n'
            + "".join(f"{name} = {json.dumps(value)}\n" for name, value in self._capture.items())
        )
        begun = time.monotonic()
        arguments = [self._command, "serve", str(self.folder), "--config", str(settings)]
        log = open(self.folder.with_suffix(".log"), "ab")
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, text=True)
        found = {}
        while len(found) < 3:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError(f"splay serve ended: {self.folder.with_suffix('.log').read_text()[-500:]}")
            if match := re.match(r"(http|flight|line)\s+\S+://([\d.]+):(\d+)", line):
                found[match[1]] = (match[2], int(match[3]))
        self.http, self.flight, self.line = found["http"], found["flight"], found["line"]
        return time.monotonic() - begun

    def ask(self, statement: str) -> list:
        """The rows of a statement."""
        connection = http.client.HTTPConnection(*self.http, timeout=60)
        connection.request("POST", "/query?format=json", body=statement.encode())
        answer = json.loads(connection.getresponse().read())
        connection.close()
        if "rows" not in answer:
            raise LookupError(answer.get("error", answer))
        return answer["rows"]

    def count(self, table: str) -> int:
        """Rows of a table; 0 if there is none."""
        try:
            return self.ask(f"select count(*) from {table}")[0][0]
        except LookupError:
            return 0

    def live_rows(self, table: str) -> int:
        """Rows of a table that are in memory alone."""
        with urllib.request.urlopen(f"http://{self.http[0]}:{self.http[1]}/status", timeout=60) as answer:
            tables = json.loads(answer.read())["capture"]["tables"]
        return next(found["live_rows"] for found in tables if found["table"] == table)

    def resident_bytes(self) -> int:
        """Memory of the process that is no file's."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+)", status)[1]) * 1024

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it in good order."""
        self.process.terminate()
        self.process.wait(timeout=60)


class QuestDB:
    """QuestDB from its jar, with its defaults but for the addresses."""

    name = f"QuestDB {questdb_engine.VERSION}"

    def __init__(self, folder: pathlib.Path, jar: pathlib.Path):
        self._folder, self._jar = folder, jar
        self.http, self.line = ("127.0.0.1", free_port()), ("127.0.0.1", free_port())

    @staticmethod
    def fetch(folder: pathlib.Path) -> pathlib.Path:
        """The jar, from Maven Central if it isn't there."""
        questdb_engine.Engine.fetch(folder, {})
        return questdb_engine.Engine.jar(folder)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        (self._folder / "conf").mkdir(parents=True, exist_ok=True)
        (self._folder / "conf" / "server.conf").write_text(
            f"http.bind.to=127.0.0.1:{self.http[1]}\nline.tcp.net.bind.to=127.0.0.1:{self.line[1]}\n"
            "pg.enabled=false\nhttp.min.enabled=false\ntelemetry.enabled=false\nline.udp.enabled=false\n"
        )
        command = ["java", "-XX:+UseParallelGC", "-p", str(self._jar), "-m", "io.questdb/io.questdb.ServerMain"]
        self._process = subprocess.Popen(
            [*command, "-d", str(self._folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(600):
            try:
                self.ask("select 1")
                return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError("QuestDB didn't start within a minute")

    def ask(self, statement: str) -> list:
        """The rows of a statement."""
        query = urllib.parse.urlencode({"query": statement})
        url = f"http://{self.http[0]}:{self.http[1]}/exec?{query}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.loads(answer.read())["dataset"]
        except urllib.error.HTTPError as error:
            raise LookupError(error.read()) from None

    def count(self, table: str) -> int:
        """Rows of a table; 0 if there is none."""
        try:
            return self.ask(f"select count(*) from {table}")[0][0]
        except LookupError:
            return 0

    def live_rows(self, table: str) -> int:
        """Rows that are in memory alone: what can be queried is in files."""
        return 0

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(timeout=60)
