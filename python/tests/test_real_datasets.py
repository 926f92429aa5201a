"""Every recorded data set is stored through the public interface, and agrees with a parse of its files that is written here.

Rows are counted by group, whole numbers are summed exactly and floats to nine places; first and last times are equal. The data is in the
folder that SPLAY_REAL_DATA names, or in ../shared/data beside the repository. Each test says which part of it is absent.

Not compared here:

- LEAN's equity trades: test_real_data.py does. The data has no LEAN bars of equities, and no crypto.
- Cryptofeed's captures are stored by Cryptofeed itself, see docs/guide/capture-crypto.md, so the tests of their trades need that package,
  and compare six venues whose messages are simple; test_cryptofeed.py counts the rows of all channels. Without the package the messages
  of all venues are stored as the texts they are.
- Fields of DBN's definitions, statistics, imbalances and statuses, apart from times, instruments and symbols.
- Books that are rebuilt from Binance's recordings: test_binance_recorded.py does.
"""

import collections
import datetime as dt
import gzip
import json
import math
import os
import pathlib
import re
import struct
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from test_cryptofeed import captures, cryptofeed, playback  # noqa: F401, two of them are fixtures

import splay
from splay.feeds.binance_recorded import replay
from splay.feeds.cryptofeed import TradeSplay

DATA = pathlib.Path(os.environ.get("SPLAY_REAL_DATA", pathlib.Path(__file__).resolve().parents[3] / "shared" / "data"))


def present(folder: str, pattern: str, what: str) -> list[pathlib.Path]:
    """The files of a pattern below a folder of the data, by name."""
    found = sorted((DATA / folder).glob(pattern))
    if not found:
        top = folder.split("/")[0]
        pytest.skip(f"the real data is absent: no {what} in {DATA / folder}; set SPLAY_REAL_DATA to the folder that holds {top}/")
    return found


def file(folder: str, name: str) -> pathlib.Path:
    source = DATA / folder / name
    if not source.exists():
        top = folder.split("/")[0]
        pytest.skip(f"the real data is absent: no {source}; set SPLAY_REAL_DATA to the folder that holds {top}/")
    return source


def asked(db: "splay.Database", statement: str) -> pd.DataFrame:
    return db.sql(statement).to_pandas()


def instants(column: pd.Series) -> list[int]:
    """Nanoseconds since the epoch."""
    return column.dt.tz_convert("UTC").dt.tz_localize(None).astype("datetime64[ns]").astype("int64").tolist()


def nullable(column: Iterable[Any]) -> list[Any]:
    return [None if pd.isna(value) else value for value in column]


def assert_equal_sums(found: pd.Series, expected: pd.Series) -> None:
    """Whole numbers exactly, floats to nine places."""
    if pd.api.types.is_float_dtype(expected.dtype):
        close = pytest.approx(expected.to_numpy(dtype=float), rel=1e-9, nan_ok=True)
        assert found.to_numpy(dtype=float) == close, found.name
    else:
        assert nullable(found) == nullable(expected), found.name


def assert_same_groups(db: "splay.Database", table: str, frame: pd.DataFrame, keys: list[str]) -> None:
    """Counts, sums, first and last values and times of a table by its keys are those of a frame with the same columns, in order of arrival.

    Texts are counted, once each too.
    """
    columns = [name for name in frame.columns if name not in ("time", *keys)]
    numbers = [name for name in columns if pd.api.types.is_numeric_dtype(frame[name].dtype)]
    texts = [name for name in columns if name not in numbers]
    time = db.table(table).time
    flags = {name for name in numbers if frame[name].dtype == "boolean"}
    values = {name: f'cast("{name}" as bigint)' if name in flags else f'"{name}"' for name in numbers}
    asks = [f'sum({value}) as "sum {name}"' for name, value in values.items()]
    asks += [f'count("{name}") as "n {name}"' for name in columns]
    asks += [f'count(distinct "{name}") as "distinct {name}"' for name in texts]
    asks += [f'{end}_value("{name}") as "{end} {name}"' for name in numbers[:2] for end in ("first", "last")]
    by = ", ".join(f'"{key}"' for key in keys)
    asks += ["count(*) as n", f'min("{time}") as start', f'max("{time}") as end']
    found = asked(db, f"select {by}, {', '.join(asks)} from {table} group by {by} order by {by}")
    grouped = frame.groupby(keys, sort=True, observed=True)
    groups = grouped.size().reset_index(name="n")
    for key in keys:
        expected_keys = groups[key].dt.date if pd.api.types.is_datetime64_dtype(groups[key].dtype) else groups[key]
        assert found[key].tolist() == expected_keys.tolist()
    assert found["n"].tolist() == groups["n"].tolist()
    assert instants(found["start"]) == grouped["time"].min().tolist()
    assert instants(found["end"]) == grouped["time"].max().tolist()
    for name in numbers:
        assert_equal_sums(found[f"sum {name}"], grouped[name].sum(min_count=1))
    for name in columns:
        assert found[f"n {name}"].tolist() == grouped[name].count().tolist(), name
    for name in texts:
        assert found[f"distinct {name}"].tolist() == grouped[name].nunique().tolist(), name
    ends = {end: frame.drop_duplicates(keys, keep=end).sort_values(keys) for end in ("first", "last")}
    for name in numbers[:2]:
        for end, rows in ends.items():
            assert_equal_sums(found[f"{end} {name}"], rows[name])


