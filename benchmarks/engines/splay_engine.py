"""SplayDB on disk: the product as it is installed, without settings."""

import shutil

from .base import TOTALS, Base, sync
from .translate import never_seen, placeholders


class Engine(Base):
    name = "splay"
    tier = "mapped"
    title = "SplayDB"
    requirements = ("numpy", "pyarrow==26.0.1")
    best = (
        "Tables as `load` makes them: rows ordered by symbol, time and arrival, one partition a date, segments mapped, "
        "not compressed. Plain SQL as a user writes it; no result cache. A known text is answered from a cache of plans by its "
        "shape; the columns `prepared` and `never seen` say what the other two cost."
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
        self.statements = {}

    def asking(self, run):
        """The call that runs a statement and takes its answer."""

        def ask():
            answer = run()
            table = answer.to_arrow()
            self.answer = answer
            return table

        return ask

    def prepare(self, question, parameters, variant):
        text = self.system.text(question, parameters, variant)
        return self.asking(lambda: self.system.database.sql(text))

    def unseen(self, question, parameters, variant, mark: int):
        text = never_seen(self.system.text(question, parameters, variant), mark)
        return self.asking(lambda: self.system.database.sql(text))

    def prepared(self, question, parameters, variant):
        marks, values = placeholders(question.sql, parameters, variant, "${}".format)
        if question.id not in self.statements:
            text = self.system.text(question, parameters, marks)
            self.statements[question.id] = self.system.database.prepare(text)
        statement = self.statements[question.id]
        return self.asking(lambda: statement.run(values))

    def engine_ms(self) -> float | None:
        # The answer goes here, off the clock, and not when the next one takes its place.
        answer, self.answer = self.answer, None
        if answer is None:
            return None
        stats = answer.stats
        return (stats.planning_seconds + stats.execution_seconds) * 1e3

    def write(self, files) -> None:
        self.load({table: [path] for table, path in files.items()})

    def totals(self):
        self.open()
        return {name: self.system.database.sql(text).to_arrow()[0][0].as_py() for name, text in TOTALS.items()}

    def close(self) -> None:
        """Lets go of the mapped files."""
        for name in ("system", "statements", "answer"):
            self.__dict__.pop(name, None)
