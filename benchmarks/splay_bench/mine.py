"""``run mine``: a user's own statements on the user's own database, beside DuckDB on a copy of it.

Answers are compared before anything is timed. The work is done by ``mine``, in this environment if it has SplayDB and DuckDB, else in
that of the suites.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

from engines.base import Skipped

from . import inside, machine
from .settings import Settings

SECONDS = 0.5
"""A statement is asked for so long, once it has had its rounds."""


def interpreter(settings: Settings) -> pathlib.Path:
    """One that has both."""
    if importlib.util.find_spec("splay") and importlib.util.find_spec("duckdb"):
        return pathlib.Path(sys.executable)
    return inside.python(settings)


def run(settings: Settings, database: pathlib.Path, files: list[pathlib.Path]) -> int:
    """Compares and prints; the exit code is 1 if answers differ, 2 if nothing could be asked."""
    about = machine.describe(settings.commit)
    facts = [
        f"{about['date']}; {about['cores']} cores of {about['processor']}, {about['memory_gib']} GiB; {about['system']}; "
        f"{settings.threads} threads each.",
        f"`{settings.command}`",
    ]
    given = {
        "database": str(database.resolve()),
        "sql": [str(path.resolve()) for path in files],
        "work": str(settings.work.resolve()),
        "threads": settings.threads,
        "rounds": max(settings.rounds, 2),
        "seconds": min(SECONDS, settings.seconds),
        "facts": facts,
    }
    out = settings.out.resolve() / "mine.md"
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        python = interpreter(settings)
    except Skipped as reason:
        print(f"mine: {reason}", file=sys.stderr)
        return 2
    done = subprocess.run(
        [python, "-m", "mine", json.dumps(given), out],
        cwd=pathlib.Path(__file__).resolve().parents[1],
        env=os.environ | {"PYTHONPATH": str(pathlib.Path(__file__).resolve().parents[1])},
    )
    return done.returncode
