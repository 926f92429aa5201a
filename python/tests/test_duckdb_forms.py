"""Forms of DuckDB and QuestDB give what DuckDB gives: by the same text, or by one that says the same.

`SAMPLE BY` is compared with buckets joined to a series of all buckets and keys.
"""

import datetime
import decimal
import random

import adbc_driver_flightsql.dbapi as adbc
import duckdb
import pyarrow as pa
import pytest
from test_server import Server, lines

import splay

ROWS = 2_000
OPENING = 1_570_455_000_000_000_000


def ticks(seed):
    """Ticks of three symbols with stretches of silence, nulls and ties; `n` numbers them."""
    rng = random.Random(seed)
    time, rows = OPENING, []
    for number in range(ROWS):
        time += rng.choice([0, 1_000_000, 400_000_000, 5_000_000_000, 900_000_000_000 if rng.random() < 0.01 else 0])
        price = rng.choice([None, rng.randint(-1_000, 100_000) / 100])
        rows.append((time, rng.choice(["A", "B", "C"]), price, rng.choice([None, rng.randint(0, 900)]), number))
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


@pytest.fixture(scope="module", params=["tick plans", "datafusion"])
def engines(request, tmp_path_factory):
    table = ticks(3)
    folder = tmp_path_factory.mktemp("forms") / "db"
    database = splay.open(folder, threads=2)
    database.write("tick", table, time="ts", symbol="sym")
    rival = duckdb.connect()
    rival.register("source", table.cast(table.schema.set(0, pa.field("ts", pa.timestamp("ns")))))
    rival.execute("create table tick as select ts, sym::varchar as sym, price, size, n from source")
    # Behind a limit that leaves nothing out no statement is a tick plan.
    return database, rival, request.param == "datafusion"


