"""Encrypted segments: readers of Parquet with the key see the rows, those without see nothing."""

import base64
import datetime
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splay

aead = pytest.importorskip("cryptography.hazmat.primitives.ciphers.aead")
encryption = pytest.importorskip("pyarrow.parquet.encryption")

KEYS = {"long": bytes(range(32)), "short": bytes(range(16))}
ROWS = 20_000


class Client(encryption.KmsClient):
    """Unwraps the keys of files with keys at hand."""

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> str:
        raise NotImplementedError

    def unwrap_key(self, wrapped_key: str, master_key_identifier: str) -> bytes:
        wrapped = base64.b64decode(wrapped_key)
        return aead.AESGCM(KEYS[master_key_identifier]).decrypt(wrapped[:12], wrapped[12:], master_key_identifier.encode())


def frame() -> pa.Table:
    start = datetime.datetime(2024, 3, 4, 14, 30, tzinfo=datetime.UTC)
    some = lambda value, row: None if row % 7 == 3 else value  # noqa: E731
    return pa.table(
        {
            "time": pa.array([start + datetime.timedelta(milliseconds=row) for row in range(ROWS)], pa.timestamp("ns", "UTC")),
            "sym": pa.array(["SECRETSYM"] * ROWS).dictionary_encode(),
            "price": pa.array([some(100 + row % 37 / 4, row) for row in range(ROWS)], pa.float64()),
            "size": pa.array([some(row * 17 % 1000, row) for row in range(ROWS)], pa.int32()),
            "note": pa.array([some(f"note {row}", row) for row in range(ROWS)]),
            "bid": pa.array([some([row / 2, row / 3], row) for row in range(ROWS)], pa.list_(pa.float64(), 2)),
        }
    )


@pytest.mark.parametrize("tier", ["fast", "small"])
@pytest.mark.parametrize("key", ["long", "short"])
def test_pyarrow_reads_a_segment_with_the_key(tmp_path: pathlib.Path, tier: str, key: str) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"{key} {KEYS[key].hex()}\n")
    splay.open(tmp_path / "db")
    (tmp_path / "db" / "splay.toml").write_text(f'[encryption]\nkey_file = "{keys}"\n')
    database = splay.open(tmp_path / "db")
    database.write("trade", frame(), time="time", symbol="sym", tier=tier)
    (path,) = (tmp_path / "db" / "trade").glob("date=*/*.parquet")
    assert b"SECRETSYM" not in path.read_bytes()
    with pytest.raises((OSError, pa.ArrowInvalid)):
        pq.ParquetFile(path)
    properties = encryption.CryptoFactory(lambda _: Client()).file_decryption_properties(encryption.KmsConnectionConfig())
    found = pq.ParquetFile(path, decryption_properties=properties).read()
    expected = frame()
    for name in expected.column_names:
        values = found[name].cast(expected[name].type) if name in ("time", "price") else found[name]
        assert values.to_pylist() == expected[name].to_pylist(), name
    assert database.sql("select count(*) as n from trade").to_arrow()["n"].to_pylist() == [ROWS]
