"""Subscriptions over WebSocket: a table live, a day again, or bars. Made by :meth:`splay.remote.Client.subscribe`.

The protocol is that of docs/reference/http.md. Needs pyarrow and Python's standard library, nothing else.
"""

import base64
import contextlib
import dataclasses
import hashlib
import json
import os
import socket
import struct
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow
import pyarrow.ipc

from splay import errors

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10
_HEAD_BYTES_MAX = 1 << 16
_MESSAGE_BYTES_MAX = 1 << 31


@dataclasses.dataclass(frozen=True)
class Update:
    """Rows that a subscription gave."""

    table: str
    """Whose rows they are."""
    sequence: int
    """What to resume behind, once these rows were taken."""
    kind: str
    """``"snapshot"``: forget what came before; ``"snapshot_part"``: more of that snapshot; ``"delta"``: what is new; ``"end"``: a
    replay is over."""
    more: bool
    """Whether another part of the same snapshot follows."""
    rows: pyarrow.Table
    """The rows; there may be none."""


class Address(Protocol):
    """Where a server is. :class:`splay._http.Address` is one."""

    def connected(self) -> tuple[socket.socket, str, str]:
        """A socket, the value of the header ``Host``, and what paths begin with."""

    def headers(self) -> dict[str, str]:
        """What is sent with every request."""

    def error(self, status: int, body: bytes) -> errors.Error:
        """What a server said, as an exception."""


class Subscription:
    """Updates as they come. Iterate over it, or call :meth:`next`; close it, or use it in a ``with`` block.

    Iteration ends with a replay. One thread uses it at a time.
    """

    def __init__(self, address: Address, ask: dict[str, Any]):
        self._address, self._is_over = address, False
        self._gives_credit = ask.get("credit") is not None
        self._socket = _WebSocket(address, "/subscribe")
        try:
            self._socket.send(_TEXT, json.dumps(ask).encode())
            self.subscribed = self._text(self._socket.receive(None))["subscribed"]
        except BaseException:
            self._socket.close()
            raise

    def next(self, timeout_seconds: float | None = None) -> Update | None:
        """The next update; None if none comes within the time, or if a replay is over.

        Raises
        ------
        BusyError
            If the server stops, or the subscriber was too slow and asked to be disconnected then: resume behind the last update.
        ServerError
            With the code ``gone`` if what to resume behind is no longer kept.
        UnreachableError
            If the connection breaks.
        """
        if self._is_over:
            return None
        message = self._socket.receive(timeout_seconds)
        if message is None:
            return None
        kind, payload = message
        if kind != _BINARY:
            self._text(message)
            raise errors.UnreachableError("the server sent what is no update")
        update = _update(payload)
        if update.kind == "end":
            self._is_over = True
            self.close()
        elif self._gives_credit:
            # A connection that broke is told by the next read, behind what still came over it.
            with contextlib.suppress(errors.UnreachableError):
                self._socket.send(_TEXT, b'{"credit": 1}')
        return update

    def __iter__(self) -> Iterator[Update]:
        """Updates until a replay is over, its end not among them."""
        while (update := self.next()) is not None and update.kind != "end":
            yield update

    def _text(self, message: tuple[int, bytes] | None) -> dict[str, Any]:
        """A message of text; one that tells an error raises it."""
        if message is None or message[0] != _TEXT:
            raise errors.UnreachableError("the server sent what is no message of a subscription")
        reply: dict[str, Any] = json.loads(message[1])
        if "error" in reply:
            self.close()
            raise self._address.error(0, message[1])
        return reply

    def close(self) -> None:
        """End the subscription."""
        self._socket.close()

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _update(payload: bytes) -> Update:
    try:
        with pyarrow.ipc.open_stream(payload) as stream:
            metadata = stream.schema.metadata or {}
            rows = stream.read_all().replace_schema_metadata(None)
        return Update(
            table=metadata[b"splay.table"].decode(),
            sequence=int(metadata[b"splay.sequence"]),
            kind=metadata[b"splay.kind"].decode(),
            more=metadata[b"splay.more"] == b"true",
            rows=rows,
        )
    except (KeyError, ValueError, pyarrow.ArrowException) as error:
        raise errors.UnreachableError(f"this is no update of a SplayDB server: {error}") from error


