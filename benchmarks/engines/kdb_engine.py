"""kdb+ through PyKX, which needs the user's licence.

PyKX installs from PyPI without one, but then only speaks to other processes: q doesn't run in it. With a licence (``QLIC`` names
its folder) tables are splayed by date, sorted by symbol with the parted attribute, in the process of the worker.

No licence was there when this was written: the queries in q haven't been run.
"""

import datetime
import shutil

from . import rows
from .base import Base, Skipped, sync

MID = "0.5*b1p+a1p"
BIDS, ASKS = ("+".join(f"{side}{level}s" for level in range(1, 6)) for side in "ba")
DAY = "date=2022.06.18"
WEEK = "date within 2022.06.18 2022.06.24"
MONTH = "date within 2022.06.18 2022.07.17"


def returns(table: str, value: str, within: str, width: str) -> str:
    closes = f"0!select close:last {value} by symbol,bucket:{width} xbar timestamp from {table} where {within}"
    # The first return of a symbol is null and leaves.
    return f"select symbol,bucket,ret from (update ret:log[close]-log prev close by symbol from {closes}) where not null ret"


def volatility(table: str, value: str, within: str, fine: str, coarse: str) -> str:
    inner = returns(table, value, within, fine)
    return f"0!select volatility:sdev ret by symbol,coarse:{coarse} xbar bucket from {inner}"


QUERIES = {
    "T-V1": f"0!select volume:sum amount by symbol,side,bucket:0D00:01 xbar timestamp from trades where {DAY}",
    "T-V2": f"0!select volume:sum amount by symbol,side,bucket:1D xbar timestamp from trades where {MONTH}",
    "T-VWAP": f'0!select vwap:amount wavg price by bucket:0D00:01 xbar timestamp from trades where {DAY},symbol=`$"BTC-USD"',
    "O-T": "-1#select timestamp,b1p,b1s,a1p,a1s from books where date within ({instant}-1D;{instant})$`date,symbol={symbol},"
    "timestamp<={instant}",
    "O-B1": f"0!select max_bid:max b1p by symbol from books where {WEEK}",
    "O-B2": f"0!select max_bid:max b1p by symbol from books where {MONTH}",
    "O-S": f"select symbol,timestamp,spread:a1p-b1p from books where {DAY}",
    "O-V1": f"0!select bid_depth:avg b1s,ask_depth:avg a1s by symbol,bucket:0D00:01 xbar timestamp from books where {WEEK}",
    "O-V2": f"0!select bid_depth:avg {BIDS},ask_depth:avg {ASKS} by symbol,bucket:0D01 xbar timestamp from books where {MONTH}",
    "O-NBBO": "0!select best_bid:max b1p,best_ask:min a1p by symbol from books where date=2022.07.20",
    "C-R": returns("books", MID, DAY, "0D00:05"),
    "C-VT": volatility("trades", "price", DAY, "0D00:05", "0D01"),
    "C-VO1": volatility("books", MID, DAY, "0D00:05", "0D01"),
    "C-VO2": volatility("books", MID, WEEK, "0D01", "0D04"),
}


def literal(value) -> str:
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y.%m.%dD%H:%M:%S.%f")
    return f'(`$"{value}")'


class Engine(Base):
    name = "kdb"
    title = "kdb+ (PyKX)"
    requirements = ("numpy", "pandas==3.1.1", "pyarrow==26.0.1", "pykx==4.2.0")
    layout = ("engines.rows",)
    best = "Splayed by date, sorted by symbol with the parted attribute; queries in q; answers as Arrow."

    def version(self) -> str:
        import pykx

        if not pykx.licensed:
            raise Skipped(
                f"PyKX {pykx.__version__} is installed, but has no licence for q: set QLIC to the folder of yours "
                "(KX gives personal ones on request)"
            )
        return f"PyKX {pykx.__version__}, q {pykx.q('.z.K').py()}"

    @property
    def database(self):
        return self.folder / "hdb"

    def store(self, table: str, day: datetime.date, part) -> None:
        import pykx

        part = rows.plain_texts(part).sort_by([("symbol", "ascending"), ("timestamp", "ascending"), ("n", "ascending")])
        pykx.q["part"] = pykx.toq(part.drop_columns(["n"]))
        pykx.q(
            "{[root;day;name] path:` sv (hsym `$root;`$string day;name;`);"
            "path set .Q.en[hsym `$root] update `$symbol,`$exchange from part; @[path;`symbol;`p#]}",
            str(self.database),
            day,
            table,
        )

    def load(self, tables) -> None:
        shutil.rmtree(self.database, ignore_errors=True)
        for table, paths in tables.items():
            for path, part in zip(paths, rows.numbered(rows.from_parquet(paths)), strict=True):
                self.store(table, datetime.date.fromisoformat(path.stem.split("_")[1]), part)
        sync()

    def open(self) -> None:
        import pykx

        pykx.q(f"\\l {self.database}")

    def prepare(self, question, parameters, variant):
        import pykx

        text = QUERIES[question.id]
        for name, value in variant.items():
            text = text.replace("{" + name + "}", literal(value))
        return lambda: pykx.q(text).pa()

    def write(self, files) -> None:
        import pyarrow as pa

        shutil.rmtree(self.database, ignore_errors=True)
        for table, path in files.items():
            (part,) = rows.numbered([pa.concat_tables(rows.from_csv(path))])
            self.store(table, datetime.date(2022, 6, 1), part)
        sync()

    def totals(self):
        import pykx

        self.open()
        found = {}
        for table, column in (("trades", "amount"), ("books", "a20s")):
            found[table] = pykx.q(f"exec count i from {table}").py()
            found[column] = pykx.q(f"exec sum {column} from {table}").py()
        return found
