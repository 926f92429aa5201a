"""Ends in the middle of one query, hangs in another, answers the third."""

import os
import time

from . import Right


class Engine(Right):
    name = "fake_engines.dying"
    title = "Dying"

    def prepare(self, question, parameters, variant):
        if question.id == "T-VWAP":
            return lambda: os._exit(3)
        if question.id == "O-B1":
            return lambda: time.sleep(3_600)
        return super().prepare(question, parameters, variant)
