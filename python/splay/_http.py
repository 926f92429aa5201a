"""How a server is spoken to over HTTP: its address, connections that are used again, and what its refusals are as exceptions."""

import contextlib
import http.client
import json
import os
import select
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pyarrow

from splay import errors

IDLE_SECONDS = 10.0
"""Seconds after which a connection is not used again. Servers close those that stand idle, ours after thirty seconds; a message
that meets the end of its connection is perhaps stored, and nobody knows."""

ONE_PIECE_BYTES = 1 << 16
"""Bytes up to which a body is copied behind its head."""

IDLE_MAX = 8
"""Connections that are kept for another use."""


class Address:
    """Where a server is, and how it is spoken to."""

    def __init__(self, url: str, token: str | None, timeout_seconds: float, tls: ssl.SSLContext | None):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            error = errors.SettingError(f"{url!r} is no address such as http://127.0.0.1:7750")
            error.setting = "url"
            raise error
        self.url = url.rstrip("/")
        self._parts, self._token, self._timeout, self._tls = parts, token, timeout_seconds, tls

    def connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname, self._parts.port
        assert host is not None
        if self._parts.scheme == "http":
            return _Connection(host, port, timeout=self._timeout)
        context = self._tls or ssl.create_default_context()
        return _SecureConnection(host, port, timeout=self._timeout, context=context)

    def connected(self) -> tuple[socket.socket, str, str]:
        """As :meth:`splay.subscription.Address.connected`."""
        connection = self.connection()
        with _unreachable(self.url):
            connection.connect()
        return connection.sock, self._parts.netloc.rpartition("@")[2], self._parts.path.rstrip("/")

    def headers(self) -> dict[str, str]:
        """What is sent with every request."""
        return {} if self._token is None else {"Authorization": f"Bearer {self._token}"}

    @staticmethod
    def error(status: int, body: bytes) -> errors.Error:
        """What the server said, as an exception."""
        return _error(status, body)

    def request(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        """The response to a request; its body is not read yet unless it tells an error, which is raised."""
        headers = {**headers, **self.headers()}
        with _unreachable(self.url):
            try:
                connection.request(method, self._parts.path.rstrip("/") + path, body, headers)
            except (BrokenPipeError, ConnectionResetError):
                # A server that refuses a message may say so before it has read all of it.
                if connection.sock is None:
                    raise
                try:
                    response = connection.getresponse()
                except (OSError, http.client.HTTPException):
                    response = None
                if response is None or response.status < 400:
                    raise
            else:
                response = connection.getresponse()
            if response.status >= 300:
                raise _error(response.status, response.read())
            return response


class _OnePiece:
    """Sends the head and the body of a small message as one piece, so that the server is woken once."""

    _head: bytes | None = None

    def endheaders(self, message_body: Any = None, **options: Any) -> None:
        if message_body is None or isinstance(message_body, str) or len(message_body) > ONE_PIECE_BYTES:
            super().endheaders(message_body, **options)  # type: ignore[misc]
            return
        self._head = b""
        try:
            super().endheaders(**options)  # type: ignore[misc]
            head = self._head
        finally:
            self._head = None
        self.send(head + bytes(message_body))

    def send(self, data: Any) -> None:
        if self._head is None:
            super().send(data)  # type: ignore[misc]
        else:
            self._head += data


class _Connection(_OnePiece, http.client.HTTPConnection):
    pass


class _SecureConnection(_OnePiece, http.client.HTTPSConnection):
    pass


class Connections:
    """Connections to a server that were used and may be used again. Threads share it; a process that was forked makes its own."""

    def __init__(self, address: Address):
        self._address = address
        self._lock = threading.Lock()
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []
        self._process = os.getpid()

    def take(self) -> http.client.HTTPConnection:
        """A connection that nobody else uses: the last one that was given back, if the server has not closed it, or a new one."""
        if self._process != os.getpid():
            # Perhaps somebody held it when the process was forked.
            self._lock = threading.Lock()
            self._process, self._idle = os.getpid(), []
        while True:
            with self._lock:
                since, connection = self._idle.pop() if self._idle else (0.0, None)
            if connection is None:
                return self._address.connection()
            if time.monotonic() - since < IDLE_SECONDS and _is_quiet(connection.sock):
                return connection
            connection.close()

    def give_back(self, connection: http.client.HTTPConnection) -> None:
        """Keep a connection whose last answer was read to its end."""
        if connection.sock is None or self._process != os.getpid():
            connection.close()
            return
        now, is_kept = time.monotonic(), False
        with self._lock:
            old = [idle for since, idle in self._idle if now - since >= IDLE_SECONDS]
            self._idle = [(since, idle) for since, idle in self._idle if now - since < IDLE_SECONDS]
            if is_kept := len(self._idle) < IDLE_MAX:
                self._idle.append((now, connection))
        for idle in old if is_kept else [*old, connection]:
            idle.close()

    def close(self) -> None:
        """Close those that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def __del__(self) -> None:
        self.close()


def _is_quiet(sock: socket.socket) -> bool:
    """Whether nothing has come: neither the end of the connection nor bytes that nobody asked for."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return not poll.poll(0)
    return not select.select([sock], [], [], 0)[0]


@contextlib.contextmanager
def _unreachable(url: str) -> Iterator[None]:
    """The same for a connection with the server at an address, whose certificate may be one that isn't trusted."""
    with broken_as_unreachable(f"no answer from {url}"):
        try:
            yield
        except ssl.SSLCertVerificationError as error:
            raise errors.UnreachableError(
                f"{url} answered, but its certificate isn't trusted: {error.verify_message}; for one of your own "
                "pass tls=ssl.create_default_context(cafile=...)"
            ) from error


@contextlib.contextmanager
def broken_as_unreachable(what: str) -> Iterator[None]:
    """Turns what the network raises into ours."""
    try:
        yield
    except errors.Error:
        raise
    except (OSError, http.client.HTTPException, pyarrow.ArrowInvalid) as error:
        raise errors.UnreachableError(f"{what}: {str(error) or type(error).__name__}") from error


_CLASSES: dict[str, type[errors.Error]] = {
    "statement": errors.StatementError,
    "read_only": errors.ReadOnlyError,
    "unauthorized": errors.AccessError,
    "forbidden": errors.AccessError,
    "too_large": errors.TooLargeError,
    "too_slow": errors.BusyError,
    "memory": errors.MemoryLimitError,
    "time": errors.CancelledError,
    "rejected": errors.RejectedError,
    "busy": errors.BusyError,
    "full": errors.FullError,
    "closed": errors.BusyError,
    "unconfirmed": errors.UnconfirmedError,
    "execution": errors.ExecutionError,
}
_CLASSES_BY_STATUS: dict[int, type[errors.Error]] = {
    400: errors.RejectedError,
    401: errors.AccessError,
    403: errors.AccessError,
    408: errors.BusyError,
    413: errors.TooLargeError,
    429: errors.BusyError,
    502: errors.BusyError,
    503: errors.BusyError,
    504: errors.BusyError,
}


def _error(status: int, body: bytes) -> errors.Error:
    """What the server said, as an exception. A proxy in between may answer with something that isn't ours."""
    try:
        document = json.loads(body)
        text = str(document["error"])
    except (ValueError, KeyError, TypeError):
        document, text = {}, body[:200].decode(errors="replace").strip() or http.client.responses.get(status, "no reason")
    code = document.get("code")
    kind = _CLASSES.get(code) if code else _CLASSES_BY_STATUS.get(status)
    if kind is None:
        kind = errors.BusyError if document.get("retryable") else errors.ServerError
    if code == "not_found" and "table" in text:
        kind = errors.NoSuchTableError
    error = kind(text)
    if isinstance(error, errors.ServerError):
        error.code, error.status = code or "unknown", status
    return error
