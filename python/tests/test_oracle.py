"""Generated statements give what DuckDB gives, and keep rules that hold by themselves.

Where SplayDB differs by intent is in docs/reference/functions.md, "Where SplayDB differs from DuckDB". ``SPLAY_ORACLE_STATEMENTS`` says
how many statements are run, ``SPLAY_ORACLE_SEED`` where they begin, ``SPLAY_ORACLE_ALL=1`` to go on behind faults and list them.
"""

import math
import os
import random

import duckdb
import oracle_rows
import oracle_statements
import pyarrow as pa
import pytest

import splay

STATEMENTS = int(os.environ.get("SPLAY_ORACLE_STATEMENTS", "600"))
SEED = int(os.environ.get("SPLAY_ORACLE_SEED", "1"))
GOES_ON = os.environ.get("SPLAY_ORACLE_ALL") == "1"
SOURCES = ["mapped", "fast", "small", "captured", "mixed"]
TABLES = 3

# What DuckDB refuses to compute and SplayDB gives as IEEE 754 does, or the other way round.
REFUSED_BY_INTENT = (
    "out of range",
    "Out of Range",
    "overflow",
    "Overflow",
    "Conversion Error",
    "out of the range",
    "fit into",
    "the key has no value",
)


class Engines:
    """The rows in each kind of table, and in DuckDB."""

    def __init__(self, folder, seed):
        table = oracle_rows.frame(seed)
        self.rival = oracle_rows.oracle(table)
        self.opened = {}
        for source in SOURCES:
            self.opened[source] = oracle_rows.database(folder / f"{source}-{seed}", table, source)
        # What is kept must be what would be computed: each statement is asked twice.
        self.opened["cached"] = oracle_rows.database(folder / f"cached-{seed}", table, "mapped", cache=16 << 20)

    def close(self):
        for _, capture in self.opened.values():
            if capture is not None:
                capture.close()


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("oracle")
    made = [Engines(folder, SEED * 1000 + number) for number in range(TABLES)]
    yield made
    for one in made:
        one.close()


def cells(table):
    """Rows of plain values: times as microseconds, numbers as they are."""
    columns = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
            kind = column.type
        if pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        elif pa.types.is_date(kind):
            column = column.cast(pa.date32()).cast(pa.int32())
        elif pa.types.is_duration(kind):
            column = column.cast(pa.duration("us")).cast(pa.int64())
        columns.append(column.to_pylist())
    return list(zip(*columns)) if columns else []


def is_same(one, other):
    """Equal: numbers but for the last digits of sums in another order, one zero, one NaN."""
    if one is None or other is None:
        return one is None and other is None
    if isinstance(one, bool) or isinstance(other, bool) or isinstance(one, str):
        return one == other
    if isinstance(one, float) or isinstance(other, float):
        one, other = float(one), float(other)
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return one == other


def sort_key(row):
    def key(value):
        if value is None:
            return (2, 0)
        if isinstance(value, str):
            return (1, value)
        if isinstance(value, float):
            return (0, math.inf, 1) if math.isnan(value) else (0, float(f"{value:.6e}") + 0.0, 0)
        return (0, value, 0)

    return [key(value) for value in row]


def difference(ours, theirs, fixed):
    """What two answers differ in."""
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, not {len(theirs)}"
    if not fixed:
        ours, theirs = sorted(ours, key=sort_key), sorted(theirs, key=sort_key)
    for place, (one, other) in enumerate(zip(ours, theirs)):
        if len(one) != len(other) or not all(map(is_same, one, other)):
            return f"row {place}: {one}, not {other}"
    return None


def asked(run):
    """Rows, or the words in which they are refused."""
    try:
        return cells(run()), None
    except (splay.Error, duckdb.Error) as error:
        return None, str(error)


def compare(engine, text, fixed):
    """What is wrong with the answers of a statement; whether there was anything to compare."""
    theirs, refusal = asked(lambda: engine.rival.execute(text).to_arrow_table())
    for source, (database, _) in engine.opened.items():
        for _ in range(2 if source == "cached" else 1):
            ours, refused = asked(lambda: database.sql(text).to_arrow())
            if refusal is not None and refused is not None:
                continue
            if refusal is not None or refused is not None:
                words = refusal or refused
                if any(word in words for word in REFUSED_BY_INTENT):
                    continue
                return f"{source}: {'DuckDB' if refusal else 'SplayDB'} refuses: {words}", True
            wrong = difference(ours, theirs, fixed)
            if wrong:
                return f"{source}: {wrong}", True
    return None, refusal is None