# LEAN: zip files without headers, one member or one for each contract.

QUOTE = "ms bid_price bid_size ask_price ask_size exchange condition suspicious"
BARS = "bid_open bid_high bid_low bid_close bid_size ask_open ask_high ask_low ask_close ask_size"
WHOLE = {"size", "bid_size", "ask_size", "volume", "open_interest"}
TEXTS = {"exchange": str, "condition": str}


class Kind(NamedTuple):
    """Files that one recipe reads."""

    recipe: str
    folder: str
    pattern: str
    columns: str
    zone: str = "UTC"
    """Of the times in the files."""
    dates: str = "UTC"
    """Of the table."""
    divisor: int = 1
    """Of prices."""


NEW_YORK = ("America/New_York", "America/New_York", 10_000)
KINDS = [
    Kind("lean-equity-quote", "lean/equity/usa/tick", "*/*_quote.zip", QUOTE, *NEW_YORK),
    Kind("lean-forex-fxcm", "lean/forex/fxcm/tick", "*/*_quote.zip", "ms bid ask", "-05:00"),
    Kind("lean-forex-oanda", "lean/forex/oanda/tick", "*/*_quote.zip", "ms bid ask"),
    Kind("lean-cfd-oanda", "lean/cfd/oanda/tick", "*/*_quote.zip", "ms bid ask"),
    Kind("lean-future-trade", "lean/future/comex/tick", "*/*_trade.zip", "ms price size exchange condition suspicious"),
    Kind("lean-future-openinterest", "lean/future/comex/tick", "*/*_openinterest.zip", "ms open_interest"),
    Kind("lean-option-quote", "lean/option/usa/minute", "*/*_quote_*.zip", f"ms {BARS}", *NEW_YORK),
    Kind("lean-option-trade", "lean/option/usa/minute", "*/*_trade_*.zip", "ms open high low close volume", *NEW_YORK),
    Kind("lean-option-openinterest", "lean/option/usa/minute", "*/*_openinterest_*.zip", "ms open_interest", *NEW_YORK),
]


def symbol_of(member: str, folder: str) -> str:
    """By the folder's name, or by the member's.

    Futures have date_root_tick_kind_expiry, options date_root_minute_kind_style_right_strike_expiry.
    """
    parts = pathlib.PurePath(member).stem.split("_")
    if len(parts) == 8:
        return f"{parts[1].upper()}_{parts[7]}_{parts[5].upper()}_{parts[6]}"
    if parts[-1].isdigit():
        return f"{parts[1].upper()}_{parts[4]}"
    return folder.upper()


def members(path: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            yield symbol_of(name, path.parent.name), data if data.endswith(b"\n") or not data else data + b"\n"


def lean(path: pathlib.Path, kind: Kind) -> tuple[pd.DataFrame, int]:
    """The rows of a zip file, and how many members it has."""
    symbols, datas = zip(*members(path))
    source = pa.BufferReader(b"".join(datas))
    names = kind.columns.split()
    frame = pd.read_csv(source, names=names, dtype=TEXTS, keep_default_na=False, na_values=[""])
    midnight = pd.Timestamp(re.match(r"\d{8}", path.name)[0], tz=kind.zone).value
    frame["time"] = midnight + np.rint(frame.pop("ms").to_numpy(dtype=float) * 1e6).astype("int64")
    frame["symbol"] = np.repeat(symbols, [data.count(b"\n") for data in datas])
    return frame, len(symbols)


def without_absent_sides(frame: pd.DataFrame) -> None:
    """Zero prices with a zero size mean that nobody was there."""
    for side in ("bid_", "ask_"):
        names = [name for name in frame.columns if name.startswith(side)]
        is_absent = (frame[names].fillna(0) == 0).all(axis=1)
        for name in names:
            frame[name] = frame[name].mask(is_absent)


def lean_rows(paths: list[pathlib.Path], kind: Kind) -> tuple[pd.DataFrame, int]:
    """The rows of all files as the table has them, and the number of members."""
    frames, counts = zip(*(lean(path, kind) for path in paths))
    rows = pd.concat(frames, ignore_index=True)
    for name in WHOLE & set(rows.columns):
        rows[name] = rows[name].astype("Int64")
    if any(name.startswith("bid_") for name in rows.columns):
        without_absent_sides(rows)
    for name in set(rows.columns) - WHOLE - set(TEXTS) - {"time", "symbol", "suspicious"}:
        rows[name] = rows[name] / kind.divisor
    if "suspicious" in rows.columns:
        rows["suspicious"] = rows["suspicious"].astype("boolean")
    local = pd.to_datetime(rows["time"], utc=True).dt.tz_convert(kind.dates)
    rows["date"] = local.dt.tz_localize(None).dt.floor("D")
    rows["symbol"] = rows["symbol"].astype("category")
    return rows, sum(counts)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.recipe for kind in KINDS])