def plain(value):
    """A value that both systems give alike: times to the microsecond without a zone, numbers as floats of twelve digits."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float | decimal.Decimal):
        return float(f"{float(value):.12g}") if value == value else "nan"
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return str(value)


def cells(table):
    """Rows of plain values."""
    columns = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
        elif pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("us", kind.tz), safe=False)
        elif pa.types.is_duration(kind):
            column = column.cast(pa.duration("us"), safe=False).cast(pa.int64())
        columns.append([plain(value) for value in column.to_pylist()])
    return list(zip(*columns)) if columns else []


def agree(engines, ours, theirs=None, is_ordered=True, names=True):
    database, rival, is_slow = engines
    expected = theirs or ours
    # The table's own column of the date isn't one of DuckDB's.
    rows = "select * exclude (date) from tick"
    if ours.startswith("select"):
        ours = f"with tick as ({rows}{' limit 1000000' if is_slow else ''}) {ours}"
    answer = database.sql(ours).to_arrow()
    expected = rival.sql(expected).to_arrow_table()
    left, right = cells(answer), cells(expected)
    if not is_ordered:
        left, right = sorted(left, key=repr), sorted(right, key=repr)
    assert left == right, ours
    if names:
        assert [name.lower() for name in answer.column_names] == [name.lower() for name in expected.column_names], ours


STARS = [
    "select columns('p|n') from tick order by n",
    "select max(columns(* exclude (ts))) from tick",
    "select min(columns(['size', 'price'])), count(columns('s')) from tick",
    "select avg(columns('(.)rice|siz')) as \"x_\\0\" from tick where sym = 'A'",
    "select columns('price|size') * 2 as twice from tick order by n",
    "select coalesce(*columns(['price', 'size'])) as c from tick order by n",
    "select n from tick where columns(['price', 'size']) > 400 order by n",
    "select * exclude (ts, price) replace (n * 2 as n) rename (size as lots) from tick order by n",
    "select t.* exclude (ts) rename (n as m) from tick t order by m",
    "select * like 's%' from tick order by n",
    "select * not like 's%' from (select sym, size, n from tick) order by n",
    "select * similar to 's.*' from tick order by n",
    "select sum(columns('n') + columns('n')) from tick",
    "select sym, sum(columns('size|n')) from tick group by sym order by sym",
    "with w as (select columns('size|n') from tick) select count(columns(*)) from w",
]

ALIASES = [
    "select n as size, size as x from tick t where n < 50 order by t.size, n",
    "select size as n, sym as size from tick t where t.n < 50 order by t.size, t.n desc",
    "select price as x, n from tick qualify row_number() over (partition by sym order by n) < 9 order by x, n",
    "select n, row_number() over (partition by sym order by n) as r from tick qualify price > 500 order by n",
    "select price as price, size as Size, n as n from tick where n < 5 order by n",
    "select n, price * size as amount, amount / 4 as quarter, quarter + amount as both from tick where amount > 1000 order by n",
    "select sym as s, sum(size) as total, total * 2 as twice from tick group by s having total > 3 order by s",
    "select n % 7 as k, count(*) as c, c * 10 as tens from tick group by k order by k",
    "select n, row_number() over (order by n desc) as place, place * 2 as twice from tick qualify place < 5 order by n",
    "select size as price, price * 2 as twice, n from tick order by n",
    "select n as size from tick where size > 500 order by n",
    "select sum(n) as n from tick group by sym having n > 600000 order by 1",
    "select n * 2 as d, max(n) filter (where d > 20) as f from tick group by n order by d",
    "select 1 as a, a + 1 as b, b * 10 + a as c",
    "with w as (select n + 1 as m, m * 2 as d from tick where m > 5) select sum(m) as m, sum(d) as d from w",
]


CORRELATED = [
    "select n, (select avg(price) from tick b where b.n < a.n and b.n > a.n - 20) as m from tick a order by n",
    "select n, (select count(*) from tick b where b.sym = a.sym and b.n < a.n and a.n < 100) + 1 as c from tick a order by n",
    "select n from tick a where price > (select avg(price) from tick b where b.sym = a.sym) order by n",
    "select n from tick a where price > (select avg(price) from tick b where b.sym <> a.sym and b.n % 10 = a.n % 10) order by n",
    "select sym, avg(price) as m from tick a group by sym having avg(price) > (select avg(price) from tick b where b.sym <> a.sym) order by sym",
    "select sym, (select max(b.price) from tick b where b.sym > a.sym) - min(price) as m from tick a group by sym order by sym",
    "select n, (select max(b.price - a.price) from tick b where b.sym = a.sym) as d from tick a order by n",
    "select n, (select price from tick b where b.sym = a.sym and b.n < a.n and price is not null order by n desc limit 1) as p from tick a order by n",
    "select n, (select count(b.size) from tick b where b.n <= a.size) as c from tick a where n < 200 order by n",
    "select n from tick a where size = (select max(size) from tick b where b.sym = a.sym and b.n <= a.n) order by n",
    "select n, case when size > (select avg(size) from tick b where b.n < a.n) then 'above' else 'below' end as w from tick a where n < 100 order by n",
    "select sum(n) as s from tick a where exists (select 1 from tick b where b.sym = a.sym and b.n > a.n and b.price > a.price)",
]


COMPARED = [
    "select sym, max(price) - min(price) as d, count(*) + 1 as c from tick group by sym order by 2, 1",
    "select sym, max(n) - min(n) from tick group by sym order by 2, 1",
    "select n from tick where price = any (select price from tick where n % 50 = 0) order by n",
    "select n from tick where price <> all (select price from tick where n < 500 and price is not null) order by n",
    "select n, price < any (select price from tick where n % 50 = 0) as a, price >= all (select price from tick where n < 500) as b from tick where n < 300 order by n",
    "select n, size > all (select size from tick where n < 0) as a, size = any (select size from tick where n < 0) as b from tick where n < 300 order by n",
    "select n from tick a where price >= all (select price from tick b where b.sym = a.sym and b.n <= a.n) and n < 300 order by n",
    "select n from tick a where price < any (select price from tick b where b.sym <> a.sym and b.n % 100 = a.n % 100) order by n",
    "select n from tick where (sym, price) in (select sym, max(price) from tick group by sym) order by n",
    "select n from tick where (sym, size) not in (select sym, size from tick where n % 3 = 0 and size is not null) order by n",
    "select n from tick where n in (values (1), (7), (9999)) order by n",
    "select n, bool_or(size > 500) over w as a, bool_and(size > 500) over w as b, bit_or(size) over w as c, bit_and(size) over w as d from tick"
    " window w as (order by n rows between 3 preceding and 1 following) order by n",
    "select n, nth_value(size, 2) over (order by n rows between 2 preceding and 2 following exclude current row) as a from tick order by n",
    "select n, count(*) over (order by n rows between 5 preceding and 6 preceding) as a from tick order by n",
    "select string_agg(distinct sym, ',' order by sym) as a from tick",
    "select count(*) as c from tick join (select sym, price from tick where n < 100) using (sym) where tick.n < 100",
    "select n, epoch_ms(ts - timestamp '2019-10-07') as a from tick order by n",
    "select n, ts + n * interval '1 minute' as a, ts - interval '02:03:04' as b, ts + interval '1 quarter' as c from tick order by n",
    "select n, sym[1] as a, ('x' || n::varchar)[2:] as b, ('x' || n::varchar)[-2:-1] as c from tick order by n",
    "select date_trunc('decade', ts) as a, date_part('century', ts) as b, date_diff('millennium', timestamp '1990-01-01', ts) as c, count(*) as n from tick group by all",
    "select sym, sem(price) as a from tick group by sym order by sym",
    "select n, hex(n) as a, bin(n) as b, bit_count(n) as c, xor(n, size) as d, even(price) as e, fdiv(n, 7) as f, fmod(price, 7) as g, sha256(sym) as h from tick order by n",
    "with a as (select 1 as x), b as (with a as (select n as x from tick where n < 3) select * from a) select a.x as x, b.x as y from a, b order by y",
]


@pytest.mark.parametrize("text", STARS + ALIASES + CORRELATED)
def test_stars_and_aliases(engines, text):
    agree(engines, text)


@pytest.mark.parametrize("text", COMPARED)
def test_forms_that_datafusion_refuses(engines, text):
    agree(engines, text, names=False)


@pytest.mark.parametrize(
    "ours, theirs",
    [
        ("unpivot (select n, price, size from tick) on price, size into name k value v order by n, k", None),
        ("unpivot (select n, price, size from tick) on columns(* exclude (n)) order by n, name", None),
        ("select k, count(*) as c from (unpivot (select n, price, size from tick) on price, size into name k value v) group by k order by k", None),
        ("pivot tick on sym, n % 2 using sum(size) group by price order by price", None),
        ("pivot (select sym, n % 3 as k, n % 2 as l, size from tick) on k, l using sum(size) as s, count(*) as c order by sym", None),
        ("pivot (select sym, n % 3 as k, n % 2 as l, size from tick) on k in (0, 2), l using max(size) group by sym order by sym", None),
    ],
)
def test_pivots(engines, ours, theirs):
    database, rival, _ = engines
    agree((database, rival, False), ours, theirs)


def test_summaries(engines):
    database, rival, _ = engines
    kept = "column_name, min, max, avg, std, count, null_percentage"
    ours = {row[0]: row for row in cells(database.sql("summarize select price, size, n, sym from tick").to_arrow().select(kept.split(", ")))}
    theirs = rival.execute(f"select {kept} from (summarize select price, size, n, sym from tick)").fetchall()
    for name, *values in theirs:
        for one, other in zip(ours[name][1:], values):
            if name == "sym" or other is None:
                assert one == plain(other)
            else:
                assert float(one) == pytest.approx(float(other), rel=1e-9)
    estimates = database.sql("summarize select n from tick").to_arrow().to_pylist()[0]
    assert estimates["approx_unique"] == pytest.approx(ROWS, rel=0.05)
    assert [float(estimates[name]) for name in ("q25", "q50", "q75")] == pytest.approx([ROWS / 4, ROWS / 2, ROWS * 3 / 4], rel=0.02)
    empty = database.sql("summarize select n, sym from tick where false").to_arrow().to_pylist()
    assert [(row["count"], row["min"], row["null_percentage"]) for row in empty] == [(0, None, None)] * 2


def bucket(width):
    """Of widths that don't divide a day, too, buckets are counted from 1970."""
    origin = ", timestamp '1970-01-01'" if "minute" in width else ""
    return f"time_bucket(interval '{width}', ts{origin})"


