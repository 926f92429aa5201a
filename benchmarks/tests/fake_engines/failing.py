"""Can't be opened."""

from . import Right


class Engine(Right):
    name = "fake_engines.failing"
    title = "Failing"

    def open(self):
        raise RuntimeError("no room at the inn")
