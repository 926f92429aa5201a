"""Compares two builds of SplayDB, given as wheels: the same statements, in turn, ratios with the noise of the machine taken out.

    PYTHONPATH=benchmarks python -m engine.builds BEFORE.whl AFTER.whl [--pairs 15] [--suite crypto14,taq84] [--full]

Each build runs in a process of its own over the same database files. A statement is timed in pairs, one build right after the
other, the order swapped from pair to pair; its ratio is the median of the pairs' ratios of medians. A statement is asked in two
ways: ``known``, the same text again, and ``never seen``, with its aliases renamed each time, so that no kept plan fits. Answers
aren't compared here, only their number of rows: the tests are for that.
"""

import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass

from .data import FULL, QUICK, Data

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARE_SECONDS = 0.05
"""How long one side of a pair asks a statement, at most once beyond it."""
REPEATS_MAX = 50
KINDS = ("known", "never seen")
QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
ALIAS = re.compile(r"\bAS ([A-Za-z_]\w*)\b", re.IGNORECASE)
TYPES = {"bigint", "date", "double", "int", "integer", "text", "time", "timestamp", "varchar"}
"""Words that follow ``AS`` in a cast."""


def renamed(text: str, columns: set[str], mark: str) -> str:
    """The statement with its own aliases renamed: the same question as a text that was never seen.

    Names don't depend on case. What stands in quotes or comments stays, as does an alias that has a function's name, or a list of columns
    behind it.
    """
    bare = QUOTED.sub(" ", text)
    found = {alias.lower() for alias in ALIAS.findall(bare)} - columns - TYPES
    aliases = [alias for alias in found if not re.search(rf"\b{alias}\s*\(", bare, re.IGNORECASE)]
    if not aliases:
        return text
    name = re.compile(rf"\b({'|'.join(sorted(aliases))})\b", re.IGNORECASE)
    pieces, start = [], 0
    for quoted in QUOTED.finditer(text):
        pieces += [name.sub(rf"\1_{mark}", text[start : quoted.start()]), quoted[0]]
        start = quoted.end()
    return "".join([*pieces, name.sub(rf"\1_{mark}", text[start:])])


class Build:
    """One build's process."""

    def __init__(self, wheel: pathlib.Path, folder: pathlib.Path):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        paths = [str(folder), str(ROOT / "benchmarks")]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "engine.builds", "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        )

    def ask(self, **request) -> dict:
        """The worker's reply to a request."""
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("a build's process ended")
        return json.loads(line)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def work() -> None:
    """The worker: opens databases and times statements as it is told, a line of JSON each."""
    import splay

    database = None
    for line in sys.stdin:
        request = json.loads(line)
        if "open" in request:
            database = splay.open(request["open"], create=False, threads=2)
            print("{}", flush=True)
            continue
        seconds, rows, error = [], 0, None
        try:
            for text in request["texts"]:
                start = time.perf_counter()
                answer = database.sql(text).to_arrow()
                seconds.append(time.perf_counter() - start)
                rows = answer.num_rows
                del answer
                if sum(seconds) > SHARE_SECONDS:
                    break
        except splay.Error as failure:
            error = str(failure)
        print(json.dumps({"seconds": seconds, "rows": rows, "error": error}), flush=True)


@dataclass
class Compared:
    """One statement, asked in one way."""

    id: str
    kind: str
    before_ms: float
    after_ms: float
    ratio: float


class Texts:
    """A statement's texts: the same, or another one each time."""

    def __init__(self, text: str, kind: str, columns: set[str]):
        self.text, self.kind, self.columns, self.count = text, kind, columns, 0

    def next(self, number: int) -> list[str]:
        if self.kind == "known":
            return [self.text] * number
        self.count += number
        return [renamed(self.text, self.columns, str(mark)) for mark in range(self.count - number, self.count)]


def compare(id: str, kind: str, texts: Texts, builds: list[Build], pairs: int) -> Compared | str:
    """The statement's ratio, or why it has none."""
    warm = [build.ask(texts=texts.next(1)) for build in builds]
    for reply in warm:
        if reply["error"]:
            return f"{id}, {kind}: {reply['error'].splitlines()[0]}"
    if warm[0]["rows"] != warm[1]["rows"]:
        return f"{id}, {kind}: {warm[0]['rows']} rows before, {warm[1]['rows']} after"
    expected = max(*(reply["seconds"][0] for reply in warm), 1e-6)
    repeats = max(1, min(REPEATS_MAX, int(SHARE_SECONDS / expected)))
    sides, ratios = ([], []), []
    for pair in range(pairs):
        medians = [0.0, 0.0]
        asked = texts.next(repeats)
        for side in (0, 1) if pair % 2 == 0 else (1, 0):
            medians[side] = statistics.median(builds[side].ask(texts=asked)["seconds"])
            sides[side].append(medians[side])
        ratios.append(medians[1] / medians[0])
    before, after = (statistics.median(side) * 1e3 for side in sides)
    return Compared(id, kind, before, after, statistics.median(ratios))