@pytest.mark.parametrize("unit, width", [("1s", "1 second"), ("7m", "7 minutes"), ("h", "1 hour"), ("1d", "1 day"), ("2w", "14 days"), ("M", "1 month")])
def test_samples_are_buckets(engines, unit, width):
    items = "count(*) as c, sum(size) as s, max(price) as p"
    agree(
        engines,
        f"select ts, sym, {items} from tick where n > 10 sample by {unit}",
        f"select {bucket(width)} as ts, sym, {items} from tick where n > 10 group by all order by 1, 2",
    )
    agree(engines, f"select {items} from tick sample by {unit}", f"select {items} from tick group by {bucket(width)} order by {bucket(width)}")


def test_first_and_last_of_a_sample_go_by_time(engines):
    agree(
        engines,
        "select ts, first(n) as f, last(n) as l from tick sample by 20m",
        f"select {bucket('20 minutes')} as ts, first(n order by ts, sym, n) as f, last(n order by ts, sym, n) as l from tick group by 1 order by 1",
    )


def series(width, first, last, keys="(select distinct sym from tick)"):
    """Every bucket of every key, and what is there of it."""
    return (
        f"with given as (select {bucket(width)} as ts, sym, count(*) as c, sum(size) as s from tick group by all), "
        f"wanted as (select * from (select unnest(generate_series({first}, {last}, interval '{width}')) as ts), {keys}) "
        "select ts, sym, c, s from wanted left join given using (ts, sym)"
    )


