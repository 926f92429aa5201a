"""Questions over five related tables, as a desk asks them of its orders and fills, beside DuckDB's answers and times.

Run it by `make bench-relations`. The tables are accounts and instruments (reference tables), orders, fills and quotes of venues. The questions join up to six of them in the order of a text
in which neighbours needn't be related, ask for rows with and without others, and compare with values of related rows. DuckDB has the same rows in memory. Answers are compared before times
count.
"""

import argparse
import math
import statistics
import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from timing import beside_duckdb

import splay

START_US = 1_767_225_600_000_000
SECTORS = ["energy", "finance", "health", "metals", "retail", "software", "transport", "utilities"]
DESKS = ["index", "macro", "market making", "options", "retail flow"]
COUNTRIES = ["CH", "DE", "FR", "GB", "JP", "SG", "US"]
VENUES = ["ARCX", "BATS", "IEXG", "XNAS", "XNYS"]
STATES = ["cancelled", "filled", "open", "partial"]

QUESTIONS = {
    "turnover of a desk by sector": """
        select i.sector, sum(f.price * f.quantity) as turnover from account a, instrument i, orders o, fill f
        where o.account = a.id and o.instrument = i.id and f.order_id = o.id and a.desk = 'macro' group by i.sector""",
    "trades between two countries": """
        select a.country as of_account, i.country as of_instrument, count(*) as n, sum(f.fee) as fees
        from account a, instrument i, fill f, orders o
        where f.order_id = o.id and o.account = a.id and o.instrument = i.id
          and ((a.country = 'US' and i.country = 'JP') or (a.country = 'JP' and i.country = 'US')) group by 1, 2""",
    "share of a venue by year": """
        select extract(year from f.time) as year, sum(case when f.venue = 'XNAS' then f.quantity else 0 end) * 1.0 / sum(f.quantity) as share
        from instrument i, account a, fill f, orders o
        where i.kind = 17 and a.id = o.account and i.id = o.instrument and o.id = f.order_id and a.country = 'DE' group by 1""",
    "alternatives with a key in common": """
        select sum(f.price * f.quantity) as turnover from fill f, orders o
        where (f.order_id = o.id and o.side = 'B' and o.state = 'partial' and f.quantity between 1 and 20 and f.venue in ('XNAS', 'XNYS'))
           or (f.order_id = o.id and o.side = 'S' and o.state = 'filled' and f.quantity between 80 and 90 and f.venue = 'IEXG')""",
    "orders with fills on other venues too": """
        select f.venue, count(*) as n from fill f
        where exists (select 1 from fill g where g.order_id = f.order_id and g.venue <> f.venue) group by f.venue""",
    "last fills of their order": """
        select count(*) as n, sum(f.quantity) as quantity from fill f
        where not exists (select 1 from fill g where g.order_id = f.order_id and g.number > f.number)""",
    "fills below a share of their order's mean": """
        select sum(f.price) as prices, count(*) as n from fill f, orders o
        where f.order_id = o.id and o.instrument < 50 and f.quantity < (select 0.5 * avg(g.quantity) from fill g where g.order_id = o.id)""",
    "orders above twice the mean of account and instrument": """
        select count(*) as n from orders o
        where o.quantity > (select 2 * avg(p.quantity) from orders p where p.account = o.account and p.instrument = o.instrument)""",
    "the cheapest venue of each instrument": """
        select i.id, v.venue, v.ask from instrument i, venue_quote v
        where v.instrument = i.id and i.sector = 'metals'
          and v.ask = (select min(w.ask) from venue_quote w where w.instrument = i.id) order by i.id, v.venue""",
    "accounts by number of orders": """
        select n, count(*) as accounts from
        (select a.id, count(o.id) as n from account a left join orders o on o.account = a.id and o.state <> 'cancelled' group by a.id) c group by n""",
    "the largest orders": """
        select o.id, a.name, o.price, sum(f.quantity) as quantity from account a, orders o, fill f
        where o.id in (select order_id from fill group by order_id having sum(quantity) > 330) and o.account = a.id and f.order_id = o.id
        group by o.id, a.name, o.price order by o.price desc, o.id limit 100""",
    "accounts without an open order": """
        select a.country, count(*) as n, sum(a.balance) as balance from account a
        where a.balance > (select avg(balance) from account where balance > 0)
          and not exists (select 1 from orders o where o.account = a.id and o.state = 'open') group by a.country""",
    "venues of instruments that nobody excludes": """
        select i.sector, i.kind, count(distinct v.venue) as venues from venue_quote v, instrument i
        where v.instrument = i.id and i.kind not in (3, 5) and i.id not in (select instrument from orders where account = 7) group by i.sector, i.kind""",
    "the account with the largest turnover": """
        with turnover as (select o.account, sum(f.price * f.quantity) as total from orders o, fill f where f.order_id = o.id group by o.account)
        select a.id, a.name, t.total from account a, turnover t where t.account = a.id and t.total = (select max(total) from turnover)""",
}


