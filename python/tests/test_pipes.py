"""Commands whose output nobody reads to its end, as in `splay recipes | head -1`, and whose output can't be written."""

import os
import pathlib
import re
import shutil
import signal
import subprocess

import pages
import pytest
from test_capture import frame

import splay

PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two tables and a backup of them; a load that can be undone."""
    at = tmp_path_factory.mktemp("pipes")
    database = splay.open(at / "db")
    for table in ("trade", "quote"):
        for start in (0, 100):
            database.write(table, frame(start, 100), time="time", symbol="sym")
    subprocess.run([pages.BINARY, "backup", "db", "copies"], cwd=at, check=True, capture_output=True)
    (at / "rows.csv").write_text("time,sym\n2024-03-04T10:00:00Z,A\n")
    (at / "statements.sql").write_text("\\d\nselect * from trade;\n\\timing\nselect 1 as one;\n")
    return at


def run(folder: pathlib.Path, command: str, output: int, errors: int = subprocess.PIPE) -> subprocess.CompletedProcess:
    """A command with its standard input from what stands behind `<`."""
    words, _, source = command.partition(" < ")
    with open(folder / source if source else os.devnull) as text:
        return subprocess.run(
            [pages.BINARY, *words.split()],
            cwd=folder,
            stdin=text,
            stdout=output,
            stderr=errors,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )


def closed() -> int:
    """A pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


COMMANDS = [
    "--help",
    "load --help",
    "recipes",
    "recipes nyse-taq-trade",
    "tables db",
    "describe db trade",
    "loads db trade",
    "verify db",
    "verify db trade",
    "backup --verify copies",
    "backup db more-copies",
    "restore copies restored",
    "export db trade --to exported",
    "load db fill rows.csv",
    "load db fill rows.csv --dry-run --again",
    "delete db trade --where n=3",
    "delete db trade --where n=3 --dry-run",
    "maintain db",
    "compact db",
    "roll db",
    "journal inspect db",
    "journal inspect db --format json",
    "journal accept db",
    "tick status db",
    "tick status db --format json",
    "tick write db tick --format csv --type time=timestamp --type sym=symbol < rows.csv",
    "token me",
    "gen taq --out taq --symbols 2 --quotes 20 --trades 10",
    "completions bash",
    "shell db < statements.sql",
    *[f"sql db --file - --format {name} < one.sql" for name in ("table", "csv", "json", "ndjson", "arrow", "parquet")],
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_pipe_is_no_failure(folder, command):
    (folder / "one.sql").write_text("select a.n, b.sym from trade a, trade b")
    output = closed()
    try:
        done = run(folder, command, output)
    finally:
        os.close(output)
    assert (done.returncode, done.stderr if "load " not in command else "") == (0, ""), done.stderr


def test_the_work_of_a_command_goes_on_when_nobody_reads(folder, tmp_path):
    shutil.copytree(folder / "db", tmp_path / "db")
    for command in ("compact db", "delete db quote --where n=5"):
        output = closed()
        assert run(tmp_path, command, output).returncode == 0
        os.close(output)
    database = splay.open(tmp_path / "db")
    assert database.sql("select count(*) from quote where n = 5").fetchall() == [(0,)]
    described = subprocess.run([pages.BINARY, "compact", "db"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"(\d+) segments before, (\d+) after", described), described
    assert all(before == after for before, after in re.findall(r"(\d+) segments before, (\d+) after", described)), "the second table too"


def test_damage_is_told_by_the_exit_code_when_nobody_reads(folder, tmp_path):
    shutil.copytree(folder / "db", tmp_path / "db")
    segment = sorted((tmp_path / "db").rglob("*.arrow"))[-1]
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0x40
    segment.write_bytes(content)
    output = closed()
    done = run(tmp_path, "verify db", output)
    os.close(output)
    assert done.returncode == 1 and "damaged files" in done.stderr, done.stderr


def test_a_statement_behind_a_closed_pipe_is_not_run(folder, tmp_path):
    shutil.copytree(folder / "db", tmp_path / "db")
    (tmp_path / "two.sql").write_text("select * from trade; delete from trade where n = 7;")
    output = closed()
    assert run(tmp_path, "sql db --file two.sql", output).returncode == 0
    os.close(output)
    assert splay.open(tmp_path / "db").sql("select count(*) from trade where n = 7").fetchall() != [(0,)]


def test_a_server_that_nobody_listens_to_serves(folder):
    output = closed()
    ports = "--http 127.0.0.1:0 --flight 127.0.0.1:0 --line off"
    server = subprocess.Popen([pages.BINARY, "serve", folder / "db", "--read-only", *ports.split()], stdout=output, stderr=subprocess.PIPE)
    os.close(output)
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(2)
    server.send_signal(signal.SIGTERM)
    assert server.wait(PATIENCE_SECONDS) == 0
    server.stderr.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["recipes", "tables db", "verify db", "token me", "tick status db", "sql db --file one.sql"])
def test_output_that_cannot_be_written_is_a_failure(folder, command):
    (folder / "one.sql").write_text("select 1 as one")
    with open("/dev/full", "wb") as full:
        done = run(folder, command, full.fileno())
    assert done.returncode == 1 and "No space left" in done.stderr, done.stderr


def test_a_failure_is_told_by_the_exit_code_when_nobody_reads_it(folder):
    errors = closed()
    assert run(folder, "sql db --file gone.sql", subprocess.DEVNULL, errors).returncode == 1
    assert run(folder, "sql db --stats --file statements.sql", subprocess.DEVNULL, errors).returncode in (0, 1)
    os.close(errors)
