"""Draws statements, asks them of SplayDB, DuckDB and Polars, and reports where SplayDB is slower.

    PYTHONPATH=benchmarks python -m cliffs [--statements 3000] [--seed 1] [--share form=windows] [--full]

Records go to ``target/bench/cliffs/`` as they are made, and a run that was stopped goes on behind them; the report is beside them, as
Markdown and as JSON.
"""

import argparse
import json
import os
import pathlib
import sys

from engine import systems
from engine.__main__ import ROOT
from engine.data import FULL, QUICK, Data, Sizes

from . import data, report, shares
from .generator import Generator
from .results import Results
from .run import run
from .worker import ROUNDS


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m cliffs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--statements", type=int, default=3000, help="how many are drawn; default 3000")
    parser.add_argument("--seed", type=int, default=1, help="of the data and the statements; default 1")
    parser.add_argument(
        "--share",
        action="append",
        default=[],
        metavar="DIMENSION=VALUES",
        help=f"only some values of {', '.join(shares.DIMENSIONS)}, with commas; may be repeated",
    )
    parser.add_argument("--full", action="store_true", help="20 M quotes and crypto scale 0.1; default 2 M and 0.02")
    parser.add_argument("--symbols", type=int, help="symbols of the day of equities")
    parser.add_argument("--quotes", type=int, help="its quotes; trades are a tenth")
    parser.add_argument("--scale", type=float, help="scale of the crypto month")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"timed runs of each system; default {ROUNDS}")
    parser.add_argument("--limit", type=float, default=60, help="seconds for all of a statement; default 60")
    parser.add_argument("--print", action="store_true", help="print the statements and ask nobody")
    parser.add_argument("--again", action="store_true", help="drop what was measured before")
    parser.add_argument("--splay", type=pathlib.Path, default=ROOT / "target/release/splay")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/bench", help="where data is kept")
    parser.add_argument("--out", type=pathlib.Path, help="folder of records and report; default cliffs in --work")
    options = parser.parse_args()
    options.only = shares.parse(options.share)
    return options


def main() -> int:
    options = parse()
    base = FULL if options.full else QUICK
    sizes = Sizes(options.symbols or base.symbols, options.quotes or base.quotes, options.scale or base.scale)
    work, out = options.work.resolve(), (options.out or options.work / "cliffs").resolve()
    tables = data.make(Data(options.splay.resolve(), work, sizes, options.seed))
    generator = Generator(data.profiles(tables), options.seed, options.only)
    if options.print:
        print("\n".join(generator.statement(number).sql() for number in range(options.statements)))
        return 0
    records = out / f"records-{sizes.symbols}-{sizes.quotes}-{sizes.scale}-{options.seed}.jsonl"
    if options.again:
        records.unlink(missing_ok=True)
    results = Results(records)
    try:
        versions = run(tables.database.parent, results, generator, options)
    except KeyboardInterrupt:
        versions = {}
    write(out, results.of(generator.statements(options.statements)), about(options, tables, versions))
    return 0


def about(options, tables, versions: dict) -> dict:
    """What the figures belong to."""
    return {
        "rows": ", ".join(f"{rows:,} {table}" for table, rows in tables.rows().items()),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()) or "as recorded before",
        "seed": options.seed,
        "threads of each system": systems.THREADS,
        "cores": os.cpu_count(),
        "rounds": options.rounds,
        "command": "python -m cliffs " + " ".join(sys.argv[1:]),
    }


def write(out: pathlib.Path, records: list[dict], told: dict) -> None:
    """Writes the report and says where."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.md").write_text(report.markdown(records, told))
    (out / "report.json").write_text(json.dumps(report.as_json(records, told), indent=1))
    print(f"{out / 'report.md'}: {len(records):,} statements")


if __name__ == "__main__":
    sys.exit(main())
