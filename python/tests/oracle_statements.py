"""Statements by a grammar, in words that SplayDB and DuckDB read alike, each with a total order where it can have one."""

import random

from oracle_rows import INTEGERS

WHOLE = list(INTEGERS)
FLOATING = ["px", "odd", "wild", "f32"]
TEXTS = ["sym", "venue", "note"]
TIMES = ["ts", "seen"]
COLUMNS = [*WHOLE, *FLOATING, *TEXTS, *TIMES, "dec", "d", "flag", "n"]
COMPARE = ["=", "<>", "<", "<=", ">", ">="]
ROUNDED = {"entropy": 6, "skewness": 9, "kurtosis": 9, "kurtosis_pop": 9}
"""Digits of aggregates that differ in the last ones, so that rows in their order differ, too."""


def literal(rng: random.Random, column: str) -> str:
    """A constant that the column is compared with."""
    if column in WHOLE or column == "n":
        return str(rng.choice([0, 1, 7, 100, -5, 127, 255, 32767, 9223372036854775807]))
    if column in FLOATING:
        return rng.choice(["0", "0.5", "-3.75", "2.25", "100", "cast('NaN' as double)", "cast('inf' as double)", "1e300"])
    if column in TEXTS:
        return rng.choice(["'IBM'", "'Q'", "''", "'n'", "'b7%_'", "'é'"])
    if column in TIMES:
        hour = rng.randint(0, 23)
        return f"timestamp '{rng.choice(['1969-12-30', '1969-12-31', '1970-01-03'])} {hour:02}:00:00'"
    return {
        "dec": lambda: rng.choice(["0", "12.345", "-50.5", "7"]),
        "d": lambda: rng.choice(["date '1970-01-02'", "date '1969-12-31'"]),
        "flag": lambda: rng.choice(["true", "false"]),
    }[column]()


def condition(rng: random.Random, depth: int = 0, of: str = "") -> str:
    """A condition on columns, which ``of`` qualifies."""
    column = rng.choice(COLUMNS)
    name = of + column
    if depth < 2 and rng.random() < 0.35:
        left, right = condition(rng, depth + 1, of), condition(rng, depth + 1, of)
        return rng.choice([f"({left} and {right})", f"({left} or {right})", f"not ({left})"])
    like = rng.choice(["'%M'", "'a%'", "'_'", "'%7%'", "'b_%'", "''"])
    same = [other for group in (WHOLE, FLOATING, TEXTS, TIMES) if column in group for other in group]
    choices = [
        f"{name} {rng.choice(COMPARE)} {literal(rng, column)}",
        f"{literal(rng, column)} {rng.choice(COMPARE)} {name}",
        f"{name} in ({literal(rng, column)}, {literal(rng, column)}, {literal(rng, column)})",
        f"{name} not in ({literal(rng, column)}, {literal(rng, column)})",
        f"{name} between {literal(rng, column)} and {literal(rng, column)}",
        f"{name} is {rng.choice(['', 'not '])}null",
        f"{name} is {rng.choice(['', 'not '])}distinct from {literal(rng, column)}",
        f"coalesce({name}, {literal(rng, column)}) {rng.choice(COMPARE)} {literal(rng, column)}",
        f"case when {of}flag then {name} end {rng.choice(COMPARE)} {literal(rng, column)}",
    ]
    if same:
        choices.append(f"{name} {rng.choice(COMPARE)} {of}{rng.choice(same)}")
        choices.append(f"{name} is not distinct from {of}{rng.choice(same)}")
    if column in TEXTS:
        choices += [f"{name} {rng.choice(['', 'not '])}like {like}", f"length({name}) > 2", f"upper({name}) = 'N'"] * 2
    return rng.choice(choices)


