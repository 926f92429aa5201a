"""Registers lazy frames with narwhals, so that what is written with it takes them: Altair, Plotly, helpers of scikit-learn.

``narwhals.from_native(frame)`` runs the frame's statement and gives an eager frame over its Arrow table, because these libraries ask for
one. For a lazy frame of narwhals give it ``frame.pl(lazy=True)``.

The package registers this module under the entry point ``narwhals.plugins``.
"""

from typing import Any

NATIVE_PACKAGE = "splay"
"""narwhals asks only about objects of classes of this package."""


class FrameNamespace:
    """Makes frames of narwhals of those of this package."""

    def __init__(self, version: Any):
        self._version = version

    def from_native(self, frame: Any, /) -> Any:
        """The rows as narwhals has a table of pyarrow."""
        table = frame.to_arrow()
        return self._version.namespace.from_native_object(table).compliant.from_native(table)


def is_native(native_object: object, /) -> bool:
    """Whether it is a frame of this package."""
    from splay.frames.frame import Frame

    return isinstance(native_object, Frame)


def __narwhals_namespace__(version: Any) -> FrameNamespace:  # noqa: N807 - the name is narwhals'
    """What narwhals asks for frames."""
    return FrameNamespace(version)