def tables(orders: int) -> dict[str, pa.Table]:
    """So many orders, with three fills each on average."""
    rng = np.random.default_rng(1)
    accounts, instruments, fills = max(orders // 30, 10), 2_000, orders * 3

    def of(values: list[str], rows: int) -> pa.Array:
        return pa.array(values).take(pa.array(rng.integers(0, len(values), rows)))

    def times(rows: int) -> pa.Array:
        return pa.array(START_US + np.sort(rng.integers(0, 2 * 365 * 86_400_000, rows)) * 1_000, pa.timestamp("us"))

    prices = np.round(5 + rng.random(orders) * 500, 2)
    # Numbers of orders have gaps, as where several systems share a sequence.
    ids = np.cumsum(rng.integers(1, 2_000, orders))
    order_of_fill = np.sort(rng.integers(0, orders, fills))
    first = np.searchsorted(order_of_fill, order_of_fill)
    return {
        "account": pa.table(
            {
                "id": np.arange(1, accounts + 1),
                "name": [f"account {number}" for number in range(1, accounts + 1)],
                "desk": of(DESKS, accounts),
                "country": of(COUNTRIES, accounts),
                "balance": np.round(rng.random(accounts) * 11_000 - 1_000, 2),
            }
        ),
        "instrument": pa.table(
            {
                "id": np.arange(1, instruments + 1),
                "sector": of(SECTORS, instruments),
                "country": of(COUNTRIES, instruments),
                "kind": rng.integers(1, 40, instruments),
            }
        ),
        "orders": pa.table(
            {
                "time": times(orders),
                "id": ids,
                "account": rng.integers(1, accounts + 1, orders),
                "instrument": rng.integers(1, instruments + 1, orders),
                "side": of(["B", "S"], orders),
                "state": of(STATES, orders),
                "price": prices,
                "quantity": rng.integers(1, 1_000, orders),
            }
        ),
        "fill": pa.table(
            {
                "time": times(fills),
                "order_id": ids[order_of_fill],
                "number": np.arange(fills) - first + 1,
                "venue": of(VENUES, fills),
                "price": np.round(prices[order_of_fill] + rng.integers(-5, 6, fills) / 100, 2),
                "quantity": rng.integers(1, 101, fills),
                "fee": np.round(rng.random(fills), 3),
            }
        ),
        "venue_quote": pa.table(
            {
                "time": times(instruments * len(VENUES)),
                "instrument": np.repeat(np.arange(1, instruments + 1), len(VENUES)),
                "venue": pa.array(VENUES * instruments),
                "ask": np.round(5 + rng.random(instruments * len(VENUES)) * 10, 1),
            }
        ),
    }


def rows(answer: pa.Table) -> list[tuple]:
    """The rows in an order that doesn't depend on the last bits of floats."""

    def key(row: tuple) -> list[str]:
        return [f"{value:.6g}" if isinstance(value, float) else str(value) for value in row]

    return sorted(zip(*(column.to_pylist() for column in answer.columns), strict=True), key=key)


def are_equal(one: pa.Table, other: pa.Table) -> bool:
    def same(left: object, right: object) -> bool:
        if left is None or right is None or isinstance(left, str) or isinstance(right, str):
            return left == right
        return math.isclose(float(left), float(right), rel_tol=1e-9)

    ours, theirs = rows(one), rows(other)
    return len(ours) == len(theirs) and all(all(map(same, left, right)) for left, right in zip(ours, theirs, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=500_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        db = splay.open(Path(folder) / "db", threads=arguments.threads)
        con = duckdb.connect()
        con.execute(f"set threads = {arguments.threads}")
        for name, made in tables(arguments.orders).items():
            if "time" in made.column_names:
                db.write(name, made, time="time")
            else:
                db.write(name, made, key=["id"])
            con.execute(f"create table {name} as select * from made")
        ratios = []
        for name, statement in QUESTIONS.items():
            ours, theirs = pa.table(db.sql(statement).to_arrow()), con.sql(statement).to_arrow_table()
            assert are_equal(ours, theirs), name
            ratios.append(beside_duckdb(name, statement, db, con, arguments.repeats))
        print(f"geometric mean {statistics.geometric_mean(ratios):.2f} times, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
