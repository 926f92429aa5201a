"""`splay shell` and what it shares with `splay sql`: pipes, a terminal, a server."""

import fcntl
import os
import pathlib
import pty
import re
import select
import signal
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


def test_settings_answer_and_words_without_a_backslash_are_commands(folder, tmp_path):
    lines = ["help;", "\\rows 5", "select * from trade;", f"\\o {tmp_path}/all.csv", "select * from trade;", "\\o"]
    lines += ["\\mode csv", "\\x", "\\tz UTC", "prepare p as select 1;", "\\timing", "\\stats", "select 2 as two; EXIT;", "select 3 as three;"]
    done = command("shell", folder, text="\n".join(lines))
    assert done.returncode == 0, done.stderr
    assert "\\mode [MODE]" in done.stdout and "three" not in done.stdout
    assert "100 rows, 95 not shown (\\rows 0 shows all)" in done.stdout
    for said in ("rows is 5", f"answers go to {tmp_path}/all.csv", f"100 rows to {tmp_path}/all.csv", "mode is csv", "mode is vertical", "time zone is UTC", "PREPARE"):
        assert said in done.stderr.splitlines(), (said, done.stderr)
    assert (tmp_path / "all.csv").read_text().count("\n") == 101
    # The costs begin with the time, which isn't told twice.
    assert len(re.findall(r"^\d+\.\d+ ms", done.stdout, re.MULTILINE)) == 1, done.stdout
    done = command("shell", folder, text="\\o gone/all.csv\n")
    assert done.returncode == 1 and "there is no folder gone" in done.stderr
    done = command("sql", folder, "select * from trade", "--rows", "5")
    assert "95 not shown (--rows 0 shows all)" in done.stdout
    done = command("sql", folder, "prepare q as select $1; execute q")
    assert '"q" has 1 placeholder, and EXECUTE gives 0 values' in done.stderr


def test_what_users_of_psql_type_is_answered(folder):
    tables = command("shell", folder, text="\\d\n").stdout
    for typed in ("\\l", "\\list", "\\l+", "\\d+", "\\dt+"):
        done = command("shell", folder, text=f"{typed}\n")
        assert (done.returncode, done.stdout) == (0, tables), (typed, done.stderr)
    assert "a folder or a server is one database" in command("shell", folder, text="\\l\n").stderr
    assert command("shell", folder, text="\\d+ trade\n").stdout == command("shell", folder, text="\\d trade\n").stdout


def test_statements_are_kept_under_names(folder):
    text = """prepare last_of (varchar) as select last(n) as p from trade where sym = $1;
        prepare none_of as delete from trade where sym in (select sym from trade where n < $1);
        execute last_of('IBM'); execute none_of(-1); deallocate last_of; execute last_of('IBM')"""
    for arguments, given in [(("shell", folder), text), (("sql", folder, text), None)]:
        done = command(*arguments, text=given)
        assert done.returncode == 1 and 'prepared statement "last_of" does not exist' in done.stderr, done.stderr
        assert "| p " in done.stdout and "DELETE" in done.stdout and done.stdout.count("1 row") == 2, done.stdout


def test_prepare_tells_the_faults_of_its_statement(folder):
    text = "prepare later as select nope from trade where sym = $1; select 'not run' as said"
    for arguments, given in [(("shell", folder), text), (("sql", folder, text), None)]:
        done = command(*arguments, text=given)
        assert done.returncode == 1 and "nope" in done.stderr and "not run" not in done.stdout, (done.stdout, done.stderr)


def test_the_first_fault_of_a_pipe_ends_it(folder):
    done = command("shell", folder, text="select 1 as one; select nope from trade; select 2 as two;")
    assert done.returncode == 1 and "one" in done.stdout and "two" not in done.stdout
    assert "nope" in done.stderr
    for wrong, told in [("\\nope", "\\nope"), ("\\mode xml", "vertical"), ("\\tz Nowhere", "Nowhere"), ("\\i gone.sql", "gone.sql")]:
        done = command("shell", folder, text=wrong)
        assert done.returncode == 1 and told in done.stderr, done.stderr


def test_names_that_are_nearly_others_are_suggested(folder):
    wrong = {
        "select * from trad;": 'no table "trad"; did you mean trade? This database has trade',
        "\\d tarde": "did you mean trade?",
        "\\modee": "there is no command \\modee; did you mean \\mode?",
        "\\mode cvs": "did you mean csv?",
        "\\tz America/New_Yrk": "did you mean America/New_York?",
    }
    for text, told in wrong.items():
        done = command("shell", folder, text=text)
        assert done.returncode == 1 and told in done.stderr, done.stderr
    database = splay.open(folder)
    for number in range(60):
        database.sql(f"create table bar_{number + 10} (time timestamp, price float64)")
    done = command("sql", folder, "select * from nowhere")
    assert "this database has bar_10, bar_11" in done.stderr and "bar_19 and 51 more" in done.stderr and "bar_20" not in done.stderr