@pytest.mark.parametrize("unit, width", [("1m", "1 minute"), ("7m", "7 minutes"), ("1h", "1 hour")])
def test_fills_make_every_bucket_of_every_key(engines, unit, width):
    rows = series(width, f"(select min({bucket(width)}) from tick)", f"(select max({bucket(width)}) from tick)")
    fills = {
        "null": ("c", "s"),
        "0": ("coalesce(c, 0)", "case when c is null then 0 else s end"),
        "prev": (
            "last_value(c ignore nulls) over (partition by sym order by ts)",
            "case when c is null then last_value(s ignore nulls) over (partition by sym order by ts) else s end",
        ),
    }
    for fill, (c, s) in fills.items():
        agree(
            engines,
            f"select ts, sym, count(*) as c, sum(size) as s from tick sample by {unit} fill({fill})",
            f"select ts, sym, {c} as c, {s} as s from ({rows}) order by ts, sym",
        )
    agree(
        engines,
        f"select ts, sym, count(*) as c, sum(size) as s from tick sample by {unit} fill(prev, null)",
        f"select ts, sym, {fills['prev'][0]} as c, s from ({rows}) order by ts, sym",
    )


def test_samples_between_times(engines):
    first, last = "timestamp '2019-10-07 13:02:30'", "timestamp '2019-10-07 16:00:00'"
    place = f"time_bucket(interval '10 minutes', ts, {first})"
    agree(
        engines,
        "select ts, count(*) as c from tick sample by 10m from '2019-10-07T13:02:30' to '2019-10-07T16:00:00' fill(0)",
        f"with given as (select {place} as ts, count(*) as c from tick where ts >= {first} and ts < {last} group by all) "
        f"select ts, coalesce(c, 0) as c from (select unnest(range({first}, {last}, interval '10 minutes')) as ts) left join given using (ts) order by ts",
    )
    agree(
        engines,
        "select ts, sym, count(*) as c from tick where n > 100 sample by 10m align to first observation",
        "select time_bucket(interval '10 minutes', ts, (select min(ts)::timestamp from tick where n > 100)) as ts, sym, count(*) as c "
        "from tick where n > 100 group by all order by 1, 2",
    )
    agree(
        engines,
        "select ts, count(*) as c from tick sample by 1h align to calendar with offset '00:20'",
        "select time_bucket(interval '1 hour', ts, interval '20 minutes') as ts, count(*) as c from tick group by all order by 1",
    )


