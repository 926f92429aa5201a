"""Virtual environments, made once and kept: engines' packages need not agree with each other.

Engines that want the same packages share one. Environments have no pip of their own: the runner's installs into them, which
saves most of what making one takes.
"""

import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import time

import engines
from engines.base import Skipped

TRIES = 2


def python_of(folder: pathlib.Path) -> pathlib.Path:
    return folder / "bin" / "python"


def requirements_of(name: str, wheel: str) -> list[str]:
    """What pip installs for an engine; ours are installed from their wheel."""
    return [*engines.load(name).requirements, *([wheel] if name.startswith("splay") else [])]


def folder_of(name: str, venvs: pathlib.Path, wheel: str) -> pathlib.Path:
    """Where an engine's environment is: that of the first engine that wants the same."""
    wanted = requirements_of(name, wheel)
    return venvs / next((other for other in engines.NAMES if requirements_of(other, wheel) == wanted), name)


def ensure(folder: pathlib.Path, requirements: list[str], log: pathlib.Path) -> pathlib.Path:
    """The interpreter of an environment that holds the requirements; made if it isn't there or holds others.

    Without requirements it is the runner's own.

    Raises
    ------
    Skipped
        If pip can't install them, with its last error.
    """
    if not requirements:
        return pathlib.Path(sys.executable)
    wanted = json.dumps([describe(requirement) for requirement in requirements])
    ready = folder / "ready.json"
    if ready.exists() and ready.read_text() == wanted:
        return python_of(folder)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, capture_output=True)
    # Byte code is made where a module is first imported: most of what is installed never is.
    install = ["install", "--quiet", "--disable-pip-version-check", "--no-compile", "--no-warn-script-location"]
    for attempt in range(TRIES):
        done = subprocess.run(
            [sys.executable, "-m", "pip", "--python", python_of(folder), *install, *requirements],
            capture_output=True,
            text=True,
        )
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(done.stdout + done.stderr)
        if done.returncode == 0:
            ready.write_text(wanted)
            return python_of(folder)
        time.sleep(attempt)
    errors = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()[-1:]
    raise Skipped(f"pip can't install {' '.join(requirements)}: {' '.join(errors)[:400]}")


def describe(requirement: str) -> list[str]:
    """A requirement by name, or a file by its content: a wheel that was built again is another one."""
    path = pathlib.Path(requirement)
    return [requirement, hashlib.sha256(path.read_bytes()).hexdigest()] if path.suffix == ".whl" else [requirement]
