"""Gives another VWAP by a millionth, and loses a trade of the write day."""

import pyarrow.compute as pc

from . import Right


class Engine(Right):
    name = "fake_engines.wrong"
    title = "Wrong"

    def prepare(self, question, parameters, variant):
        call = super().prepare(question, parameters, variant)
        if question.id != "T-VWAP":
            return call

        def ask():
            answer = call()
            return answer.set_column(1, "vwap", pc.multiply(answer["vwap"], 1.000001))

        return ask

    def totals(self):
        found = super().totals()
        return found | {"trades": found["trades"] - 1}
