"""Sizes in bytes, as numbers and as the settings write them."""

import re
from typing import Any

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def byte_count(size: Any, what: str) -> Any:
    """A size as a number of bytes: ``"512M"``, ``"2GB"`` and ``"1GiB"`` are in powers of 1,024; a number, or None, is as it was.

    Raises
    ------
    ValueError
        If a text is no size.
    TypeError
        If it is neither a number nor a text.
    """
    if size is None or (hasattr(size, "__index__") and not isinstance(size, bool)):
        return size
    if not isinstance(size, str):
        raise TypeError(f"{what} is a whole number of bytes or a size such as '2G', not {size!r}")
    found = re.fullmatch(r"\s*(\d+)\s*([KMGT]?)(?:I?B)?\s*", size.upper())
    if found is None:
        raise ValueError(f"{what} is a whole number of bytes or a size such as '512M' or '2G', not {size!r}")
    return int(found[1]) << 10 * _POWERS[found[2]]
