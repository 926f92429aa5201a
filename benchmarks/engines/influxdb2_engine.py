"""InfluxDB 2.7, built from its Go module: its server on loopback, asked in InfluxQL over HTTP.

Rows are stored as in 1.6, and asked by the same texts: version 2 understands InfluxQL, which is quicker than Flux for all of
these. It has logarithms, but not as the argument of ``difference``, so returns stay the client's part, inside the clock.

No registry has it compiled. ``python -m splay_bench build influxdb2`` takes its source from the Go module proxy and compiles it
with Go, and the library of its language Flux, whose source is in a module too, with Cargo; without the pages of its console.
"""

import json
import os
import pathlib
import shutil
import subprocess

from . import server
from .base import Skipped, folder_bytes
from .influxdb_engine import Engine as InfluxDB1
from .influxdb_queries import DATABASE, Client

VERSION = "2.7.12"
MODULE = f"github.com/influxdata/influxdb/v2@v{VERSION}"
TOKEN = "loopback-only"
LENIENT = """#!/bin/sh
case " $* " in
*" --cap-lints "*) exec "$@" ;;
*) exec "$@" --cap-lints warn ;;
esac
"""
"""Runs the Rust compiler so that no warning is an error."""
HEADERS = {"Authorization": f"Token {TOKEN}"}


class Engine(InfluxDB1):
    name = "influxdb2"
    title = "InfluxDB 2.7"
    starts = "its server, built from its Go module, started by the worker, bound to 127.0.0.1; asked over HTTP"
    best = (
        "Codes as tags, daily shards, the TSI index; times nudged by nanoseconds where rows of a symbol share one; InfluxQL; "
        "closing values by `last`, returns by the client; answers as CSV parsed by Arrow."
    )

    write_path = "/api/v2/write"
    write_parameters = {"org": "bench", "bucket": DATABASE, "precision": "ns"}

    @classmethod
    def program(cls, cache: pathlib.Path) -> pathlib.Path:
        return cache / f"influxd-{VERSION}"

    @classmethod
    def unavailable(cls, settings):
        if cls.program(pathlib.Path(settings["cache"])).exists():
            return None
        return "in no registry as a program: `python -m splay_bench build influxdb2` compiles it with Go and Cargo"

    @classmethod
    def fetch(cls, cache, settings) -> None:
        """It was built, or isn't available."""

    @classmethod
    def build(cls, cache: pathlib.Path) -> pathlib.Path:
        """Compiles it, once; gives the program.

        Raises
        ------
        Skipped
            If it can't be built, with the reason.
        """
        program, work = cls.program(cache), cache / "influxdb2-build"
        if program.exists():
            return program
        for tool in ("go", "cargo", "cc"):
            if not shutil.which(tool):
                raise Skipped(f"no {tool} to build it with")
        work.mkdir(parents=True, exist_ok=True)
        variables = os.environ | {"GOPATH": str(work / "go"), "GOCACHE": str(work / "cache"), "GOFLAGS": "-modcacherw"}
        # Flux names a Rust of its own; the one at hand does, but it warns of more, and Flux takes warnings for errors.
        lenient = work / "rustc-lenient"
        lenient.write_text(LENIENT)
        lenient.chmod(0o755)
        variables |= {"GOTOOLCHAIN": "local", "RUSTUP_TOOLCHAIN": toolchain(), "RUSTC_WRAPPER": str(lenient)}

        def run(*command, where: pathlib.Path = work, **more) -> str:
            done = subprocess.run(command, cwd=where, env=variables | more, capture_output=True, text=True)
            if done.returncode != 0:
                raise Skipped(f"{' '.join(map(str, command[:3]))}: {' '.join(done.stderr.split())[-400:]}")
            return done.stdout

        source = pathlib.Path(json.loads(run("go", "mod", "download", "-json", MODULE))["Dir"])
        finder = work / "pkg-config"
        run("go", "build", "-o", finder, "github.com/influxdata/pkg-config", where=source)
        partial, tags = program.with_suffix(".partial"), "sqlite_foreign_keys,sqlite_json"
        options = ["-tags", tags, "-ldflags", f"-s -w -X main.version={VERSION}", "-o", partial]
        run("go", "build", *options, "./cmd/influxd", where=source, PKG_CONFIG=str(finder))
        partial.rename(program)
        shutil.rmtree(work, ignore_errors=True)
        return program

    def influxd(self) -> str:
        return str(self.program(pathlib.Path(self.settings["cache"])))

    def version(self) -> str:
        return VERSION

    def start(self) -> None:
        self.port = server.free_port()
        root, log = self.folder / "root", self.folder / "server.log"
        root.mkdir(parents=True, exist_ok=True)
        options = {
            "bolt-path": root / "influxd.bolt",
            "sqlite-path": root / "influxd.sqlite",
            "engine-path": root / "engine",
            "http-bind-address": f"127.0.0.1:{self.port}",
            "reporting-disabled": "true",
            "log-level": "error",
            "ui-disabled": "true",
            "storage-cache-max-memory-size": 4 << 30,
            "storage-cache-snapshot-write-cold-duration": "2s",
            "storage-compact-full-write-cold-duration": "4s",
            "storage-compact-throughput-burst": 1 << 30,
        }
        words = [f"--{name}={value}" for name, value in options.items()]
        self.server = server.start([self.influxd(), *words], log)
        server.wait(self.server, self.is_up, log)
        self.client = self.session()

    def is_up(self) -> bool:
        try:
            return b'"pass"' in Client(self.port).request("GET", "/health")
        except (OSError, RuntimeError):
            return False

    def create(self) -> None:
        """An organisation with a bucket of daily shards, which InfluxQL sees as a database of its name."""
        owner = {"username": "bench", "password": "on-loopback-only", "org": "bench", "bucket": "first", "token": TOKEN}
        found = json.loads(self.client.request("POST", "/api/v2/setup", json.dumps(owner).encode()))
        rules = [{"type": "expire", "everySeconds": 0, "shardGroupDurationSeconds": 86_400}]
        bucket = {"orgID": found["org"]["id"], "name": DATABASE, "retentionRules": rules}
        self.client.request("POST", "/api/v2/buckets", json.dumps(bucket).encode())

    def session(self) -> Client:
        return Client(self.port, HEADERS)

    def size(self) -> int:
        return folder_bytes(self.folder / "root" / "engine")


def toolchain() -> str:
    """The name of the Rust toolchain at hand, as rustup wants it; empty without rustup."""
    if not shutil.which("rustup"):
        return ""
    said = subprocess.run(["rustup", "show", "active-toolchain"], capture_output=True, text=True).stdout
    return said.split()[0] if said else "stable"
