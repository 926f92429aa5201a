"""A file system of one file, spoken to over /dev/fuse itself, whose reads can be made to fail.

Needs no library: the requests are structs of Linux's include/uapi/linux/fuse.h.
"""

import ctypes
import errno
import os
import pathlib
import struct
import threading

IN = struct.Struct("<IIQQIIII")  # length, operation, unique, node, uid, gid, pid, padding
OUT = struct.Struct("<IiQ")  # length, error, unique
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, BATCH_FORGET = (
    1, 2, 3, 14, 15, 17, 18, 25, 26, 27, 28, 29, 42,
)  # fmt: skip
ROOT, FILE = 1, 2
S_IFDIR, S_IFREG = 0o40000, 0o100000


class Unavailable(Exception):
    """Why there can be no such file system here."""


class OneFile:
    """Mounts itself on an empty folder. `fails_from` is the offset from which on reads fail with EIO; None: none does."""

    def __init__(self, folder: pathlib.Path, content: bytes):
        self.folder, self.content = folder, content
        self.fails_from: int | None = None
        self.failed = 0
        self._libc = ctypes.CDLL(None, use_errno=True)
        try:
            self._device = os.open("/dev/fuse", os.O_RDWR)
        except OSError as error:
            raise Unavailable(f"/dev/fuse: {error.strerror}") from error
        options = f"fd={self._device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
        if self._libc.mount(b"one_file", bytes(folder), b"fuse", 0, options.encode()) != 0:
            os.close(self._device)
            raise Unavailable(f"mount: {os.strerror(ctypes.get_errno())}")
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def file(self) -> pathlib.Path:
        return self.folder / "file"

    def close(self) -> None:
        self._libc.umount2(bytes(self.folder), 2)
        self._thread.join(10)
        os.close(self._device)

    def _serve(self) -> None:
        while True:
            try:
                request = os.read(self._device, 1 << 20)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                return  # unmounted
            _, operation, unique, node, *_ = IN.unpack_from(request)
            if operation in (FORGET, BATCH_FORGET):
                continue
            try:
                error, answer = 0, self._answer(operation, node, request[IN.size :])
            except OSError as failed:
                error, answer = -failed.errno, b""
            os.write(self._device, OUT.pack(OUT.size + len(answer), error, unique) + answer)

    def _answer(self, operation: int, node: int, body: bytes) -> bytes:
        if operation == INIT:
            return struct.pack("<IIIIHHIIHHI", 7, 31, 1 << 17, 0, 16, 12, 1 << 17, 1, 0, 0, 0) + bytes(24)
        if operation == LOOKUP:
            if node != ROOT or body.rstrip(b"\0") != b"file":
                raise OSError(errno.ENOENT, "")
            return struct.pack("<QQQQII", FILE, 0, 1, 1, 0, 0) + self._attributes(FILE)
        if operation == GETATTR:
            return struct.pack("<QII", 1, 0, 0) + self._attributes(node)
        if operation in (OPEN, OPENDIR):
            return bytes(16)
        if operation == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            if self.fails_from is not None and offset + size > self.fails_from:
                self.failed += 1
                raise OSError(errno.EIO, "")
            return self.content[offset : offset + size]
        if operation == STATFS:
            return struct.pack("<QQQQQIIII", 1 << 20, 1 << 19, 1 << 19, 1, 1, 4096, 255, 4096, 0) + bytes(24)
        if operation in (FLUSH, RELEASE, RELEASEDIR, READDIR):
            return b""
        raise OSError(errno.ENOSYS, "")

    def _attributes(self, node: int) -> bytes:
        size = len(self.content) if node == FILE else 0
        mode = S_IFREG | 0o640 if node == FILE else S_IFDIR | 0o750
        numbers = struct.pack("<QQQQQQIII", node, size, -(-size // 512), 1, 1, 1, 0, 0, 0)
        return numbers + struct.pack("<IIIIIII", mode, 1, os.getuid(), os.getgid(), 0, 4096, 0)
