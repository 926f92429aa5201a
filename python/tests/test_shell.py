"""`splay shell` and what it shares with `splay sql`: pipes, a terminal, a server."""

import fcntl
import os
import pathlib
import pty
import select
import struct
import subprocess
import sys
import termios
import time

import pytest
import test_serve
from test_capture import frame
from test_serve import served  # noqa: F401, fixture

import splay

BINARY = test_serve.BINARY
PATIENCE_SECONDS = 60


@pytest.fixture
def folder(tmp_path):
    splay.open(tmp_path / "db").write("trade", frame(0, 100), time="time", symbol="sym")
    return tmp_path / "db"


def command(*arguments, text=None, **settings):
    return subprocess.run([BINARY, *map(str, arguments)], input=text, capture_output=True, text=True, **settings)


def test_statements_and_commands_of_a_pipe(folder, tmp_path):
    (tmp_path / "more.sql").write_text("select 7 as seven;\n-- the end\n")
    text = f"""
        select count(*) as n from trade; select ';' as semicolon;
        \\mode csv
        select 1 as one,
               2 as two;
        \\mode vertical
        select 3 as three;
        \\i {tmp_path}/more.sql
        \\rows 2
        \\d
        \\q
        select 4 as four;
    """
    done = command("shell", folder, text="\n".join(line.strip() for line in text.splitlines()))
    assert done.returncode == 0, done.stderr
    assert "| 100 |" in done.stdout and "| ;         |" in done.stdout
    assert "one,two\n1,2\n" in done.stdout
    assert "-- row 1\nthree  3\n1 row\n" in done.stdout and "seven  7" in done.stdout
    assert "table    trade" in done.stdout and "four" not in done.stdout


def test_statements_are_kept_under_names(folder):
    text = """prepare last_of (varchar) as select last(price) as p from trade where sym = $1;
        prepare none_of as delete from trade where sym in (select sym from trade where price < $1);
        execute last_of('IBM'); execute none_of(-1); deallocate last_of; execute last_of('IBM')"""
    for arguments, given in [(("shell", folder), text), (("sql", folder, text), None)]:
        done = command(*arguments, text=given)
        assert done.returncode == 1 and 'prepared statement "last_of" does not exist' in done.stderr, done.stderr
        assert "| p " in done.stdout and "DELETE" in done.stdout and done.stdout.count("1 row") == 2, done.stdout


def test_the_first_fault_of_a_pipe_ends_it(folder):
    done = command("shell", folder, text="select 1 as one; select nope from trade; select 2 as two;")
    assert done.returncode == 1 and "one" in done.stdout and "two" not in done.stdout
    assert "nope" in done.stderr
    for wrong, told in [("\\nope", "\\nope"), ("\\mode xml", "vertical"), ("\\tz Nowhere", "Nowhere"), ("\\i gone.sql", "gone.sql")]:
        done = command("shell", folder, text=wrong)
        assert done.returncode == 1 and told in done.stderr, done.stderr


def test_instants_are_shown_in_a_time_zone(folder):
    done = command("sql", folder, "select min(time) as t from trade", "--time-zone", "America/New_York", "--format", "csv")
    assert done.stdout.splitlines()[1].endswith(("-05:00", "-04:00")), done.stdout
    utc = command("sql", folder, "select min(time) as t from trade", "--format", "csv").stdout.splitlines()[1]
    assert utc.endswith("Z")
    assert command("sql", folder, "select 1", "--time-zone", "Mars").returncode == 1


def test_several_statements_and_the_format_of_a_files_name(folder, tmp_path):
    done = command("sql", folder, "select 1 as a; select 2 as b;")
    assert done.returncode == 0 and done.stdout.index("| a |") < done.stdout.index("| b |")
    assert command("sql", folder, "select 1 as a; select 2 as b", "--format", "csv").returncode == 1
    assert command("sql", folder, " ; -- nothing").returncode == 1
    for name, begins in [("o.csv", b"n\n"), ("o.json", b"[{"), ("o.parquet", b"PAR1"), ("o.arrow", b"ARROW1"), ("o.txt", b"+--")]:
        done = command("sql", folder, "select n from trade", "-o", tmp_path / name)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / name).read_bytes().startswith(begins), name
    assert (tmp_path / "o.csv").read_bytes().count(b"\n") == 101, "all rows"
    assert command("sql", folder, "select 1", "-o", tmp_path).returncode == 1, "no folder is replaced"


def test_a_server_answers_the_same(served):  # noqa: F811, pytest hands it in
    client = served.client()
    client.write("trade", frame(0, 10))
    place = f"http://{served.address}"
    done = command("sql", place, "select count(*) as n from trade where n < $most", "-p", "most=7", "--format", "csv")
    assert (done.returncode, done.stdout) == (0, "n\n7\n"), done.stderr
    done = command("shell", place, text="\\mode csv\n\\d\nselect max(n) as m from trade;")
    assert (done.returncode, done.stdout.splitlines()[-2:]) == (0, ["m", "9"]), done.stderr
    refused = command("sql", place, "select * from 'secret.csv'")
    assert refused.returncode == 1 and "secret.csv" in refused.stderr
    assert "threads" in command("sql", place, "select 1", "--threads", "2").stderr


class Terminal:
    """A shell at a terminal of 100 characters."""

    def __init__(self, *arguments, **variables):
        self.child, self.file = pty.fork()
        if self.child == 0:
            os.environ.update(variables)
            os.execv(BINARY, [str(BINARY), *map(str, arguments)])
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.seen = ""

    def type(self, text):
        os.write(self.file, text.encode())

    def until(self, wanted):
        """Reads until a text has come; what came up to its end."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while wanted not in self.seen:
            assert time.monotonic() < deadline, (wanted, self.seen)
            if select.select([self.file], [], [], 1)[0]:
                self.seen += os.read(self.file, 65536).decode(errors="replace")
        before, self.seen = self.seen.split(wanted, 1)
        return before

    def close(self):
        """Waits for the shell's own end, then closes: a terminal that goes away first ends its process by SIGHUP."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if select.select([self.file], [], [], 1)[0]:
                try:
                    if not os.read(self.file, 65536):
                        break
                except OSError:  # What Linux says once the last process has closed its side.
                    break
        os.close(self.file)
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="terminals differ")
def test_a_terminal_edits_completes_remembers_and_stops(folder, tmp_path):
    history = tmp_path / "state" / "history"
    terminal = Terminal("shell", folder, "--history", history, TERM="xterm", PAGER="cat")
    terminal.until("splay> ")
    # A name is completed, and a statement of two lines is one.
    terminal.type("select count(*) as n from trad")
    terminal.until("from trad")
    terminal.type("\t")
    terminal.until("e")
    terminal.type("\rwhere n >= 90;\r")
    terminal.until("| 10 |")
    # Ctrl-C ends what runs, and the shell goes on.
    terminal.until("splay> ")
    terminal.type("select count(*) from trade a, trade b, trade c, trade d, trade e where a.n + b.n + c.n + d.n + e.n = 1;\r")
    time.sleep(0.5)
    terminal.type("\x03")
    terminal.until("cancelled")
    # A fault doesn't end it.
    terminal.until("splay> ")
    terminal.type("select nope from trade;\r")
    terminal.until("No field named nope")
    terminal.until("splay> ")
    terminal.type("select 40 + 2 as answer;\r")
    terminal.until("| 42     |")
    terminal.until("splay> ")
    terminal.type("\\q\r")
    assert terminal.close() == 0
    assert "40 + 2" in history.read_text() and pathlib.Path(history).stat().st_mode & 0o077 == 0
