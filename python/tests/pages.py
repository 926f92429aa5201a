"""The code blocks of Markdown pages, and a runner for them.

A page's blocks run in page order in one working folder: `python` blocks in one process, `sql` blocks against the database `market` (or
the page's server, once one runs), commands of `sh` and `console` blocks in bash. Comments before a block, or at the head of a page:

- ``<!-- after: PAGE -->``: the working folder begins as that page leaves it.
- ``<!-- not run: REASON -->``: the next block can't run in a test; it is reported as skipped with the reason.
- ``<!-- file: NAME -->``: the next block is the content of that file.

Servers that a page starts listen on free ports; the default addresses on the page, or those that its command names, stand for them.
"""

import dataclasses
import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("SPLAY_BINARY", ROOT / "target" / "release" / "splay"))

RUNNABLE = ("python", "sql", "sh", "console")
TIMEOUT_SECONDS = 600
"""Ends a block that hangs. No block takes a hundredth of it."""

_COMMENT = re.compile(r"<!-- (after|not run|file): (.*?) -->")
_FENCE = re.compile(r"^( *)```(\w*)$")
_LISTENERS = {"http": "127.0.0.1:7750", "flight": "127.0.0.1:7751", "postgres": "127.0.0.1:8812", "line": "127.0.0.1:9009"}


@dataclasses.dataclass
class Block:
    """A fenced block: its language, its text, the number of its first line, and what the comment before it says."""

    language: str
    text: str
    line: int
    not_run: str | None
    file: str | None


class PageError(Exception):
    """A block failed."""


def before(page: pathlib.Path) -> str | None:
    """The page that has to run before this one."""
    return next((text for kind, text in _COMMENT.findall(page.read_text(encoding="utf-8")) if kind == "after"), None)


def blocks(page: pathlib.Path) -> list[Block]:
    """The blocks of a page, in order."""
    found: list[Block] = []
    comments: dict[str, str] = {}
    block: Block | None = None
    indent = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if block is not None and line.strip() == "```":
            found.append(block)
            block, comments = None, {}
        elif block is not None:
            block.text += line.removeprefix(indent) + "\n"
        elif fence:
            indent = fence[1]
            block = Block(fence[2], "", number + 1, comments.get("not run"), comments.get("file"))
        elif comment := _COMMENT.match(line.strip()):
            comments[comment[1]] = comment[2]
        elif line.strip():
            comments = {}
    return found


def commands(block: Block) -> list[str]:
    """Commands of an `sh` or `console` block; in a `console` block they begin with ``$``, and the other lines are output."""
    found: list[str] = []
    command = ""
    for line in block.text.splitlines():
        if command:
            command += "\n" + line
        elif block.language == "console":
            command = line.removeprefix("$ ") if line.startswith("$ ") else ""
        elif not line.startswith("#"):
            command = line
        if command and subprocess.run(["bash", "-n", "-c", command], capture_output=True, check=False).returncode == 0:
            found.append(command)
            command = ""
    if command:
        raise PageError(f"bash can't read {command!r}")
    return found


