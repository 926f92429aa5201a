#!/usr/bin/env python3
"""Fails if one of the project's cargo calls would compile a dependency again that another has compiled.

`make demo` builds the command alone, `make wheel` the workspace, `make test` the tests. If one of them asks for a feature of a shared
dependency that another doesn't ask for, everything above that dependency is compiled for both. The cure is to name the feature
in the `[dependencies]` of the crate that shares it.

Cargo's unit graph tells what would be compiled, with which features and on top of what; it is unstable, hence RUSTC_BOOTSTRAP.
"""

import functools
import json
import os
import subprocess
import sys


def units(*command: str) -> dict[tuple, set]:
    """What a command compiles: by package, target and mode, the variants, each with its features and those of all below it."""
    arguments = ["cargo", *command, "--release", "--locked", "--unit-graph", "-Z", "unstable-options"]
    done = subprocess.run(arguments, env=os.environ | {"RUSTC_BOOTSTRAP": "1"}, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"splay: {' '.join(arguments)} failed: {done.stderr}")
    graph = json.loads(done.stdout)["units"]

    @functools.cache
    def variant(index: int) -> int:
        unit = graph[index]
        below = sorted(variant(dependency["index"]) for dependency in unit["dependencies"])
        return hash((unit["pkg_id"], unit["target"]["name"], unit["mode"], tuple(unit["features"]), tuple(below)))

    found = {}
    for index, unit in enumerate(graph):
        name = (unit["pkg_id"].rsplit("/", 1)[-1], unit["target"]["name"], unit["mode"], unit["platform"])
        found.setdefault(name, set()).add(variant(index))
    return found


def main() -> None:
    build = units("build", "--workspace")
    for call in (("build", "-p", "splay-cli"), ("test", "--workspace")):
        others = units(*call)
        twice = sorted(str(name[0]) for name, variants in others.items() if name in build and variants - build[name])
        if twice:
            names = ", ".join(dict.fromkeys(twice))
            sys.exit(f"splay: cargo {' '.join(call)} would compile again, with other features: {names}")
    print("binary, wheel and tests share every dependency")


if __name__ == "__main__":
    main()