def test_all_files_of_a_kind_of_lean_agree_by_symbol_and_date(db, kind):
    paths = present(kind.folder, kind.pattern, "zip files")
    report = db.load("t", str(DATA / kind.folder / kind.pattern), recipe=kind.recipe)
    expected, count = lean_rows(paths, kind)
    assert (report.rows, len(report.files)) == (len(expected), count)
    assert (db.table("t").rows, db.table("t").time_zone) == (len(expected), kind.dates)
    assert_same_groups(db, "t", expected, ["symbol", "date"])


def test_every_zip_file_of_lean_is_of_a_kind():
    every = present("lean", "**/*.zip", "zip files")
    kinds = {path for kind in KINDS for path in (DATA / kind.folder).glob(kind.pattern)}
    assert {path.relative_to(DATA).parts[1:4] for path in set(every) - kinds} == {("equity", "usa", "tick")}
    assert all(path.name.endswith("_trade.zip") for path in set(every) - kinds)


def test_contracts_of_options_have_the_terms_of_their_names(db):
    paths = present("lean/option/usa/minute", "*/*_trade_*.zip", "zip files")
    db.load("t", paths, recipe="lean-option-trade")
    found = asked(db, 'select distinct symbol, root, "right", strike, expiry from t order by symbol')
    names = sorted({symbol for path in paths for symbol, _ in members(path)})
    assert found["symbol"].tolist() == names
    terms = [name.split("_") for name in names]
    assert found["root"].tolist() == [root for root, *_ in terms]
    assert found["right"].str.upper().tolist() == [right for _, _, right, _ in terms]
    assert found["strike"].tolist() == [int(strike) / 10_000 for *_, strike in terms]
    assert found["expiry"].tolist() == [dt.datetime.strptime(expiry, "%Y%m%d").date() for _, expiry, *_ in terms]


# CSV with a header: each row is compared.

QUESTDB = [
    ("btc_trades.csv", "coinbase-trades", "timestamp", "symbol"),
    ("btc_trades.csv", None, "timestamp", "symbol"),
    ("nasdaq_open_close.csv", "nasdaq-daily", "timestamp", "ticker"),
    ("nasdaq_open_close.csv", "ohlcv", "timestamp", "ticker"),
    ("nasdaq_open_close.csv", None, "timestamp", "ticker"),
    ("nasdaq_trades.csv", "nasdaq-polls", "timestamp", "id"),
    ("nasdaq_trades.csv", None, "timestamp", "id"),
]


