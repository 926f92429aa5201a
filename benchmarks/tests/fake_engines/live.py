"""SplayDB's real-time table, with what is installed here."""

from engines.splay_memory_engine import Engine as Live


class Engine(Live):
    name = "fake_engines.live"
    requirements = ()

    @classmethod
    def unavailable(cls, settings):
        return None
