"""All figures of capture, one after the other."""

import contextlib
import pathlib
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from . import keeping, latency, latest, rates, sustained
from .figures import Figure, milliseconds, millions
from .lines import CONNECTIONS, one_by_one, requests
from .servers import QuestDB, Splay

FULL_ROLL_ROWS = 20_000_000


@dataclass(frozen=True)
class Options:
    """What is measured."""

    splay: pathlib.Path
    """The command."""
    rows: int = 4_000_000
    """Rows of each round by line protocol; Flight has 5 M at least where these are a million or more."""
    rounds: int = 3
    single_rows: int = 400_000
    """Rows that are sent one a message; a tenth of them as requests with an answer each."""
    live_rows: int = 16_000_000
    """Rows in memory of the longest table whose latest rows are asked for."""
    roll_rows: int = 2_000_000
    """Rows of the roll, and of the table whose memory is measured."""
    producers: int = 2
    seconds: float = 5
    """Length of the runs at a fixed rate."""
    sustained_seconds: float = 60
    """How long lines are sent without a pause, in order of time and not."""
    downloads: pathlib.Path | None = None
    """Where QuestDB's jar is kept; without it QuestDB is left out."""

    @property
    def answered_rows(self) -> int:
        return max(1, self.single_rows // 10)

    @property
    def flight_rows(self) -> int:
        return max(self.rows, 5_000_000) if self.rows >= 1_000_000 else self.rows


@dataclass(frozen=True)
class Rival:
    """Rates of QuestDB."""

    lines: str = ""
    single_lines: str = ""
    in_order: str = ""
    out_of_order: str = ""


def figures(options: Options, folder: pathlib.Path) -> Iterator[Figure]:
    """Measures in the order in which it gives them; ``folder`` is where databases are made.

    Raises
    ------
    RuntimeError
        If a row is missing, or a server doesn't start.
    """
    rival = questdb(options, folder)
    server = Splay(str(options.splay), folder / "splay")
    server.start()
    try:
        yield from coming_in(options, server, rival)
        yield from seen(options, server, folder)
        yield recovered(options, server)
    finally:
        server.kill()
    yield from minutes(options, folder, rival)
    yield from undisturbed(options, folder)
    yield from beside(options, folder)
    yield from newest(options, folder)
    yield from kept(options, folder)


def line_rates(options: Options, server) -> str:
    found = [
        rates.by_lines(server, f"trades{number}", options.rows, options.producers) for number in range(options.rounds)
    ]
    return millions(statistics.median(found))


def single_line_rate(options: Options, server) -> str:
    return millions(rates.by_lines(server, "single_lines", options.single_rows, options.producers, one_by_one))


def questdb(options: Options, folder: pathlib.Path) -> Rival:
    """QuestDB's rates, by its jar with its defaults. It is up alone."""
    if options.downloads is None:
        return Rival()
    server = QuestDB(folder / "questdb", QuestDB.fetch(options.downloads))
    server.start()
    try:
        return Rival(
            line_rates(options, server), single_line_rate(options, server), *sustained_rates(options, server)
        )
    finally:
        server.stop()


def sustained_rates(options: Options, server) -> list[str]:
    """In order of time by one producer, and by several whose times interleave."""
    found = [("in_order", 1), ("out_of_order", max(2, options.producers))]
    return [sustained.measure(server, table, count, options.sustained_seconds).words() for table, count in found]


def minutes(options: Options, folder: pathlib.Path, rival: Rival) -> Iterator[Figure]:
    """Rows a second over a long time, in a server of its own."""
    with started(options, folder / "sustained") as server:
        in_order, out_of_order = sustained_rates(options, server)
    what = f"line protocol over TCP for {options.sustained_seconds:g} s"
    yield Figure(f"{what}, one sender, in order of time", in_order, "", rival.in_order)
    senders = max(2, options.producers)
    yield Figure(f"{what}, {senders} senders, whose times interleave", out_of_order, "", rival.out_of_order)


def coming_in(options: Options, server: Splay, rival: Rival) -> Iterator[Figure]:
    """Rows a second by each way in."""
    yield Figure(
        f"line protocol over TCP, {options.producers} senders", line_rates(options, server), "1 M rows/s", rival.lines
    )
    rate = rates.by_flight(server, options.flight_rows)
    yield Figure("Flight, batches of 50,000, acknowledged as `process`", millions(rate), "5 M rows/s")
    yield Figure(
        f"line protocol over TCP, one row a message, {options.producers} senders",
        single_line_rate(options, server),
        "",
        rival.single_lines,
    )
    rate = rates.single_rows_by_flight(server, options.answered_rows)
    yield Figure(f"Flight, one row a batch, `process`, {rates.UNDER_WAY} under way", f"{rate:,.0f} rows/s")
    rate = rates.by_lines(
        server, "single_requests", options.answered_rows, options.producers, requests, address=server.http
    )
    under_way = CONNECTIONS * options.producers
    yield Figure(f"HTTP, one row a request, `process`, {under_way} under way", f"{rate:,.0f} rows/s")


def seen(options: Options, server: Splay, folder: pathlib.Path) -> Iterator[Figure]:
    """How soon rows are seen, and what queries take."""
    disk = latency.sync(folder, 500)
    yield Figure("write and `fdatasync` of 4 KiB by this machine", milliseconds(disk))
    wanted = {"process": "P99 1 ms", "disk": f"P99 {max(10.0, 3 * disk[1]):.0f} ms"}
    for ack in wanted:
        found = latency.visible(server, ack, options.seconds)
        yield Figure(f"50 rows sent by HTTP until visible, `{ack}`", found.words(), wanted[ack])
    found = latency.visible_from_python(server, "process", options.seconds)
    yield Figure("the same from a frame in Python, `process`", found.words(), wanted["process"])
    idle, busy = queries(options, server)
    yield Figure("a symbol's last 60 seconds by second, idle", idle)
    yield Figure("the same while 200,000 rows/s come in", busy, "2 times")


def queries(options: Options, server: Splay) -> tuple[str, str]:
    """What queries take while nothing comes in, and while rows do."""
    idle, busy = latency.query_idle_and_busy(server, options.rows // 4, options.seconds)
    return milliseconds(idle), f"{milliseconds(busy)}, {busy[1] / idle[1]:.1f} times at P99"


def undisturbed(options: Options, folder: pathlib.Path) -> Iterator[Figure]:
    """How soon rows are seen, and what queries take, in servers of their own that have no other rows to bring to the disk."""
    alone = "in a server of its own"
    with started(options, folder / "seen_alone") as server:
        found = latency.visible(server, "process", options.seconds)
        yield Figure(f"50 rows sent by HTTP until visible, `process`, {alone}", found.words(), "P99 1 ms")
    with started(options, folder / "seen_from_python") as server:
        found = latency.visible_from_python(server, "process", options.seconds)
        yield Figure(f"the same from a frame in Python, `process`, {alone}", found.words(), "P99 1 ms")
    with started(options, folder / "queried_alone") as server:
        idle, busy = queries(options, server)
        yield Figure(f"a symbol's last 60 seconds by second, {alone}", f"idle {idle}; {busy}", "2 times")


def beside(options: Options, folder: pathlib.Path) -> Iterator[Figure]:
    """How soon rows are on disk while statements take all processors."""
    with started(options, folder / "beside") as server:
        clients = 4
        idle, busy, rate = latency.beside_statements(server, options.rows // 4, clients, 4 * options.seconds)
        what = f"50 rows every {latency.PAUSE * 1000:.0f} ms by HTTP until on disk, beside {clients} clients with heavy statements"
        said = f"{milliseconds(busy)}, idle {milliseconds(idle)}: {busy[1] / idle[1]:.1f} times at P99; {rate:.1f} statements/s"
        yield Figure(what, said, "2 times")


def newest(options: Options, folder: pathlib.Path) -> Iterator[Figure]:
    """What the latest rows cost in a table of ever more live rows."""
    lengths = latest.latest(str(options.splay), folder / "latest", options.live_rows, options.seconds)
    for rows, one, everyone in lengths:
        what = f"latest row of {latest.SYMBOLS:,} symbols, {rows / 1e6:.2f} M live rows"
        yield Figure(what, f"one {milliseconds(one)}; all {milliseconds(everyone)}", "constant")


@contextlib.contextmanager
def started(options: Options, folder: pathlib.Path) -> Iterator[Splay]:
    """A server that runs meanwhile."""
    server = Splay(str(options.splay), folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def recovered(options: Options, server: Splay) -> Figure:
    """The start after a crash, with all rows there."""
    tables = [f"trades{number}" for number in range(options.rounds)]
    before = [server.count(table) for table in tables]
    seconds, journal = keeping.recovery(server)
    if before != [server.count(table) for table in tables]:
        raise RuntimeError("rows were lost")
    size = f"{seconds:.2f} s for {journal / 1e9:.2f} GB of journal, {seconds / (journal / 1e9):.1f} s a GB"
    return Figure("start after `kill -9`", size, "5 s a GB")


def kept(options: Options, folder: pathlib.Path) -> Iterator[Figure]:
    """What live rows cost."""
    taken = keeping.memory(str(options.splay), folder / "memory", options.roll_rows)
    words = f"{taken:.0f} MB a million rows of time, symbol, price and size"
    yield Figure("memory of the real-time table", words)
    seconds, size = keeping.roll(folder / "roll", options.roll_rows)
    said = f"{seconds:.2f} s, {millions(options.roll_rows / seconds)}, {size / 1e6:.0f} MB of files"
    yield Figure(f"roll of {options.roll_rows / 1e6:g} M rows", said)