class Runner:
    """Runs blocks in a working folder. Closing it ends what the blocks have started."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.addresses: dict[str, str] = {}
        self._servers: list[subprocess.Popen[str]] = []
        self._python: subprocess.Popen[str] | None = None
        commands_folder = folder / ".bin"
        path = [str(commands_folder), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]
        self._environment = {**os.environ, "PATH": os.pathsep.join(path), "CURL_HOME": str(folder)}
        # A refused request is a failure of its command.
        (folder / ".curlrc").write_text("fail-with-body\nsilent\nshow-error\n", encoding="utf-8")
        commands_folder.mkdir(exist_ok=True)
        for link, target in (
            (commands_folder / "splay", BINARY.resolve()),
            (folder / "examples", ROOT / "examples"),
            (folder / "docs", ROOT / "docs"),
        ):
            if not link.is_symlink():
                link.symlink_to(target)

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *_: object) -> None:
        for process in [*self._servers, *([self._python] if self._python else [])]:
            process.terminate()
            process.wait()
            process.stdout.close()
            if process.stdin:
                process.stdin.close()

    def run(self, page: pathlib.Path, block: Block) -> None:
        """Runs one block; `PageError` says why it failed."""
        if block.file:
            (self.folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            self._run_python(page, block)
        elif block.language == "sql":
            place = "http://" + self.addresses[_LISTENERS["http"]] if self.addresses else "market"
            self._run_command(["splay", "sql", place, "--file", "-"], block.text)
        elif block.language in ("sh", "console"):
            for command in commands(block):
                if re.match(r"splay (serve|replay)\b", command):
                    self.serve(command)
                else:
                    self._run_command(["bash", "-euo", "pipefail", "-c", self._addressed(command)])

    def _addressed(self, text: str) -> str:
        """A text of the page with the addresses at which its server listens."""
        for usual, real in self.addresses.items():
            text = text.replace(usual, real)
        return text

    def _run_command(self, command: list[str], text: str | None = None) -> None:
        ended = subprocess.run(
            command, input=text, cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
        if ended.returncode:
            raise PageError(f"{command[-1]}\nends with {ended.returncode}:\n{ended.stdout}{ended.stderr}")

    def serve(self, command: str) -> None:
        """Starts a server of the page on free ports, and waits until it says where it listens."""
        command, usual = command.removesuffix("&").strip(), dict(_LISTENERS)
        for name, address in re.findall(r"--(http|flight|postgres|line) (127\.0\.0\.1:[1-9]\d*)", command):
            usual[name] = address
            command = command.replace(f"--{name} {address}", f"--{name} 127.0.0.1:0")
        # Of another server of the page.
        command = self._addressed(command)
        is_replay = command.startswith("splay replay")
        listeners = [name for name in _LISTENERS if not (name in ("postgres", "line") and is_replay)]
        ports = " ".join(f"--{name} 127.0.0.1:0" for name in listeners if f"--{name} " not in command)
        log = open(self.folder / f"server-{len(self._servers)}.log", "w+", encoding="utf-8")
        server = subprocess.Popen(
            ["bash", "-c", f"exec {command} {ports}"], cwd=self.folder, env=self._environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
        self._servers.append(server)
        for line in server.stdout:
            name, _, address = line.partition(" ")
            if name in _LISTENERS and "off" not in address:
                self.addresses[usual[name]] = re.sub(r"^\w+://", "", address.strip())
            if name == "line":
                return
        log.seek(0)
        raise PageError(f"{command} did not start:\n{log.read()}")

    def _run_python(self, page: pathlib.Path, block: Block) -> None:
        if self._python is None:
            self._python = subprocess.Popen(
                [sys.executable, __file__], cwd=self.folder, env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        # Blank lines in front give tracebacks the page's line numbers.
        source = "\n" * (block.line - 1) + self._addressed(block.text)
        print(json.dumps([str(page), source]), file=self._python.stdin, flush=True)
        if not select.select([self._python.stdout], [], [], TIMEOUT_SECONDS)[0]:
            self._python.kill()
            raise PageError(f"the block does not end within {TIMEOUT_SECONDS} s")
        answer = self._python.stdout.readline()
        if not answer:
            raise PageError(f"Python ended with {self._python.wait()}")
        if failure := json.loads(answer):
            raise PageError(failure)


def copied(prepared: pathlib.Path, folder: pathlib.Path) -> None:
    """A working folder that begins as another one was left."""
    shutil.copytree(prepared, folder, symlinks=True, dirs_exist_ok=True)


def _run_blocks() -> None:
    """The process of a page's Python blocks: runs the sources that standard input names, and answers with a traceback or null."""
    import traceback

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What blocks print is no answer.
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line in sys.stdin:
        name, source = json.loads(line)
        failure = None
        try:
            exec(compile(source, name, "exec"), namespace)
        except BaseException:
            failure = traceback.format_exc()
        print(json.dumps(failure), file=answers, flush=True)


if __name__ == "__main__":
    _run_blocks()
