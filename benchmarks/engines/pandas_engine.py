"""pandas in memory: the floor. Frames in the order of arrival, codes as categories.

What a researcher has without a database. Times rise, so a range of time is found by binary search and is a view.
"""

from .base import Base


class Engine(Base):
    name = "pandas"
    title = "pandas, in memory"
    stores = "memory"
    requirements = ("numpy", "pandas==3.1.1", "pyarrow==26.0.1")
    best = "Frames in memory in the order of time, ranges by binary search; codes as categories; plain pandas."
    answers = "data frame"

    def version(self) -> str:
        import pandas

        return pandas.__version__

    def load(self, tables) -> None:
        """Nothing is stored: ``open`` reads the files."""
        self.files = tables

    def open(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.tables = {}
        for table, paths in self.files.items():
            rows = pa.concat_tables(pq.read_table(path) for path in paths).unify_dictionaries()
            frame = rows.to_pandas(self_destruct=True, split_blocks=True)
            for code in frame.select_dtypes("category"):
                frame[code] = frame[code].cat.reorder_categories(sorted(frame[code].cat.categories))
            self.tables[table] = frame

    def prepare(self, question, parameters, variant):
        from . import pandas_queries

        query = pandas_queries.QUERIES[question.id]
        return lambda: query(self.tables, parameters, **variant)

    @staticmethod
    def arrow(answer):
        import pyarrow as pa

        return pa.Table.from_pandas(answer, preserve_index=False)