def statements(suite: str, data: Data) -> tuple[pathlib.Path, set[str], list[tuple[str, str]]]:
    """The database of a suite, its columns, and its statements by name."""
    from . import parameters, taq84
    from .parameters import CryptoParameters
    from .suites import crypto14
    from .systems.splaydb import literal
    from .question import render

    if suite == "crypto14":
        tables, drawn = data.crypto(), CryptoParameters(data.seed)
        questions = crypto14.questions(drawn)
    else:
        tables = data.taq()
        drawn = parameters.draw(tables, data.seed)
        questions = taq84.questions(drawn)
    columns = {name.lower() for table in tables.names for name in tables.schema(table).names} | set(tables.names)
    asked = [(question.id, render(question.sql, drawn, question.variant(0), literal)) for question in questions]
    return tables.database, columns, asked


def mean(ratios: list[float]) -> float:
    """Geometric."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def report(found: list[Compared], failures: list[str]) -> list[str]:
    """Markdown: means, and each statement from the slowest to the fastest."""
    lines = ["| statements | asked | geometric mean after / before | slowest |", "| --- | --: | --: | --: |"]
    for kind in (*KINDS, "all"):
        ratios = [one.ratio for one in found if kind in (one.kind, "all")]
        lines.append(f"| {kind} | {len(ratios)} | {mean(ratios):.3f} | {max(ratios, default=math.nan):.3f} |")
    lines += ["", "| id | kind | before ms | after ms | after / before |", "| --- | --- | --: | --: | --: |"]
    for one in sorted(found, key=lambda one: -one.ratio):
        lines.append(f"| {one.id} | {one.kind} | {one.before_ms:.3f} | {one.after_ms:.3f} | {one.ratio:.3f} |")
    return lines + [""] + [f"- {failure}" for failure in failures]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m engine.builds", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=pathlib.Path, nargs="?", help="wheel of the build to compare with")
    parser.add_argument("after", type=pathlib.Path, nargs="?", help="wheel of the build that is judged")
    parser.add_argument("--pairs", type=int, default=15, help="pairs of each statement; default 15")
    parser.add_argument("--suite", default="crypto14,taq84", help="crypto14, taq84 or both; default both")
    parser.add_argument("--kinds", default=",".join(KINDS), help="known, never seen or both; default both")
    parser.add_argument("--only", help="statements by id, with commas; default all")
    parser.add_argument("--full", action="store_true", help="the size of the published figures")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--splay", type=pathlib.Path, default=ROOT / "target/release/splay", help="makes the data")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/bench", help="where data is kept")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work()
        return 0
    if given.before is None or given.after is None:
        parser.error("two wheels are needed")
    given.work.mkdir(parents=True, exist_ok=True)
    data = Data(given.splay.resolve(), given.work.resolve(), FULL if given.full else QUICK, given.seed)
    only = set(given.only.split(",")) if given.only else None
    found, failures = [], []
    with tempfile.TemporaryDirectory() as folder:
        builds = [Build(wheel, pathlib.Path(folder) / str(n)) for n, wheel in enumerate((given.before, given.after))]
        # The suites spell their literals by the package that is judged.
        sys.path.insert(0, str(pathlib.Path(folder) / "1"))
        for suite in given.suite.split(","):
            database, columns, asked = statements(suite, data)
            for build in builds:
                build.ask(open=str(database))
            for id, text in asked:
                for kind in given.kinds.split(","):
                    if only is not None and id not in only:
                        continue
                    if kind != "known" and renamed(text, columns, "0") == text:
                        continue
                    one = compare(id, kind, Texts(text, kind, columns), builds, given.pairs)
                    if isinstance(one, str):
                        failures.append(one)
                    else:
                        found.append(one)
                        print(f"{one.id}, {kind}: {one.before_ms:.3f} {one.after_ms:.3f}", file=sys.stderr, flush=True)
        for build in builds:
            build.close()
    print("\n".join(report(found, failures)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
