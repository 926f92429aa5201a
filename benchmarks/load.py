"""Measures what the foundation promises, beside DuckDB in the same run.

    python benchmarks/load.py --splay target/release/splay [--scale 1] [--partitions 3000] [--big 5] [--work FOLDER]

- load: the write day of the crypto set (at scale 1: 1 M trades and 1.5 M books of 83 columns) from CSV in the page cache
  until it is committed, synced and can be queried; DuckDB loads the same files into tables sorted by symbol and time.
  Row counts, sum(amount) and sum(a20s) of both must agree before a time counts.
- open: a database of many partitions, until a statement over one of them has answered; head: ten rows of the big table.
- size of the database against the CSV files; peak memory of a load of several GB.

Each figure is the median of the rounds, which alternate between the systems. The result is printed as a table and written
as JSON with machine, versions and commit.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import time


def run(command, **options):
    """Runs a command; gives wall seconds, peak resident bytes and what it printed."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    out, err = child.communicate()
    seconds = time.perf_counter() - start
    if child.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed: {err}")
    return seconds, out, err


def peak_of(command):
    """Peak resident bytes of a command, by a small parent of its own."""
    code = (
        "import resource,subprocess,sys;"
        "r=subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL,stderr=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss*1024);sys.exit(r.returncode)"
    )
    _, out, _ = run([sys.executable, "-c", code, *map(str, command)])
    return int(out)


def folder_bytes(folder):
    return sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*") if path.is_file())


def splay_load(splay, database, files):
    shutil.rmtree(database, ignore_errors=True)
    seconds = 0.0
    for table, path in files.items():
        seconds += run([splay, "load", database, table, path, "--time", "timestamp", "--symbol", "symbol"])[0]
    start = time.perf_counter()
    os.sync()
    return seconds + time.perf_counter() - start


def splay_totals(splay, database):
    text = (
        "select (select count(*) from trades) t, (select sum(amount) from trades) a, "
        "(select count(*) from books) b, (select sum(a20s) from books) s"
    )
    return json.loads(run([splay, "sql", database, text, "--format", "json"])[1])[0]


DUCKDB = """
import duckdb, os, sys, time
database, trades, books = sys.argv[1:4]
start = time.perf_counter()
connection = duckdb.connect(database)
connection.execute("set enable_progress_bar = false")
for table, path in (("trades", trades), ("books", books)):
    connection.execute(f"create table {table} as select * from read_csv('{path}') order by symbol, timestamp")
connection.execute("checkpoint")
connection.close()
os.sync()
seconds = time.perf_counter() - start
connection = duckdb.connect(database, read_only=True)
row = connection.execute("select (select count(*) from trades), (select sum(amount) from trades), "
                         "(select count(*) from books), (select sum(a20s) from books)").fetchone()
print(seconds, *row)
"""


def duckdb_load(database, files):
    pathlib.Path(database).unlink(missing_ok=True)
    _, out, _ = run([sys.executable, "-c", DUCKDB, database, files["trades"], files["books"]])
    seconds, *totals = map(float, out.split())
    return seconds, totals


def bench_load(arguments, work, results):
    data = work / f"crypto-{arguments.scale}"
    if not (data / "write" / "books.csv").exists():
        run([arguments.splay, "gen", "crypto", "--out", data, "--scale", str(arguments.scale), "--write-day"])
    files = {table: data / "write" / f"{table}.csv" for table in ("trades", "books")}
    size = sum(path.stat().st_size for path in files.values())
    for path in files.values():  # into the page cache
        with open(path, "rb") as file:
            while file.read(1 << 24):
                pass
    database, duck = work / "load-db", work / "load.duckdb"
    ours, theirs = [], []
    for _ in range(arguments.rounds):
        ours.append(splay_load(arguments.splay, database, files))
        seconds, totals = duckdb_load(duck, files)
        theirs.append(seconds)
        mine = [float(value) for value in splay_totals(arguments.splay, database).values()]
        for left, right in zip(mine, totals):
            if abs(left - right) > 1e-9 * max(abs(left), abs(right)):
                sys.exit(f"answers differ: {mine} and {totals}")
    def mbps(seconds):
        return size / 1e6 / statistics.median(seconds)
    results["CSV bytes of the write day"] = size
    results["load, SplayDB (MB/s)"] = round(mbps(ours), 1)
    results["load, DuckDB into sorted tables (MB/s)"] = round(mbps(theirs), 1)
    results["load, ratio to DuckDB"] = round(mbps(ours) / mbps(theirs), 2)
    results["size, SplayDB hot tier / CSV"] = round(folder_bytes(database) / size, 3)
    results["size, DuckDB / CSV"] = round(duck.stat().st_size / size, 3)
    return database


