"""Each method of expressions gives what that of Polars gives, where both have it; the others what they say."""

import datetime as dt
import math

import frame_pairs as pairs
import polars as pl
import pytest

import splay

UTC = dt.UTC
NEW_YORK = "America/New_York"
ROWS = pl.DataFrame(
    {
        "k": ["a", "a", "a", "b", "b", "b"],
        "n": [3, -2, None, 7, 7, 1],
        "x": [1.5, -2.25, 8.0, None, 0.5, 4.0],
        "w": [1.0, 2.0, 3.0, 4.0, None, 6.0],
        "flag": [True, False, None, True, True, None],
        "text": ["Hello World", " it's ", None, "", "äöü %_", "a-b-c"],
        "at": [
            dt.datetime(2024, 3, 10, 6, 59, 59, 999_999, tzinfo=UTC),
            dt.datetime(2024, 3, 10, 7, 0, tzinfo=UTC),
            dt.datetime(2024, 12, 31, 23, 59, 1, tzinfo=UTC),
            None,
            dt.datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC),
            dt.datetime(2023, 1, 1, 0, 0, tzinfo=UTC),
        ],
        "place": [0, 1, 2, 3, 4, 5],
    },
    schema_overrides={"at": pl.Datetime("ns", "UTC")},
)


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    path = tmp_path_factory.mktemp("functions") / "rows.parquet"
    ROWS.write_parquet(path)
    return splay.scan(path, time="at", symbol="")


def both(make):
    return make(splay.col), make(pl.col)


ROW_WISE = {
    "abs": lambda col: col("x").abs(),
    "sign": lambda col: col("x").sign(),
    "floor": lambda col: col("x").floor(),
    "ceil": lambda col: col("x").ceil(),
    "sqrt": lambda col: col("w").sqrt(),
    "exp": lambda col: col("x").exp(),
    "log": lambda col: col("w").log(),
    "log2": lambda col: col("w").log(2),
    "log10": lambda col: col("w").log10(),
    "round": lambda col: (col("x") / 3).round(3),
    "clip": lambda col: col("x").clip(0, 2),
    "clip one side": lambda col: col("n").clip(0),
    "fill_null": lambda col: col("n").fill_null(0),
    "eq_missing": lambda col: col("n").eq_missing(7),
    "ne_missing": lambda col: col("n").ne_missing(7),
    "between": lambda col: col("n").is_between(1, 7, closed="left"),
    "cast": lambda col: col("n") * 2.5,
    "and or not": lambda col: (col("flag") & (col("n") > 0)) | ~col("flag"),
    "xor": lambda col: col("flag") ^ (col("n") > 2),
    "reversed": lambda col: 10 - col("n"),
    "negative quotient": lambda col: 1 / col("x"),
    "upper": lambda col: col("text").str.to_uppercase(),
    "lower": lambda col: col("text").str.to_lowercase(),
    "len": lambda col: col("text").str.len_chars(),
    "strip": lambda col: col("text").str.strip_chars(),
    "starts": lambda col: col("text").str.starts_with("a"),
    "ends": lambda col: col("text").str.ends_with("d"),
    "contains regex": lambda col: col("text").str.contains("[a-c]-"),
    "contains literal": lambda col: col("text").str.contains("%_", literal=True),
    "slice": lambda col: col("text").str.slice(1, 3),
    "slice to the end": lambda col: col("text").str.slice(2),
    "year": lambda col: col("at").dt.year(),
    "quarter": lambda col: col("at").dt.quarter(),
    "month": lambda col: col("at").dt.month(),
    "week": lambda col: col("at").dt.week(),
    "day": lambda col: col("at").dt.day(),
    "weekday": lambda col: col("at").dt.weekday(),
    "ordinal day": lambda col: col("at").dt.ordinal_day(),
    "hour": lambda col: col("at").dt.hour(),
    "minute": lambda col: col("at").dt.minute(),
    "second": lambda col: col("at").dt.second(),
    "date": lambda col: col("at").dt.date(),
    "time": lambda col: col("at").dt.time(),
    "epoch ns": lambda col: col("at").dt.epoch("ns"),
    "epoch ms": lambda col: col("at").dt.epoch("ms"),
    "to text": lambda col: col("at").dt.strftime("%Y-%m-%d") if col is pl.col else col("at").dt.to_text("%Y-%m-%d"),
    "bucket": lambda col: col("at").dt.truncate("15m") if col is pl.col else col("at").dt.bucket("15m"),
    "month bucket": lambda col: col("at").dt.truncate("1mo") if col is pl.col else col("at").dt.bucket("1mo"),
    "week bucket": lambda col: col("at").dt.truncate("1w") if col is pl.col else col("at").dt.bucket("1w"),
    "truncate to a span": lambda col: col("at").dt.truncate("15m"),
    "truncate to a week": lambda col: col("at").dt.truncate("1w"),
    "truncate to a month": lambda col: col("at").dt.truncate("1mo"),
    "truncate": lambda col: col("at").dt.truncate("1d") if col is pl.col else col("at").dt.truncate("day"),
    "offset": lambda col: col("at").dt.offset_by("1h"),
    "offset back": lambda col: col("at").dt.offset_by("-90s"),
    "later than": lambda col: col("at") > dt.datetime(2024, 3, 10, 7, 0, tzinfo=UTC),
}


