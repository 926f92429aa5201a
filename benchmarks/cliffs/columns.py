"""The columns that all tables of the search have: at least one of every column type, two of those that questions are mostly about."""

from dataclasses import dataclass

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBERS = ("float64", "float32", "decimal", *INTEGERS)
TEXTS = ("symbol", "text")
TYPES = (*NUMBERS, "date", "time", "timestamp", "bool", *TEXTS)


@dataclass(frozen=True)
class Column:
    """A column of every table.

    ``few`` says that it has few values, so that a group for each is a summary. ``nullable`` columns have nulls.
    """

    name: str
    type: str
    few: bool = False
    nullable: bool = False

    @property
    def is_number(self) -> bool:
        return self.type in NUMBERS

    @property
    def is_integer(self) -> bool:
        return self.type in INTEGERS


COLUMNS = (
    Column("time", "timestamp"),
    Column("symbol", "symbol", few=True),
    Column("venue", "symbol", few=True),
    Column("price", "float64"),
    Column("level", "float64", nullable=True),
    Column("mark", "float32"),
    Column("move", "int8", few=True),
    Column("lots", "int16", nullable=True),
    Column("size", "int32"),
    Column("sequence", "int64"),
    Column("tier", "uint8", few=True),
    Column("depth", "uint16"),
    Column("turnover", "uint32"),
    Column("number", "uint64"),
    Column("amount", "decimal"),
    Column("settle", "date", few=True),
    Column("clock", "time"),
    Column("received", "timestamp", nullable=True),
    Column("live", "bool", few=True),
    Column("note", "text", nullable=True),
)
DATE = "date"
"""The partition's date, which SplayDB gives as the last column of ``*``; the others have it as a column."""

BY_NAME = {column.name: column for column in COLUMNS}


def of_type(type: str) -> list[Column]:
    """Columns of a type."""
    return [column for column in COLUMNS if column.type == type]