def test_settings_that_a_shell_does_not_have_are_refused_by_name(folder):
    for name in ("foo", "statement_timeout"):
        done = command("shell", folder, text=f"set {name} = 5;")
        assert done.returncode == 1 and f'unrecognized configuration parameter "{name}"; there is SET TIME ZONE' in done.stderr, done.stderr
    done = command("shell", folder, text="set time zone interval '1 hour';")
    assert done.returncode == 1 and "SET TIME ZONE 'America/New_York' or '+01:00'" in done.stderr
    done = command("shell", folder, text="set session time zone 'Asia/Tokyo'; show time zone; reset all; show time zone;")
    assert (done.returncode, done.stdout) == (0, "Asia/Tokyo\nUTC\n"), done.stderr


def test_semicolons_in_dollar_quotes_end_no_statement(folder):
    done = command("sql", folder, "select $$a;b$$ as x, $t$;$$;$t$ as y", "--format", "csv")
    assert (done.returncode, done.stdout) == (0, "x,y\na;b,;$$;\n"), done.stderr
    done = command("shell", folder, text="prepare p (varchar) as select $1 as v; execute p('$$;');")
    assert done.returncode == 0 and "| $$; |" in done.stdout, done.stderr


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
    for name in ("o.foo", "o.csv.gz"):
        done = command("sql", folder, "drop table trade", "-o", tmp_path / name)
        assert done.returncode == 1 and "no format has this ending; there are csv, json, ndjson" in done.stderr
        assert not (tmp_path / name).exists()
        assert command("sql", folder, "select n from trade", "-o", tmp_path / name, "--format", "csv").returncode == 0
    done = command("shell", folder, text=f"\\o {tmp_path}/shell.foo\nselect count(*) as n from trade;\n")
    assert (done.returncode, done.stdout) == (1, "") and "no format has this ending" in done.stderr


def test_links_pipes_and_devices_as_files_of_answers(folder, tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "answer.csv").write_text("old")
    link, pipe = tmp_path / "link.csv", tmp_path / "pipe.csv"
    link.symlink_to("far/answer.csv")
    for statement in ("select 1 as a", f"copy (select 1 as a) to '{link}'"):
        done = command("sql", folder, statement, *([] if statement.startswith("copy") else ["-o", link]))
        assert done.returncode == 0, done.stderr
        assert link.is_symlink() and (tmp_path / "far" / "answer.csv").read_text() == "a\n1\n"
        assert [path.name for path in (tmp_path / "far").iterdir()] == ["answer.csv"]
        (tmp_path / "far" / "answer.csv").write_text("old")
    assert command("sql", folder, "select nothing", "-o", link).returncode == 1
    assert (tmp_path / "far" / "answer.csv").read_text() == "old"
    done = command("sql", folder, "select 1 as a", "--format", "csv", "-o", "/dev/stdout")
    assert (done.returncode, done.stdout) == (0, "a\n1\n"), done.stderr
    # Standard output is written where it is, also if it is a file.
    for name in ("-", "/dev/stdout"):
        with open(tmp_path / "all.txt", "w") as output:
            output.write("before\n")
            output.flush()
            for number in (1, 2):
                arguments = ["sql", folder, f"select {number} as a", "--format", "csv", "-o", name]
                subprocess.run([BINARY, *arguments], stdout=output, cwd=tmp_path, check=True)
        assert (tmp_path / "all.txt").read_text() == "before\na\n1\na\n2\n", name
    assert not (tmp_path / "-").exists()
    done = command("shell", folder, text=f"\\mode csv\n\\o {tmp_path}/o.csv\n\\o -\nselect 1 as a;")
    assert (done.returncode, done.stdout) == (0, "a\n1\n"), done.stderr
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)
    assert command("sql", folder, "select 2 as b", "-o", pipe).returncode == 0
    assert reader.communicate(timeout=PATIENCE_SECONDS)[0] == "b\n2\n"
    assert pipe.is_fifo()


def test_a_tables_columns_and_one_that_is_not_there(folder):
    done = command("shell", folder, text="\\d TRADE\n\\d nosuch\n")
    assert "| sym         | symbol    | YES         |" in done.stdout, done.stdout
    assert 'no table "nosuch"; this database has trade' in done.stderr


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


BARS = """
    select time_bucket('10 minutes', time) as bar, first(price) as open, max(price) as high, min(price) as low, last(price) as close, sum(size) as volume
    from bar where sym = 'A' group by bar order by bar
"""


