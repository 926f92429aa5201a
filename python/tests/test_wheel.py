"""The wheel: library and command, installed where no compiler is; a tag that says no less than its files need."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEFORE = list(sys.path)
sys.path.insert(0, str(ROOT / "python"))
import build_wheel  # noqa: E402, beside the package
import elf  # noqa: E402

# Or processes that later tests start would find the package without its library there.
sys.path[:] = BEFORE

WHEEL_BYTES_MAX = 40_000_000
RELEASE = ROOT / "target" / "release"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel of what was built."""
    return build_wheel.build(ROOT / "target", tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="session")
def library(wheel, tmp_path_factory):
    """The library, as it is in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".so")]
        return pathlib.Path(archive.extract(name, tmp_path_factory.mktemp("library")))


@pytest.fixture
def command(wheel, tmp_path):
    """The command, installed."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    commands = tmp_path / "venv" / "bin"
    subprocess.run([commands / "python", "-m", "pip", "install", "--no-index", "--quiet", str(wheel)], check=True)
    return commands / "splay"


def test_a_machine_without_rust_gets_package_and_command(wheel, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    commands = tmp_path / "venv" / "bin"
    # Nothing else is found: neither cargo nor a compiler.
    environment = {"PATH": str(commands), "HOME": str(tmp_path)}

    def run(*command: str) -> str:
        ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    run(str(commands / "python"), "-m", "pip", "install", "--no-index", "--quiet", str(wheel))
    assert not any(shutil.which(name, path=environment["PATH"]) for name in ("cargo", "rustc", "cc", "gcc"))
    version = run(str(commands / "python"), "-c", "import splay; print(splay.__version__)").strip()
    assert run(str(commands / "splay"), "--version") == f"splay {version}\n"
    # What the command stores, the package reads.
    run(str(commands / "splay"), "gen", "taq", "--out", "taq", "--symbols", "3", "--quotes", "300", "--trades", "100")
    run("splay", "load", "market", "trade", "taq/EQY_US_ALL_TRADE_*.gz", "--recipe", "nyse-taq-trade")
    # By the package's own reader; frames need pyarrow, which a bare environment lacks.
    ask = "import splay; print(splay.open('market').table('trade').rows)"
    assert run(str(commands / "python"), "-c", ask) == "100\n"
    run(str(commands / "python"), "-m", "pip", "uninstall", "--yes", "--quiet", "splay")
    assert not (commands / "splay").exists()


def test_the_command_ends_as_a_program_does(command, tmp_path):
    def ended(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)

    failed = ended("tables", "nowhere")
    assert failed.returncode == 1 and failed.stderr.startswith("splay: ") and "Traceback" not in failed.stderr
    misunderstood = ended("lod")
    assert misunderstood.returncode == 2 and "unrecognized subcommand 'lod'" in misunderstood.stderr
    assert "Usage: splay " in ended("--help").stdout
    # Ctrl-C ends it, whatever it does: here it waits for a statement. Python's own handler would let it wait.
    with subprocess.Popen([command, "sql", "market", "--file", "-"], cwd=tmp_path, stdin=subprocess.PIPE) as waiting:
        mapped = pathlib.Path(f"/proc/{waiting.pid}/maps")
        while "_splay.abi3.so" not in mapped.read_text():
            time.sleep(0.01)
        for _ in range(300):
            waiting.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                waiting.wait(timeout=0.1)
                break
        assert waiting.returncode == -signal.SIGINT


def test_a_server_of_the_wheel_stops_in_good_order(command, tmp_path):
    with subprocess.Popen(
        [command, "serve", "market", *(part for way in ("http", "flight", "line") for part in (f"--{way}", "127.0.0.1:0"))], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        assert any("127.0.0.1" in line for line in server.stdout), "it never listened"
        server.send_signal(signal.SIGINT)
        server.stdout.read()
        assert server.wait(timeout=60) == 0


def test_it_is_small_enough_and_its_library_is_stripped(wheel, library):
    assert wheel.stat().st_size < WHEEL_BYTES_MAX
    content = library.read_bytes()
    assert b"\0.symtab\0" not in content and b"\0.debug_info\0" not in content


def test_its_tag_is_not_lower_than_what_its_library_needs(wheel, library):
    major, minor, machine = re.fullmatch(r"splay-[\d.]+-cp311-abi3-manylinux_(\d+)_(\d+)_(\w+)\.whl", wheel.name).groups()
    assert machine == os.uname().machine
    # By another way than the tag: all names of versions, wherever they are in the file.
    content = library.read_bytes()
    names = {(int(a), int(b)) for a, b in re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)", content)}
    if b"\0GLIBC_ABI_DT_RELR\0" in content:
        names.add((2, 36))
    assert names and max(names) <= (int(major), int(minor))
    assert elf.read(library).machine == machine


@pytest.mark.skipif(not shutil.which("readelf"), reason="needs readelf, of binutils")
def test_the_needs_of_a_file_are_those_that_readelf_tells():
    for program in (RELEASE / "splay", RELEASE / "lib_splay.so"):
        told = subprocess.run(["readelf", "--dynamic", "--version-info", "--wide", program], capture_output=True, text=True, check=True).stdout
        need = elf.read(program)
        assert set(need.libraries) == set(re.findall(r"\(NEEDED\).*\[(.*)\]", told))
        needs = told[told.index("Version needs section") :]
        assert set(need.versions) == set(re.findall(r"Name: (\S+)  Flags: none", needs))


def test_files_that_others_cannot_load_are_refused(tmp_path):
    content = bytearray((RELEASE / "splay").read_bytes())
    broken = tmp_path / "broken"
    broken.write_bytes(content[:5000])
    with pytest.raises(elf.ElfError):
        elf.read(broken)
    broken.write_bytes(b"#!/bin/sh\n")
    with pytest.raises(elf.ElfError):
        elf.read(broken)
    broken.write_bytes(content.replace(b"\0libgcc_s.so.1\0", b"\0libzzz_s.so.1\0"))
    with pytest.raises(build_wheel.WheelError, match=r"libzzz_s\.so\.1"):
        build_wheel.platform([broken])
    content[18:20] = (243).to_bytes(2, "little")  # RISC-V
    broken.write_bytes(content)
    with pytest.raises(elf.ElfError, match="machine 243"):
        elf.read(broken)


def test_it_claims_only_what_is_built(wheel):
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(next(name for name in archive.namelist() if name.endswith("/METADATA"))).decode()
        record = archive.read(next(name for name in archive.namelist() if name.endswith("/RECORD"))).decode()
        assert {line.split(",")[0] for line in record.splitlines()} == set(archive.namelist())
        assert all(archive.getinfo(name).external_attr >> 16 & 0o111 for name in archive.namelist() if "/scripts/" in name)
    systems = re.findall(r"Classifier: Operating System :: (.*)", metadata)
    assert systems == ["POSIX :: Linux"]


def test_another_build_replaces_the_wheel_of_its_machine(wheel, tmp_path):
    older = tmp_path / re.sub(r"manylinux_\d+_\d+", "linux", wheel.name)
    other = tmp_path / re.sub(r"(x86_64|aarch64)(?=\.whl)", "riscv64", wheel.name)
    older.touch()
    other.touch()
    made = build_wheel.build(ROOT / "target", tmp_path)
    assert {path.name for path in tmp_path.glob("*.whl")} == {made.name, other.name}
    assert made.read_bytes() == wheel.read_bytes(), "equal inputs make equal wheels"