def scalar(rng: random.Random) -> str:
    """A value of a row."""
    return rng.choice(
        [
            rng.choice(COLUMNS),
            "px * 2 + 1",
            "-px",
            "abs(px)",
            "n + 3",
            "n * n - n",
            "cast(i32 as bigint) + 1",
            "cast(u16 as bigint) * 2",
            "coalesce(px, 0)",
            "nullif(odd, 0)",
            "case when flag then sym else venue end",
            "upper(note)",
            "ts - seen > interval '1 day'",
            "d + interval '1 day' > ts",
            "cast(flag as int)",
            "dec + 1",
            "dec * 2",
            "greatest(px, 0)",
            "n % 7",
            "odd = odd",
            f"{rng.choice(['hour', 'minute', 'dayofweek', 'week', 'epoch_us'])}(ts)",
            f"({condition(rng, 1)})",
        ]
    )


def aggregate(rng: random.Random) -> str:
    """A value of a group, whatever the order of its rows."""
    column = rng.choice(COLUMNS)
    ordered = rng.choice([*WHOLE, *FLOATING, *TEXTS, *TIMES, "d", "dec"])
    call = rng.choice(
        [
            "count(*)",
            f"count({column})",
            f"count(distinct {column})",
            f"min({ordered})",
            f"max({ordered})",
            "sum(px)",
            "sum(odd)",
            "sum(n)",
            f"sum(cast({rng.choice(['i8', 'i16', 'i32', 'u8', 'u16', 'u32'])} as bigint))",
            "sum(dec)",
            "avg(px)",
            "avg(odd)",
            "avg(cast(i16 as double))",
            "bool_and(flag)",
            "bool_or(flag)",
            "median(px)",
            "stddev(px)",
            "var_pop(px)",
            "quantile_cont(px, 0.25)",
            f"quantile_disc({rng.choice(['px', 'n', 'd', 'i8'])}, {rng.choice([0, 0.3, 0.5, 1])})",
            "mad(px)",
            f"arg_max({column}, n)",
            f"arg_min({column}, n)",
            "bit_and(i32)",
            "bit_xor(i32)",
            f"entropy({rng.choice(['i8', 'venue', 'flag', 'd'])})",
            f"{rng.choice(['skewness', 'kurtosis', 'kurtosis_pop'])}(px)",
        ]
    )
    measure = call.split("(")[0]
    if rng.random() < 0.2:
        call = f"{call} filter (where {condition(rng, 1)})"
    return f"round({call}, {ROUNDED[measure]})" if measure in ROUNDED else call


def frame(rng: random.Random) -> str:
    """A frame of a window that is ordered by ``n``, or by ``ts``, ``n``."""
    bound = ["unbounded preceding", f"{rng.randint(0, 5)} preceding", "current row", f"{rng.randint(0, 5)} following"]
    start = rng.randint(0, 3)
    end = rng.choice([*bound[max(start, 1) :], "unbounded following"])
    text = f"{rng.choice(['rows', 'rows', 'groups'])} between {bound[start]} and {end}"
    return text + rng.choice(["", "", " exclude current row", " exclude group", " exclude ties", " exclude no others"])


def window(rng: random.Random) -> str:
    """A value of the rows around a row."""
    key = rng.choice(["", "partition by sym ", "partition by venue ", "partition by flag ", "partition by odd "])
    order = rng.choice(["order by n", "order by n desc", "order by ts, n"])
    column = rng.choice(COLUMNS)
    by_row = rng.choice(
        ["row_number()", f"lag({column})", f"lead({column}, 2)", "rank()", "dense_rank()", "ntile(3)", "percent_rank()", "cume_dist()", f"lag({column}, i8)", f"lead({column}, cast(u8 as bigint))"]
    )
    by_frame = rng.choice(
        [
            f"count({column})",
            "sum(px)",
            "sum(odd)",
            "sum(n)",
            "avg(px)",
            f"min({rng.choice([*FLOATING, *WHOLE, *TIMES])})",
            f"max({rng.choice([*FLOATING, *WHOLE, *TIMES])})",
            f"first_value({column})",
            f"last_value({column})",
            f"count(distinct {column})",
            "sum(distinct n)",
            "sum(px) filter (where flag)",
            "median(px)",
            f"quantile_disc({rng.choice(['n', 'px', 'd'])}, 0.5)",
        ]
    )
    if rng.random() < 0.1:
        return f"round(fill({rng.choice(['px', 'odd'])}) over ({key}order by n{rng.choice(['', ' desc'])}), 6)"
    if rng.random() < 0.3:
        return f"{by_row} over ({key}{rng.choice([order, 'order by d, n', 'order by n'])})"
    if rng.random() < 0.3:
        # With peers, and the whole of them in the frame.
        return f"{by_frame.replace('first_value', 'min').replace('last_value', 'max')} over ({key}order by {rng.choice(['d', 'odd', 'sym', 'ts', 'i8'])})" if not by_frame.startswith(("first", "last")) else f"count(*) over ({key}order by d)"
    return f"{by_frame} over ({key}{order} {frame(rng)})"


