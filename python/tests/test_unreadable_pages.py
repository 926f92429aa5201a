"""A disk that fails to read a page ends the statements that need the page, not the server.

The disk is a file system of one file over FUSE, in whose place a segment stands.
"""

import json
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest
from one_file_fuse import OneFile, Unavailable
from test_serve import BINARY, Served

ROWS = 200_000


def told(server: Served, statement: str) -> tuple[int, str]:
    """Status and text of a statement's answer."""
    request = urllib.request.Request(f"http://{server.address}/query?format=csv", statement.encode())
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())["code"]


def written(server: Served, lines: str) -> None:
    request = urllib.request.Request(f"http://{server.address}/api/v2/write", lines.encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 204


@pytest.fixture
def on_a_disk_of_its_own(tmp_path):
    """A stopped server whose one segment lies on a disk of its own."""
    if not BINARY.exists():
        pytest.skip(f"there is no {BINARY}: cargo build --release, or set SPLAY_BINARY")
    server = Served(tmp_path)
    start = 1_767_364_200_000_000_000
    for first in range(0, ROWS, 50_000):
        lines = (f"tick,sym=S{n % 20} price={n % 100},size={n % 7}i {start + n}" for n in range(first, first + 50_000))
        written(server, "\n".join(lines))
    server.stop()
    subprocess.run([BINARY, "roll", tmp_path / "db"], check=True, capture_output=True)
    [segment] = (tmp_path / "db" / "tick").glob("date=*/*.arrow")
    (tmp_path / "disk").mkdir()
    try:
        disk = OneFile(tmp_path / "disk", segment.read_bytes())
    except Unavailable as reason:
        pytest.skip(f"FUSE can't be had here: {reason}")
    try:
        segment.unlink()
        segment.symlink_to(disk.file)
        yield server, disk
        if server.process.poll() is None:
            server.stop()
    finally:
        disk.close()
        shutil.rmtree(tmp_path / "db")


def test_a_page_that_cant_be_read_ends_the_statement_and_not_the_server(on_a_disk_of_its_own: tuple[Served, OneFile]):
    server, disk = on_a_disk_of_its_own
    # The end of the file, where it says what it holds, can be read; columns can't.
    disk.fails_from = 4096
    server.start()
    for statement in (
        "select sum(price), max(size) from tick",
        "select * from tick",
        "select a.price from tick a join tick b on a.size = b.size",
    ):
        status, _ = told(server, statement)
        assert status == 500, statement
    assert disk.failed > 0
    # Others are served, and rows come in.
    written(server, "other,sym=A price=1\n")
    assert told(server, "select count(*) from other") == (200, "count(*)\n1\n")
    assert server.process.poll() is None
    # Once the disk reads again, so does the server, without a start.
    disk.fails_from = None
    assert told(server, "select count(price) as n from tick") == (200, f"n\n{ROWS}\n")


def test_a_disk_that_fails_while_columns_are_read(on_a_disk_of_its_own: tuple[Served, OneFile]):
    server, disk = on_a_disk_of_its_own
    server.start()
    assert told(server, "select count(*) as n from tick") == (200, f"n\n{ROWS}\n")
    disk.fails_from = len(disk.content) // 2
    for _ in range(5):
        status, text = told(server, "select sum(price) as a, sum(size) as b, min(time) as c from tick where size >= 0")
        assert status == 500 or text.startswith("a,b,c\n")
    assert server.process.poll() is None
    written(server, "tick,sym=A price=1,size=1i 1767364200000000000\n")
