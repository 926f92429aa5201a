"""Has no prepared statements, and is wrong where a text is new."""

import pyarrow.compute as pc

from . import Right


class Engine(Right):
    name = "fake_engines.plain"
    title = "Plain"

    def prepared(self, question, parameters, variant):
        return None

    def unseen(self, question, parameters, variant, mark):
        call = super().unseen(question, parameters, variant, mark)

        def ask():
            answer = call()
            return answer.set_column(1, answer.column_names[1], pc.multiply(answer[1], 1.001)) if question.id == "O-B1" else answer

        return ask