def run(engines, check, draw, number_of):
    """Checks statements; fails at the first that is wrong, or lists all."""
    wrong, compared = [], 0
    for number in range(number_of):
        rng = random.Random(f"{SEED}/{number}")
        text = draw(rng)
        found, counted = check(engines[number % len(engines)], text)
        compared += counted
        if found:
            wrong.append(f"seed {SEED}, statement {number}: {text}\n    {found}")
            if not GOES_ON:
                break
    print(f"{number_of} statements, {compared} compared, {len(wrong)} wrong")
    assert not wrong, "\n".join(wrong)
    return compared


def test_statements_agree_with_duckdb(engines):
    compared = run(engines, lambda engine, drawn: compare(engine, *drawn), oracle_statements.statement, STATEMENTS)
    assert compared > STATEMENTS * 0.8


def test_a_condition_parts_rows_into_true_false_and_null(engines):
    def check(engine, condition):
        for source, (database, _) in engine.opened.items():
            text = f"select count(*) from t where {condition}"
            parts = [text, f"select count(*) from t where not ({condition})", f"select count(*) from t where ({condition}) is null"]
            try:
                counts = [database.sql(part).to_arrow()[0][0].as_py() for part in parts]
            except splay.Error as error:
                if any(word in str(error) for word in REFUSED_BY_INTENT):
                    continue
                return f"{source}: {error}", True
            if sum(counts) != oracle_rows.ROWS:
                return f"{source}: {counts} rows of {oracle_rows.ROWS}", True
            more = database.sql(f"select count(*) from t where ({condition}) and true and n = n").to_arrow()[0][0].as_py()
            if more != counts[0]:
                return f"{source}: {counts[0]} rows, and {more} if a true condition is added", True
        return None, True

    run(engines, check, oracle_statements.condition, STATEMENTS // 4)


def test_joins_permute(engines):
    def check(engine, drawn):
        key, left, right = drawn
        a, b = f"(select * from t where {left}) a", f"(select * from t where {right}) b"
        for source, (database, _) in engine.opened.items():
            one, refused = asked(lambda: database.sql(f"select a.n x, b.n y from {a} join {b} on a.{key} = b.{key}").to_arrow())
            other, _ = asked(lambda: database.sql(f"select a.n x, b.n y from {b} join {a} on b.{key} = a.{key}").to_arrow())
            wrong = None if refused else difference(one, other, False)
            if wrong:
                return f"{source}: {wrong}", True
        return None, True

    def draw(rng):
        key = rng.choice(["sym", "venue", "d", "odd", "i8", "u64", "flag", "dec"])
        return key, oracle_statements.condition(rng, 1), oracle_statements.condition(rng, 1)

    run(engines, check, draw, STATEMENTS // 10)


def test_wider_types_change_nothing(engines):
    wider = dict.fromkeys(oracle_rows.INTEGERS, "decimal(38, 0)") | {"f32": "double", "dec": "decimal(38, 3)", "d": "timestamp", "sym": "varchar"}

    def check(engine, drawn):
        column, compare_by, value = drawn
        if column in ("sym", "d") or column in oracle_rows.INTEGERS or column in ("f32", "dec"):
            for source, (database, _) in engine.opened.items():
                texts = [f"select n from t where {side} {compare_by} {value}" for side in (column, f"cast({column} as {wider[column]})")]
                (one, refused), (other, refused_too) = [asked(lambda text=text: database.sql(text).to_arrow()) for text in texts]
                if refused or refused_too:
                    return f"{source}: {refused or refused_too}", True
                wrong = difference(one, other, False)
                if wrong:
                    return f"{source}: {wrong}", True
        return None, True

    def draw(rng):
        column = rng.choice(list(wider))
        return column, rng.choice(oracle_statements.COMPARE), oracle_statements.literal(rng, column)

    run(engines, check, draw, STATEMENTS // 10)
