"""Whether two systems' answers are equal, with the comparison of ``engine.compare``.

Columns are taken by position. Rows without an order are sorted by the columns that must be exactly equal, then by the others.
"""

import pyarrow as pa

from engine.compare import Different, check_equal, plain

from .expressions import EXACT, FLOAT
from .statement import Statement


def check(statement: Statement, expected: pa.Table, found: pa.Table) -> None:
    """Compares an answer with another.

    Raises
    ------
    Different
        If they are not equal.
    """
    if expected.num_columns != found.num_columns:
        raise Different(f"{found.num_columns} columns instead of {expected.num_columns}")
    if expected.num_rows != found.num_rows:
        raise Different(f"{found.num_rows} rows instead of {expected.num_rows}")
    places = range(expected.num_columns) if statement.compared is None else statement.compared
    if not places or not expected.num_rows:
        return
    relative = {f"c{place}": statement.loose[place] or FLOAT for place in places}
    expected, found = chosen(expected, places), chosen(found, places)
    exact = tuple(
        name
        for name, place in zip(expected.column_names, places, strict=True)
        if statement.loose[place] == EXACT and whole(expected[name])
    )
    try:
        # Most answers come in the same order, asked for or not: they needn't be sorted.
        check_equal(expected, found, exact, ordered=True, relative=relative)
    except Different:
        if statement.ordered:
            raise
        check_equal(expected, found, exact, bag=True, relative=relative)


def chosen(table: pa.Table, places) -> pa.Table:
    """Columns by position, in types that can be compared and sorted."""
    return pa.table({f"c{place}": sortable(plain(table.column(place))) for place in places})


def sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.int64()) if pa.types.is_null(column.type) else column


def whole(column: pa.ChunkedArray) -> bool:
    """Whether values are exact in any system."""
    return not pa.types.is_floating(column.type)
