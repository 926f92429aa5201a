"""Forms of statements, one file each with ``draw(d)``, which gives a statement of the form."""

from . import distinct, filters, groups, joins, pivots, sorts, subqueries, windows

FORMS = {
    "filters": filters.draw,
    "groups": groups.draw,
    "windows": windows.draw,
    "joins": joins.draw,
    "pivots": pivots.draw,
    "sorts": sorts.draw,
    "distinct": distinct.draw,
    "subqueries": subqueries.draw,
}
"""By the names of ``shares``."""
