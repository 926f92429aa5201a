"""The questions, after "Comparing columnar data formats: Arrow, Vaex and kdb+" and "Comparing Arrow, Parquet and kdb+ file formats"
(AquaQ). Each system answers them in its own words (systems/).
"""

KEYS = {
    "auction": ("symbol", "sequence_number"),
    "minutes": ("symbol", "minute"),
    "mids": ("symbol", "hour"),
    "intraday": ("bucket",),
    "prints": ("symbol", "sequence_number"),
    "by_symbol": ("symbol",),
    "by_exchange": ("symbol", "exchange"),
    "union": ("symbol", "exchange"),
}
"""Names of the questions, and the columns that tell rows of an answer apart."""

TITLES = {
    "auction": "prints of AAPL's opening auction",
    "minutes": "volume by symbol and minute",
    "mids": "mean mid by symbol and hour",
    "intraday": "AAPL's volume by five minutes, for a plot",
    "prints": "prints of AAPL by condition, all columns of the question",
    "by_symbol": "volume by symbol",
    "by_exchange": "volume by symbol and exchange",
    "union": "spread and size beside range and vwap, full join by symbol and exchange",
}

OPEN, CLOSE = "2019-10-07T13:30:00", "2019-10-07T20:00:00"
"""The session, in UTC."""
PRINT_COLUMNS = ["Symbol", "Sequence_Number", "Time", "Exchange", "Sale_Condition", "Trade_Volume", "Trade_Price"]
