"""SplayDB in memory: the real-time table, which isn't there yet."""

from .splay_engine import Engine as Disk


class Engine(Disk):
    name = "splay-memory"
    title = "SplayDB in memory"
    stores = "memory"

    @classmethod
    def unavailable(cls, settings):
        return "not there yet: SplayDB has no real-time table"
