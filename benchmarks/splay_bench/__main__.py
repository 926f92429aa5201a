"""Command line: ``run``, ``report``, ``list``."""

import argparse
import importlib
import os
import pathlib
import sys
import time

import engines
from engines.base import Skipped

from . import install
from .settings import KINDS, ROOT, Settings

SUITES = {
    "finance": "fourteen queries, load (W) and size (SE) of a crypto month, all engines",
    "formats": "sizes of a day of trades in eight formats and ours, four queries on each",
    "taq": "three queries on a day of trades and quotes, with time and peak memory",
    "frames": "eight questions of two articles by Vaex, pandas, pyarrow, Polars, DuckDB and SplayDB",
    "bars": "filters over 100,000 bars by selectivity; queries a second, P50 and P99",
    "nysetaq": "84 questions about a day of trades and quotes, against DuckDB and Polars",
    "compression": "bytes of a row, how fast it is read back and written: our tiers, Arrow, Parquet, DuckDB, ClickHouse",
    "ingest": "rows a second by each way in, time until they are seen, memory, roll and recovery",
}


BUILT = ("influxdb2",)
"""Engines that are compiled here, since no registry has them as programs."""


def numbers(text: str, kind=float) -> list:
    return [kind(word) for word in text.split(",") if word]


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m splay_bench", description="The benchmark in the box.")
    commands = top.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    run.add_argument("suite", choices=[*SUITES, "all", "mine"])
    run.add_argument("--sql", type=pathlib.Path, nargs="+", default=[], help="of `mine`: files with your statements")
    run.add_argument("--database", type=pathlib.Path, help="of `mine`: your database")
    run.add_argument("--scale", default="0.02", help="share of 20 M trades and 33 M books; several with commas")
    run.add_argument("--engines", default="all", help="with commas; `list` shows them")
    run.add_argument("--queries", default="", help="with commas; all if empty")
    run.add_argument("--warm", action="store_true", help="warm runs; without --warm and --cold both are made")
    run.add_argument("--cold", action="store_true", help="cold runs: the page cache is dropped, which needs root")
    run.add_argument("--clients", default="", help="counts of clients, with commas")
    run.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results"), help="folder of the results")
    run.add_argument("--rounds", type=int, default=10, help="warm runs of each query")
    run.add_argument("--passes", type=int, default=4, help="of all engines over all queries, among which a query's warm runs are divided")
    run.add_argument("--kinds", default="prepared,unseen", help="besides known texts, with commas: prepared, unseen")
    run.add_argument("--paced-rounds", type=int, default=12, help="runs of each query at one question every 50 ms; 0: none")
    run.add_argument("--short-seconds", type=float, default=0.1, help="short queries are warmed and asked for so long")
    run.add_argument("--cold-rounds", type=int, default=9, help="cold runs of each query")
    run.add_argument("--write-scale", type=float, help="scale of the write day (W); that of the run if not given")
    run.add_argument("--cold-queries", default="", help="those that have cold runs, with commas; all if empty")
    run.add_argument("--client-seconds", type=float, default=5, help="how long each count of clients asks")
    run.add_argument("--limit", type=float, default=600, help="seconds after which a request has failed")
    run.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of each engine")
    run.add_argument("--seed", type=int, default=1, help="of the data")
    run.add_argument("--again", action="store_true", help="measure what was measured at this commit once more")
    run.add_argument("--size", choices=["smoke", "full"], default="full", help="of the suites without a scale")
    run.add_argument("--splay", type=pathlib.Path, default=ROOT / "target/release/splay", help="the command, for data")
    run.add_argument("--wheel", type=pathlib.Path, help="SplayDB's wheel; the newest in target/wheels if not given")
    run.add_argument("--data", type=pathlib.Path, action="append", default=[], help="files that `compression` measures, too")
    run.add_argument("--work", type=pathlib.Path, default=ROOT / "target/bench", help="where data and databases go")
    run.add_argument("--venvs", type=pathlib.Path, default=ROOT / "target/bench-venvs", help="engines' environments")
    report = commands.add_parser("report", help="make the page and the table from results")
    report.add_argument("--results", type=pathlib.Path, default=pathlib.Path("results"))
    report.add_argument("--html", type=pathlib.Path, help="the page; default: report.html in the results")
    report.add_argument("--markdown", type=pathlib.Path, help="the tables; default: report.md in the results")
    build = commands.add_parser("build", help="compile a rival that no registry has as a program")
    build.add_argument("engine", choices=BUILT)
    build.add_argument("--work", type=pathlib.Path, default=ROOT / "target/bench", help="as of `run`")
    commands.add_parser("list", help="suites and engines")
    return top


