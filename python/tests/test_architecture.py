"""The map of ARCHITECTURE.md names every file and folder of the crates it lists in detail, and none that isn't there."""

import pathlib
import re
import tomllib
from typing import Any

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


# Modules of each crate that are part of a cycle of uses. The numbers only fall: a change that needs a higher one moves what both sides use into a
# module of its own.
IN_CYCLES = {"store": 0, "import": 0, "sql": 0, "engine": 0, "capture": 0, "server": 0, "functions": 0}


def without_tests(text: str) -> str:
    """Rust without comments, and without the tests at a file's end."""
    text = re.sub(r"//[^\n]*", "", text)
    return re.split(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\(crate\))? )?mod \w+ \{", text)[0]


def modules_used(text: str, depth: int) -> set[str]:
    """The first names of paths into the crate: `crate::a::b`, `crate::{a, b::c}`, and `super::a` where that is the crate."""
    root = "crate|" + "::".join(["super"] * depth)
    used = set(re.findall(rf"\b(?:{root})::(\w+)", text))
    for group in re.finditer(rf"\b(?:{root})::\{{", text):
        level, name = 1, ""
        for letter in text[group.end() :]:
            level += {"{": 1, "}": -1}.get(letter, 0)
            if level == 0:
                break
            name = name + letter if level == 1 else name
        used |= {part.strip().split("::")[0] for part in name.split(",")}
    return used


def uses_of(crate: str) -> dict[str, set[str]]:
    """The modules of a crate, each with those that it uses."""
    source = ROOT / "crates" / crate / "src"
    files = [path for path in source.rglob("*.rs") if path.name not in ("lib.rs", "tests.rs") and not {"tests", "fuzz"} & set(path.parts)]
    files = [path for path in files if path.stem != "fuzz" and not path.stem.endswith("_tests")]
    uses: dict[str, set[str]] = {}
    for path in files:
        parts = path.relative_to(source).with_suffix("").parts
        depth = len(parts) - (parts[-1] == "mod")
        uses.setdefault(parts[0], set()).update(modules_used(without_tests(path.read_text(encoding="utf-8")), depth))
    return {module: {used for used in others if used in uses and used != module} for module, others in uses.items()}


def reachable(uses: dict[str, set[str]], module: str) -> set[str]:
    found, left = set(), list(uses[module])
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left.extend(uses[one])
    return found


@pytest.mark.parametrize("crate", IN_CYCLES)
def test_cycles_of_modules_do_not_grow(crate):
    uses = uses_of(crate)
    cyclic = {module for module in uses if module in reachable(uses, module)}
    assert len(cyclic) <= IN_CYCLES[crate], f"modules of {crate} that use each other: {', '.join(sorted(cyclic))}"


def inherited(name: str, of: Any, workspace: dict[str, Any]) -> Any:
    """A dependency with what the workspace says of it."""
    if not (isinstance(of, dict) and of.get("workspace")):
        return of
    shared = workspace.get(name, {})
    return (shared if isinstance(shared, dict) else {}) | of


def dependencies_of(manifest: dict[str, Any], workspace: dict[str, Any]) -> set[str]:
    """The packages that a crate needs to be built, whatever it calls them, without those of optional features."""
    tables = [manifest, *manifest.get("target", {}).values()]
    named = [entry for table in tables for kind in ("dependencies", "build-dependencies") for entry in table.get(kind, {}).items()]
    specified = [(name, inherited(name, of, workspace)) for name, of in named]
    needed = [(name, of if isinstance(of, dict) else {}) for name, of in specified]
    return {of.get("package", name) for name, of in needed if not of.get("optional")}


@pytest.mark.parametrize("other", ["cluster", "feeds", "stores", "fuzz"])
def test_lock_files_of_other_workspaces_have_the_dependencies_of_the_crates(other):
    """Their builds are `--locked`: a new dependency of a crate that they use has to be in their lock files, too."""
    shared = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["dependencies"]
    manifests = [tomllib.loads(path.read_text(encoding="utf-8")) for path in (ROOT / "crates").glob("*/Cargo.toml")]
    needed = {manifest["package"]["name"]: dependencies_of(manifest, shared) for manifest in manifests}
    packages = tomllib.loads((ROOT / other / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    locked = {package["name"]: {entry.split()[0] for entry in package.get("dependencies", [])} for package in packages}
    used = needed.keys() & locked.keys()
    assert used
    assert {crate: needed[crate] - locked[crate] for crate in used if needed[crate] - locked[crate]} == {}
