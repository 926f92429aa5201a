"""Makes the wheel of what ``cargo build --release --workspace`` made: the Python package with its library, and the command `splay`, a
script (command.py) that calls the library.

Maturin (``pip install ./python``) makes a wheel of the package without the command, and builds the library by itself, with fewer features
of the shared dependencies than the whole workspace asks for, so DataFusion would be compiled a second time. Packing what is there takes
seconds.

    python python/build_wheel.py [--target target] [--out target/wheels]

The wheel's tag is read from the library: its machine, and the oldest glibc that loads it. To make a wheel for older systems,
build on one.
"""

import argparse
import base64
import hashlib
import pathlib
import stat
import tomllib
import zipfile

import elf

HERE = pathlib.Path(__file__).resolve().parent
ABI = "cp311-abi3"
LIBRARY = "lib_splay.so"
# A fixed time, so that equal inputs make equal wheels.
ZIP_TIME = (2024, 1, 1, 0, 0, 0)
# Twice the time of level 6, for 1 % fewer bytes.
LEVEL = 9


class WheelError(Exception):
    """What was built can't be installed elsewhere."""


def metadata(project: dict, version: str) -> str:
    """The core metadata, version 2.4, of what pyproject.toml says."""
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {version}"]
    lines.append(f"Summary: {project['description']}")
    lines += [f"License-Expression: {project['license']}", "License-File: LICENSE"]
    lines.append(f"Requires-Python: {project['requires-python']}")
    lines += [f"Classifier: {classifier}" for classifier in project["classifiers"]]
    for extra, needs in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {need} ; extra == '{extra}'" for need in needs]
    return "\n".join(lines) + "\n"


def entry_points(project: dict) -> str:
    """What other packages find this one by: SQLAlchemy, narwhals."""
    groups = [
        "\n".join([f"[{group}]", *(f"{name} = {place}" for name, place in points.items())])
        for group, points in project["entry-points"].items()
    ]
    return "\n\n".join(groups) + "\n"


def platform(files: list[pathlib.Path]) -> str:
    """The tag of the systems that load all files (PEP 600), such as ``manylinux_2_35_x86_64``."""
    needs = [elf.read(path) for path in files]
    for path, need in zip(files, needs, strict=True):
        if foreign := [name for name in need.libraries if not elf.LIBRARIES_OF_THE_SYSTEM.fullmatch(name)]:
            raise WheelError(f"{path} needs {', '.join(foreign)}, which other machines may lack")
    if len(machines := {need.machine for need in needs}) > 1:
        raise WheelError(f"files of several machines: {', '.join(sorted(machines))}")
    major, minor = max(need.glibc for need in needs)
    return f"manylinux_{major}_{minor}_{machines.pop()}"


def contents(target: pathlib.Path) -> tuple[str, dict[str, bytes]]:
    """The wheel's tag and its files by name, without its own record."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    workspace = tomllib.loads((HERE.parent / "Cargo.toml").read_text())["workspace"]
    version = workspace["package"]["version"]
    package = sorted(path for path in (HERE / "splay").rglob("*") if path.suffix in {".py", ".pyi"} or path.name == "py.typed")
    files = {path.relative_to(HERE).as_posix(): path.read_bytes() for path in package}
    library = target / "release" / LIBRARY
    tag = f"{ABI}-{platform([library])}"
    name = f"{project['name']}-{version}"
    files["splay/_splay.abi3.so"] = library.read_bytes()
    # Installers put it into the folder of commands, with the path of their Python in its first line.
    files[f"{name}.data/scripts/splay"] = (HERE / "command.py").read_bytes()
    files[f"{name}.dist-info/METADATA"] = metadata(project, version).encode()
    files[f"{name}.dist-info/entry_points.txt"] = entry_points(project).encode()
    wheel = f"Wheel-Version: 1.0\nGenerator: splay\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files[f"{name}.dist-info/WHEEL"] = wheel.encode()
    files[f"{name}.dist-info/licenses/LICENSE"] = (HERE.parent / "LICENSE").read_bytes()
    return tag, files


def record(name: str, content: bytes) -> str:
    """A line of RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def build(target: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
    """Writes the wheel and gives its path. Wheels of the same version for the same machine that are there are removed, because `pip
    install splay-*.whl` takes only one."""
    tag, files = contents(target)
    info = next(name for name in files if name.endswith("/WHEEL")).removesuffix("/WHEEL")
    lines = "".join(record(name, content) for name, content in files.items())
    files[f"{info}/RECORD"] = f"{lines}{info}/RECORD,,\n".encode()
    out.mkdir(parents=True, exist_ok=True)
    stem = info.removesuffix(".dist-info")
    machine = tag.split("_", 3)[-1]
    for older in out.glob(f"{stem}-{ABI}-*linux*_{machine}.whl"):
        older.unlink()
    path = out / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, ZIP_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            is_program = name.endswith(".so") or "/scripts/" in name
            # Installers look for a regular file that may be executed.
            entry.external_attr = (stat.S_IFREG | (0o755 if is_program else 0o644)) << 16
            wheel.writestr(entry, content, compresslevel=LEVEL)
    return path


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Make the wheel of what cargo made.")
    parser.add_argument("--target", type=pathlib.Path, default=HERE.parent / "target", help="cargo's target folder")
    parser.add_argument("--out", type=pathlib.Path, help="folder for the wheel; default: wheels in the target folder")
    given = parser.parse_args()
    print(build(given.target, given.out or given.target / "wheels"))


if __name__ == "__main__":
    main()