@pytest.mark.parametrize("name", ROW_WISE)
def test_functions_of_rows(frame, name):
    ours, theirs = both(ROW_WISE[name])
    found = frame.select(place="place", v=ours).sort("place").pl()
    pairs.assert_same(found, ROWS.select("place", v=theirs), is_ordered=True)


LOCAL = ["year", "month", "day", "hour", "minute", "weekday", "ordinal_day", "date", "time", "week", "quarter"]


@pytest.mark.parametrize("field", LOCAL)
def test_fields_on_the_clock_of_a_zone(frame, field):
    found = frame.select(place="place", v=getattr(splay.col("at").dt, field)(NEW_YORK)).sort("place").pl()
    theirs = getattr(pl.col("at").dt.convert_time_zone(NEW_YORK).dt, field)()
    pairs.assert_same(found, ROWS.select("place", v=theirs), is_ordered=True)


@pytest.mark.parametrize("field", [field for field in (*LOCAL, "second") if field != "weekday"])
def test_fields_need_no_brackets(frame, field):
    """Compared without them, a method would be a comparison that is false at once, and the filter would have no rows."""
    value = getattr(splay.col("at").dt, field)
    wanted = ROWS.select(v=getattr(pl.col("at").dt, field)()).item(0, 0)
    expected = ROWS.filter(getattr(pl.col("at").dt, field)() == wanted)
    found = frame.filter(value == wanted).sort("place").pl()
    assert found.height >= 1
    pairs.assert_same(found, expected, is_ordered=True)


def test_days_of_the_week_are_no_attribute_as_in_pandas(frame):
    """There Monday is 0."""
    for compare in (lambda day: day == 0, lambda day: day != 0, lambda day: day < 5):
        with pytest.raises(TypeError, match=r"dt.weekday\(\) == 1 is Monday"):
            compare(splay.col("at").dt.weekday)
    assert frame.filter(splay.col("at").dt.weekday() == 2).select("place").fetchall() == [(2,)]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("method", ["min", "max", "average", "dense"])
def test_places_of_values(frame, method, descending):
    """Those of null are null, and they can be computed with as whole numbers with a sign."""
    ours = splay.col("n").rank(method, descending)
    found = frame.select(place="place", v=ours, w=ours.over("k"), before=ours.over("k") - 1).sort("place").pl()
    theirs = pl.col("n").rank(method, descending=descending)
    expected = ROWS.select("place", v=theirs, w=theirs.over("k"), before=theirs.over("k").cast(pl.Float64) - 1)
    pairs.assert_same(found.cast({"before": pl.Float64}), expected, is_ordered=True)
    kind = pl.Float64 if method == "average" else pl.Int64
    assert [found.schema[name] for name in ("v", "w", "before")] == [kind] * 3


def test_numbers_of_rows_are_whole_numbers_with_a_sign(frame):
    found = frame.select(v=splay.row_number().over(order_by="place") - 1).pl()
    assert (found.schema["v"], sorted(found["v"].to_list())) == (pl.Int64, [0, 1, 2, 3, 4, 5])


def test_seconds_of_differences(frame):
    later = frame.select(place="place", v=(splay.col("at") - splay.col("at").shift(1).over(order_by="place")).dt.total_seconds())
    expected = ROWS.select("place", v=pl.col("at").diff().dt.total_nanoseconds() / 1e9)
    pairs.assert_same(later.sort("place").pl(), expected, is_ordered=True)


AGGREGATES = {
    "mean": lambda col: col("x").mean(),
    "sum": lambda col: col("n").sum(),
    "min": lambda col: col("text").min(),
    "max": lambda col: col("at").max(),
    "median": lambda col: col("x").median(),
    "median of whole numbers": lambda col: col("n").median(),
    "quantile": lambda col: col("x").quantile(0.25, interpolation="linear"),
    "std": lambda col: col("x").std(),
    "std of all": lambda col: col("x").std(ddof=0),
    "var": lambda col: col("x").var(),
    "count": lambda col: col("x").count(),
    "n_unique": lambda col: col("n").n_unique(),
    "product": lambda col: col("w").product(),
    "composed": lambda col: (col("x").max() - col("x").min()) / col("x").count(),
    "of an expression": lambda col: (col("x") * col("w")).sum(),
    "how often": lambda col: (col("x") > 1).sum(),
    "how large a share": lambda col: (col("text").is_null() | (col("n") < 5)).mean(),
    "how large a share of booleans": lambda col: col("flag").cast(int if col is splay.col else pl.Int64).mean(),
    "how large a share of others": lambda col: (~col("x").is_null()).mean(),
}


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates(frame, name):
    ours, theirs = both(AGGREGATES[name])
    pairs.assert_same(frame.group_by("k").agg(v=ours).pl(), ROWS.group_by("k").agg(v=theirs), is_ordered=False)
    pairs.assert_same(frame.select(v=ours).pl(), ROWS.select(v=theirs), is_ordered=False)
    over = frame.select(place="place", v=ours.over("k")).sort("place").pl()
    pairs.assert_same(over, ROWS.select("place", v=theirs.over("k")), is_ordered=True)


