"""The 84 questions about a day of US equities.

KX publishes a benchmark of 84 queries over NYSE TAQ files. These are questions of our own of the same kinds, over the same
columns; neither its text nor its figures are here. Groups are the symbols that a question reads, as there.
"""

from . import asof, bars, extremes, mids, running, slices, spreads

MODULES = (slices, mids, spreads, running, extremes, bars, asof)


def questions(parameters) -> list:
    """All questions in order."""
    return [question for module in MODULES for question in module.questions(parameters)]
