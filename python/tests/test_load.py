"""Files go in by pattern, once, whole or not at all."""

import pyarrow as pa
import pyarrow.parquet
import pytest

import splay

CSV = "time,sym,price\n2024-01-02T14:30:00Z,IBM,161.25\n2024-01-02T14:29:00Z,AIG,50\n"


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text(CSV)
    (folder / "b.csv").write_text(CSV.replace("01-02", "01-03"))
    return folder


def test_patterns_paths_and_lists(db, files):
    report = db.load("glob", str(files / "*.csv"))
    assert (report.table, report.rows, report.partitions, report.quarantined) == ("glob", 4, 2, 0)
    assert [file.name for file in report.files] == [str(files / "a.csv"), str(files / "b.csv")]
    assert report.files[0].rows == 2
    assert report.files[0].bytes == len(CSV)
    assert "rows=4" in repr(report)
    assert db.load("path", files).rows == 4
    assert db.load("list", [files / "a.csv", str(files / "b.csv")]).rows == 4
    assert [source.rows for source in db.table("glob").sources] == [2, 2]


def test_a_file_is_loaded_once_unless_wanted(db, files):
    db.load("t", files / "a.csv")
    with pytest.raises(splay.AlreadyLoadedError, match="a.csv was loaded into .t. before, in commit 1") as caught:
        db.load("t", files)
    assert (caught.value.table, caught.value.epoch) == ("t", 1)
    assert db.table("t").rows == 2
    db.load("t", files, again=True)
    assert db.table("t").rows == 6


def test_a_folder_that_grows_is_loaded_file_by_file(db, files):
    db.load("t", files / "a.csv")
    report = db.load("t", files, skip_loaded=True)
    assert (report.rows, [file.name for file in report.files]) == (2, [str(files / "b.csv")])
    report = db.load("t", files, skip_loaded=True)
    assert (report.rows, report.files, db.table("t").rows) == (0, [], 4)
    assert db.load("new", files, skip_loaded=True).rows == 4
    # By content, whatever the name is.
    (files / "a.csv").rename(files / "c.csv")
    assert db.load("t", files, skip_loaded=True).files == []
    with pytest.raises(ValueError, match="exclude each other"):
        db.load("t", files, skip_loaded=True, again=True)


def test_files_without_rows_are_loaded_each_night(db, files, tmp_path):
    assert db.load("trade", files / "a.csv").rows == 2
    for name in ("monday.csv", "tuesday.csv"):
        (tmp_path / name).write_text("time,sym,price\n")
        assert db.load("trade", tmp_path / name).rows == 0
    both = db.load("trade", [files / "b.csv", tmp_path / "monday.csv", tmp_path / "tuesday.csv"])
    assert both.rows == 2
    with pytest.raises(splay.AlreadyLoadedError):
        db.load("trade", files / "b.csv")


def test_wishes_reach_the_importer(db, files):
    db.load("t", files, types={"price": "decimal(10,2)"}, symbol="", time="time", time_zone="Asia/Tokyo", format="csv")
    table = db.table("t")
    assert table.schema["price"] == "decimal(10,2)"
    assert (table.symbol, table.time_zone) == (None, "Asia/Tokyo")


def test_malformed_rows_stop_the_load_or_go_to_quarantine(db, files, tmp_path):
    (files / "a.csv").write_text(CSV + "2024-01-02T14:31:00Z,IBM,x\n")
    types = {"price": "float64"}
    with pytest.raises(splay.MalformedRowError, match="line 4, column price") as caught:
        db.load("t", files / "a.csv", types=types)
    assert (caught.value.line, caught.value.column) == (4, "price")
    assert db.tables() == []
    aside = tmp_path / "aside.csv"
    report = db.load("t", files / "a.csv", types=types, on_error="quarantine", quarantine_path=aside)
    assert (report.rows, report.quarantined) == (2, 1)
    assert "14:31:00Z,IBM,x" in aside.read_text()
    for wrong in ({"on_error": "ignore"}, {"on_error": "quarantine"}, {"quarantine_path": aside}):
        with pytest.raises(ValueError, match="quarantine"):
            db.load("t", files, **wrong)


def test_parquet_in_parquet_kept(db, tmp_path, trades):
    pyarrow.parquet.write_table(pa.Table.from_pandas(trades, preserve_index=False), tmp_path / "t.parquet")
    assert db.load("t", tmp_path / "t.parquet", tier="small").rows == 4
    assert list((tmp_path / "db" / "t").glob("**/*.parquet"))


def test_what_the_importer_refuses(db, files, tmp_path):
    with pytest.raises(splay.NoMatchError, match="no file matches") as caught:
        db.load("t", "/nowhere/*.csv")
    assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(splay.UnknownRecipeError, match="nyse-taq-trade") as caught:
        db.load("t", files, recipe="nyse-taq")
    assert "nyse-taq-trade" in caught.value.known
    (tmp_path / "wrong.toml").write_text("description = 'x'")
    with pytest.raises(splay.RecipeError, match="wrong.toml"):
        db.load("t", files, recipe=tmp_path / "wrong.toml")
    db.load("t", files / "a.csv")
    (files / "c.csv").write_text("time,sym,venue\n2024-01-02T14:30:00Z,IBM,N\n")
    with pytest.raises(splay.MisfitError, match="venue"):
        db.load("t", files / "c.csv")
    with pytest.raises(ValueError, match="is not a format"):
        db.load("t", files, format="xls")


def test_progress_is_told_and_may_stop_the_load(db, tmp_path):
    lines = "".join(f"{1_700_000_000_000_000_000 + i},IBM,{i}\n" for i in range(1_000))
    (tmp_path / "big.csv").write_text("time,sym,n\n" + lines)
    seen = []
    db.load("t", tmp_path / "big.csv", progress=lambda read, total: seen.append((read, total)))
    size = (tmp_path / "big.csv").stat().st_size
    assert seen == sorted(seen)
    assert len(seen) >= 2, "of the first rows, and of the end"
    assert seen[-1] == (size, size)

    def stop(read, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        db.load("u", tmp_path / "big.csv", progress=stop)
    assert db.tables() == ["t"]


def test_recipes_are_listed():
    names = dict(splay.recipes())
    assert "nyse-taq-trade" in names
    assert all(names.values())
