"""The map of ARCHITECTURE.md names every file and folder of the crates it lists in detail, and none that isn't there."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAP = re.search(r"```text\ncrates/\n(.*?)\npython/", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.S)[1]
DETAILED = ("store", "import", "sql", "engine", "capture", "server")
# Every crate has these; tests and fuzz targets are no part of what it does.
COMMON = {"lib.rs", "error.rs", "tests.rs", "fuzz.rs", "fuzz/"}


@pytest.mark.parametrize("crate", DETAILED)
def test_the_map_names_what_is_there(crate):
    part = re.search(rf"^  {crate}/ .*\n((?:    .*\n?)+)", MAP, re.M)[1]
    # Names stand before the description, separated by commas.
    named = {name for line in part.splitlines() for name in re.match(r"    ((?:\w+(?:\.rs|/)(?:, )?)+)", line)[1].split(", ") if name}
    source = ROOT / "crates" / crate / "src"
    files = {path.name for path in source.glob("*.rs")}
    folders = {f"{path.name}/" for path in source.iterdir() if path.is_dir()}
    # A module with a folder is named once, by its file or by its folder.
    there = files | {folder for folder in folders if f"{folder[:-1]}.rs" not in files}
    assert there - named - COMMON == set(), "not on the map"
    assert named - files - folders == set(), "on the map, and not there"
