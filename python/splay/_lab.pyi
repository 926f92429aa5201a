"""The laboratory of compression as ``splay.lab`` calls it."""

from collections.abc import Callable
from os import PathLike
from typing import Any

import pyarrow

def lab_generate(kind: str, count: int, order: str, seed: int) -> pyarrow.RecordBatch: ...
def lab_compression(
    data: list[tuple[str, list[Any]]],
    request: dict[str, Any],
    statement: Callable[[pyarrow.RecordBatch], float | None] | None = None,
    progress: Callable[[int, int, float | None, str, str], None] | None = None,
) -> tuple[pyarrow.RecordBatch, list[tuple[str, str, str]], int]: ...
def lab_load(path: str | PathLike[str]) -> pyarrow.RecordBatch: ...
def lab_save(rows: Any, path: str | PathLike[str]) -> None: ...
def lab_totals(rows: Any) -> pyarrow.RecordBatch: ...
def lab_extremes(rows: Any) -> list[tuple[str, float, float, float]]: ...
def lab_best(rows: Any, metric: str) -> pyarrow.RecordBatch: ...
def lab_choose(
    rows: Any,
    order_by: str,
    min_factor: float | None = None,
    max_write_ms: float | None = None,
    max_read_ms: float | None = None,
    max_block_us: float | None = None,
    max_memory: float | None = None,
    max_query_ms: float | None = None,
) -> pyarrow.RecordBatch: ...
def lab_front(rows: Any, metrics: list[str]) -> pyarrow.RecordBatch: ...