FUNCTIONS = r"""
strptime('2024-03-04 05:06:07', '%Y-%m-%d %H:%M:%S')
strptime('04/03/2024', '%d/%m/%Y')
strptime('2024-01-01 10:11:12.5', '%Y-%m-%d %H:%M:%S.%f')
strptime('5 PM', '%I %p')
strptime('31.12.24', ['%d-%m-%Y', '%d.%m.%y'])
strptime(null, '%Y')
try_strptime('nope', '%Y-%m-%d')
try_strptime('2024-02-30', '%Y-%m-%d')
strftime(timestamp '2024-03-04 05:06:07.123456', '%Y/%m/%d %H-%M-%S %f %g %%')
strftime(date '2024-03-04', '%A %B %j')
make_timestamp(2024, 3, 4, 5, 6, 7.5)
make_timestamp(2024, 1, 1, 24, 0, 0)
make_timestamp(1969, 12, 31, 23, 59, 59.25)
make_timestamp(1709528767000000)
make_timestamp_ms(1709528767000)
date_sub('hour', timestamp '2024-03-04 05:59:00', timestamp '2024-03-04 07:01:00')
date_sub('day', timestamp '2024-03-04 12:00:00', timestamp '2024-03-02 13:00:00')
date_sub('month', timestamp '2024-02-29', timestamp '2024-01-31')
date_sub('month', timestamp '2024-01-31 12:00:00', timestamp '2024-02-29 11:00:00')
date_sub('month', timestamp '2024-01-30 12:00:00', timestamp '2024-02-29 11:00:00')
date_sub('month', timestamp '2024-02-29 12:00:00', timestamp '2024-01-31 11:00:00')
date_sub('year', timestamp '2020-02-29', timestamp '2021-02-28')
date_sub('quarter', timestamp '2020-01-31', timestamp '2020-04-30')
date_sub('week', timestamp '2020-01-31', timestamp '2020-02-14')
date_sub('decade', timestamp '1960-01-31', timestamp '2020-02-14')
date_sub('month', timestamp '1969-11-30', timestamp '1970-01-01')
date_diff('month', date '2024-01-31', date '2024-02-29')
timestamp '2024-03-04' + age(timestamp '2024-03-04 01:00:00', timestamp '2023-01-15 02:30:00')
timestamp '2024-03-31' + age(timestamp '2023-01-15', timestamp '2024-03-04')
timestamp '2024-03-31' + age(timestamp '2024-02-29', timestamp '2024-03-31')
timestamp '2024-03-31' + age(timestamp '1969-12-31 23:00:00', timestamp '1970-01-02')
century(date '2000-01-01')
century(timestamp '2001-01-01')
decade(date '1969-01-01')
millennium(timestamp '2024-03-04')
yearweek(date '2024-12-30')
julian(timestamp '2024-03-04 12:00:00')
nanosecond(timestamp '2024-03-04 12:00:07.5')
last_day(date '2024-02-04')
last_day(timestamp '2024-12-31 10:00:00')
date_add(timestamp '2024-03-04', interval 1 day)
timestamp '2024-03-04' + to_seconds(1.5)
timestamp '2024-03-04' - to_milliseconds(1500)
timestamp '2024-03-04' + to_microseconds(7)
timestamp '2024-03-04' + to_minutes(90)
timestamp '2024-03-04' + to_hours(-30)
timestamp '2024-03-04' + to_days(3)
timestamp '2024-03-04' + to_weeks(2)
timestamp '2024-01-31' + to_months(1)
timestamp '2024-01-31' + to_quarters(1)
timestamp '2024-02-29' + to_years(1)
timestamp '2024-02-29' + to_decades(1)
timestamp '2024-02-29' - to_centuries(1)
epoch_ms(timestamp '2024-03-04 12:00:00.5')
epoch_us(timestamp '1969-03-04 12:00:00.5')
epoch_ns(timestamp '2024-03-04 12:00:00.5')
printf('%d-%s', 5, 'x')
printf('%05.2f|%5d|%-5s|%5s|', 3.14159::double, 42, 'ab', 'cd')
printf('%x|%X|%o|%e|%g|%c|%%', 255, 255, 8, 12345.678::double, 0.0001::double, 65)
printf('%+d|%+.1f|%,d', 5, -2.5::double, 1234567)
printf('%d', null)
format('{} and {}', 'x', 5)
format('{1} {0} {1}', 'x', 'y')
format('{:>8}|{:<8}|{:^8}|{:*^7}', 'ab', 'cd', 'ef', 'x')
format('{:08.3f}|{:+d}|{:x}|{:#x}|{:e}|{:b}', 3.14159::double, 5, 255, 255, 12345.678::double, 5)
format('{:,}|{:,.2f}', 1234567, 1234567.891::double)
format('{} {} {}', 1.5::double, 1.0::double, 1e20::double)
format('{{}} {}', 1)
md5('')
md5('SplayDB')
md5(repeat('a', 1000))
hex('abc')
starts_with('hello', 'he')
prefix('hello', 'he')
suffix('hello', 'lo')
contains('hello', 'ell')
'hello' ^@ 'he'
split_part('a,b,c', ',', 2)
split_part('a,b,c', ',', -1)
regexp_extract('a12b', '[0-9]+')
regexp_extract('a12b', '([a-z])([0-9]+)', 2)
regexp_extract('a12b', '([a-z])([0-9]+)', 0)
regexp_extract('zzz', '[0-9]+')
regexp_extract('abc', 'b|c')
regexp_extract('aBc', 'b', 0, 'i')
regexp_extract(null, 'a')
regexp_extract_all('a1b22', '[0-9]+')
regexp_extract_all('a1b22', '([a-z])([0-9]+)', 2)
regexp_extract_all('ab', '(a)|(b)', 1)
regexp_extract_all('aBc', 'b', 0, 'i')
regexp_extract_all('abc', '')
regexp_extract_all('a', null)
list_transform([1, 2, 3], lambda x: x * 2)
list_filter([1, 2, 3], lambda x: x > 1 and x < 3)
regexp_full_match('hello', 'l+')
regexp_full_match('lll', 'l+')
len('héllo')
len([1, 2, 3])
len(null)
strlen('héllo')
lcase('ABC')
ucase('abc')
ord('a')
unicode('é')
editdist3('kitten', 'sitting')
mod(-7, 3)
divide(-7, 2)
-7 // 2
7.5::double // 2
add(1, 2)
subtract(5, 2)
multiply(3, 4)
greatest_common_divisor(12, 18)
least_common_multiple(4, 6)
isinf('inf'::double)
isinf(1.0::double)
isfinite('nan'::double)
isfinite(1.0::double)
list_first([1, 2, 3])
list_last([1, 2, 3])
list_min([3, 1, 2])
list_max([3, 1, 2])
list_sum([1, 2, 3])
list_aggregate([1, 2, 3], 'sum')
list_aggregate([1, 2], 'min')
list_sort([3, null, 1])
list_sort([3, null, 1], 'desc')
list_reverse_sort([3, null, 1])
list_dot_product([1.0::double, 2.0], [2.0::double, 4.0])
map_contains(map([1, 2], ['a', 'b']), 1)
struct_extract({'a': 1}, 'a')
struct_pack(a := 1, b := 'x')
""".strip().split("\n")