@pytest.fixture
def bars(tmp_path):
    (tmp_path / "bar.csv").write_text(
        "time,sym,price,size\n"
        + "".join(f"2024-03-04T{14 + n // 60}:{n % 60:02}:00Z,{'AB'[n % 2]},{100 + (n * 37) % 11},{n}\n" for n in range(360))
    )
    db = splay.open(tmp_path / "db")
    db.load("bar", tmp_path / "bar.csv", types={"price": "float64"})
    return tmp_path / "db"


def test_answers_are_drawn(bars, tmp_path):
    def drawn(statement, *arguments):
        done = command("sql", bars, statement, "--format", "chart", *arguments)
        assert done.returncode == 0, done.stderr
        # Sentences may be longer than what is drawn.
        assert all(len(line) <= 100 for line in done.stdout.splitlines()), done.stdout
        return done.stdout

    candles = drawn(BARS, "--time-zone", "America/New_York")
    assert "█ up" in candles and "▒ down" in candles and "10:00" in candles and "America/New_York" in candles
    assert candles.endswith("36 rows, volume not drawn\n") and candles.count("\n") == 20
    ascii_only = drawn(BARS, "--ascii")
    assert ascii_only.isascii() and "# up" in ascii_only and "= down" in ascii_only
    lines = drawn("select time, price from bar where sym = 'A'")
    assert "─ price" in lines and any("\u2800" < sign < "\u28ff" for sign in lines)
    both = drawn("select time, sym, price from bar")
    assert "* A" in both and "+ B" in both and "\x1b" not in both
    assert "A │█" in drawn("select sym, sum(size) as volume from bar group by sym order by sym")
    assert drawn("select * from bar where sym = 'Z'") == "0 rows: there is nothing to draw\n"
    assert "not drawn, since no column is a number" in drawn("select time, sym from bar limit 1")
    several = drawn("select time, sym, price as open, price as high, price as low, price as close from bar")
    assert "more than one sym are not drawn" in several
    # A change is told in words, and no file of COPY holds a chart.
    assert "| insert" in drawn("insert into bar (time, sym, price) values ('2024-03-05', 'C', 1)").lower()
    refused = command("sql", bars, "copy (select 1) to 'x.txt' (format chart)", cwd=tmp_path)
    assert refused.returncode == 1 and "file formats" in refused.stderr
    done = command("sql", bars, BARS, "-o", tmp_path / "chart.txt", "--format", "chart")
    assert done.returncode == 0 and "█ up" in (tmp_path / "chart.txt").read_text()


def test_the_shell_draws_the_last_answer(bars):
    done = command("shell", bars, text="\\chart\n")
    assert done.returncode == 1 and "no answer to draw" in done.stderr
    flat = " ".join(BARS.split())
    done = command("shell", bars, text=f"{flat};\n\\chart\n\\d\n\\chart\n\\mode chart\n\\d\n{flat};\n\\chart select 1 as x\n")
    assert done.returncode == 0, done.stderr
    # Lists of tables are tables, and no answers to draw.
    assert done.stdout.count("█ up") == 3 and done.stdout.count("| bar   |") == 2
    assert "─ x" in done.stdout


class Terminal:
    """A shell at a terminal of 100 characters."""

    def __init__(self, *arguments, **variables):
        self.child, self.file = pty.fork()
        if self.child == 0:
            # Under nohup it would be ignored.
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
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
    terminal.type("\r")
    terminal.until("   ...> ")
    terminal.type("where n >= 90;\r")
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
    # The name of a command is completed, and Ctrl-C drops the lines of a statement.
    terminal.type("\\mo\t csv\r")
    terminal.until("mode is csv")
    terminal.until("splay> ")
    terminal.type("select 1\r")
    terminal.until("   ...> ")
    terminal.type("\x03")
    terminal.until("splay> ")
    terminal.type("\\q\r")
    assert terminal.close() == 0
    assert "40 + 2" in history.read_text() and pathlib.Path(history).stat().st_mode & 0o077 == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="terminals differ")
def test_no_statement_is_lost_by_a_kill_or_another_shell(folder, tmp_path):
    history = tmp_path / "history"
    history.write_bytes(b"#V2\nselect '\xff';\n")
    shells = [Terminal("shell", folder, "--history", history, TERM="xterm") for _ in range(3)]
    for number, terminal in enumerate(shells):
        terminal.until("splay> ")
        terminal.type(f"select {number} + 40 as answer;\r")
        terminal.until(f"| {number + 40}     |")
        terminal.until("splay> ")
    killed, hung_up, left = shells
    for terminal, by in ((killed, signal.SIGKILL), (hung_up, signal.SIGHUP)):
        os.kill(terminal.child, by)
        assert terminal.close() == -by
    left.type("\\q\r")
    assert left.close() == 0
    statements = b"".join(b"select %d + 40 as answer;\n" % number for number in range(3))
    assert history.read_bytes() == b"#V2\nselect '\xff';\n" + statements + b"\\\\q\n"
    # The last one is a key away.
    terminal = Terminal("shell", folder, "--history", history, TERM="xterm")
    terminal.until("splay> ")
    terminal.type("\x1b[A\x1b[A\r")
    terminal.until("| 42     |")
    terminal.type("\\q\r")
    assert terminal.close() == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="terminals differ")