def test_aggregates_that_polars_spells_otherwise(frame):
    col = splay.col
    found = frame.select(
        wavg=col("x").wavg("w"),
        high_at=col("text").arg_max(col("x")),
        low_at=col("place").arg_min(col("x")),
        any=col("flag").any(),
        all=col("flag").all(),
        corr=col("x").corr(col("w")),
        cov=col("x").cov(col("w")),
        mode=col("n").mode(),
        discrete=col("n").quantile(0.5, "lower"),
        listed=col("k").implode(order_by="place"),
        last=col("text").last(order_by="place"),
        first=col("text").first(order_by=col("place").desc()),
        positive=col("x").count().filter(col("x") > 0).filter(col("n") > 0),
    ).pl().row(0, named=True)
    known = ROWS.drop_nulls(["x", "w"])
    expected = {
        "wavg": (known["x"] * known["w"]).sum() / known["w"].sum(), "high_at": "a-b-c", "low_at": 1, "any": True, "all": False,
        "corr": known.select(pl.corr("x", "w")).item(), "cov": known.select(pl.cov("x", "w")).item(), "mode": 7, "discrete": 3,
        "listed": ROWS["k"].to_list(), "last": "a-b-c", "first": "a-b-c", "positive": 3,
    }
    assert [name for name in expected if not pairs.same(found[name], expected[name])] == []


def test_functions_over_rows(frame):
    col = splay.col
    found = frame.select(
        place="place",
        change=col("x").pct_change().over("k", order_by="place"),
        ema=col("w").ema(span=3).over(order_by="place"),
        total=col("n").cum_sum().over("k", order_by="place"),
        product=col("w").cum_prod().over("k", order_by="place"),
        differs=col("n").differs().over(order_by="place"),
        near=col("n").sum().over(order_by="place", rows=(1, 1)),
        rank=col("n").rank("min").over("k"),
        place2=splay.row_number().over("k", order_by=col("place").desc()),
        ahead=col("n").shift(-1, fill=0).over("k", order_by="place"),
    ).sort("place").df()
    assert found["total"].fillna(-9).tolist() == [3, 1, 1, 7, 14, 15]
    assert found["near"].tolist() == [1, 1, 5, 14, 15, 8]
    assert found["place2"].tolist() == [3, 2, 1, 3, 2, 1]
    assert found["ahead"].fillna(-9).tolist() == [-2, -9, 0, 7, 1, 0]
    assert found["differs"].tolist() == [True, True, True, True, False, True]
    assert found["rank"].fillna(-9).tolist() == [2, 1, -9, 2, 2, 1]
    assert found["product"].tolist() == [1, 2, 6, 4, 4, 24]
    assert found["change"][1] == -2.5 and math.isnan(found["change"][0])
    assert found["ema"][2] == 2.25


def test_other_functions(frame):
    col = splay.col
    found = frame.filter(col("place") == 0).select(
        greatest=splay.max_horizontal("x", "w", 0),
        least=splay.min_horizontal("x", "w"),
        first=splay.coalesce("n", 0),
        joined=splay.concat_str(["k", "text"], "/"),
        glob=col("text").str.glob("H*o W?rld"),
        like=col("text").str.like("%World"),
        ilike=col("text").str.ilike("hello%"),
        part=col("text").str.split_part(" ", 1),
        replaced=col("text").str.replace_all("l", "'"),
        parsed=splay.lit("2024-01-02 03:04").str.to_time("%Y-%m-%d %H:%M"),
        xbar=col("x").bucket(0.4).round(9),
        choice=splay.when(col("n") > 5).then("much").when(col("n") > 2).then("some").otherwise("few"),
        open=splay.when(col("n") > 5).then(1),
        nan=splay.lit(math.nan).fill_nan(None),
        null=col("n").null_if(3),
        integer=(col("x") * 2).cast(int),
        text=col("n").cast(str),
        none=splay.lit("x").cast("int64", strict=False),
        exact=col("x").cast("decimal(10, 2)"),
        call=splay.call("to_hex", col("n")),
        plus="<" + col("k") + ">" + col("k"),
    ).fetchall()[0]
    assert found == (
        1.5, 1.0, 3, "a/Hello World", True, True, True, "World", "He''o Wor'd",
        dt.datetime(2024, 1, 2, 3, 4, tzinfo=UTC), 1.2, "some", None, None, None, 3, "3", None, found[18], "3", "<a>a",
    )
    assert str(found[18]) == "1.50"
