"""Runs all systems over the same data, compares their answers, and prints times and ratios."""

import json
import os
import pathlib
import statistics
import subprocess

import pyarrow.parquet as pq
from engine.compare import Different, check_equal
from frames import data
from frames.questions import KEYS, TITLES
from frames.systems import KINDS, REQUIREMENTS
from splay_bench import environment

ROOT = pathlib.Path(__file__).resolve().parents[1]
FIRST = ("splay", "database")
"""What all others are compared with."""


def run(options) -> None:
    place, told, wrong, absent = collected(options)
    for system, reason in absent.items():
        print(f"{system}: left out, {reason}")
    print_table(options, place, told, wrong)
    (options.work / "frames.json").write_text(json.dumps({" ".join(key): value for key, value in told.items()}, indent=1))


def collected(options) -> tuple[pathlib.Path, dict, dict, dict]:
    """The data, what all systems told, what of it is wrong, and which systems can't be had, with the reason."""
    place = data.prepare(options.work, options.splay.resolve(), options.quotes, options.trades, options.symbols)
    out = options.work / "answers"
    out.mkdir(exist_ok=True)
    told, absent = {}, {}
    for system in options.systems.split(","):
        try:
            python = environment.ensure(options.venvs / system, REQUIREMENTS.get(system, []), options.work / f"{system}-pip.log")
        except environment.Skipped as error:
            absent[system] = str(error)
            continue
        for kind in KINDS[system]:
            if kind == "hdf5" and not _has_hdf5(python, place):
                continue
            told[system, kind] = _asked(python, system, kind, place, out, options.passes)
    return place, told, check(told, out), absent


def _has_hdf5(python: pathlib.Path, place: pathlib.Path) -> bool:
    """Vaex's own files, made by Vaex of the Arrow files."""
    code = "import sys, vaex\nfor name in ('trade', 'quote'): vaex.open(f'{sys.argv[1]}/{name}.arrow').export_hdf5(f'{sys.argv[1]}/{name}.hdf5')"
    if all((place / f"{table}.hdf5").exists() for table in ("trade", "quote")):
        return True
    done = subprocess.run([python, "-c", code, str(place)], capture_output=True, text=True)
    if done.returncode:
        print(f"vaex: no HDF5 files: {done.stderr.strip().splitlines()[-1]}")
    return done.returncode == 0


def _asked(python: pathlib.Path, system: str, kind: str, place: pathlib.Path, out: pathlib.Path, passes: int) -> dict:
    command = [python, "-m", "frames.worker", system, kind, place.resolve(), out.resolve(), str(passes)]
    subprocess.run(list(map(str, command)), check=True, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL)
    return json.loads((out / f"{system}-{kind}.json").read_text())


def check(told: dict, out: pathlib.Path) -> dict[tuple[str, str, str], str]:
    """Answers that differ from the first system's, with how."""
    wrong = {}
    for name, keys in KEYS.items():
        first = pq.read_table(out / f"{'-'.join(FIRST)}-{name}.parquet")
        for system, kind in told:
            if name in told[system, kind]["failed"]:
                wrong[system, kind, name] = told[system, kind]["failed"][name]
                continue
            try:
                check_equal(first, pq.read_table(out / f"{system}-{kind}-{name}.parquet"), keys)
            except Different as error:
                wrong[system, kind, name] = f"another answer: {error}"
    return wrong


def print_table(options, place: pathlib.Path, told: dict, wrong: dict) -> None:
    """Fastest runs in milliseconds, which other work on the machine disturbs least, and geometric means of the ratios."""
    print(f"\n{options.quotes:,} quotes, {options.trades:,} trades, {options.symbols} symbols, fastest of {options.passes} runs in ms")
    heads = [f"{system} {kind}" for system, kind in told]
    print("| Question | " + " | ".join(heads) + " |\n| --- |" + " --- |" * len(heads))
    fastest = {key: {name: min(times) * 1e3 for name, times in one["seconds"].items()} for key, one in told.items()}
    for name, title in TITLES.items():
        cells = ["–" if (*key, name) in wrong else f"{fastest[key][name]:.3g}" for key in told]
        print(f"| {title} | " + " | ".join(cells) + " |")
    ratios = []
    for key in told:
        names = [name for name in TITLES if (*key, name) not in wrong]
        ratios.append(statistics.geometric_mean([fastest[key][name] / fastest[FIRST][name] for name in names]) if names else float("nan"))
    print("| times the database's (geometric mean) | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |")
    print("| opening, ms | " + " | ".join(f"{one['open'] * 1e3:.2f}" for one in told.values()) + " |")
    print("| most memory of the process, MB | " + " | ".join(f"{one['peak_mb']:.0f}" for one in told.values()) + " |")
    print("versions: " + ", ".join(sorted({f"{system} {one['version']}" for (system, _), one in told.items()})))
    for table in ("trade", "quote"):
        sizes = ", ".join(f"{kind} {(place / f'{table}.{kind}').stat().st_size / 1e6:.0f} MB" for kind in ("arrow", "parquet"))
        print(f"{table}: {sizes}")
    for (system, kind, name), reason in wrong.items():
        print(f"left out: {system} {kind}, {TITLES[name]}: {reason}")
