"""Results on disk: a JSON file for each engine and query, so that a run that was stopped goes on where it was.

``results/<suite>/<set>/<engine>/<part>.json``. A part counts as done if it was measured at the same commit by the same rules;
``--again`` measures it anew. ``results/<suite>/<set>/run.json`` says on what machine, by what command and rules.
"""

import json
import pathlib


class Store:
    """The results of one suite on one data set."""

    def __init__(self, folder: pathlib.Path, stamp: dict, again: bool = False):
        self.folder = folder
        self.stamp = stamp
        """What a part must have been measured by to count: commit and rules."""
        self.again = again
        self.written: set[pathlib.Path] = set()

    def path(self, engine: str, part: str) -> pathlib.Path:
        return self.folder / engine / f"{part}.json"

    def get(self, engine: str, part: str) -> dict:
        """A part's values as far as they count; empty if there are none."""
        path = self.path(engine, part)
        try:
            values = json.loads(path.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        if path in self.written or (not self.again and values.get("stamp") == self.stamp):
            return values
        return {}

    def put(self, engine: str, part: str, values: dict) -> None:
        """Replaces a part."""
        path = self.path(engine, part)
        write(path, values | {"stamp": self.stamp})
        self.written.add(path)

    def add(self, engine: str, part: str, **values) -> None:
        """Adds to a part."""
        self.put(engine, part, self.get(engine, part) | values)


def write(path: pathlib.Path, values: dict) -> None:
    """Writes a file as a whole: a run that is killed leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(values, indent=1))
    partial.replace(path)


def read_all(results: pathlib.Path) -> dict:
    """All results: by suite, set, engine and part; ``run.json`` stands under the engine ``""``."""
    found: dict = {}
    for path in sorted(results.rglob("*.json")):
        parts = path.relative_to(results).with_suffix("").parts
        if len(parts) == 3 and parts[2] == "run":
            suite, name, engine, part = parts[0], parts[1], "", "run"
        elif len(parts) == 4:
            suite, name, engine, part = parts
        else:
            continue
        found.setdefault(suite, {}).setdefault(name, {}).setdefault(engine, {})[part] = json.loads(path.read_text())
    return found
