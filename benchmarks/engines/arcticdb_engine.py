"""ArcticDB on LMDB: a frame store for Python; one versioned frame for each symbol and table.

A frame a symbol is how ArcticDB is meant to be used: a read names its columns and its range of time, and gets no more segments
than it needs. Buckets of one column set are resampled by its own processing pipeline; what that doesn't know (groups by side,
returns) is done by pandas on what was read. Symbols are in the frames' names, and the other codes are
small integers: strings are read as Python's objects.
"""

import shutil

from .base import Base, sync

MAP_BYTES = 64 << 30
"""Address space that LMDB may take; the file grows as needed."""


class Engine(Base):
    name = "arcticdb"
    title = "ArcticDB"
    requirements = ("arcticdb==6.28.2", "numpy", "pyarrow==26.0.1")
    layout = ("engines.rows",)
    best = (
        "LMDB; a frame for each symbol, indexed by time; reads of columns and ranges; its own resampling for buckets; "
        "groups by side, returns and deviations in pandas."
    )
    answers = "data frame"

    def version(self) -> str:
        import arcticdb

        return arcticdb.__version__

    def connect(self):
        import arcticdb

        path = self.folder / "lmdb"
        path.mkdir(parents=True, exist_ok=True)
        self.arctic = arcticdb.Arctic(f"lmdb://{path}?map_size={MAP_BYTES >> 30}GB")
        self.library = self.arctic.get_library("market", create_if_missing=True)
        return self.library

    def load(self, tables) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.close()
        shutil.rmtree(self.folder / "lmdb", ignore_errors=True)
        library = self.connect()
        for table, paths in tables.items():
            self.store(library, table, pa.concat_tables(pq.read_table(path) for path in paths))
        self.close()
        sync()

    @staticmethod
    def store(library, table: str, rows) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        from .rows import CODES, plain_texts

        rows = plain_texts(rows)
        for place, name in enumerate(rows.column_names):
            if name in CODES and name != "symbol":
                codes = pc.index_in(rows[name], pa.array(CODES[name])).cast(pa.int8())
                rows = rows.set_column(place, name, codes)
        rows = rows.set_column(0, "timestamp", rows["timestamp"].cast(pa.timestamp("ns")))
        for symbol in pc.unique(rows["symbol"]).to_pylist():
            frame = rows.filter(pc.equal(rows["symbol"], symbol)).drop_columns(["symbol"]).to_pandas()
            library.write(f"{table}/{symbol}", frame.set_index("timestamp"))

    def open(self) -> None:
        self.connect()
        names = self.library.list_symbols()
        self.symbols = sorted({name.split("/")[1] for name in names})

    def prepare(self, question, parameters, variant):
        from .arcticdb_queries import QUERIES, Reader

        reader = Reader(self.library, self.symbols)
        query = QUERIES[question.id]
        return lambda: query(reader, parameters, **variant)

    @staticmethod
    def arrow(answer):
        import pyarrow as pa

        return pa.Table.from_pandas(answer, preserve_index=False)

    def write_open(self, files) -> None:
        self.close()
        shutil.rmtree(self.folder / "lmdb", ignore_errors=True)
        self.connect()

    def write(self, files) -> None:
        import pyarrow as pa

        from .rows import from_csv

        for table, path in files.items():
            self.store(self.library, table, pa.concat_tables(from_csv(path)))
        sync()

    def totals(self):
        found = {}
        for table, column in (("trades", "amount"), ("books", "a20s")):
            names = [name for name in self.library.list_symbols() if name.startswith(table)]
            frames = [self.library.read(name, columns=[column]).data for name in names]
            found[table] = sum(len(frame) for frame in frames)
            found[column] = float(sum(frame[column].sum() for frame in frames))
        return found

    def close(self) -> None:
        """LMDB closes its files when nobody holds them any more."""
        for name in ("library", "arctic"):
            if hasattr(self, name):
                delattr(self, name)
