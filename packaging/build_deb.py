"""Makes the Debian package of the command and the service, from what ``cargo build --release -p splay-cli`` made.

    python3 packaging/build_deb.py [--target target] [--out target/packages] [--maintainer "NAME <ADDRESS>"]

Needs dpkg-deb. The package's architecture and the glibc that it depends on are read from the binary; manual pages and completions are
written by it, so it must run on this machine. Equal inputs make equal packages.
"""

import argparse
import dataclasses
import gzip
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "python"))
import elf  # noqa: E402, the wheel is tagged by the same

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
MAINTAINER = "SplayDB <splaydb@users.noreply.github.com>"
# A fixed time, so that equal inputs make equal packages: 2024-01-01.
TIME = 1_704_067_200

COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/splay",
    "zsh": "usr/share/zsh/vendor-completions/_splay",
    "fish": "usr/share/fish/vendor_completions.d/splay.fish",
}

DESCRIPTION = """\
open tick database
 SplayDB loads, keeps and answers: trades, quotes and order books of any
 venue, in open file formats, with SQL over them. A database is a folder,
 and queries run in the command's own process.
 .
 The package has the command and a service that captures rows and serves
 a database in /var/lib/splay, over HTTP, Flight SQL and line protocol, to
 this machine. The service is installed disabled.
"""


@dataclasses.dataclass
class Package:
    """The tree of a package while it is made."""

    root: pathlib.Path

    def add(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """Writes a file."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)

    def add_gzip(self, name: str, content: bytes) -> None:
        """Writes a file as gzip without its name and time."""
        self.add(f"{name}.gz", gzip.compress(content, 9, mtime=0))

    def size_kibibytes(self) -> int:
        """What an installation takes."""
        return sum(-(-path.stat().st_size // 1024) for path in self.root.rglob("*") if path.is_file())

    def settle_times(self) -> None:
        """Gives everything one time, folders mode 0755."""
        for path in sorted(self.root.rglob("*"), reverse=True):
            if path.is_dir():
                path.chmod(0o755)
            os.utime(path, (TIME, TIME), follow_symlinks=False)
        self.root.chmod(0o755)
        os.utime(self.root, (TIME, TIME))


def version() -> str:
    """The workspace's version, with Debian's revision."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"] + "-1"


def copyright_file() -> str:
    """The machine-readable copyright (https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/)."""
    return """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: SplayDB

Files: *
Copyright: 2026 the authors of SplayDB
License: Apache-2.0
 On Debian systems the text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
Comment:
 The binary contains Rust libraries under Apache-2.0, MIT, BSD, ISC, Zlib,
 Unicode-3.0, BSL-1.0, CC0-1.0 and Unlicense; Cargo.lock of the source
 names them.
"""


def changelog(maintainer: str) -> str:
    """The package's own changelog; the project's is beside it."""
    return f"splay ({version()}) unstable; urgency=medium\n\n  * See CHANGELOG.md of the project.\n\n -- {maintainer}  Mon, 01 Jan 2024 00:00:00 +0000\n"


def build(target: pathlib.Path, out: pathlib.Path, maintainer: str) -> pathlib.Path:
    """Writes the package and gives its path."""
    binary = target / "release" / "splay"
    need = elf.read(binary)
    architecture = ARCHITECTURES[need.machine]
    with tempfile.TemporaryDirectory() as folder:
        package = Package(pathlib.Path(folder) / "splay")
        package.add("usr/bin/splay", binary.read_bytes(), 0o755)
        package.add("usr/lib/systemd/system/splay.service", (HERE / "splay.service").read_bytes())
        package.add("etc/splay/server.toml", (HERE / "server.toml").read_bytes())
        pages = pathlib.Path(folder) / "man"
        subprocess.run([binary, "man", "--out", pages], check=True)
        for page in sorted(pages.iterdir()):
            package.add_gzip(f"usr/share/man/man1/{page.name}", page.read_bytes())
        for shell, name in COMPLETIONS.items():
            package.add(name, subprocess.run([binary, "completions", shell], check=True, capture_output=True).stdout)
        package.add("usr/share/doc/splay/copyright", copyright_file().encode())
        package.add_gzip("usr/share/doc/splay/changelog", (ROOT / "CHANGELOG.md").read_bytes())
        package.add_gzip("usr/share/doc/splay/changelog.Debian", changelog(maintainer).encode())
        for file in sorted(path for path in (HERE / "grafana").rglob("*") if path.is_file()):
            package.add(f"usr/share/splay/grafana/{file.relative_to(HERE / 'grafana')}", file.read_bytes())
        package.add("usr/share/lintian/overrides/splay", (HERE / "debian" / "lintian-overrides").read_bytes())
        glibc = ".".join(map(str, need.glibc))
        control = [
            "Package: splay",
            f"Version: {version()}",
            f"Architecture: {architecture}",
            f"Maintainer: {maintainer}",
            f"Installed-Size: {package.size_kibibytes()}",
            f"Depends: adduser, libc6 (>= {glibc}), libgcc-s1 (>= 4.2)",
            "Section: database",
            "Priority: optional",
            f"Description: {DESCRIPTION.rstrip()}",
        ]
        package.add("DEBIAN/control", ("\n".join(control) + "\n").encode())
        package.add("DEBIAN/conffiles", b"/etc/splay/server.toml\n")
        for script in ("postinst", "prerm", "postrm"):
            package.add(f"DEBIAN/{script}", (HERE / "debian" / script).read_bytes(), 0o755)
        package.add("DEBIAN/md5sums", md5sums(package.root))
        package.settle_times()
        out.mkdir(parents=True, exist_ok=True)
        path = out / f"splay_{version()}_{architecture}.deb"
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(TIME)}
        # Level 6 takes 60 s instead of 12 for 15 % less.
        command = ["dpkg-deb", "--build", "--root-owner-group", "-Zxz", "-z1", package.root, path]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return path


def md5sums(root: pathlib.Path) -> bytes:
    """The sums by which dpkg --verify checks an installation; conffiles are none of them."""
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    names = [name for name in names if not name.startswith(("DEBIAN/", "etc/"))]
    summed = subprocess.run(["md5sum", *names], cwd=root, check=True, capture_output=True)
    return summed.stdout


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Make the Debian package of the command and the service.")
    parser.add_argument("--target", type=pathlib.Path, default=ROOT / "target", help="cargo's target folder")
    parser.add_argument("--out", type=pathlib.Path, help="folder for the package; default: packages in the target folder")
    parser.add_argument("--maintainer", default=MAINTAINER, help="who answers for the package")
    given = parser.parse_args()
    if not re.fullmatch(r".+ <\S+@\S+>", given.maintainer):
        parser.error("the maintainer is a name and an address: NAME <ADDRESS>")
    print(build(given.target, given.out or given.target / "packages", given.maintainer))


if __name__ == "__main__":
    main()