def sorted_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows by symbol and time; of equal ones in the order of arrival."""
    return rows.sort_values(["symbol", "time"], kind="stable", ignore_index=True)


def assert_same_rows(stored: pd.DataFrame, expected: pd.DataFrame) -> None:
    """All columns of the expected rows, to the last bit."""
    found, wanted = sorted_rows(stored), sorted_rows(expected)
    assert len(found) == len(wanted)
    for name in wanted.columns:
        if pd.api.types.is_numeric_dtype(wanted[name].dtype):
            np.testing.assert_array_equal(found[name].to_numpy(dtype=float), wanted[name].to_numpy(dtype=float), err_msg=name)
        else:
            assert nullable(found[name]) == nullable(wanted[name]), name


def csv_rows(source: pathlib.Path, time: str, symbol: str) -> pd.DataFrame:
    rows = pd.read_csv(source).rename(columns=str.lower)
    rows["time"] = pd.to_datetime(rows.pop(time), utc=True, format="ISO8601").dt.as_unit("ns").dt.tz_localize(None).astype("int64")
    return rows.rename(columns={symbol: "symbol"})


@pytest.mark.parametrize(("name", "recipe", "time", "symbol"), QUESTDB)
def test_samples_of_questdb_agree_row_by_row(db, name, recipe, time, symbol):
    source = file("questdb_samples", name)
    report = db.load("t", str(source), recipe=recipe)
    expected = csv_rows(source, time, symbol)
    assert report.rows == len(expected)
    stored = asked(db, "select * from t").rename(columns=str.lower)
    stored = stored.rename(columns={db.table("t").time.lower(): "time", symbol: "symbol"})
    stored["time"] = instants(stored["time"])
    assert_same_rows(stored, expected)


@pytest.mark.parametrize("name", ["btc_trades.csv", "nasdaq_open_close.csv", "nasdaq_trades.csv"])
def test_samples_of_questdb_are_read_in_place(db, name):
    source = file("questdb_samples", name)
    (found,) = asked(db, f"select count(*) as n, min(timestamp) as start, max(timestamp) as end from '{source}'").to_dict("records")
    times = csv_rows(source, "timestamp", "symbol")["time"]
    ends = [pd.Timestamp(found[name]).value for name in ("start", "end")]
    assert (found["n"], *ends) == (len(times), times.min(), times.max())


PLACEHOLDER = 1e15


def wondertrader(source: pathlib.Path) -> pd.DataFrame:
    """Snapshots, with the time that date and clock of Shanghai give, and nulls for placeholders."""
    rows = pd.read_csv(source)
    clock = rows.pop("action_date").astype(str) + rows.pop("action_time").astype(str).str.zfill(9)
    local = pd.to_datetime(clock + "000000", format="%Y%m%d%H%M%S%f").dt.tz_localize("Asia/Shanghai")
    rows["time"] = local.dt.tz_convert("UTC").dt.as_unit("ns").dt.tz_localize(None).astype("int64")
    rows["trading_date"] = pd.to_datetime(rows["trading_date"].astype(str), format="%Y%m%d").dt.date
    floats = rows.select_dtypes("float")
    rows[floats.columns] = floats.mask(floats.abs() > PLACEHOLDER)
    return rows


@pytest.mark.parametrize("name", ["CFFEX.IF.HOT_tick_20210104.csv.gz", "CFFEX.IF.HOT_tick_20210105.csv.gz"])
def test_snapshots_of_wondertrader_agree_row_by_row(db, name):
    source = file("wondertrader", name)
    report = db.load("t", str(source), recipe="wondertrader-tick")
    expected = wondertrader(source)
    assert report.rows == len(expected)
    stored = asked(db, "select * from t")
    stored["time"] = instants(stored["time"])
    assert set(stored.columns) - {"date"} == set(expected.columns)
    assert_same_rows(stored.rename(columns={"code": "symbol"}), expected.rename(columns={"code": "symbol"}))


def test_all_snapshots_of_wondertrader_agree_by_trading_date(db):
    sources = present("wondertrader", "*.csv.gz", "snapshots")
    report = db.load("t", str(DATA / "wondertrader" / "*.csv.gz"), recipe="wondertrader-tick")
    expected = pd.concat(map(wondertrader, sources), ignore_index=True)
    assert (report.rows, len(report.files)) == (len(expected), len(sources))
    assert_same_groups(db, "t", expected, ["trading_date"])


# Databento's DBN: a header with symbol mappings, then records that begin with their length.

UNDEFINED_TIME, UNDEFINED_PRICE, UNDEFINED_SIZE = 2**64 - 1, 2**63 - 1, 2**32 - 1
PLAIN, ZSTD = ".dbn", ".dbn.zst"
TRADE = {"price": "q16", "size": "I24", "ts_recv": "Q32"}
LEVEL = {"bid_px_00": "q48", "ask_px_00": "q56", "bid_sz_00": "I64", "ask_sz_00": "I68"}
LEVEL_FIELDS = {"bid_px": ("q", 0), "ask_px": ("q", 8), "bid_sz": ("I", 16), "ask_sz": ("I", 20), "bid_ct": ("I", 24), "ask_ct": ("I", 28)}
LEVELS = {f"{name}_{level:02}": f"{code}{48 + 32 * level + place}" for level in range(10) for name, (code, place) in LEVEL_FIELDS.items()}
BAR = {"open": "q16", "high": "q24", "low": "q32", "close": "q40", "volume": "Q48"}
FIELDS: dict[str, dict[str, str]] = {
    "mbo": {"order_id": "Q16", "price": "q24", "size": "I32", "ts_recv": "Q40", "ts_in_delta": "i48", "sequence": "I52"},
    "trades": {**TRADE, "ts_in_delta": "i40", "sequence": "I44"},
    "tbbo": {**TRADE, **LEVEL, "ts_in_delta": "i40", "sequence": "I44"},
    "mbp-1": {**TRADE, **LEVEL, "ts_in_delta": "i40", "sequence": "I44"},
    "mbp-10": {**TRADE, **LEVELS, "ts_in_delta": "i40", "sequence": "I44"},
    "bbo-1s": {**TRADE, **LEVEL, "sequence": "I44"},
    "bbo-1m": {**TRADE, **LEVEL, "sequence": "I44"},
    "cmbp-1": {**TRADE, **LEVEL},
    "cbbo-1s": {**TRADE, **LEVEL},
    **{f"ohlcv-1{unit}": BAR for unit in "smhd"},
    "definition": {"ts_recv": "Q16"},
    "imbalance": {"ts_recv": "Q16"},
    "statistics": {"ts_recv": "Q16"},
    "status": {"ts_recv": "Q16"},
}
"""Type and place of fields of each schema; the same in all versions."""

SINCE_VERSION_2 = {"bbo-1s", "bbo-1m", "cmbp-1", "cbbo-1s", "status"}
DBN_FILES = [
    f"test_data.{schema}{end}"
    for schema in FIELDS
    for end in (PLAIN, *(f".v{version}{ZSTD}" for version in (1, 2, 3) if version > 1 or schema not in SINCE_VERSION_2))
] + ["test_data.mbo.v3.dbn"]


class DbnFile(NamedTuple):
    """What a file's bytes say."""

    version: int
    records: list[bytes]
    symbols: dict[int, list[tuple[int, int, str]]]
    """Of each instrument the first date, the date behind the last one, and the symbol."""


