"""Rows as InfluxDB's line protocol."""

from . import rows
from .influxdb_queries import TAGS


def as_lines(table: str, part, times):
    """Rows as line protocol, made by Arrow column by column. ``times`` is the table's one :class:`UniqueTimes`."""
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
    pieces += [" ", times.of(part).cast(pa.string())]
    return pc.binary_join_element_wise(*pieces, "")


class UniqueTimes:
    """Nanoseconds for the rows of a table that comes in pieces: the k-th row of a symbol at one time gets k more.

    InfluxDB's rule is that a point of the same series and time replaces the one before, so rows of equal time need times of their
    own. Rows of one time may be cut apart by the end of a piece: the count goes on in the next one. Times are told apart where each
    symbol's rows come in order of time, as they do in the data's files.
    """

    def __init__(self):
        self.latest = {}
        """Of each symbol its latest time, and how many rows had it."""

    def of(self, part):
        import numpy as np
        import pyarrow as pa

        times = part["timestamp"].cast(pa.timestamp("ns", "UTC")).cast(pa.int64()).to_numpy()
        encoded = part["symbol"].cast(pa.string()).combine_chunks().dictionary_encode()
        encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
        symbols, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
        order = np.lexsort((np.arange(len(times)), times, codes))
        sorted_times, sorted_codes = times[order], codes[order]
        starts = np.ones(len(times), bool)
        starts[1:] = (sorted_times[1:] != sorted_times[:-1]) | (sorted_codes[1:] != sorted_codes[:-1])
        first = np.maximum.accumulate(np.where(starts, np.arange(len(times)), 0))
        rank = np.arange(len(times)) - first
        for code, symbol in enumerate(symbols):
            begin, end = np.searchsorted(sorted_codes, [code, code + 1])
            time, before = self.latest.get(symbol, (None, 0))
            if time == sorted_times[begin]:
                rank[begin:end][sorted_times[begin:end] == time] += before
            self.latest[symbol] = (int(sorted_times[end - 1]), int(rank[end - 1]) + 1)
        nudged = np.empty_like(times)
        nudged[order] = sorted_times + rank
        return pa.chunked_array([nudged])
