"""Runs the long tests of docs/reliability.md in parts, and records each part: what was run, of which commit, when, how long, what came of it.

    python python/tests/long_tests.py run fuzz-line kills     what isn't recorded yet of these, or of all
    python python/tests/long_tests.py status                  what is recorded

A part is a seed with a number of inputs. Parts that are in `target/long/record.tsv` with this commit aren't run again, so that a run goes on
where it was ended. `--commit NAME` goes on with the programs that were collected for an earlier commit. A part that fails is recorded too, its
output is kept in `target/long/failed`, and the run goes on with the next one.
"""

from __future__ import annotations

import argparse
import collections
import csv
import dataclasses
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONG = ROOT / "target" / "long"
RECORD = LONG / "record.tsv"
COLUMNS = ("job", "seed", "inputs", "commit", "begun", "seconds", "result", "told")


@dataclasses.dataclass(frozen=True)
class Job:
    """A test, of which a part is run by a command with `{seed}` and `{inputs}` in its environment or arguments."""

    name: str
    program: str
    """A collected program, or a module of Python beside this one."""
    arguments: tuple[str, ...]
    part: int
    """Inputs of a part."""
    total: int
    environment: tuple[tuple[str, str], ...] = ()


def fuzz(name: str, program: str, test: str, part: int, total: int = 10_000_000) -> Job:
    environment = (("SPLAY_FUZZ_INPUTS", "{inputs}"), ("SPLAY_FUZZ_SEED", "{seed}"))
    return Job("fuzz-" + name, program, ("--exact", test), part, total, environment)


def properties(name: str, program: str, test: str, part: int, total: int) -> Job:
    environment = (("PROPTEST_CASES", "{inputs}"), ("PROPTEST_RNG_SEED", "{seed}"))
    return Job(name, program, ("--exact", test), part, total, environment)


def seeded(module: str, test: str, seed: str, inputs: str, part: int, total: int) -> Job:
    """A test of capture whose inputs are made of their numbers alone, so that parts follow each other."""
    environment = ((f"SPLAY_{inputs}", "{inputs}"), (f"SPLAY_{seed.upper()}_SEED", "{first}"))
    return Job(module, "capture_integration", ("--exact", f"{module}::{test}", "--nocapture"), part, total, environment)


CAPTURE = "splay_capture"
SERVER = "splay_server"
STORE = "splay_store"
JOBS = (
    Job("kills", "kills.py", ("--kills", "{inputs}", "--seed", "{seed}", "--folder", "{long}/kills"), 25, 1_000),
    seeded("power", "any_history_with_power_cuts_keeps_what_was_acknowledged", "power", "POWER_HISTORIES", 250, 62_500),
    seeded("rot", "any_damage_is_told_or_makes_no_difference", "damage", "DAMAGES", 1_000, 100_000),
    seeded("drift", "any_drift_of_columns_keeps_values_or_refuses_batches_whole", "drift", "DRIFTS", 500, 20_000),
    fuzz("ipc", SERVER, "ipc::fuzz::tests::any_stream_is_refused_or_read", 1_000_000),
    fuzz("line", CAPTURE, "fuzz::line::tests::any_lines_cut_anywhere_give_the_same_rows", 1_000_000),
    fuzz("conform", CAPTURE, "fuzz::conform::tests::any_rows_are_refused_or_keep_their_values", 1_000_000),
    fuzz("rows", CAPTURE, "fuzz::rows::tests::any_bytes_are_refused_or_are_rows", 1_000_000),
    fuzz("journal", CAPTURE, "fuzz::journal::tests::a_damaged_journal_is_told_or_cut_and_gives_nothing_twice", 250_000),
    fuzz("http", SERVER, "http::fuzz::any_request_is_answered_or_its_connection_closed", 250_000),
    fuzz("flight", SERVER, "flight::fuzz::any_messages_are_answered", 250_000),
    fuzz("websocket", SERVER, "http::fuzz::any_messages_to_a_websocket_are_answered", 250_000),
    fuzz("postgres", SERVER, "postgres::fuzz::any_bytes_are_answered_or_their_connection_closed", 250_000),
    fuzz("subscriptions", SERVER, "subscription_requests::tests::any_bytes_are_a_subscription_or_refused", 1_000_000),
    fuzz("oidc-tokens", SERVER, "oidc::fuzz::tests::any_token_is_refused_or_read", 1_000_000),
    fuzz("oidc-keys", SERVER, "oidc::fuzz::tests::any_key_is_left_out_or_read", 1_000_000),
    fuzz("oidc-claims", SERVER, "oidc::fuzz::tests::any_claims_are_refused_or_read", 1_000_000),
    fuzz("dense", STORE, "segment::dense::fuzz::tests::any_bytes_are_refused_or_are_numbers", 1_000_000),
    fuzz("sealed", STORE, "encryption::fuzz::tests::any_bytes_are_refused_or_are_what_was_sealed", 1_000_000),
    properties("fuzz-text", CAPTURE, "text::tests::any_bytes_are_read_or_refused", 1_000_000, 10_000_000),
    properties("fuzz-import", "splay_import", "tests::hostile::any_bytes_are_read_or_refused", 10_000, 1_000_000),
    Job(
        "fuzz-statements",
        "statements",
        ("--exact", "fuzz::any_statement_is_answered_or_refused_within_its_bounds", "--nocapture"),
        10_000,
        1_000_000,
        (("SPLAY_FUZZ_INPUTS", "{inputs}"), ("SPLAY_FUZZ_SEED", "{first}")),
    ),
)


