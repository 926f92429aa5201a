"""How numbers are written, and the rules that both forms of the report print."""

from engine.report import milliseconds

from ..quiet import QUIET_CORES, STEADY
from .finance import CLAIM_ROUNDS, LEVEL, PREPARED_ROWS_MAX, TIMES

QUERY_WORDS = {
    "T-V1": "volume by symbol, side, minute; a day",
    "T-V2": "volume by symbol, side, day; a month",
    "T-VWAP": "VWAP of one symbol by minute; a day",
    "O-T": "best bid and offer at an instant",
    "O-B1": "highest bid by symbol; a week",
    "O-B2": "highest bid by symbol; a month",
    "O-S": "spread of every book; a day",
    "O-V1": "depth of 1 level by minute; a week",
    "O-V2": "depth of 5 levels by hour; a month",
    "O-NBBO": "best bid and offer over 5 exchanges; a day",
    "C-R": "5-minute mid returns; a day",
    "C-VT": "hourly volatility of trades; a day",
    "C-VO1": "hourly volatility of mids; a day",
    "C-VO2": "4-hour volatility of mids; a week",
}


LEFT_OUT = (
    f"over PostgreSQL's wire the client's Python puts more than {PREPARED_ROWS_MAX:,} rows into columns one by one, which is not the server's time"
)


def mebibytes(value: float | None) -> str:
    return "" if value is None else f"{value / 2**20:,.1f}" if value < 100 * 2**20 else f"{value / 2**20:,.0f}"


def against(value: float, rival: str) -> str:
    """A rival's value over SplayDB's, as words."""
    if 1 / LEVEL < value < LEVEL:
        return f"level with {rival}"
    far, way = (value, "faster") if value >= 1 else (1 / value, "slower")
    return f"{far:.2g} times {way} than {rival}" if far < 10 else f"{far:.0f} times {way} than {rival}"


def lead(one) -> str:
    """What a ``FinanceSet`` comes to, in a few sentences: where SplayDB is first, level or behind, and whose answers differ."""
    text = ""
    for servers, who in ((False, "In process SplayDB"), (True, "As a server SplayDB")):
        said = []
        for field, words in (("warm", "warm"), ("dropped", "with the page cache dropped"), ("cold", "at a cold start")):
            queries = [query for query in one.queries if one.factor(query, field, servers)]
            if not queries:
                continue
            if any(rounds(one.one(one.ours(servers), query), field) < CLAIM_ROUNDS for query in queries):
                said.append(f"nothing is claimed {words}, of fewer than {CLAIM_ROUNDS} runs")
                continue
            factors = [one.factor(query, field, servers)[1] for query in queries]
            first, level = sum(factor >= LEVEL for factor in factors), sum(1 / LEVEL < factor < LEVEL for factor in factors)
            said.append(f"first in {first} of {len(factors)} queries {words}, level in {level}")
        text += f"{who} against the fastest rival: {'; '.join(said)}. " if said else ""
    wrong = sum(cell.state in ("wrong", "error") for cells in one.cells.values() for cell in cells.values())
    asked = sum(map(len, one.cells.values()))
    return text + f"{asked - wrong} of {asked} answers of {len(one.ran)} engines agree with the reference."


def rounds(cell, field: str) -> int:
    """How many runs a time is the median of."""
    return {"cold": cell.cold_rounds, "dropped": cell.dropped_rounds}.get(field, cell.rounds)


def size(one, engine: str) -> str:
    """An engine's bytes on disk, as a share of the same rows as CSV."""
    share = one.size_share(engine)
    return "in memory" if one.about(engine).get("stores") == "memory" else "" if share is None else f"{share:.0%}"