def test_a_shell_without_a_place_for_its_history_works(folder):
    before = os.stat("/dev/null").st_mode
    without = [
        (("--history", "/dev/null"), {}, "splay> "),
        (("--history", folder), {}, "is not a regular file"),
        ((), {"XDG_STATE_HOME": "/dev/null/state"}, "this shell has no history: create /dev/null/state/splay"),
    ]
    for arguments, variables, said in without:
        terminal = Terminal("shell", folder, *arguments, TERM="xterm", **variables)
        terminal.until(said)
        terminal.type("select 40 + 2 as answer;\r")
        terminal.until("| 42     |")
        terminal.type("\\q\r")
        assert terminal.close() == 0
    assert os.stat("/dev/null").st_mode == before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="terminals differ")
def test_lines_that_come_in_one_write_are_all_run(folder, tmp_path):
    """Regression: what the editor had read behind the end of a line was lost."""
    terminal = Terminal("shell", folder, "--history", tmp_path / "history", TERM="xterm")
    terminal.until("splay> ")
    terminal.type("select 40 + 2 as answer;\rselect 40 +\r3 as answer;\rselect 40 + 4 as answer;\r")
    for answer in (42, 43, 44):
        terminal.until(f"| {answer}     |")
    terminal.type("\\q\r")
    assert terminal.close() == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="terminals differ")
def test_a_server_that_is_not_there_gets_no_shell(tmp_path):
    terminal = Terminal("shell", "http://127.0.0.1:9", "--history", tmp_path / "history", TERM="xterm")
    assert "\\q leaves" not in terminal.until("http://127.0.0.1:9 doesn't answer")
    assert terminal.close() == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="terminals differ")
def test_a_statement_on_a_server_is_stopped(served, tmp_path):  # noqa: F811, pytest hands it in
    """Regression: Ctrl-C was heard once the server had answered."""
    served.client().write("trade", frame(0, 100))
    terminal = Terminal("shell", f"http://{served.address}", "--history", tmp_path / "history", TERM="xterm")
    terminal.until("splay> ")
    terminal.type("select count(*) from trade a, trade b, trade c, trade d, trade e where a.n + b.n + c.n + d.n + e.n = 1;\r")
    time.sleep(1)
    begun = time.monotonic()
    terminal.type("\x03")
    terminal.until("cancelled")
    assert time.monotonic() - begun < 20
    terminal.until("splay> ")
    terminal.type("select 40 + 2 as answer;\r")
    terminal.until("| 42     |")
    terminal.until("splay> ")
    terminal.type("\\q\r")
    assert terminal.close() == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="terminals differ")
def test_a_chart_fills_the_terminal(bars, tmp_path):
    for variables, is_colored in [({}, True), ({"NO_COLOR": "1"}, False)]:
        terminal = Terminal("shell", bars, "--history", tmp_path / "history", TERM="xterm", **variables)
        terminal.until("splay> ")
        terminal.type("\\mode chart\r")
        terminal.until("splay> ")
        terminal.type(" ".join(BARS.split()) + ";\r")
        chart = terminal.until("volume not drawn").replace("\r", "")
        lines = [line for line in chart.splitlines() if "│" in line or "┤" in line]
        plain = [re.sub("\x1b\\[[0-9;]*m", "", line) for line in lines]
        # 28 lines of which 5 are around the plot.
        assert len(lines) == 23 and all(len(line) <= 100 for line in plain)
        assert ("\x1b[31m" in chart) == is_colored and ("▒" in chart) != is_colored
        terminal.type("\\q\r")
        assert terminal.close() == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="terminals differ")
def test_a_long_statement_tells_how_far_it_is(folder, tmp_path):
    terminal = Terminal("shell", folder, "--history", tmp_path / "history", TERM="xterm")
    terminal.until("splay> ")
    terminal.type("select count(*) from trade a, trade b, trade c, trade d, trade e where a.n + b.n + c.n + d.n + e.n = 1;\r")
    terminal.until("rows read, ")
    terminal.until("of memory")
    terminal.type("\x03")
    # The line is gone before the error comes.
    assert "\x1b[2K" in terminal.until("cancelled")
    terminal.until("splay> ")
    terminal.type("\\q\r")
    assert terminal.close() == 0


def test_nothing_but_a_terminal_hears_of_progress(folder):
    statement = "select count(*) from trade a, trade b, trade c, trade d where a.n + b.n + c.n + d.n >= 0"
    done = command("sql", folder, statement, "--format", "csv")
    assert (done.returncode, done.stdout.splitlines()[1], done.stderr) == (0, "100000000", "")