def stats_ms(splay, database, text):
    """Planning and execution as the command reports them, in milliseconds."""
    _, _, err = run([splay, "sql", database, text, "--stats", "--format", "csv"])
    return float(err.split(" ms")[0].split()[-1])


def bench_open(arguments, work, results, big):
    many = work / f"many-{arguments.partitions}"
    if not (many / "splay.toml").exists():
        csv = work / "many.csv"
        with open(csv, "w", encoding="ascii") as file:
            file.write("time,sym,price\n")
            for day in range(arguments.partitions):
                stamp = time.strftime("%Y-%m-%d", time.gmtime(1_000_000_000 + day * 86400))
                for row in range(10):
                    file.write(f"{stamp}T10:00:0{row}Z,S{row},{100 + row / 8}\n")
        run([arguments.splay, "load", many, "daily", csv])
    text = "select count(*) from daily where date = '2003-05-05'"
    rounds = range(5 * arguments.rounds)
    whole = [run([arguments.splay, "sql", many, text])[0] * 1e3 for _ in rounds]
    nothing = [run([arguments.splay, "sql", big, "select 1"])[0] * 1e3 for _ in rounds]
    results[f"process start to answer, {arguments.partitions} partitions (ms)"] = round(statistics.median(whole), 1)
    results["process start to answer, select 1 (ms)"] = round(statistics.median(nothing), 1)
    inside = [stats_ms(arguments.splay, many, text) for _ in rounds]
    results[f"first statement of a process, {arguments.partitions} partitions, open included (ms)"] = round(
        statistics.median(inside), 1
    )
    head = [stats_ms(arguments.splay, big, "select * from books limit 10") for _ in rounds]
    results["head of the books, first statement of a process (ms)"] = round(statistics.median(head), 2)


def bench_memory(arguments, work, results):
    if not arguments.big:
        return
    source = work / f"crypto-{arguments.scale}" / "write" / "books.csv"
    header = open(source, "rb").readline()
    copies = max(1, round(arguments.big * 1e9 / source.stat().st_size))
    files = []
    for number in range(copies):
        path = work / f"big-{number}.csv"
        if not path.exists():
            with open(source, "rb") as old, open(path, "wb") as new:
                old.readline()
                new.write(header)
                shutil.copyfileobj(old, new, 1 << 24)
        files.append(path)
    database = work / "big-db"
    shutil.rmtree(database, ignore_errors=True)
    # The copies are equal, so their digests are: loaded again on purpose.
    command = [arguments.splay, "load", database, "books", *files, "--again", "--time", "timestamp", "--symbol", "symbol"]
    start = time.perf_counter()
    peak = peak_of(command)
    results[f"load of {sum(f.stat().st_size for f in files) / 1e9:.1f} GB: peak memory (MiB)"] = round(peak / 2**20)
    results["the same: seconds"] = round(time.perf_counter() - start, 1)
    for path in files:
        path.unlink()
    shutil.rmtree(database, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splay", type=pathlib.Path, default=pathlib.Path("target/release/splay"))
    parser.add_argument("--scale", type=float, default=0.2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=3000)
    parser.add_argument("--big", type=float, default=0, help="GB of CSV for the memory figure; 0 leaves it out")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("target/bench"))
    arguments = parser.parse_args()
    arguments.splay = arguments.splay.resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    work = arguments.work.resolve()

    import duckdb

    results = {}
    big = bench_load(arguments, work, results)
    bench_open(arguments, work, results, big)
    bench_memory(arguments, work, results)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    machine = {
        "cores": os.cpu_count(),
        "memory GiB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.platform(),
        "duckdb": duckdb.__version__,
        "commit": commit,
        "scale": arguments.scale,
        "rounds": arguments.rounds,
    }
    width = max(map(len, results))
    for name, value in results.items():
        print(f"{name:{width}}  {value:>14,}")
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    (work / "results.json").write_text(json.dumps({"machine": machine, "results": results}, indent=2))


if __name__ == "__main__":
    main()