def agreement(one) -> str:
    """How far the two runs of a ``FinanceSet`` agree, and whether the machine was quiet; empty where nothing ran twice."""
    agree, all_, far = one.agreement()
    if not all_:
        return ""
    said = f"Two runs' medians agree within 15 % in {agree} of {all_} cells ({agree / all_:.0%})."
    others = one.others_cores()
    if others is not None:
        middle, most = others
        quiet = most <= QUIET_CORES
        said += f" Meanwhile other programs kept {middle:.2f} cores busy in the middle and {most:.2f} at most"
        taken = one.yardstick_ms()
        if taken:
            low, high = taken[len(taken) // 20], taken[-1 - len(taken) // 20]
            quiet = quiet and high <= low * STEADY
            said += f", and a fixed piece of work on all cores took from {low:.1f} to {high:.1f} ms (5th to 95th percentile)"
        said += ": the machine was " + ("quiet." if quiet else "not quiet, and where the two runs differ this may be why.")
    return said + (f" Furthest apart: {', '.join(far)}." if far else "")


def rules(run: dict) -> list[str]:
    """The run rules, with their numbers."""
    given = run.get("rules", {})
    cold = (
        f"not run: {run['cold_refused']}"
        if run.get("cold_refused")
        else f"median of {given.get('cold_rounds')} runs, of fewer than {CLAIM_ROUNDS} nothing is claimed. Page cache dropped: in one "
        "process that has asked before, and opened its tables anew before the cache was dropped; servers have no such figure. Cold "
        "start: each in a fresh process (servers are restarted) after the page cache was dropped; what the engine's program "
        "consists of stays in it, its data doesn't; the time has what an engine does once after its start. Engines in memory have none"
    )
    return [
        "Answers first: each engine's answer is compared with the reference (DuckDB over tables in memory): columns, rows, order "
        "of rows where the query has one, keys exactly, values within 1e-9 relative or 1e-13 absolute. A wrong answer has no time.",
        f"Warm: median of {given.get('rounds')} runs, in {given.get('passes')} passes over all queries, each pass after runs off the "
        f"clock; of more, up to {given.get('rounds_max')}, where all take less than {given.get('short_seconds')} s; no fewer than "
        f"{given.get('rounds_min')} where a query takes long ({given.get('seconds')} s in all). In a pass all engines take turns, each "
        "in a process of its own; every other pass goes through them backwards. All of it is measured twice, and the two runs take "
        "turns as well: what slows the machine for minutes is in all figures alike.",
        "A known text was asked before; a prepared statement was prepared off the clock and gets its values; a text never seen has "
        "another name for its table each time, so that no kept plan fits. Engines without prepared statements, and those asked by "
        "calls of a library, have no such figures. At one question every 50 ms the process waits between questions, as people and "
        "dashboards do.",
        f"Level is what differs by less than {LEVEL - 1:.0%}. Engines in process are set beside SplayDB in process, servers beside "
        "`splay serve` over HTTP, and where they are prepared over PostgreSQL's wire; the other wires stand beside them.",
        f"Cold: {cold}.",
        "Time is the client's: from sending the statement to holding the whole answer as columns. Engine-side time is what the "
        "engine says itself, where it does.",
        "Memory is the resident set of all processes of an engine at its peak, less what it was when the query began; mapped "
        "files count as far as they were touched. It is that of the first run, in a process that answers all queries one after the other: "
        "what one has touched isn't counted again for the next.",
        f"One engine is up at a time, in a process of its own, with {given.get('threads')} threads.",
        "Clients are threads of one Python process, each with its own connection or cursor, which ask all queries in turn for "
        f"{given.get('client_seconds')} s and to the end of the round; Python's lock is shared by all of them.",
        "W: the write day's CSV files, in the page cache, into empty tables of the same design, until synced; totals are "
        "compared. SE: bytes on disk of the main tables over bytes of the same rows as CSV.",
    ]


def commit(run: dict) -> str:
    """The commit; ``+`` behind it is said in words."""
    name = str(run.get("commit"))
    return f"{name.removesuffix('+')} with changes that belong to no commit" if name.endswith("+") else name


def rule_facts(run: dict) -> str:
    """Machine, commit, data and command, as one paragraph."""
    rows = ", ".join(f"{count:,} {table}" for table, count in run.get("rows", {}).items())
    facts = [
        f"{run.get('date', '')}",
        f"{run.get('cores')} cores of {run.get('processor')}",
        f"{run.get('memory_gib')} GiB",
        run.get("system", ""),
        f"load average at the start {run.get('load_average', ['?'])[0]}",
        f"commit {commit(run)}",
        rows,
    ]
    return "; ".join(fact for fact in facts if fact) + "."


__all__ = ["QUERY_WORDS", "TIMES", "agreement", "lead", "mebibytes", "milliseconds", "rule_facts", "rules"]
