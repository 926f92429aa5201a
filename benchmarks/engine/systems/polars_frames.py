"""Polars: frames in memory, sorted by symbol, time and arrival; codes as Enum; lazy queries, collected."""

from types import SimpleNamespace

from ..polars_words import Absent, pl

if isinstance(pl, Absent):
    raise ImportError("polars is not installed")


class System:
    """Lazy views of the frames by name of their table."""

    name = "Polars"

    def __init__(self):
        self.frames = SimpleNamespace()

    @staticmethod
    def version() -> str:
        return pl.__version__

    def open(self, tables) -> None:
        codes = {}
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
            frame = frame.sort(tables.symbol(table), tables.time(table), maintain_order=True).rechunk()
            setattr(self.frames, table, frame.lazy())

    def prepare(self, question, parameters, variant):
        """A call without arguments that asks the question: what is timed."""
        frames, values = self.frames, dict(variant)

        def ask():
            answer = question.polars(frames, parameters, **values)
            return answer.collect() if isinstance(answer, pl.LazyFrame) else answer

        return ask

    def session(self):
        """What a thread asks by."""
        return self

    @staticmethod
    def arrow(answer):
        return answer.to_arrow()
