"""What a Linux program or library asks of the system that runs it, read from its ELF file.

Only what is needed for the tag of a wheel and the dependencies of a package: machine, libraries, versions of their symbols. The dynamic
section is found through the program headers, which a stripped file has too (https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html,
LSB "Symbol Versioning").
"""

import dataclasses
import pathlib
import re
import struct

MACHINES = {62: "x86_64", 183: "aarch64"}
"""`e_machine` of the machines that are built for."""

LIBRARIES_OF_THE_SYSTEM = re.compile(r"(libc|libm|libdl|libpthread|librt|libgcc_s|ld-linux-x86-64|ld-linux-aarch64)\.so\.\d+")
"""Libraries that every glibc system has, and nothing but these may be needed (PEP 600)."""

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_STRTAB, _DT_VERNEED, _DT_VERNEEDNUM = 1, 5, 0x6FFFFFFE, 0x6FFFFFFF

_WEAK = 2
"""Flag of a version that only weak references need: the loader doesn't insist on it."""

_DT_RELR = (2, 36)
"""The first glibc that loads packed relocations, for which files need the version `GLIBC_ABI_DT_RELR`."""


class ElfError(Exception):
    """The file isn't what a build for Linux makes."""


@dataclasses.dataclass(frozen=True)
class Elf:
    """What a file needs."""

    machine: str
    libraries: tuple[str, ...]
    versions: tuple[str, ...]
    """Versions of symbols, such as ``GLIBC_2.34``."""

    @property
    def glibc(self) -> tuple[int, int]:
        """The oldest glibc that loads the file."""
        numbers = [_DT_RELR for version in self.versions if version == "GLIBC_ABI_DT_RELR"]
        for version in self.versions:
            if found := re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", version):
                numbers.append((int(found[1]), int(found[2])))
        if not numbers:
            raise ElfError("the file needs no version of glibc: it was not linked with it")
        return max(numbers)


def read(path: pathlib.Path) -> Elf:
    """Reads a 64-bit little-endian ELF file."""
    content = path.read_bytes()
    if content[:6] != b"\x7fELF\x02\x01":
        raise ElfError(f"{path} is no 64-bit little-endian ELF file")
    try:
        return _read(content)
    except (struct.error, ValueError, KeyError) as error:
        raise ElfError(f"{path} ends early or is damaged: {error}") from error


def _read(content: bytes) -> Elf:
    (machine,) = struct.unpack_from("<H", content, 18)
    (headers_offset,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    if machine not in MACHINES:
        raise ElfError(f"machine {machine} is none that is built for")
    loads, dynamic = [], None
    for number in range(count):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", content, headers_offset + number * size)
        if kind == _PT_LOAD:
            loads.append((address, offset, length))
        elif kind == _PT_DYNAMIC:
            dynamic = (offset, length)
    if dynamic is None:
        raise ElfError("the file is linked statically")

    def place(address: int) -> int:
        """Where in the file the bytes of an address are."""
        for start, offset, length in loads:
            if start <= address < start + length:
                return address - start + offset
        raise ElfError(f"no bytes of the file are loaded at {address:#x}")

    entries: dict[int, list[int]] = {}
    for tag, value in struct.iter_unpack("<QQ", content[dynamic[0] : dynamic[0] + dynamic[1]]):
        if tag == 0:
            break
        entries.setdefault(tag, []).append(value)
    texts = place(entries[_DT_STRTAB][0])

    def text(offset: int) -> str:
        start = texts + offset
        return content[start : content.index(b"\0", start)].decode()

    versions = []
    need = place(entries[_DT_VERNEED][0]) if _DT_VERNEED in entries else 0
    for _ in range(entries.get(_DT_VERNEEDNUM, [0])[0]):
        _, versions_count, _, first, next_need = struct.unpack_from("<HHIII", content, need)
        at = need + first
        for _ in range(versions_count):
            _, flags, _, name, next_version = struct.unpack_from("<IHHII", content, at)
            if not flags & _WEAK:
                versions.append(text(name))
            at += next_version
        need += next_need
    return Elf(MACHINES[machine], tuple(map(text, entries.get(_DT_NEEDED, []))), tuple(versions))
