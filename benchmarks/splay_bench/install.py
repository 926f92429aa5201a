"""Everything that a run will want, got before anything is measured, several things at a time: it takes as long as the slowest.

What fails is left to whoever wants it: the engine that asks for it again gets the error, and is told as skipped.
"""

import contextlib
import pathlib
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import engines

from . import environment, inside
from .settings import Settings

AT_ONCE = 4
"""Downloads wait for the network, unpacking for the processor."""


def jobs(settings: Settings, suites: list[str]) -> dict[str, Callable[[], object]]:
    """What is to be got, by name. Environments that several engines share are made once."""
    told, found = settings.of_engines(), {}
    cache = pathlib.Path(told["cache"])
    for name in settings.engines if "finance" in suites else []:
        cls = engines.load(name)
        if cls.unavailable(told):
            continue
        folder = environment.folder_of(name, settings.venvs, told["wheel"])
        wanted = environment.requirements_of(name, told["wheel"])
        log = settings.work / "logs" / f"{folder.name}-pip.log"
        found[folder.name] = lambda folder=folder, wanted=wanted, log=log: environment.ensure(folder, wanted, log)
        found[f"{name}, download"] = lambda cls=cls: cls.fetch(cache, told)
    if told["wheel"] and any(suite != "finance" for suite in suites):
        found["suites"] = lambda: inside.python(settings)
    return found


def ahead(settings: Settings, suites: list[str]) -> float:
    """Gets all of it; gives the seconds."""
    start = time.monotonic()
    wanted = jobs(settings, suites)

    def get(name: str) -> None:
        # Its user asks again, and tells why it can't be had.
        with contextlib.suppress(Exception):
            wanted[name]()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(get, wanted))
    seconds = time.monotonic() - start
    print(f"installed what {len(wanted)} engines and suites want: {seconds:.0f} s", file=sys.stderr, flush=True)
    return seconds
