"""Makes the wheel from the library that ``cargo build --release --workspace`` made.

Maturin (``pip install ./python``) makes the same wheel, but builds the Python package by itself, with fewer features of the
shared dependencies than the whole workspace asks for, so DataFusion would be compiled a second time. Packing the library
that is there takes seconds.

    python python/build_wheel.py [--target target] [--out target/wheels]

The wheel is for this machine's kind of system; wheels for others to install come from maturin in a manylinux container.
"""

import argparse
import base64
import hashlib
import pathlib
import sys
import sysconfig
import tomllib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ABI = "cp311-abi3"
LIBRARIES = {"linux": "lib_splay.so", "darwin": "lib_splay.dylib", "win32": "_splay.dll"}
MODULES = {"win32": "splay/_splay.pyd"}
# A fixed time, so that equal inputs make equal wheels.
ZIP_TIME = (2024, 1, 1, 0, 0, 0)


def metadata(project: dict, version: str) -> str:
    """The core metadata, version 2.4, of what pyproject.toml says."""
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {version}"]
    lines.append(f"Summary: {project['description']}")
    lines.append(f"License-Expression: {project['license']}")
    lines.append(f"Requires-Python: {project['requires-python']}")
    lines += [f"Classifier: {classifier}" for classifier in project["classifiers"]]
    for extra, needs in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {need} ; extra == '{extra}'" for need in needs]
    return "\n".join(lines) + "\n"


def contents(target: pathlib.Path, platform: str) -> dict[str, bytes]:
    """The wheel's files by name, without its own record."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    workspace = tomllib.loads((HERE.parent / "Cargo.toml").read_text())["workspace"]
    version = workspace["package"]["version"]
    package = sorted(path for path in (HERE / "splay").rglob("*") if path.suffix in {".py", ".pyi"} or path.name == "py.typed")
    files = {path.relative_to(HERE).as_posix(): path.read_bytes() for path in package}
    library = target / "release" / LIBRARIES[sys.platform]
    files[MODULES.get(sys.platform, "splay/_splay.abi3.so")] = library.read_bytes()
    info = f"{project['name']}-{version}.dist-info"
    files[f"{info}/METADATA"] = metadata(project, version).encode()
    wheel = f"Wheel-Version: 1.0\nGenerator: splay\nRoot-Is-Purelib: false\nTag: {ABI}-{platform}\n"
    files[f"{info}/WHEEL"] = wheel.encode()
    return files


def record(name: str, content: bytes) -> str:
    """A line of RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def build(target: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
    """Writes the wheel and gives its path."""
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    files = contents(target, platform)
    info = next(name for name in files if name.endswith("/WHEEL")).removesuffix("/WHEEL")
    lines = "".join(record(name, content) for name, content in files.items())
    files[f"{info}/RECORD"] = f"{lines}{info}/RECORD,,\n".encode()
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{info.removesuffix('.dist-info')}-{ABI}-{platform}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as wheel:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, ZIP_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if name.endswith((".so", ".pyd")) else 0o644) << 16
            wheel.writestr(entry, content)
    return path


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Make the wheel from the library that cargo made.")
    parser.add_argument("--target", type=pathlib.Path, default=HERE.parent / "target", help="cargo's target folder")
    parser.add_argument("--out", type=pathlib.Path, help="folder for the wheel; default: wheels in the target folder")
    given = parser.parse_args()
    print(build(given.target, given.out or given.target / "wheels"))


if __name__ == "__main__":
    main()
