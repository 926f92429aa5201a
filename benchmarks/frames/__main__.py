"""Lazy frames beside other libraries' frames: ``python -m frames [compare] [limits] [renderers]``.

    PYTHONPATH=benchmarks python -m frames compare --splay target/release/splay

`compare` checks that all answers are equal before it prints ratios, all of one run: the fastest of `--passes` runs of each question, divided
by that of SplayDB's frames over the database. `limits` measures what frames promise by themselves, `renderers` libraries for plots.
"""

import argparse
import pathlib

from frames import compare, limits, renderers
from frames.systems import KINDS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["compare", "limits"], choices=["compare", "limits", "renderers"])
    parser.add_argument("--splay", type=pathlib.Path, default=pathlib.Path("target/release/splay"))
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("target/bench/frames"))
    parser.add_argument("--systems", default=",".join(KINDS))
    parser.add_argument("--quotes", type=int, default=6_000_000)
    parser.add_argument("--trades", type=int, default=2_000_000)
    parser.add_argument("--symbols", type=int, default=100)
    parser.add_argument("--passes", type=int, default=7)
    parser.add_argument("--rows", type=int, default=100_000_000, help="rows of the heat map and of the aggregation under a limit")
    parser.add_argument("--dates", type=int, default=3_000, help="dates of the table whose opening is measured")
    options = parser.parse_args()
    options.venvs = options.work / "venvs"
    options.work.mkdir(parents=True, exist_ok=True)
    for what in options.what:
        {"compare": compare, "limits": limits, "renderers": renderers}[what].run(options)


if __name__ == "__main__":
    main()
