"""Can't be had."""

from . import Right


class Engine(Right):
    name = "fake_engines.absent"
    title = "Absent"

    @classmethod
    def unavailable(cls, settings):
        return "its maker is on holiday"
