"""What is known of a table, for constants that occur in it: symbols by how busy they are, and values of each column in order."""

import datetime
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from .columns import COLUMNS

SAMPLE = 2_000
"""Rows that are looked at for the values of a column."""


@dataclass(frozen=True)
class Profile:
    """A table as constants are drawn from it."""

    table: str
    rows: int
    symbols: list[str]
    """The busiest first."""
    values: dict[str, list]
    """A sample of each column's values, ascending, without nulls."""

    @property
    def start(self) -> datetime.datetime:
        return self.values["time"][0]

    @property
    def end(self) -> datetime.datetime:
        return self.values["time"][-1]

    def quantile(self, column: str, share: float):
        """The value that about ``share`` of the rows don't exceed."""
        values = self.values[column]
        return values[min(len(values) - 1, int(share * len(values)))]

    def distinct(self, column: str) -> list:
        """Values of the sample, each once, ascending."""
        return list(dict.fromkeys(self.values[column]))


def profile(table: str, rows: pa.Table) -> Profile:
    """Looks at a table's rows."""
    counts = pc.value_counts(rows["symbol"].cast(pa.string())).to_pylist()
    symbols = [one["values"] for one in sorted(counts, key=lambda one: (-one["counts"], one["values"]))]
    step = max(1, rows.num_rows // SAMPLE)
    sample = rows.take(pa.array(range(0, rows.num_rows, step), pa.int64()))
    values = {
        column.name: sorted(value for value in sample[column.name].to_pylist() if value is not None)
        for column in COLUMNS
    }
    return Profile(table, rows.num_rows, symbols, values)
