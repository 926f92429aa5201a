"""Polars in memory: frames sorted by symbol, time and arrival, codes as Enum, lazy queries.

The queries are built and collected inside the clock, as a user would. Frames and queries are those of the side-by-side
benchmark (``engine.systems.polars_frames``).
"""

from .base import Base


class Engine(Base):
    name = "polars"
    title = "Polars, in memory"
    stores = "memory"
    requirements = ("numpy", "polars==2.1.0", "pyarrow==26.0.1")
    best = "Frames in memory, sorted by symbol, time and arrival; codes as Enum; lazy queries, optimised and collected."
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
        self.system.open(Tables(self.folder, dict(self.tables)))

    def prepare(self, question, parameters, variant):
        return self.system.prepare(question, parameters, variant)

    @staticmethod
    def arrow(answer):
        return answer.to_arrow()