@pytest.mark.parametrize("call", FUNCTIONS)
def test_functions(engines, call):
    database, rival, is_slow = engines
    if not is_slow:
        agree((database, rival, False), f"select {call} as r")


BY_ROW = [
    "strftime(ts, '%H:%M:%S.%f')",
    "strptime(strftime(ts, '%Y-%m-%d %H:%M:%S.%f'), '%Y-%m-%d %H:%M:%S.%f')",
    "date_sub('minute', ts, timestamp '2019-10-07 15:00:00')",
    "timestamp '2019-10-07' + age(ts::timestamp, timestamp '2019-10-01 17:00:00')",
    "ts + to_seconds(n)",
    "ts::timestamp + to_months(n % 30)",
    "printf('%s %05d', sym::varchar, n)",
    "format('{:.3f}', price)",
    "md5(sym || n::varchar)",
    "regexp_extract(sym || n::varchar, '([A-Z])([0-9]+)', 2)",
    "len(sym)",
    "decade(ts)",
    "last_day(ts)",
    "n // 7",
    "regexp_extract_all(sym || n::varchar, '[0-9]')",
    "list_transform([n, 1], lambda x: x + n)",
]


@pytest.mark.parametrize("call", BY_ROW)
def test_functions_of_columns(engines, call):
    agree(engines, f"select {call} as r from tick order by n")


@pytest.mark.parametrize(
    "call", ["favg(price)", "fsum(price)", "variance(price)", "count_star()", "weighted_avg(price, size)", "sum_no_overflow(size)", "count_if(size > 5)"]
    + ["sum(size > 450)", "quantile_cont(price, 0.123456789)", "percentile_cont(0.9) within group (order by price desc)", "quantile_cont(size, [0.1, 0.77777777])"],
)
def test_aggregates(engines, call):
    agree(engines, f"select sym, {call} as r from tick group by sym order by sym")
    if not call.startswith(("weighted", "count_if")):
        agree(engines, f"select sym, {call} filter (where n > 50) as f from tick group by sym order by sym")