class _WebSocket:
    """As much of RFC 6455 as a client of ours needs: whole messages, no extensions."""

    def __init__(self, address: Address, path: str):
        self._socket, host, prefix = address.connected()
        self._buffer = bytearray()
        try:
            self._upgrade(address, host, prefix + path)
        except BaseException:
            self._socket.close()
            raise

    def _upgrade(self, address: Address, host: str, path: str) -> None:
        key = base64.b64encode(os.urandom(16))
        headers = {
            "Host": host,
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": key.decode(),
            **address.headers(),
        }
        lines = [f"GET {urllib.parse.quote(path)} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        self._send_all("\r\n".join([*lines, "", ""]).encode())
        head = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        answered = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        try:
            status = int(head[0].split(" ")[1])
        except (IndexError, ValueError):
            raise errors.UnreachableError(f"this is no HTTP server: {head[0]!r}") from None
        if status != 101:
            length = int(answered.get("content-length", "0"))
            raise address.error(status, bytes(self._take(min(length, _HEAD_BYTES_MAX), None) or b""))
        expected = base64.b64encode(hashlib.sha1(key + _GUID).digest()).decode()
        if answered.get("sec-websocket-accept") != expected:
            raise errors.UnreachableError("the server doesn't speak WebSocket")

    def send(self, kind: int, payload: bytes) -> None:
        """Send one message."""
        length = len(payload)
        if length < 126:
            head = struct.pack("!BB", 0x80 | kind, 0x80 | length)
        elif length < 1 << 16:
            head = struct.pack("!BBH", 0x80 | kind, 0x80 | 126, length)
        else:
            head = struct.pack("!BBQ", 0x80 | kind, 0x80 | 127, length)
        mask = os.urandom(4)
        repeated = (mask * (length // 4 + 1))[:length]
        masked = (int.from_bytes(payload, "little") ^ int.from_bytes(repeated, "little")).to_bytes(length, "little")
        self._send_all(head + mask + masked)

    def receive(self, timeout_seconds: float | None) -> tuple[int, bytes] | None:
        """The next message; None if it doesn't begin to come within the time, or is closed in good order."""
        until = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        parts: list[bytes] = []
        first = 0
        while True:
            frame = self._frame(until if not parts else None)
            if frame is None:
                return None
            is_last, kind, payload = frame
            if kind == _CLOSE:
                with contextlib.suppress(errors.UnreachableError):
                    self.send(_CLOSE, payload[:2])
                reason = payload[2:].decode(errors="replace")
                raise errors.UnreachableError(f"the server closed the connection: {reason or 'no reason'}")
            if kind == _PING:
                self.send(_PONG, payload)
            elif kind != _PONG:
                first = first or kind
                parts.append(payload)
                if is_last:
                    return first, parts[0] if len(parts) == 1 else b"".join(parts)

    def _frame(self, until: float | None) -> tuple[bool, int, bytes] | None:
        # What came of a frame stays in the buffer until all of it is there.
        head = self._peek(2, until)
        if head is None:
            return None
        length, size = head[1] & 0x7F, 2
        if length == 126:
            size, length = 4, struct.unpack("!H", self._wait(4)[2:4])[0]
        elif length == 127:
            size, length = 10, struct.unpack("!Q", self._wait(10)[2:10])[0]
        if length > _MESSAGE_BYTES_MAX:
            raise errors.UnreachableError("the server sent a message of more than 2 GiB")
        frame = self._wait(size + length)
        payload = bytes(frame[size : size + length])
        first = frame[0]
        del self._buffer[: size + length]
        return bool(first & 0x80), first & 0x0F, payload

    def _wait(self, size: int) -> bytearray:
        found = self._peek(size, None)
        assert found is not None
        return found

    def _peek(self, size: int, until: float | None) -> bytearray | None:
        """The buffer with so many bytes at least; None if they don't come in time."""
        while len(self._buffer) < size:
            left = None if until is None else max(until - time.monotonic(), 0.0)
            try:
                # Zero would be no waiting at all, also for what is there.
                self._socket.settimeout(left if left is None else max(left, 1e-4))
                came = self._socket.recv(max(1 << 16, size - len(self._buffer)))
            except TimeoutError:
                return None
            except OSError as error:
                raise errors.UnreachableError(f"the subscription broke off: {error}") from error
            if not came:
                raise errors.UnreachableError("the subscription broke off")
            self._buffer += came
        return self._buffer

    def _take(self, size: int, until: float | None) -> bytearray | None:
        found = self._peek(size, until)
        if found is None:
            return None
        rows = found[:size]
        del self._buffer[:size]
        return rows

    def _until(self, mark: bytes) -> bytearray:
        while mark not in self._buffer:
            if len(self._buffer) > _HEAD_BYTES_MAX:
                raise errors.UnreachableError("the server's answer has no end")
            self._wait(len(self._buffer) + 1)
        return self._take(self._buffer.index(mark) + len(mark), None) or bytearray()

    def _send_all(self, data: bytes) -> None:
        try:
            self._socket.settimeout(None)
            self._socket.sendall(data)
        except OSError as error:
            raise errors.UnreachableError(f"the subscription broke off: {error}") from error

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()


def ask(
    tables: str | list[str],
    *,
    symbols: list[str] | None,
    columns: list[str] | None,
    start: str,
    after: int | None,
    slow: str,
    credit: int | None,
    replay: dict[str, Any] | None,
    bars: dict[str, Any] | None,
) -> dict[str, Any]:
    """A subscription as it is asked for; what isn't given is left to the server."""
    request: dict[str, Any] = {"table" if isinstance(tables, str) else "tables": tables, "from": start, "slow": slow}
    options = {"symbols": symbols, "columns": columns, "after": after, "credit": credit, "replay": replay, "bars": bars}
    return request | {name: value for name, value in options.items() if value is not None}
