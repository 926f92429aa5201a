"""Moving functions, gap fills and pivots give what DuckDB gives by window frames, joins with series and filters."""

import random

import duckdb
import pyarrow as pa
import pytest

import splay
from test_differential import is_close, rows_of

ROWS = 3_000
OPENING = 1_570_455_000_000_000_000


def ticks(seed):
    """Ticks of four symbols with stretches of silence, nulls and ties; `n` numbers them."""
    rng = random.Random(seed)
    time, rows = OPENING, []
    for number in range(ROWS):
        time += rng.choice([0, 1_000, 400_000_000, 5_000_000_000, 900_000_000_000 if rng.random() < 0.01 else 0])
        price = rng.choice([None, rng.randint(-1_000, 100_000) / 100, 1e9 + rng.random()])
        rows.append((time, rng.choice(["A", "B", "C", None]), price, rng.choice([None, rng.randint(0, 900)]), number))
    time, sym, price, size, number = map(list, zip(*rows))
    return pa.table(
        {
            "ts": pa.array(time, pa.timestamp("ns", "UTC")),
            "sym": pa.array(sym).dictionary_encode(),
            "price": pa.array(price, pa.float64()),
            "size": pa.array(size, pa.int64()),
            "n": pa.array(number, pa.int64()),
        }
    )


@pytest.fixture(scope="module", params=[1, 2])
def engines(request, tmp_path_factory):
    table = ticks(request.param)
    database = splay.open(tmp_path_factory.mktemp("windows") / "db", threads=2)
    database.write("tick", table, time="ts", symbol="sym")
    rival = duckdb.connect()
    rival.register("source", table.cast(table.schema.set(0, pa.field("ts", pa.timestamp("ns")))))
    rival.execute("create table tick as select ts, sym::varchar as sym, price, size, n from source")
    return database, rival


def agree(engines, ours, theirs):
    database, rival = engines
    left, right = rows_of(database.sql(ours).to_arrow()), rows_of(rival.execute(theirs).to_arrow_table())
    assert len(left) == len(right) > 0
    for one, other in zip(left, right):
        assert all(map(is_close, one, other)), f"{one}\n{other}\n{ours}"


@pytest.mark.parametrize("n", [1, 2, 5, 20, 700, 5_000])
def test_moving_functions_are_frames(engines, n):
    over = "over (partition by sym order by n)"
    frame = f"over (partition by sym order by n rows between {n - 1} preceding and current row)"
    agree(
        engines,
        f"select n, msum(size, {n}) {over}, mavg(size, {n}) {over}, mdev(size, {n}) {over}, mmax(price, {n}) {over}, "
        f"mmin(price, {n}) {over}, mcount(price, {n}) {over} from tick order by n",
        f"select n, coalesce(sum(size) {frame}, 0)::bigint, avg(size) {frame}, stddev_pop(size) {frame}, max(price) {frame}, "
        f"min(price) {frame}, count(price) {frame} from tick order by n",
    )


def test_running_functions_are_frames(engines):
    over = "over (partition by sym order by n)"
    agree(
        engines,
        f"select n, sums(size) {over}, avgs(price) {over}, maxs(price) {over}, mins(size) {over} from tick order by n",
        f"select n, coalesce(sum(size) {over}, 0)::bigint, avg(price) {over}, max(price) {over}, min(size) {over} from tick order by n",
    )


def test_ema_is_a_recursion(engines):
    database, _ = engines
    rows = rows_of(database.sql("select sym, size, ema(size, 0.1) over (partition by sym order by n) from tick order by n").to_arrow())
    smoothed = {}
    for sym, size, found in rows:
        if size is None:
            assert found is None
            continue
        before = smoothed.get(sym, size)
        smoothed[sym] = before + 0.1 * (size - before)
        assert is_close(found, smoothed[sym])


@pytest.mark.parametrize("seconds", [10, 60, 3600])
def test_gap_fill_is_a_join_with_a_series(engines, seconds):
    start, finish = OPENING // 10**9 - 100, OPENING // 10**9 + 20_000
    agree(
        engines,
        f"""select sym, arrow_cast(bar, 'Int64') / 1000000000 bar, price, carried, volume from (
            select sym, time_bucket_gapfill('{seconds} seconds', ts, to_timestamp({start}), to_timestamp({finish})) as bar,
                max(price) as price, locf(max(price)) as carried, coalesce(sum(size), 0) as volume
            from tick where ts < to_timestamp({finish}) group by sym, bar) order by sym nulls last, bar""",
        f"""with known as (
                select sym, epoch_ns(ts) // 1000000000 // {seconds} * {seconds} as bar, max(price) as price, sum(size) as volume
                from tick where epoch_ns(ts) < {finish}000000000 group by all),
            grid as (
                select sym, unnest(range({start} // {seconds} * {seconds}, {finish}, {seconds})) as bar
                from (select distinct sym from known))
            select g.sym, g.bar, k.price,
                last_value(k.price ignore nulls) over (partition by g.sym order by g.bar),
                coalesce(k.volume, 0)::bigint
            from grid g left join known k on g.sym is not distinct from k.sym and g.bar = k.bar
            order by g.sym nulls last, g.bar""",
    )


def test_pivot_is_filters(engines):
    agree(
        engines,
        "select * from (select date_trunc('hour', ts) as hour, sym, size from tick) "
        "pivot (sum(size) for sym in ('A', 'C', null as none)) order by hour",
        "select date_trunc('hour', ts), sum(size) filter (where sym = 'A')::bigint, sum(size) filter (where sym = 'C')::bigint, "
        "sum(size) filter (where sym is null)::bigint from tick group by 1 order by 1",
    )


def test_qualify_is_the_same(engines):
    text = "select n from tick qualify price = max(price) over (partition by sym) order by n"
    agree(engines, text, text)