def test_keys_that_are_equal_need_no_name(engines):
    agree(
        engines,
        "select sym, a.n, b.n as m from tick a asof join tick b on a.sym = b.sym and a.n > b.n where sym <> 'B' order by sym, a.n",
        "select a.sym, a.n, b.n as m from tick a asof join tick b on a.sym = b.sym and a.n > b.n where a.sym <> 'B' order by a.sym, a.n",
    )
    agree(
        engines,
        "select sym, last(b.n) as l, first(b.n) as f from tick a asof join tick b on a.sym = b.sym and a.n > b.n group by sym order by sym",
        "select a.sym, last(b.n order by a.ts, a.n) as l, first(b.n order by a.ts, a.n) as f "
        "from tick a asof join tick b on a.sym = b.sym and a.n > b.n group by a.sym order by a.sym",
    )


@pytest.mark.parametrize(
    "text, told",
    [
        ("select * from tick a asof right join tick b using (sym, ts)", "UNION ALL BY NAME"),
        ("select * from tick a asof full join tick b using (sym, ts)", "UNION ALL BY NAME"),
        ("select strptime('x', '%Y')", "isn't a time"),
        ("select make_timestamp(2024, 13, 1, 0, 0, 0)", "no time"),
        ("select printf('%d', 'x')", "doesn't fit"),
        ("select printf('%999d', 1)", "at most"),
        ("select format('{} {}', 1)", "more values"),
        ("select to_years(1000000000)", "out of range"),
        ("select list_aggregate([1], 'nothing')", "takes a list"),
        ("select random() as r, r + 1 from tick", "another value"),
    ],
)
def test_what_is_wrong_is_said(engines, text, told):
    database, _, _ = engines
    with pytest.raises(splay.Error, match=told):
        database.sql(text).to_arrow()


@pytest.mark.parametrize(
    "text, names, rows",
    [
        ("pivot (select sym, size % 2 as k from trade) on sym, k using count(*)", ["AIG_0", "AIG_1", "IBM_0", "IBM_1"], [(500, 0, 0, 500)]),
        ("select sym, count(*) from trade sample by 1d fill(0)", ["sym", "count(*)"], [("AIG", 500), ("IBM", 500)]),
        ("select max(columns('size|price')) from trade", ["price", "size"], [(999.5, 999)]),
        ("unpivot (select size from trade where size < 2) on size order by value", ["name", "value"], [("size", 0), ("size", 1)]),
        ("select size * 2 as d from trade where d > 1990 order by d", ["d"], [(1992,), (1994,), (1996,), (1998,)]),
    ],
)
def test_servers_describe_and_run_them(tmp_path, text, names, rows):
    with Server(tmp_path / "db") as server:
        server.send("/write", lines(0, 1000))
        assert [tuple(row) for row in server.query(text)] == rows
        with adbc.connect(server.flight, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(text)
            assert [column[0] for column in cursor.description] == names
            assert cursor.fetchall() == rows


def test_servers_summarize(tmp_path):
    with Server(tmp_path / "db") as server:
        server.send("/write", lines(0, 1000))
        assert [(row[0], row[2], row[3]) for row in server.query("summarize select size, sym from trade")] == [
            ("size", "0", "999"),
            ("sym", "AIG", "IBM"),
        ]
        with adbc.connect(server.flight, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("summarize trade")
            assert [row[0] for row in cursor.fetchall()] == ["time", "sym", "price", "size", "date"]


@pytest.mark.parametrize(
    "text, names",
    [
        ("select Price as price, price AS PRICE_2 from trade", ["price", "PRICE_2"]),
        ("select price AS Price, Size from trade", ["Price", "Size"]),
        ("select Time, cast('10:00' as TIME) as T from trade", ["Time", "T"]),
        ("select * from (select Price as price from trade)", ["price"]),
        ("select Price from trade where Price > (select avg(Price) as price from trade)", ["Price"]),
    ],
)
def test_aliases_keep_their_case(tmp_path, text, names):
    database = splay.open(tmp_path / "db", threads=1)
    columns = {"Time": pa.array([OPENING], pa.timestamp("ns", "UTC")), "Price": pa.array([1.5]), "Size": pa.array([7])}
    database.write("trade", pa.table(columns), time="Time")
    assert database.sql(text).to_arrow().column_names == names
    assert database.sql(f"{text} limit 1000000").to_arrow().column_names == names