def query(rng: random.Random) -> str:
    """A condition on the rows of ``o`` by what a query says of all rows, or of those of equal key."""
    of = rng.choice([*WHOLE[:6], "px", "dec", "d", "ts", "n", "venue"])
    key = rng.choice(["", "sym", "venue", "d", "i8", "flag", "odd", "u32"])
    inner = f"select {rng.choice(['max', 'min'])}(i.{of}) from t i where {condition(rng, 1, 'i.')}{f' and i.{key} = o.{key}' if key else ''}"
    counted = f"select count(*) from t i where {condition(rng, 1, 'i.')}{f' and i.{key} = o.{key}' if key else ''}"
    any_row = f"select 1 from t i where {condition(rng, 1, 'i.')}{f' and i.{key} = o.{key}' if key else ''}"
    return rng.choice(
        [
            f"o.{of} {rng.choice(COMPARE)} ({inner})",
            f"({inner}) is {rng.choice(['', 'not '])}null",
            f"({counted}) {rng.choice(COMPARE)} {rng.randint(0, 30)}",
            f"{rng.choice(['', 'not '])}exists ({any_row})",
        ]
    )


def ordered(rng: random.Random, names: list[str]) -> str:
    """An order by all columns."""
    keys = [f"{name} {rng.choice(['asc', 'desc'])} nulls {rng.choice(['first', 'last'])}" for name in names]
    rng.shuffle(keys)
    return f" order by {', '.join(keys)}"