def kinds_of(text: str) -> list[str]:
    """What is timed besides known texts."""
    kinds = [word for word in text.split(",") if word]
    for kind in kinds:
        if kind not in KINDS:
            raise KeyError(f"no kind {kind}; there are {', '.join(KINDS)}")
    return kinds


def settings_of(arguments) -> Settings:
    names = engines.NAMES if arguments.engines == "all" else arguments.engines.split(",")
    for name in names:
        engines.load(name)
    both = not arguments.warm and not arguments.cold
    return Settings(
        engines=list(names),
        out=arguments.out,
        scales=numbers(arguments.scale),
        warm=arguments.warm or both,
        cold=arguments.cold or both,
        clients=numbers(arguments.clients, int),
        rounds=arguments.rounds,
        passes=arguments.passes,
        short_seconds=arguments.short_seconds,
        warm_up_seconds=arguments.short_seconds,
        kinds=kinds_of(arguments.kinds),
        paced_rounds=arguments.paced_rounds,
        write_scale=arguments.write_scale,
        cold_rounds=arguments.cold_rounds,
        cold_only=[word for word in arguments.cold_queries.split(",") if word],
        client_seconds=arguments.client_seconds,
        limit_seconds=arguments.limit,
        threads=arguments.threads,
        seed=arguments.seed,
        again=arguments.again,
        only=[word for word in arguments.queries.split(",") if word],
        splay=arguments.splay,
        wheel=arguments.wheel and arguments.wheel.resolve(),
        work=arguments.work,
        venvs=arguments.venvs.resolve(),
        command="python -m splay_bench " + " ".join(sys.argv[1:]),
        size=arguments.size,
        files=arguments.data,
    )


def show() -> None:
    print("Suites:")
    for name, about in (SUITES | {"mine": "your own statements on your own database, beside DuckDB on a copy of it"}).items():
        print(f"  {name:15} {about}")
    print("\nEngines:")
    for name in engines.NAMES:
        print(f"  {name:15} {engines.load(name).title}")


def build(name: str, work: pathlib.Path) -> None:
    """Compiles a rival; says why not where it can't."""
    try:
        print(engines.load(name).build(work / "downloads"))
    except Skipped as reason:
        print(f"{name}: not built: {reason}", file=sys.stderr)


def main() -> int:
    arguments = parser().parse_args()
    if arguments.command == "list":
        show()
    elif arguments.command == "run" and arguments.suite == "mine":
        if not arguments.sql or not arguments.database:
            raise KeyError("`run mine` wants --sql FILE... and --database FOLDER")
        return importlib.import_module(f"{__package__}.mine").run(
            settings_of(arguments), arguments.database, arguments.sql
        )
    elif arguments.command == "run":
        settings = settings_of(arguments)
        suites = list(SUITES) if arguments.suite == "all" else [arguments.suite]
        start = time.monotonic()
        install.ahead(settings, suites)
        for name in suites:
            print(f"suite {name}, {time.monotonic() - start:.0f} s after the start", file=sys.stderr, flush=True)
            importlib.import_module(f"{__package__}.{name}").run(settings)
        print(f"all of it took {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    elif arguments.command == "build":
        build(arguments.engine, arguments.work.resolve())
    else:
        from . import report

        for path in report.build(arguments.results, arguments.html, arguments.markdown):
            print(path)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyError as error:
        sys.exit(error.args[0])
