"""The groups of questions: the symbols that they read."""

from ..polars_words import symbol, symbols

RARE = "one rare symbol"
BUSY = "one busy symbol"
FIFTY = "50 symbols"
THOUSAND = "1,000 rare symbols"
WHOLE = "whole table"
JOINS = "as-of joins"

WHERE = {RARE: "Symbol = $rare", BUSY: "Symbol = $busy", FIFTY: "Symbol IN ($fifty)", THOUSAND: "Symbol IN ($thousand)"}
"""The filter of each group in SQL."""


def chosen(group: str, parameters):
    """The filter of each group for Polars."""
    return {
        RARE: lambda: symbol(parameters.rare),
        BUSY: lambda: symbol(parameters.busy),
        FIFTY: lambda: symbols(parameters.fifty),
        THOUSAND: lambda: symbols(parameters.thousand),
    }[group]()


def scope(group: str) -> str:
    """A group's ``WHERE`` in SQL, empty for all symbols."""
    return f"WHERE {WHERE[group]}" if group in WHERE else ""


def rows(frame, group: str, parameters):
    """A group's rows of a frame."""
    return frame.filter(chosen(group, parameters)) if group in WHERE else frame
