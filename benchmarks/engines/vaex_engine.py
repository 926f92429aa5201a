"""Vaex on HDF5: columns mapped from one file for each table, in the order of symbol, time and arrival.

HDF5 is the format that Vaex maps without decoding. Codes are small integers, since Vaex groups by integers much faster than by
text, and times are integers of nanoseconds, which group by whole division. Vaex evaluates whole columns in passes: a range of
time isn't looked up but filtered; since the files are in order of time within a symbol, the rows of a range are found by
binary search here and handed over as slices, as its documentation advises for sorted data.
"""

from .base import Base, sync
from .rows import CODES


class Engine(Base):
    name = "vaex"
    title = "Vaex"
    requirements = ("numpy", "pyarrow==26.0.1", "vaex-core==4.19.0", "vaex-hdf5==0.15.0")
    layout = ("engines.rows",)
    best = (
        "Mapped HDF5; codes and times as integers; rows of a symbol's range as a slice, found by binary search; groups by "
        "Vaex, the few rows that result by pandas."
    )
    answers = "data frame"

    def version(self) -> str:
        import vaex

        return vaex.__version__["vaex-core"] if isinstance(vaex.__version__, dict) else str(vaex.__version__)

    def store(self, table: str, rows) -> None:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc
        import vaex

        from .rows import plain_texts

        rows = plain_texts(rows)
        columns = {"timestamp": rows["timestamp"].cast(pa.timestamp("ns", "UTC")).cast(pa.int64()).to_numpy()}
        for code, values in CODES.items():
            if code in rows.column_names:
                columns[code] = pc.index_in(rows[code], pa.array(values)).to_numpy().astype(np.int8)
        order = np.lexsort((np.arange(rows.num_rows), columns["timestamp"], columns["symbol"]))
        columns |= {name: rows[name].to_numpy() for name in rows.column_names if name not in columns}
        columns["n"] = np.arange(rows.num_rows)
        ordered = {name: values if name == "n" else values[order] for name, values in columns.items()}
        self.folder.mkdir(parents=True, exist_ok=True)
        vaex.from_arrays(**ordered).export_hdf5(str(self.folder / f"{table}.hdf5"))

    def load(self, tables) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        for table, paths in tables.items():
            self.store(table, pa.concat_tables(pq.read_table(path) for path in paths))
        sync()

    def open(self) -> None:
        import vaex

        vaex.settings.main.thread_count = self.threads
        self.frames = {table: vaex.open(str(self.folder / f"{table}.hdf5")) for table in ("trades", "books")}

    def close(self) -> None:
        """Lets go of the mapped files."""
        for frame in self.__dict__.pop("frames", {}).values():
            frame.close()

    def prepare(self, question, parameters, variant):
        from .vaex_queries import QUERIES

        query = QUERIES[question.id]
        return lambda: query(self.frames, parameters, **variant)

    @staticmethod
    def arrow(answer):
        import pyarrow as pa

        return pa.Table.from_pandas(answer, preserve_index=False)

    def write(self, files) -> None:
        import pyarrow as pa

        from .rows import from_csv

        for table, path in files.items():
            self.store(table, pa.concat_tables(from_csv(path)))
        sync()

    def totals(self):
        self.open()
        trades, books = self.frames["trades"], self.frames["books"]
        return {
            "trades": len(trades),
            "amount": float(trades.sum("amount")),
            "books": len(books),
            "a20s": float(books.sum("a20s")),
        }
