"""Answers as it should."""

from . import Right


class Engine(Right):
    name = "fake_engines.right"