def commit() -> str:
    named = subprocess.run(["git", "describe", "--always", "--dirty=-changed"], cwd=ROOT, capture_output=True, text=True, check=True)
    return named.stdout.strip()


def collect(name: str) -> pathlib.Path:
    """The programs of a commit, copied once so that a later build doesn't change what is run."""
    folder = LONG / name
    if (folder / "whole").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    command = ["cargo", "test", "--release", "--workspace", "--locked", "--no-run", "--message-format", "json"]
    told = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in told.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message.get("executable") and message["profile"]["test"]:
            shutil.copy(message["executable"], folder / program_name(message))
    shutil.copy(ROOT / "target" / "release" / "splay", folder / "splay")
    (folder / "whole").touch()
    return folder


def program_name(message: dict) -> str:
    """Crates have tests of the same name, such as `integration`: those are called after both."""
    target = message["target"]["name"]
    if target != "integration":
        return target.replace("-", "_")
    return f"{pathlib.Path(message['manifest_path']).parent.name}_integration"


def recorded() -> list[dict[str, str]]:
    if not RECORD.exists():
        return []
    with open(RECORD, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def record(row: dict[str, object]) -> None:
    is_new = not RECORD.exists()
    with open(RECORD, "a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, delimiter="\t")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def run_part(job: Job, seed: int, inputs: int, programs: pathlib.Path) -> dict[str, object]:
    # Statements are made of their numbers alone, so that parts follow each other.
    words = {"seed": seed, "inputs": inputs, "first": (seed - 1) * job.part + 1, "long": LONG, "name": job.name}
    arguments = [argument.format(**words) for argument in job.arguments]
    if job.program.endswith(".py"):
        command = [sys.executable, str(pathlib.Path(__file__).parent / job.program), *arguments]
    else:
        command = [str(programs / job.program), *arguments]
    environment = os.environ | {"SPLAY": str(programs / "splay"), "SPLAY_LOG": "error"}
    environment |= {name: value.format(**words) for name, value in job.environment}
    begun, at = time.monotonic(), datetime.datetime.now(datetime.UTC)
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", cwd=ROOT)
    lines = [line for line in done.stdout.splitlines() if line.strip() and not line.startswith(("test ", "running"))]
    if done.returncode != 0:
        (LONG / "failed").mkdir(exist_ok=True)
        (LONG / "failed" / f"{job.name}-{seed}.txt").write_text(done.stdout)
    return {
        "seed": seed,
        "inputs": inputs,
        "begun": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(time.monotonic() - begun, 1),
        "result": "ok" if done.returncode == 0 else f"FAILED {done.returncode}",
        "told": lines[-1].strip()[:400] if lines else "",
    }


def run(names: list[str], name: str, until: float | None) -> bool:
    programs, is_good = collect(name), True
    done = {(row["job"], row["seed"]) for row in recorded() if row["commit"] == name}
    for job in JOBS:
        if names and job.name not in names:
            continue
        for seed in range(1, -(-job.total // job.part) + 1):
            if (job.name, str(seed)) in done:
                continue
            if until is not None and time.time() >= until:
                return is_good
            told = run_part(job, seed, min(job.part, job.total - (seed - 1) * job.part), programs)
            record({"job": job.name, "commit": name} | told)
            print(job.name, *told.values(), flush=True)
            is_good &= told["result"] == "ok"
    return is_good


def status() -> None:
    """What is recorded of each job and commit."""
    groups: dict[tuple[str, str], list[dict[str, str]]] = collections.defaultdict(list)
    for row in recorded():
        groups[row["job"], row["commit"]].append(row)
    for (job, name), rows in groups.items():
        inputs, seconds = sum(int(row["inputs"]) for row in rows), sum(float(row["seconds"]) for row in rows)
        failed = [row["seed"] for row in rows if row["result"] != "ok"]
        seeds = f"seeds {min(int(row['seed']) for row in rows)} to {max(int(row['seed']) for row in rows)}"
        print(f"{job}\t{name}\t{inputs:,}\t{seeds}\t{seconds:,.0f} s\t{rows[0]['begun']} to {rows[-1]['begun']}\tfailed: {failed}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "status"))
    parser.add_argument("jobs", nargs="*", help="; ".join(job.name for job in JOBS))
    parser.add_argument("--commit", help="that of programs that are collected already")
    parser.add_argument("--until", type=float, help="begins no part after this time, in seconds since the epoch")
    given = parser.parse_args()
    if given.what == "status":
        status()
        return 0
    return 0 if run(given.jobs, given.commit or commit(), given.until) else 1


if __name__ == "__main__":
    sys.exit(main())