def statement(rng: random.Random) -> tuple[str, bool]:
    """A statement, and whether it fixes the order of its rows."""
    where = f" where {condition(rng)}" if rng.random() < 0.7 else ""
    form = rng.choice(["rows", "rows", "groups", "groups", "windows", "windows", "distinct", "join", "asof", "asof floats", "pivot", "unpivot", "in", "query", "union", "qualify", "having"])
    if form == "groups" or form == "having":
        keys = rng.sample([*COLUMNS[:-1], "date_trunc('hour', ts)", "time_bucket(interval '1 day', ts)", "n % 3"], rng.randint(0, 2))
        columns = keys + [aggregate(rng) for _ in range(rng.randint(1, 3))]
        text = ", ".join(f"{column} c{place}" for place, column in enumerate(columns))
        text = f"select {text} from t{where}"
        if keys:
            text += f" group by {', '.join(keys)}"
        if form == "having" and keys:
            text += f" having count(*) > {rng.randint(0, 4)}"
    elif form == "windows":
        columns = ["n"] + [window(rng) for _ in range(rng.randint(1, 2))]
        text = f"select {', '.join(f'{column} c{place}' for place, column in enumerate(columns))} from t{where}"
    elif form == "qualify":
        columns = ["n", rng.choice(COLUMNS)]
        by = rng.choice(["sym", "venue", "flag", "d"])
        text = f"select n c0, {columns[1]} c1 from t{where} qualify row_number() over (partition by {by} order by n desc) <= {rng.randint(1, 3)}"
    elif form == "distinct":
        columns = rng.sample(COLUMNS, rng.randint(1, 2))
        text = f"select distinct {', '.join(f'{column} c{place}' for place, column in enumerate(columns))} from t{where}"
    elif form == "join":
        key = rng.choice(["sym", "venue", "i8", "odd", "d", "flag", "ts"])
        kind = rng.choice(["join", "left join", "full join", "right join"])
        columns = ["a.n", "b.n", f"a.{rng.choice(COLUMNS)}"]
        narrow = f"(select * from t where n < 40 and {condition(rng, 1)})"
        text = f"select {', '.join(f'{column} c{place}' for place, column in enumerate(columns))} from {narrow} a {kind} (select * from t where n > 180) b on a.{key} = b.{key}"
    elif form == "asof":
        columns = ["a.n", "b.seen", "b.n"]
        text = f"select a.n c0, b.n c1 from (select * from t{where}) a asof {rng.choice(['', 'left '])}join (select * from t where {condition(rng, 1)} qualify row_number() over (partition by sym, ts order by n) = 1) b on a.sym = b.sym and a.ts {rng.choice(['>=', '>', '<=', '<'])} b.ts"
        columns = ["a.n", "b.n"]
    elif form == "asof floats":
        left, right = rng.choice(FLOATING), rng.choice(FLOATING)
        text = f"select a.n c0, b.n c1 from (select * from t{where}) a asof {rng.choice(['', 'left '])}join (select * from t where {condition(rng, 1)} qualify row_number() over (partition by venue, {right} order by n) = 1) b on a.venue = b.venue and a.{left} {rng.choice(['>=', '>', '<=', '<'])} b.{right}"
        columns = ["a.n", "b.n"]
    elif form == "pivot":
        # Names are the same whatever their case, so that no text is the key.
        listed = rng.choice(["", "", " in (true, false)"])
        by = rng.choice([" group by sym", " group by sym, venue", ""])
        call = rng.choice(["sum(n)", "max(n)", "count(*)", "min(n) as low, max(n) as high"])
        return f"pivot (select sym, venue, flag, n from t{where}) on flag{listed} using {call}{by}", False
    elif form == "unpivot":
        nulls = rng.choice(["", " include nulls"])
        text = f"select n c0, k c1, v c2 from (select n, {rng.choice(['px, odd', 'i8, i32', 'sym, venue'])} from t{where})"
        one, other = text.split("select n, ")[1].split(" from ")[0].split(", ")
        text += f" unpivot{nulls} (v for k in ({one}, {other} as 'other'))"
        columns = ["n", "k", "v"]
    elif form == "in":
        column = rng.choice([*WHOLE, "px", "sym", "d", "n", "ts"])
        inner = f"select {column} from t where {condition(rng, 1)}{f' and {column} is not null' if rng.random() < 0.5 else ''}"
        text = f"select n c0 from t where {column} {rng.choice(['', 'not '])}in ({inner})"
        columns = ["n"]
    elif form == "query":
        columns = ["n", rng.choice(COLUMNS)]
        text = f"select n c0, {columns[1]} c1 from t o where {query(rng)}{f' and {condition(rng, 1)}' if rng.random() < 0.5 else ''}"
    elif form == "union":
        column = rng.choice(COLUMNS)
        operator = rng.choice(["union", "union all", "intersect", "except"])
        text = f"select {column} c0 from t where {condition(rng, 1)} {operator} select {column} from t where {condition(rng, 1)}"
        columns = [column]
    else:
        columns = ["n"] + [scalar(rng) for _ in range(rng.randint(1, 3))]
        text = f"select {', '.join(f'{column} c{place}' for place, column in enumerate(columns))} from t{where}"
    fixed = rng.random() < 0.6
    if fixed:
        text += ordered(rng, [f"c{place}" for place in range(len(columns))])
        if rng.random() < 0.4:
            text += f" limit {rng.randint(0, 9)}" + (f" offset {rng.randint(0, 3)}" if rng.random() < 0.3 else "")
    return text, fixed