def dbn_bytes(source: pathlib.Path) -> bytes:
    if source.suffix != ".zst":
        return source.read_bytes()
    with pa.input_stream(source, compression="zstd") as packed:
        return packed.read()


class Reader:
    """Takes values from the front of bytes."""

    def __init__(self, data: bytes):
        self.data, self.place = data, 0

    def number(self) -> int:
        self.place += 4
        return int.from_bytes(self.data[self.place - 4 : self.place], "little")

    def text(self, length: int) -> str:
        self.place += length
        return self.data[self.place - length : self.place].split(b"\0")[0].decode()


def mappings(metadata: bytes, version: int) -> dict[int, list[tuple[int, int, str]]]:
    """Symbols by instrument; the fixed part of the metadata has 100 bytes."""
    is_by_id = metadata[42 if version > 1 else 50] == 0
    length = 22 if version == 1 else int.from_bytes(metadata[45:47], "little")
    reader = Reader(metadata[100:])
    reader.text(reader.number())
    for _ in range(3):
        for _ in range(reader.number()):
            reader.text(length)
    found: dict[int, list[tuple[int, int, str]]] = collections.defaultdict(list)
    for _ in range(reader.number()):
        raw = reader.text(length)
        for _ in range(reader.number()):
            first, behind, mapped = reader.number(), reader.number(), reader.text(length)
            if mapped:
                instrument, symbol = (raw, mapped) if is_by_id else (mapped, raw)
                found[int(instrument)].append((first, behind, symbol))
    return found


def dbn(source: pathlib.Path) -> DbnFile:
    data = dbn_bytes(source)
    assert data[:3] == b"DBN"
    version, length = data[3], int.from_bytes(data[4:8], "little")
    records, place = [], 8 + length
    while place < len(data):
        records.append(data[place : place + 4 * data[place]])
        place += 4 * data[place]
    assert place == len(data)
    return DbnFile(version, records, mappings(data[8 : 8 + length], version))


def field(record: bytes, spec: str) -> int:
    code, place = spec[0], int(spec[1:])
    (value,) = struct.unpack_from(f"<{code}", record, place)
    return value


