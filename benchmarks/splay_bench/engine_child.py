"""An engine, from its class to a worker that is up: environment, download, load. Says why where one can't be had."""

import hashlib
import importlib.util
import inspect
import json
import pathlib

import engines
from engines.base import Skipped

from . import environment
from .child import Child, Failed
from .settings import Settings
from .store import write

VERSION_SECONDS = 120


class Installed:
    """An engine with its environment, on one data set.

    Raises
    ------
    Skipped
        If it can't be had, with the reason.
    """

    def __init__(self, name: str, settings: Settings, folder: pathlib.Path):
        self.cls = engines.load(name)
        self.name = name
        self.settings = settings
        self.folder = folder
        told = settings.of_engines()
        reason = self.cls.unavailable(told)
        if reason:
            raise Skipped(reason)
        logs = settings.work / "logs"
        environment_folder = environment.folder_of(name, settings.venvs, told["wheel"])
        self.requirements = environment.requirements_of(name, told["wheel"])
        log = logs / f"{environment_folder.name}-pip.log"
        self.python = environment.ensure(environment_folder, self.requirements, log)
        self.cls.fetch(pathlib.Path(told["cache"]), told)
        logs.mkdir(parents=True, exist_ok=True)
        self.log = logs / f"{name}.log"
        self.told = told
        self.version = None

    def start(self, part: str = "main") -> Child:
        """A worker; ``part`` names the folder of its files."""
        log = open(self.log, "ab")
        child = Child(self.python, self.name, self.folder / part, self.settings.threads, self.told, log)
        log.close()
        if self.version and self.cls.is_server:
            return child
        try:
            # It imports what the engine needs as well, so that no query's time has that in it.
            self.version = child.ask("version", VERSION_SECONDS)
        except Failed as failure:
            child.kill()
            if failure.kind == "Skipped":
                raise Skipped(str(failure).removesuffix(" (Skipped)")) from failure
            raise
        return child

    def design(self) -> str:
        """Names what the stored tables depend on: the engine's version, its packages, its file and those that its layout is in."""
        parts = [inspect.getsource(inspect.getmodule(cls)) for cls in self.cls.__mro__[:-1]]
        parts += [pathlib.Path(importlib.util.find_spec(name).origin).read_text() for name in self.cls.layout]
        parts += [json.dumps(environment.describe(requirement)) for requirement in self.requirements]
        return f"{self.version} {hashlib.sha256(''.join(parts).encode()).hexdigest()[:16]}"

    def load(self, tables: dict[str, list[str]]) -> dict:
        """Makes the tables if they aren't there of this version: seconds of the load, bytes on disk.

        An engine in memory loads whenever it is opened; nothing is made for it here.
        """
        marker = self.marker
        child = self.start()
        try:
            if self.cls.stores == "memory":
                return {}
            if self.cls.shares:
                return Installed(self.cls.shares, self.settings, self.folder.parent / self.cls.shares).load(tables)
            if marker.exists():
                found = json.loads(marker.read_text())
                if found["design"] == self.design():
                    return found
                marker.unlink()
            found = child.ask("load", self.settings.load_limit_seconds, tables=tables)
            found["bytes"] = child.ask("size", self.settings.limit_seconds)
            found["design"] = self.design()
            write(marker, found)
            return found
        finally:
            child.close()

    @property
    def marker(self) -> pathlib.Path:
        """A file that says which version made the tables."""
        return self.folder / "loaded.json"

    def forget(self) -> None:
        """Lets the next run make the tables anew."""
        self.marker.unlink(missing_ok=True)

    def opened(self, tables: dict[str, list[str]]) -> Child:
        """A worker with its tables open."""
        child = self.start()
        try:
            if self.cls.stores == "memory":
                child.ask("load", self.settings.load_limit_seconds, tables=tables)
            child.ask("open", self.settings.load_limit_seconds)
        except BaseException:
            child.close()
            raise
        return child
