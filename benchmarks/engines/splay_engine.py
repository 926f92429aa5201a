"""SplayDB on disk: the product as it is installed, without settings."""

import shutil

from .base import TOTALS, Base, sync


class Engine(Base):
    name = "splay"
    tier = "mapped"
    title = "SplayDB"
    requirements = ("numpy", "pyarrow==26.0.1")
    best = (
        "Tables as `load` makes them: rows ordered by symbol, time and arrival, one partition a date, segments mapped, "
        "not compressed. Plain SQL as a user writes it; no result cache, no prepared statements."
    )

    @classmethod
    def unavailable(cls, settings):
        return None if settings.get("wheel") else "no wheel in target/wheels: run `make wheel`"

    def version(self) -> str:
        import splay

        return splay.__version__

    @property
    def database(self):
        return self.folder / "db"

    def load(self, tables) -> None:
        import splay

        shutil.rmtree(self.database, ignore_errors=True)
        database = splay.open(self.database, threads=self.threads)
        for table, paths in tables.items():
            files = [str(path) for path in paths]
            database.load(table, files, time="timestamp", symbol="symbol", threads=self.threads, tier=self.tier)
        sync()

    def open(self) -> None:
        import splay
        from engine.systems.splaydb import System

        self.system = System()
        self.system.database = splay.open(self.database, create=False, threads=self.threads)
        self.answer = None

    def prepare(self, question, parameters, variant):
        text = self.system.text(question, parameters, variant)
        database = self.system.database

        def ask():
            answer = database.sql(text)
            table = answer.to_arrow()
            self.answer = answer
            return table

        return ask

    def engine_ms(self) -> float | None:
        stats = self.answer.stats
        return (stats.planning_seconds + stats.execution_seconds) * 1e3

    def write(self, files) -> None:
        self.load({table: [path] for table, path in files.items()})

    def totals(self):
        self.open()
        return {name: self.system.database.sql(text).to_arrow()[0][0].as_py() for name, text in TOTALS.items()}
