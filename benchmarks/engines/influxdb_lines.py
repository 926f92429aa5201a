"""Rows as InfluxDB's line protocol."""

from . import rows
from .influxdb_queries import TAGS


def as_lines(table: str, part):
    """Rows as line protocol, made by Arrow column by column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    part = rows.plain_texts(part)
    pieces = [table]
    for tag in TAGS:
        if tag in part.column_names:
            pieces += [f",{tag}=", part[tag]]
    separator = " "
    for name in part.column_names:
        if name == "timestamp" or name in TAGS:
            continue
        whole = pa.types.is_integer(part[name].type)
        pieces += [f"{separator}{name}=", part[name].cast(pa.string())] + ["i"] * whole
        separator = ","
    pieces += [" ", unique_times(part).cast(pa.string())]
    return pc.binary_join_element_wise(*pieces, "")


def unique_times(part):
    """Nanoseconds; the k-th row of a symbol at one time gets k more."""
    import numpy as np
    import pyarrow as pa

    times = part["timestamp"].cast(pa.timestamp("ns", "UTC")).cast(pa.int64()).to_numpy()
    codes = part["symbol"].dictionary_encode().combine_chunks()
    codes = (codes.indices if hasattr(codes, "indices") else codes.chunk(0).indices).to_numpy()
    order = np.lexsort((np.arange(len(times)), times, codes))
    sorted_times, sorted_codes = times[order], codes[order]
    starts = np.ones(len(times), bool)
    starts[1:] = (sorted_times[1:] != sorted_times[:-1]) | (sorted_codes[1:] != sorted_codes[:-1])
    first = np.maximum.accumulate(np.where(starts, np.arange(len(times)), 0))
    nudged = np.empty_like(times)
    nudged[order] = sorted_times + (np.arange(len(times)) - first)
    return pa.chunked_array([nudged])