def symbol_at(symbols: dict[int, list[tuple[int, int, str]]], instrument: int, nanoseconds: int) -> str:
    day = int(dt.datetime.fromtimestamp(nanoseconds // 10**9, dt.UTC).strftime("%Y%m%d"))
    return next((symbol for first, behind, symbol in symbols.get(instrument, []) if first <= day < behind), str(instrument))


def defined(values: list[int], undefined: int) -> list[int]:
    return [value for value in values if value != undefined]


def expected_of(content: DbnFile, fields: dict[str, str]) -> dict[str, Any]:
    """Counts, times and sums by the names that the statement gives them."""
    found: dict[str, Any] = {"n": len(content.records)}
    for name, spec in {"ts_event": "Q8", "instrument_id": "I4", **fields}.items():
        values = [field(record, spec) for record in content.records]
        if name.startswith("ts_") and spec[0] == "Q":
            times = defined(values, UNDEFINED_TIME)
            found |= {f"n {name}": len(times), f"min {name}": min(times, default=None), f"max {name}": max(times, default=None)}
        elif spec[0] == "q":
            prices = defined(values, UNDEFINED_PRICE)
            found |= {f"n {name}": len(prices), f"sum {name}": pytest.approx(sum(prices) / 1e9, rel=1e-9) if prices else None}
        else:
            found[f"sum {name}"] = sum(defined(values, UNDEFINED_SIZE) if name == "size" else values) if values else None
    return found


def statement_of(fields: dict[str, str]) -> str:
    asks = ["count(*) as n"]
    for name, spec in {"ts_event": "Q8", "instrument_id": "I4", **fields}.items():
        if name.startswith("ts_") and spec[0] == "Q":
            asks += [f'count({name}) as "n {name}"', *(f'cast({end}({name}) as bigint) as "{end} {name}"' for end in ("min", "max"))]
        elif spec[0] == "q":
            asks += [f'count({name}) as "n {name}"', f'sum({name}) as "sum {name}"']
        else:
            asks.append(f'sum({name}) as "sum {name}"')
    return f"select {', '.join(asks)} from {{}}"


@pytest.mark.parametrize("name", DBN_FILES)
def test_a_dbn_file_agrees_with_its_bytes(db, name):
    source = file("databento_dbn/data", name)
    schema = name.split(".")[1]
    content, fields = dbn(source), FIELDS[schema]
    if version := re.search(r"\.v(\d)\.", name):
        assert content.version == int(version[1])
    report = db.load("t", str(source))
    assert report.rows == len(content.records)
    expected = expected_of(content, fields)
    for place in ("t", f"'{source}'"):
        (found,) = db.sql(statement_of(fields).format(place)).to_arrow().to_pylist()
        assert found == expected, place
    index = fields.get("ts_recv", "Q8")
    symbols = [symbol_at(content.symbols, field(record, "I4"), field(record, index)) for record in content.records]
    assert sorted(asked(db, "select symbol from t")["symbol"].tolist()) == sorted(symbols)


def test_the_list_of_dbn_files_is_complete():
    found = {path.name for path in present("databento_dbn/data", "*.dbn*", "DBN files")}
    assert {name for name in found if ".frag" not in name} == set(DBN_FILES)


def test_fragments_and_files_of_the_former_format_are_refused(db):
    for path in [*present("databento_dbn/data", "*.frag*", "DBN files"), *present("databento_dbn/data", "*.dbz", "DBN files")]:
        with pytest.raises(splay.Error):
            db.load("t", str(path))
    assert list(db.tables()) == []


# Nasdaq's ITCH 5.0: two bytes, then a message whose length its first letter says. In this sample the two bytes are no length.

LENGTHS = {"S": 12, "R": 39, "H": 25, "A": 36, "F": 40, "E": 31, "X": 23, "D": 19, "U": 35, "P": 44}
MESSAGES = {"A": (20, 32), "F": (20, 32), "E": (19, None), "X": (19, None), "D": (None, None), "U": (27, 31), "P": (20, 32)}
"""Places of shares and price in messages that are rows."""


def big(message: bytes, place: int, length: int) -> int:
    return int.from_bytes(message[place : place + length], "big")


def itch_messages(source: pathlib.Path) -> Iterator[bytes]:
    data, place = gzip.decompress(source.read_bytes()), 0
    while place < len(data):
        length = LENGTHS[chr(data[place + 2])]
        yield data[place + 2 : place + 2 + length]
        place += 2 + length
    assert place == len(data)


def test_messages_of_itch_agree_with_the_specification(db):
    source = file("ritch_itch50", "ex20101224.TEST_ITCH_50.gz")
    db.load("orders", str(source))
    midnight = pd.Timestamp("2010-12-24", tz="America/New_York").value
    expected: dict[str, list[Any]] = {}
    for message in itch_messages(source):
        kind = chr(message[0])
        if kind not in MESSAGES:
            continue
        shares, price = (big(message, place, 4) if place else None for place in MESSAGES[kind])
        time = midnight + big(message, 5, 6)
        n, first, last, total, value = expected.get(kind, [0, time, time, None, None])
        total, value = ((was or 0) + new if new is not None else was for was, new in ((total, shares), (value, price)))
        expected[kind] = [n + 1, min(first, time), max(last, time), total, value]
    found = db.sql(
        "select message, count(*), cast(min(time) as bigint), cast(max(time) as bigint), sum(shares), "
        "sum(cast(round(price * 10000) as bigint)) from orders group by message order by message"
    ).fetchall()
    assert [tuple(row) for row in found] == [(kind, *expected[kind]) for kind in sorted(expected)]
    ((start, end),) = db.sql("select cast(min(time) as bigint), cast(max(time) as bigint) from orders").fetchall()
    assert (start, end) == (min(row[1] for row in expected.values()), max(row[2] for row in expected.values()))


# Joins whose answers pandas' own tests hold.

JOINS = [
    ("asof.csv", "", "t.time >= q.time"),
    ("asof2.csv", "2", "t.time >= q.time"),
    ("tolerance.csv", "", "t.time >= q.time, TOLERANCE INTERVAL '1 day'"),
    ("allow_exact_matches.csv", "", "t.time > q.time"),
    ("allow_exact_matches_and_tolerance.csv", "", "t.time > q.time, TOLERANCE 100ms"),
]


def joined_rows(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    rows = [tuple(nullable(row)) for row in frame.itertuples(index=False)]
    return sorted(rows, key=lambda row: tuple((value is None, value or 0) for value in row))


@pytest.mark.parametrize(("name", "which", "condition"), JOINS, ids=[name for name, *_ in JOINS])
def test_as_of_joins_give_what_pandas_expects(db, name, which, condition):
    expected = pd.read_csv(file("pandas_merge_asof", name))
    expected["time"] = pd.to_datetime(expected["time"], format="%Y%m%d %H:%M:%S.%f").astype("datetime64[ns]").astype("int64")
    for table in ("trades", "quotes"):
        source = file("pandas_merge_asof", f"{table}{which}.csv")
        report = db.load(table, str(source))
        assert report.rows == len(pd.read_csv(source))
    found = asked(
        db,
        'select t.time, t.ticker, t.price, t.quantity, t."marketCenter", q.bid, q.ask from trades t '
        f"asof join quotes q match_condition ({condition}) on t.ticker = q.ticker",
    )
    found["time"] = instants(found["time"])
    assert found.columns.tolist() == expected.columns.tolist()
    assert joined_rows(found) == joined_rows(expected)


# Recordings of Binance: lines of a time of receipt and a message.

VENUES = {"spot": "BINANCE", "usdm": "BINANCE_FUTURES", "cm": "BINANCE_DELIVERY"}


def recorded(path: pathlib.Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with gzip.open(path) as lines:
        for line in lines:
            received, _, text = line.partition(b" ")
            yield int(received), json.loads(text)


def event_time(received: int, data: dict[str, Any]) -> int:
    milliseconds = data.get("T", data.get("E"))
    return received if milliseconds is None else milliseconds * 10**6


class Totals:
    """Of one table, venue and symbol: rows, times, and sums of columns."""

    def __init__(self) -> None:
        self.n, self.events, self.receipts = 0, [math.inf, 0], [math.inf, 0]
        self.values: collections.Counter[str] = collections.Counter()

    def add(self, event: int, received: int, rows: int = 1, **values: float) -> None:
        self.n += rows
        for ends, time in ((self.events, event), (self.receipts, received)):
            ends[:] = min(ends[0], time), max(ends[1], time)
        for name, value in values.items():
            self.values[name] += value


def add_message(totals: dict[tuple[str, str, str], Totals], venue: str, received: int, message: dict[str, Any]) -> None:
    """Trades by price and size, quotes by both sides together, changes by the levels of both sides."""
    data, (_, _, stream) = message["data"], message["stream"].partition("@")
    event, symbol = event_time(received, data), data["s"]
    if stream == "trade":
        price, size = float(data["p"]), float(data["q"])
        values = {"value": price * size, "size": size, "numbers": data["t"], "side": int(not data["m"])}
        totals["trade", venue, symbol].add(event, received, **values)
    elif stream == "bookTicker":
        values = {"value": float(data["b"]) + float(data["a"]), "size": float(data["B"]) + float(data["A"]), "numbers": data["u"]}
        totals["quote", venue, symbol].add(event, received, **values)
    elif levels := [(float(price), float(size)) for side in "ba" for price, size in data[side]]:
        values = {"value": sum(price * size for price, size in levels), "size": sum(size for _, size in levels)}
        values |= {"numbers": data["u"] * len(levels), "side": len(data["b"])}
        totals["change", venue, symbol].add(event, received, len(levels), **values)


def binance_totals(paths: list[pathlib.Path]) -> dict[tuple[str, str, str], Totals]:
    found: dict[tuple[str, str, str], Totals] = collections.defaultdict(Totals)
    for path in paths:
        for received, message in recorded(path):
            # Snapshots have no stream, and make no rows of these tables.
            if "stream" in message:
                add_message(found, VENUES[path.parent.name], received, message)
    return found


SUMS = {
    "trade": {
        "value": "price * size",
        "size": "size",
        "numbers": "cast(trade_id as decimal(38, 0))",
        "side": "case when side = 'buy' then 1 else 0 end",
    },
    "quote": {"value": "bid_price + ask_price", "size": "bid_size + ask_size", "numbers": "cast(sequence as decimal(38, 0))"},
    "change": {
        "value": "price * size",
        "size": "size",
        "numbers": "cast(sequence as decimal(38, 0))",
        "side": "case when side = 'bid' then 1 else 0 end",
    },
}


@pytest.fixture(scope="module")
def binance(tmp_path_factory) -> tuple["splay.Database", dict[tuple[str, str, str], Totals]]:
    paths = present("hftbacktest", "*/*.gz", "recordings")
    pytest.importorskip("splay._splay", reason="the compiled module is not installed")
    db = splay.open(tmp_path_factory.mktemp("binance") / "db")
    counts = replay(db, paths, tables=["trade", "quote", "change"])
    assert counts.gaps == 0
    return db, binance_totals(paths)


@pytest.mark.parametrize("table", SUMS)
def test_recordings_of_binance_agree_with_their_messages(binance, table):
    db, totals = binance
    asks = [f"sum({value}) as {name}" for name, value in SUMS[table].items()]
    asks += [f"cast({end}(ts_{clock}) as bigint) as {end}_{clock}" for clock in ("event", "recv") for end in ("min", "max")]
    statement = f"select venue, symbol, count(*) as n, {', '.join(asks)} from {table} group by venue, symbol order by venue, symbol"
    found = db.sql(statement).to_arrow().to_pylist()
    expected = {key[1:]: value for key, value in sorted(totals.items()) if key[0] == table}
    assert [(row["venue"], row["symbol"]) for row in found] == list(expected)
    for row, total in zip(found, expected.values()):
        assert row["n"] == total.n
        assert [row["min_event"], row["max_event"]] == total.events
        assert [row["min_recv"], row["max_recv"]] == total.receipts
        for name in SUMS[table]:
            value = total.values[name]
            assert row[name] == (value if isinstance(value, int) else pytest.approx(value, rel=1e-9)), name


# Cryptofeed's captures.

RECEIVED = re.compile(r"(\d+)\.(\d+): (.*)", re.DOTALL)


def capture_lines(packed: Any) -> Iterator[tuple[str, int, str]]:
    """Venue, microseconds of receipt and message of all websockets."""
    with tarfile.open(fileobj=packed, mode="r|") as archive:
        for member in archive:
            venue, is_socket, _ = pathlib.PurePath(member.name).name.partition(".ws.")
            if not is_socket:
                continue
            for line in archive.extractfile(member).read().decode().split("\n"):
                if matched := RECEIVED.fullmatch(line):
                    seconds, fraction, message = matched.groups()
                    yield venue, int(seconds) * 10**6 + int(fraction[:6].ljust(6, "0")), message


def test_messages_of_all_venues_are_stored_as_they_are(db):
    """The venue is the table's symbol, and the order of its messages stays."""
    source = file("cryptofeed", "captures.tar.zst")
    with pa.input_stream(source, compression="zstd") as packed:
        venues, times, messages = zip(*capture_lines(packed))
    frame = pd.DataFrame({"time": pd.to_datetime(times, unit="us", utc=True), "venue": pd.Categorical(venues), "message": messages})
    db.write("raw", frame, time="time", symbol="venue")
    found = asked(
        db,
        "select venue, count(*) as n, sum(octet_length(message)) as bytes, min(time) as start, max(time) as end "
        "from raw group by venue order by venue",
    )
    frame["bytes"] = [len(message.encode()) for message in messages]
    grouped = frame.groupby("venue", observed=True)
    assert found["venue"].tolist() == list(grouped.groups)
    assert found["n"].tolist() == grouped.size().tolist()
    assert found["bytes"].tolist() == grouped["bytes"].sum().tolist()
    for column, times_of in (("start", grouped["time"].min()), ("end", grouped["time"].max())):
        assert found[column].tolist() == times_of.tolist()
    stored = asked(db, "select time, venue as symbol, message from raw")
    stored["symbol"] = stored["symbol"].astype(str)
    kept = frame.rename(columns={"venue": "symbol"}).astype({"symbol": str})
    assert_same_rows(stored, kept[["time", "symbol", "message"]])


TRADED = ["BINANCE", "BINANCE_DELIVERY", "BINANCE_FUTURES", "BINANCE_US", "BITSTAMP", "OKX"]


def trades_of(message: Any) -> Iterator[tuple[int, float, float]]:
    """Microseconds, price and size of each trade of a message of Binance, Bitstamp or OKX."""
    data = message.get("data")
    if isinstance(data, dict) and data.get("e") == "aggTrade":
        yield data["T"] * 1_000, float(data["p"]), float(data["q"])
    elif message.get("event") == "trade":
        yield int(data["microtimestamp"]), float(data["price_str"]), float(data["amount_str"])
    elif message.get("arg", {}).get("channel") == "trades":
        for trade in data or []:
            yield int(trade["ts"]) * 1_000, float(trade["px"]), float(trade["sz"])


@pytest.mark.parametrize("venue", TRADED)
def test_trades_of_cryptofeed_agree_with_the_messages(db, cryptofeed, captures, venue):  # noqa: F811
    with db.capture() as capture:
        playback(venue, captures, {"trades": TradeSplay(capture)})
    lines = [line for path in captures.glob(f"{venue}.ws.*") for line in path.read_text().split("\n")]
    matched = [match for line in lines if (match := RECEIVED.fullmatch(line))]
    trades = [trade for match in matched for trade in trades_of(json.loads(match[3]))]
    times, prices, sizes = zip(*trades)
    (found,) = asked(
        db,
        "select count(*) as n, sum(price) as price, sum(size) as size, sum(price * size) as value, "
        "min(ts_event) as start, max(ts_event) as end from trade",
    ).to_dict("records")
    assert found["n"] == len(trades)
    assert (found["price"], found["size"]) == pytest.approx((sum(prices), sum(sizes)), rel=1e-9)
    assert found["value"] == pytest.approx(sum(price * size for price, size in zip(prices, sizes)), rel=1e-9)
    assert (found["start"].value, found["end"].value) == (min(times) * 1_000, max(times) * 1_000)
