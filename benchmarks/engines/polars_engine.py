"""Polars in memory: frames in the order of time and arrival, codes as Enum, lazy queries.

Of three symbols ranges of time are asked: in that order a range is a slice, found by binary search, where a frame sorted by symbol
first would be filtered as a whole. The queries are built and collected inside the clock, as a user would. Frames and queries are those of the side-by-side
benchmark (``engine.systems.polars_frames``).
"""

from .base import Base


class Engine(Base):
    name = "polars"
    title = "Polars, in memory"
    stores = "memory"
    requirements = ("numpy", "polars==2.1.0", "pyarrow==26.0.1")
    best = "Frames in memory in the order of time, ranges by binary search; codes as Enum; lazy queries, optimised and collected."
    answers = "data frame"

    def version(self) -> str:
        import polars

        return polars.__version__

    def load(self, tables) -> None:
        """Nothing is stored: ``open`` reads the files."""
        self.tables = tables

    def open(self) -> None:
        from engine.systems.polars_frames import System
        from engine.tables import Tables

        self.system = System()
        self.system.open(Tables(self.folder, dict(self.tables), by_time=True))

    def prepare(self, question, parameters, variant):
        return self.system.prepare(question, parameters, variant)

    def prepared(self, question, parameters, variant):
        return self.system.prepared(question, parameters, variant)

    @staticmethod
    def arrow(answer):
        return answer.to_arrow()
