"""Results of the laboratory: a table, and what it says."""

import os
from typing import TYPE_CHECKING, Any

from splay._splay import lab_best, lab_choose, lab_extremes, lab_front, lab_load, lab_save, lab_totals

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from splay.lab.plots import Plots

FRONT = ("factor", "write", "read")
"""What the Pareto front is about."""


class Results:
    """A table of results, a row for each scheme and column.

    Its columns are those of q's compression tests under their names there (``lbs``, ``alg``, ``lvl``, ``dataType``, ``dataCount``,
    ``writeTime``, ``readTime``, ``compFactor``, ``testTime``, ``queryTime``), and ours. Times are milliseconds, ``blockTime`` microseconds.

    Attributes
    ----------
    skipped
        Schemes without a result: scheme, data and reason.
    left
        Tests that the budget left no time for.
    """

    def __init__(self, rows: Any, skipped: list[tuple[str, str, str]] | None = None, left: int = 0):
        import pyarrow

        self._rows: pyarrow.Table = pyarrow.table(rows)
        self.skipped = skipped or []
        self.left = left

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    def __repr__(self) -> str:
        data = ", ".join(self.data)
        return f"<splay.lab.Results of {len(self)} tests: {data}; {len(self.skipped)} skipped, {self.left} left>"

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._rows.__arrow_c_stream__(requested_schema)

    @property
    def data(self) -> list[str]:
        """Names of the columns or lists."""
        return sorted(set(self._rows["data"].to_pylist()))

    def to_arrow(self) -> "pyarrow.Table":
        """All rows as a `pyarrow.Table`."""
        return self._rows

    def df(self) -> "pandas.DataFrame":
        """All rows as a `pandas.DataFrame`."""
        return self._rows.to_pandas()

    def pl(self) -> "polars.DataFrame":
        """All rows as a `polars.DataFrame`."""
        import polars

        frame = polars.from_arrow(self._rows)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Save as Parquet, or as CSV if the name ends so."""
        lab_save(self._rows, path)

    def of(self, *data: str, family: str | None = None, codec: str | None = None) -> "Results":
        """The results of some columns, of a family of schemes, or of a codec."""
        import pyarrow.compute as pc

        rows = self._rows
        if data:
            rows = rows.filter(pc.is_in(rows["data"], _strings(data)))
        for name, value in (("family", family), ("codec", codec)):
            if value is not None:
                rows = rows.filter(pc.equal(rows[name], value))
        return Results(rows)

    def totals(self) -> "Results":
        """One row for each scheme that all columns have: sums of bytes and times."""
        return Results(lab_totals(self._rows))

    def summary(self) -> "pyarrow.Table":
        """Maximum, minimum and average of each metric."""
        import pyarrow

        extremes = lab_extremes(self._rows)
        names = ("metric", "maximum", "minimum", "average")
        return pyarrow.table({name: [row[place] for row in extremes] for place, name in enumerate(names)})

    def best(self, metric: str) -> "pyarrow.Table":
        """All rows with the best value of ``factor``, ``write``, ``read``, ``block``, ``memory`` or ``query``."""
        return _table(lab_best(self._rows, metric))

    def choose(
        self,
        *,
        order_by: str = "factor",
        min_factor: float | None = None,
        max_write_ms: float | None = None,
        max_read_ms: float | None = None,
        max_block_us: float | None = None,
        max_memory: float | None = None,
        max_query_ms: float | None = None,
    ) -> "pyarrow.Table":
        """The rows within limits, the best by a metric first."""
        return _table(
            lab_choose(
                self._rows, order_by, min_factor, max_write_ms, max_read_ms, max_block_us, max_memory, max_query_ms
            )
        )

    def front(self, *metrics: str) -> "pyarrow.Table":
        """The Pareto front: rows that no other beats in one of the metrics and equals in the others. Default: factor, write, read."""
        return _table(lab_front(self._rows, list(metrics or FRONT)))

    @property
    def plot(self) -> "Plots":
        """Plots: ``front``, ``levels``, ``blocks``, and ``html`` for a page of all of them."""
        from splay.lab.plots import Plots

        return Plots(self)


def load(path: "str | os.PathLike[str]") -> Results:
    """Results that were saved."""
    return Results(lab_load(path))


def _table(rows: "pyarrow.RecordBatch") -> "pyarrow.Table":
    import pyarrow

    return pyarrow.table(rows)


def _strings(texts: tuple[str, ...]) -> Any:
    import pyarrow

    return pyarrow.array(texts, pyarrow.string())
