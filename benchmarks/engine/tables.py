"""A data set: a SplayDB database and the same rows as Parquet for the others."""

import pathlib
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq


def is_text(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (pa.types.is_dictionary, pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )


@dataclass
class Tables:
    """Tables with their files, in the order of arrival.

    ``columns`` names, by table, the columns that the rivals hold; those of no question are left out.
    """

    database: pathlib.Path
    paths: dict[str, list[pathlib.Path]]
    columns: dict[str, list[str]] = field(default_factory=dict)
    by_time: bool = False
    """Whether frames are best in the order of time alone: a long time of few symbols, of which ranges of time are asked."""

    @property
    def names(self) -> list[str]:
        return list(self.paths)

    def files(self, table: str) -> list[pathlib.Path]:
        return self.paths[table]

    def read(self, table: str, columns: list[str]) -> pa.Table:
        """Some columns of a table's rows, of all its files."""
        return pa.concat_tables(pq.read_table(path, columns=columns) for path in self.files(table)).unify_dictionaries()

    def schema(self, table: str) -> pa.Schema:
        return pq.read_schema(self.paths[table][0])

    def columns_of(self, table: str) -> list[str]:
        return self.columns.get(table) or [name for name in self.schema(table).names if name != "date"]

    def codes_of(self, table: str) -> list[str]:
        """Columns of symbols and codes: all that are text."""
        schema = self.schema(table)
        return [name for name in self.columns_of(table) if is_text(schema.field(name).type)]

    def times_of(self, table: str) -> list[str]:
        schema = self.schema(table)
        return [name for name in self.columns_of(table) if pa.types.is_timestamp(schema.field(name).type)]

    def codes(self) -> list[str]:
        return list(dict.fromkeys(code for table in self.names for code in self.codes_of(table)))

    def with_column(self, column: str) -> list[str]:
        return [table for table in self.names if column in self.columns_of(table)]

    def time(self, table: str) -> str:
        """The time column: the first timestamp."""
        return self.times_of(table)[0]

    def symbol(self, table: str) -> str:
        """The symbol column: named so."""
        return next(name for name in self.columns_of(table) if name.lower() in ("symbol", "sym"))

    def rows(self) -> dict[str, int]:
        return {table: sum(pq.read_metadata(path).num_rows for path in paths) for table, paths in self.paths.items()}
