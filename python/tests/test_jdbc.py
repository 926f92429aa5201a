"""What tools ask through the JDBC driver of Arrow Flight SQL, unmodified, from Maven Central."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import urllib.request

import pytest
from test_server import ROOT, Server, lines

VERSION = "18.3.0"
ADDRESS = (
    "https://repo1.maven.org/maven2/org/apache/arrow/flight-sql-jdbc-driver/"
    f"{VERSION}/flight-sql-jdbc-driver-{VERSION}.jar"
)
PROGRAM = pathlib.Path(__file__).parent / "jdbc" / "Ask.java"


@pytest.fixture(scope="session")
def driver() -> pathlib.Path:
    """The driver's jar, fetched once."""
    if shutil.which("java") is None:
        pytest.skip("there is no Java")
    jar = ROOT / "target" / "downloads" / f"flight-sql-jdbc-driver-{VERSION}.jar"
    if not jar.exists():
        jar.parent.mkdir(parents=True, exist_ok=True)
        part = jar.with_suffix(".part")
        try:
            with urllib.request.urlopen(ADDRESS, timeout=60) as answer, part.open("wb") as file:
                shutil.copyfileobj(answer, file)
        except OSError as error:
            pytest.skip(f"the driver can't be fetched: {error}")
        part.rename(jar)
    return jar


def test_a_jdbc_tool_finds_its_way(driver: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with Server(tmp_path / "db") as server:
        server.send("/write", lines(0, 100))
        address = server.flight.removeprefix("grpc://")
        options = ["--add-opens=java.base/java.nio=ALL-UNNAMED", "-Duser.timezone=UTC", "-cp", str(driver)]
        command = ["java", *options, str(PROGRAM), address]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    said = ran.stdout.splitlines()

    def told(what: str) -> list[list[str]]:
        return [line.split("|")[1:] for line in said if line.startswith(f"{what}|")]

    assert "server SplayDB" in said
    assert told("table") == [["splay", "public", "trade", "TABLE"]]
    assert [name for name, _ in told("column")] == ["time", "sym", "price", "size"]
    assert [row[1:] for row in told("row")] == [["AIG", "0.5", "0"], ["IBM", "1.5", "1"]]
    assert told("row")[0][0].startswith("2026-01-01 00:00:00")
    assert told("counted") == [["IBM", "50"], ["AIG", "50"]]
    assert (told("changed"), told("updated")) == ([["1"], ["1"]], [["JDBC", "8"]])
    refused = [line for line in said if line.startswith("refused ")]
    assert len(refused) == 3
    assert "nothing" in refused[0] and "nowhere" in refused[2]
    assert not [line for line in said if line.startswith("taken")]
