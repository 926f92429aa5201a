"""The groups of questions: the symbols that they read."""

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
    from ..polars_words import symbol, symbols

    return {
        RARE: lambda: symbol(parameters.rare),
        BUSY: lambda: symbol(parameters.busy),
        FIFTY: lambda: symbols(parameters.fifty),
        THOUSAND: lambda: symbols(parameters.thousand),
    }[group]()
