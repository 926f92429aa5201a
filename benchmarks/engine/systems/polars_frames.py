"""Polars: frames in memory, codes as Enum, lazy queries, collected.

Frames are sorted by symbol, time and arrival, or by time and arrival where ranges of time are asked of few symbols: such a range is
then found by binary search and is a slice, where a filter would look at every row.
"""

import datetime
from types import SimpleNamespace

from ..polars_words import Absent, pl

if isinstance(pl, Absent):
    raise ImportError("polars is not installed")

LATEST_ROWS = 4_096
"""Where the last row of one of few symbols is looked for first."""


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def nanoseconds(value: datetime.datetime) -> int:
    """An instant as the frames' times have it."""
    return (value - EPOCH) // datetime.timedelta(microseconds=1) * 1_000


class ByTime(SimpleNamespace):
    """Frames in the order of time; as attributes they are lazy."""

    def __init__(self, frames: dict):
        super().__init__(**{table: frame.lazy() for table, frame in frames.items()})
        self.by_name = frames
        # The same bytes as whole numbers, which are searched without a conversion.
        self.times = {table: frame["timestamp"].to_physical() for table, frame in frames.items()}

    def between(self, table: str, start, end):
        """The rows from ``start`` until before ``end``, lazily."""
        low, high = (self.times[table].search_sorted(nanoseconds(bound)) for bound in (start, end))
        return self.by_name[table].slice(low, high - low).lazy()

    def latest(self, table: str, symbol: str, at, columns: list[str]):
        """The last row of a symbol up to an instant: looked for backwards, in ever longer pieces."""
        frame = self.by_name[table]
        # Whole nanoseconds: the first row behind the instant is where the next one would stand.
        end, length = self.times[table].search_sorted(nanoseconds(at) + 1), LATEST_ROWS
        while True:
            piece = frame.slice(max(0, end - length), min(end, length)).select("symbol", *columns)
            found = piece.lazy().filter(pl.col("symbol") == symbol).select(columns).last().collect()
            if found.height or length >= end:
                return found
            length *= 16


class System:
    """Lazy views of the frames by name of their table."""

    name = "Polars"

    def __init__(self):
        self.frames = SimpleNamespace()

    @staticmethod
    def version() -> str:
        return pl.__version__

    def open(self, tables) -> None:
        codes, frames = {}, {}
        for code in tables.codes():
            values = [
                pl.scan_parquet(tables.files(table)).select(pl.col(code).cast(pl.String)).unique().collect()[code]
                for table in tables.with_column(code)
            ]
            codes[code] = pl.Enum(pl.concat(values).drop_nulls().unique().sort())
        for table in tables.names:
            frame = pl.read_parquet(tables.files(table), columns=tables.columns_of(table))
            frame = frame.with_columns(pl.col(code).cast(codes[code]) for code in tables.codes_of(table))
            frame = frame.with_columns(
                pl.col(time).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
                if frame.schema[time].time_zone is None
                else pl.col(time).cast(pl.Datetime("ns", "UTC"))
                for time in tables.times_of(table)
            )
            order = [tables.time(table)] if tables.by_time else [tables.symbol(table), tables.time(table)]
            frames[table] = frame.sort(order, maintain_order=True).rechunk()
        lazy = {table: frame.lazy() for table, frame in frames.items()}
        self.frames = ByTime(frames) if tables.by_time else SimpleNamespace(**lazy)

    def prepare(self, question, parameters, variant):
        """A call without arguments that asks the question: what is timed."""
        frames, values = self.frames, dict(variant)

        def ask():
            answer = question.polars(frames, parameters, **values)
            return answer.collect() if isinstance(answer, pl.LazyFrame) else answer

        return ask

    def prepared(self, question, parameters, variant):
        """The same of a query that was built before: ranges are found, nothing is computed yet."""
        built = question.polars(self.frames, parameters, **variant)
        return built.collect if isinstance(built, pl.LazyFrame) else None

    def session(self):
        """What a thread asks by."""
        return self

    @staticmethod
    def arrow(answer):
        return answer.to_arrow()
