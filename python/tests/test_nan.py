"""Stored floats have one NaN, however they came in, and it is above all numbers."""

import struct

import oracle_rows
import pyarrow as pa
import pytest

# As x86 makes it of infinity less infinity, and one with a payload.
SIGNED = struct.unpack("d", struct.pack("Q", 0xFFF8_0000_0000_0000))[0]
PAYLOAD = struct.unpack("d", struct.pack("Q", 0x7FF8_0000_0000_0007))[0]


@pytest.mark.parametrize("source", ["arrow", "parquet", "captured", "mixed"])
def test_stored_nans_are_one(tmp_path, source):
    values = [1.0, SIGNED, float("nan"), float("inf"), PAYLOAD, float("-inf")]
    table = pa.table(
        {
            "ts": pa.array(range(6), pa.timestamp("ns", "UTC")),
            "sym": pa.array(["a"] * 6).dictionary_encode(),
            "x": pa.array(values, pa.float64()),
            "f": pa.array(values, pa.float32()),
        }
    )
    database, capture = oracle_rows.database(tmp_path, table, source)
    for column, word, nan in [("x", "Q", 0x7FF8_0000_0000_0000), ("f", "I", 0x7FC0_0000)]:
        asked = database.sql(f"select {column} from t order by {column}").to_arrow()[0].combine_chunks()
        bits = struct.unpack(f"6{word}", asked.buffers()[1].to_pybytes()[: 6 * struct.calcsize(word)])
        assert bits[3:] == (nan,) * 3
        counts = f"select count(*) from t where {column} > 5 union all select count(*) from t where {column} = 'NaN'"
        assert sorted(database.sql(counts).to_arrow()[0].to_pylist()) == [3, 4]
        signed = f"select count(*) from t where {column} >= -cast('NaN' as double) and {column} = $nan"
        assert database.sql(signed, {"nan": SIGNED}).to_arrow()[0].to_pylist() == [3]
        assert database.sql(f"select {column}, count(*) n from t group by {column} order by n").to_arrow()[1].to_pylist() == [1, 1, 1, 3]
    if capture is not None:
        capture.close()
