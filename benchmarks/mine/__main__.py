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

import pyarrow as pa

import splay

from engine.ask import message

from . import statements
from .copy import Copy, quoted
from .measure import Asker, Result
from .report import document


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


class Views:
    """The views of a database that statements name, and those that these read."""

    def __init__(self, database, texts: list[str]):
        rows = database.sql("SELECT table_name, definition FROM information_schema.views WHERE table_schema = 'public'").fetchall()
        every, kept = dict(rows), {name.removesuffix(".rows") for name in database.tables() if name.endswith(".rows")}
        self.queries: dict[str, str] = {}
        self.kept: list[str] = []
        """Materialized ones: their rows are copied, as a user of DuckDB would keep them."""
        self.texts = list(texts)
        wanted = statements.named(texts, list(every))
        while wanted:
            name = wanted.pop()
            if name in self.queries or name in self.kept:
                continue
            if name in kept:
                self.kept.append(name)
                continue
            self.queries[name] = every[name]
            self.texts.append(every[name])
            wanted += statements.named([every[name]], list(every))

    def make(self, database, copy: Copy) -> None:
        """Makes those that aren't materialized, whose tables are there; as long as one more can be made, since they may read each other."""
        left = dict(self.queries)
        while left:
            made = []
            for name, query in left.items():
                columns = pa.schema(database.sql(f"SELECT * FROM {quoted(name)} LIMIT 0")).names
                made += [name] if copy.add_view(name, columns, statements.spelled_for_duckdb(query)) else []
            if not made:
                return
            left = {name: query for name, query in left.items() if name not in made}


def compared(given: dict, folder: pathlib.Path) -> tuple[list[Result], list[str]]:
    """Results, and what they belong to."""
    asked = statements.read([pathlib.Path(path) for path in given["sql"]])
    database = splay.open(given["database"], create=False, threads=given["threads"])
    views = Views(database, [text for one in asked if not one.refusal for text in (one.text, one.duckdb)])
    tables = statements.named(views.texts, database.tables())
    copy = Copy(folder / "copy.duckdb", given["threads"])
    try:
        # One thread gives a table's rows in the table's order.
        ordered, start = splay.open(given["database"], create=False, threads=1), time.monotonic()
        copy.codes(ordered, tables)
        for name in [*tables, *views.kept]:
            print(f"copying {name}", file=sys.stderr, flush=True)
            try:
                copy.add(ordered, name)
            except Exception as error:  # noqa: BLE001  whatever DuckDB can't hold is told by its name
                raise ValueError(f"{name} can't be copied: {message(error)}") from error
        views.make(database, copy)
        size, seconds = copy.finish(), time.monotonic() - start
        stored = [*tables, *(f"{name}.rows" for name in views.kept)]
        ours = sum(database.table(name).bytes for name in stored)
        rows = ", ".join(f"{name} ({database.table(name).rows:,} rows)" for name in stored)
        facts = [
            *given["facts"],
            f"Tables: {rows or 'none is named'}; {megabytes(ours)} here, {megabytes(size)} in DuckDB, copied in {seconds:.1f} s.",
        ]
        names = [name for table in tables for name in database.table(table).schema.names]
        names += [name for view in [*views.queries, *views.kept] for name in pa.schema(database.sql(f"SELECT * FROM {quoted(view)} LIMIT 0")).names]
        fixed = {name.lower() for name in [*names, *tables, *views.queries, *views.kept]}
        asker = Asker(database, copy, fixed, given["rounds"], given["seconds"])
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
