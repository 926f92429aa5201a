"""The process that compares: it has SplayDB and DuckDB.

    python -m mine ARGUMENTS OUT

ARGUMENTS is JSON: ``database``, ``sql`` (files), ``work``, ``threads``, ``rounds``, ``seconds``, ``facts``. The report goes to OUT.
"""

import json
import pathlib
import shutil
import sys
import tempfile
import time

import splay

from engine.ask import message

from . import statements
from .copy import Copy
from .measure import Asker, Result
from .report import document


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def compared(given: dict, folder: pathlib.Path) -> tuple[list[Result], list[str]]:
    """Results, and what they belong to."""
    asked = statements.read([pathlib.Path(path) for path in given["sql"]])
    database = splay.open(given["database"], create=False, threads=given["threads"])
    tables = statements.named(asked, database.tables())
    copy = Copy(folder / "copy.duckdb", given["threads"])
    try:
        # One thread gives a table's rows in the table's order.
        ordered, start = splay.open(given["database"], create=False, threads=1), time.monotonic()
        for name in tables:
            print(f"copying {name}, {database.table(name).rows:,} rows", file=sys.stderr, flush=True)
            try:
                copy.add(ordered, name)
            except Exception as error:  # noqa: BLE001  whatever DuckDB can't hold is told by its name
                raise ValueError(f"{name} can't be copied: {message(error)}") from error
        size, seconds = copy.finish(), time.monotonic() - start
        ours = sum(database.table(name).bytes for name in tables)
        rows = ", ".join(f"{name} ({database.table(name).rows:,} rows)" for name in tables)
        facts = [
            *given["facts"],
            f"Tables: {rows or 'none is named'}; {megabytes(ours)} here, {megabytes(size)} in DuckDB, copied in {seconds:.1f} s.",
        ]
        columns = {column.lower() for name in tables for column in database.table(name).schema.names}
        asker = Asker(database, copy, columns | set(tables), given["rounds"], given["seconds"])
        results = []
        for one in asked:
            results.append(asker.result(one))
            print(f"{one.name}: {results[-1].problem or 'compared'}", file=sys.stderr, flush=True)
        return results, facts
    finally:
        copy.close()


def main() -> int:
    given, out = json.loads(sys.argv[1]), pathlib.Path(sys.argv[2])
    work = pathlib.Path(given["work"])
    work.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mine-", dir=work))
    try:
        results, facts = compared(given, folder)
    except (ValueError, OSError, splay.Error) as error:
        print(f"mine: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = document(results, facts)
    out.write_text(text, encoding="utf-8")
    print(text)
    return 1 if any(one.differs for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
