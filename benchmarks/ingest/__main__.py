"""Measures capture: ``python -m ingest`` with ``benchmarks`` on the path, or ``make bench-ingest``.

Everything runs on this machine, producers included. Each figure is printed with what it was wanted to be.
"""

import argparse
import pathlib
import shutil
import tempfile

from ingest.measure import FULL_ROLL_ROWS, Options, figures


def main() -> None:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(
        prog="ingest",
        description=__doc__.splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    usual = Options(pathlib.Path("target/release/splay"))
    parser.add_argument("--splay", type=pathlib.Path, default=usual.splay, help="the command")
    parser.add_argument("--rows", type=int, default=usual.rows, help="rows of each round")
    parser.add_argument("--single-rows", type=int, default=usual.single_rows, help="rows that are sent one a message")
    parser.add_argument("--roll-rows", type=int, default=usual.roll_rows, help="rows of the roll, and of memory a row")
    parser.add_argument("--live-rows", type=int, default=usual.live_rows, help="live rows of the longest table of latest rows")
    parser.add_argument("--full", action="store_true", help=f"a roll of {FULL_ROLL_ROWS:,} rows")
    parser.add_argument("--producers", type=int, default=usual.producers, help="processes that send lines")
    parser.add_argument("--seconds", type=float, default=usual.seconds, help="length of the runs at a fixed rate")
    parser.add_argument("--sustained-seconds", type=float, default=usual.sustained_seconds, help="length of the long runs of lines")
    parser.add_argument("--no-questdb", action="store_true", help="leave QuestDB out")
    given = parser.parse_args()
    target = given.splay.resolve().parents[1]
    options = Options(
        splay=given.splay,
        rows=given.rows,
        single_rows=given.single_rows,
        roll_rows=FULL_ROLL_ROWS if given.full else given.roll_rows,
        live_rows=given.live_rows,
        producers=given.producers,
        seconds=given.seconds,
        sustained_seconds=given.sustained_seconds,
        downloads=None if given.no_questdb else target / "bench" / "downloads",
    )
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ingest-", dir=target))
    try:
        for figure in figures(options, folder):
            print(figure.line(), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
