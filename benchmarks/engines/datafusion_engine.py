"""Apache DataFusion by itself, on Parquet: the engine that SplayDB plans by where no tick plan fits.

A file for each day, sorted by symbol, time and arrival; the order is declared. Filters prune files, row groups and pages; they aren't
pushed into the decoding of rows (``pushdown_filters``), which is slower for ranges of time, and off by default. zstd, row groups of 65,536 rows, statistics by page. `n` is the number of arrival: closing values are
``last_value`` ordered by it, since equal times occur.
"""

import datetime
import shutil

from . import rows
from .base import TOTALS, Base, sync
from .translate import Dialect, never_seen, placeholders

ROW_GROUP_ROWS = 65_536


def literal(value) -> str:
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(sep=' ')}'"
    return "'" + value.replace("'", "''") + "'"


DIALECT = Dialect(
    bucket=lambda seconds, column: f"date_bin(INTERVAL '{seconds} seconds', {column})",
    last=lambda value: f"last_value({value} ORDER BY n)",
    literal=literal,
)
OWN = {
    "O-T": "SELECT timestamp, b1p, b1s, a1p, a1s FROM books WHERE symbol = $symbol AND timestamp <= $instant "
    "AND timestamp > CAST($instant AS TIMESTAMP) - INTERVAL '1 day' ORDER BY timestamp DESC, n DESC LIMIT 1",
}


class Engine(Base):
    name = "datafusion"
    title = "DataFusion on Parquet"
    requirements = ("datafusion==55.0.0", "numpy", "pyarrow==26.0.1")
    layout = ("engines.rows",)
    best = (
        "Parquet, a file a day, sorted by symbol, time and arrival within and declared so; pruning by statistics and pages; "
        "zstd, row groups of 65,536 rows; answers as Arrow."
    )

    def version(self) -> str:
        import datafusion

        return datafusion.__version__

    def load(self, tables) -> None:
        for table, paths in tables.items():
            for path, part in zip(paths, rows.numbered(rows.from_parquet(paths)), strict=True):
                self.store(table, path.name, part)
        sync()

    def store(self, table: str, name: str, part) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        folder = self.folder / table
        folder.mkdir(parents=True, exist_ok=True)
        part = rows.plain_texts(part)
        part = part.set_column(0, "timestamp", part["timestamp"].cast(pa.timestamp("ns")))
        part = part.sort_by([("symbol", "ascending"), ("timestamp", "ascending"), ("n", "ascending")])
        pq.write_table(part, folder / name, row_group_size=ROW_GROUP_ROWS, compression="zstd", write_page_index=True)

    def open(self) -> None:
        from datafusion import SessionConfig, SessionContext, col

        config = SessionConfig().with_target_partitions(self.threads).with_parquet_pruning(True)
        self.context, self.statements = SessionContext(config), set()
        order = [[col(name).sort(ascending=True) for name in ("symbol", "timestamp", "n")]]
        for table in ("trades", "books"):
            self.context.register_parquet(table, str(self.folder / table), file_sort_order=order)

    def prepare(self, question, parameters, variant):
        return self.asking(DIALECT.text(question, parameters, variant, OWN.get(question.id)))

    def asking(self, text: str):
        return lambda: self.context.sql(text).to_arrow_table()

    def unseen(self, question, parameters, variant, mark: int):
        return self.asking(never_seen(DIALECT.text(question, parameters, variant, OWN.get(question.id)), mark))

    def prepared(self, question, parameters, variant):
        own = OWN.get(question.id)
        marks, values = placeholders(DIALECT.template(question, own), parameters, variant, "${}".format)
        name = "asked_" + question.id.replace("-", "_").lower()
        if name not in self.statements:
            # It infers the type of one place alone where a value has several.
            types = ", ".join("VARCHAR" if isinstance(value, str) else "TIMESTAMP" for value in values)
            self.context.sql(f"PREPARE {name}({types}) AS {DIALECT.text(question, parameters, marks, own)}")
            self.statements.add(name)
        given = f"({', '.join(map(literal, values))})" if values else ""
        return self.asking(f"EXECUTE {name}{given}")

    def write_open(self, files) -> None:
        for table in files:
            shutil.rmtree(self.folder / table, ignore_errors=True)

    def write(self, files) -> None:
        import pyarrow as pa

        for table, path in files.items():
            (part,) = rows.numbered([pa.concat_tables(rows.from_csv(path))])
            self.store(table, f"{path.stem}.parquet", part)
        sync()

    def totals(self):
        self.open()
        return {name: self.context.sql(text).to_arrow_table()[0][0].as_py() for name, text in TOTALS.items()}
