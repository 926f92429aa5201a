"""What is asked of an expression before it becomes SQL."""

import dataclasses
import re
from typing import TYPE_CHECKING

from splay.errors import FrameError
from splay.frames.nodes import Call, Column, Kind, Node, Operation, Over, SortKey

if TYPE_CHECKING:
    from splay.frames.frame import Frame


def check_nesting(node: Node) -> None:
    """Refuse what SQL can't nest.

    Raises
    ------
    FrameError
        If a function over rows stands in another one.
    """
    for part in node.walk():
        if not isinstance(part, (Call, Over)):
            continue
        call = part.call if isinstance(part, Over) else part
        # A window function of aggregates is computed over groups; frames take that apart, too.
        if any(within.kind != Kind.ROW for within in part.parts):
            name = call.template.partition("(")[0]
            raise FrameError(
                f"{name} is computed of a column that is computed over rows itself: name that one first, by with_columns or agg"
            )


NUMBERS = r"u?int\d|float|decimal"
"""Types of numbers by their names."""


def check_numbers(frame: "Frame", name: str, types: str, what: str) -> None:
    """Refuse a column whose type isn't one of some, by the plan alone.

    Raises
    ------
    FrameError
        If it isn't.
    """
    spelled = frame._query.spelled(name)
    kind = frame.select(spelled)._planned_types()[spelled]
    if not re.match(types, kind):
        raise FrameError(f"{what}, and {spelled!r} has the type {kind}")


def needs_order(node: Node) -> bool:
    """Whether an aggregate follows the order of rows without naming one."""
    return any(isinstance(part, Call) and part.needs_order and not part.order for part in node.walk())


def is_constant(node: Node) -> bool:
    """Whether it is computed of no column."""
    return not any(isinstance(part, (Column, Call, Over)) for part in node.walk())


def has_loose_column(node: Node) -> bool:
    """Whether a column stands beside aggregates, outside of them."""
    if isinstance(node, Call) and node.is_aggregate:
        return False
    return isinstance(node, Column) or any(has_loose_column(part) for part in node.parts)


CONDITIONS = ("=", "<>", "<", "<=", ">", ">=", "AND", "OR", "IS", "IN", "BETWEEN", "LIKE", "ILIKE")
"""Words behind the first gap of a template that make it a condition."""


def is_condition(node: Node) -> bool:
    """Whether it is known to be true, false or null: what operators made of comparisons."""
    if not isinstance(node, Operation):
        return False
    words = node.template.split()
    return words[:2] == ["NOT", "{}"] or (len(words) > 1 and words[0] == "{}" and words[1] in CONDITIONS)


def in_order(node: Node, order: tuple[SortKey, ...]) -> Node:
    """The same with an order in each function of neighbouring rows that names none."""
    if isinstance(node, Over):
        follows = not node.order and (node.call.needs_order or bool(node.window))
        return dataclasses.replace(node, order=order) if follows else node
    if isinstance(node, Call):
        return node if node.is_aggregate or not node.needs_order else Over(node, order=order)
    return node.replace_parts(lambda part: in_order(part, order))
