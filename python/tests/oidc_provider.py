"""An OpenID Connect provider on this machine that signs everybody in, and does wrong what a test asks for; and a browser for it."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import hmac
import http.client
import http.server
import json
import ssl
import threading
import time
import urllib.parse
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

SECRET = "a secret of the client + / ="


def encoded(data: bytes | str | dict[str, Any]) -> str:
    if isinstance(data, dict):
        data = json.dumps(data)
    if isinstance(data, str):
        data = data.encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int, length: int | None = None) -> str:
    return encoded(value.to_bytes(length or (value.bit_length() + 7) // 8, "big"))


CURVES = {"ES256": (ec.SECP256R1(), hashes.SHA256(), 32, "P-256"), "ES384": (ec.SECP384R1(), hashes.SHA384(), 48, "P-384")}
DIGESTS = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}


@dataclasses.dataclass
class Key:
    """A key pair for one algorithm."""

    name: str
    algorithm: str
    private: Any = None

    def __post_init__(self) -> None:
        if self.algorithm in CURVES:
            self.private = ec.generate_private_key(CURVES[self.algorithm][0])
        elif self.algorithm == "EdDSA":
            self.private = ed25519.Ed25519PrivateKey.generate()
        else:
            self.private = rsa.generate_private_key(65537, 2048)

    def public(self) -> dict[str, str]:
        known = {"kid": self.name, "use": "sig", "alg": self.algorithm}
        public = self.private.public_key()
        if self.algorithm in CURVES:
            numbers, (_, _, length, curve) = public.public_numbers(), CURVES[self.algorithm]
            return known | {"kty": "EC", "crv": curve, "x": number(numbers.x, length), "y": number(numbers.y, length)}
        if self.algorithm == "EdDSA":
            raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
            return known | {"kty": "OKP", "crv": "Ed25519", "x": encoded(raw)}
        numbers = public.public_numbers()
        return known | {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}

    def pem(self) -> bytes:
        return self.private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def sign(self, message: bytes) -> bytes:
        if self.algorithm in CURVES:
            _, digest, length, _ = CURVES[self.algorithm]
            parts = decode_dss_signature(self.private.sign(message, ec.ECDSA(digest)))
            return b"".join(part.to_bytes(length, "big") for part in parts)
        if self.algorithm == "EdDSA":
            return self.private.sign(message)
        digest = DIGESTS[self.algorithm[2:]]
        pad = padding.PSS(padding.MGF1(digest), digest.digest_size) if self.algorithm[0] == "P" else padding.PKCS1v15()
        return self.private.sign(message, pad, digest)

    def token(self, claims: dict[str, Any], **header: Any) -> str:
        message = f"{encoded({'alg': self.algorithm, 'kid': self.name, 'typ': 'JWT'} | header)}.{encoded(claims)}"
        return f"{message}.{encoded(self.sign(message.encode()))}"


def unsigned(claims: dict[str, Any], key: Key) -> str:
    return f"{encoded({'alg': 'none', 'kid': key.name})}.{encoded(claims)}."


def signed_by_public_key(claims: dict[str, Any], key: Key) -> str:
    """What a verifier accepts that takes the algorithm from the token and the key for whatever it says."""
    message = f"{encoded({'alg': 'HS256', 'kid': key.name})}.{encoded(claims)}"
    return f"{message}.{encoded(hmac.digest(key.pem(), message.encode(), 'sha256'))}"


class Provider:
    """Runs until it is stopped, and again on the same port."""

    def __init__(self, certificate: tuple[str, str] | None = None) -> None:
        self.certificate = certificate
        self.keys = [Key("first", "RS256")]
        self.person: dict[str, Any] = {"sub": "ann"}
        self.changes: dict[str, Any] = {}
        """What ID tokens say otherwise; None leaves a claim out."""
        self.make = lambda claims: self.keys[0].token(claims)
        self.description: dict[str, Any] = {}
        self.moved: str | None = None
        self.error: str | None = None
        self.status = 200
        self.seen: list[str] = []
        """Paths that were asked for."""
        self.secrets: set[str] = {SECRET}
        """What was given out and shown that nobody else is to know."""
        self.codes: dict[str, dict[str, str]] = {}
        self.port = 0
        self.start()

    @property
    def issuer(self) -> str:
        return f"{'https' if self.certificate else 'http'}://{'localhost' if self.certificate else '127.0.0.1'}:{self.port}"

    def start(self) -> None:
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def handle(self) -> None:
                # A client that doesn't take the certificate leaves.
                with contextlib.suppress(ssl.SSLError, ConnectionError):
                    super().handle()

            def do_GET(self) -> None:
                provider.get(self)

            def do_POST(self) -> None:
                provider.post(self)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        if self.certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def claims(self, **changes: Any) -> dict[str, Any]:
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": "splay", "iat": now, "exp": now + 300} | self.person | changes
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, **changes: Any) -> str:
        """A token for a program."""
        token = self.keys[0].token(self.claims(**changes))
        self.secrets.add(token)
        return token

    def answer(self, handler: http.server.BaseHTTPRequestHandler, status: int, told: dict[str, Any], **headers: str) -> None:
        body = json.dumps(told).encode()
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def get(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        path, _, query = handler.path.partition("?")
        self.seen.append(path)
        if path == "/.well-known/openid-configuration":
            if self.moved:
                return self.answer(handler, 302, {}, location=self.moved)
            known = {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize?tenant=1",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/jwks",
            }
            return self.answer(handler, 200, known | self.description)
        if path == "/jwks":
            others = [{"kty": "oct", "k": "AAAA", "kid": "shared"}, {"kty": "new"}, {}]
            return self.answer(handler, 200, {"keys": [key.public() for key in self.keys] + others})
        if path == "/authorize":
            asked = dict(urllib.parse.parse_qsl(query, strict_parsing=True))
            back = {"state": asked["state"], "iss": self.issuer}
            if self.error:
                back["error"] = self.error
            else:
                code = f"code-{len(self.codes)}-{hashlib.sha256(asked['state'].encode()).hexdigest()}"
                self.codes[code] = asked
                self.secrets |= {code, asked["state"], asked["nonce"]}
                back["code"] = code
            return self.answer(handler, 302, {}, location=f"{asked['redirect_uri']}?{urllib.parse.urlencode(back)}")
        return self.answer(handler, 404, {})

    def post(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        self.seen.append(handler.path)
        body = handler.rfile.read(int(handler.headers["content-length"])).decode()
        sent = dict(urllib.parse.parse_qsl(body, strict_parsing=True))
        if self.status != 200:
            return self.answer(handler, self.status, {"error": "server_error"})
        scheme, _, pair = handler.headers.get("authorization", "").partition(" ")
        name, _, secret = base64.b64decode(pair).decode().partition(":")
        if (scheme, urllib.parse.unquote(name), urllib.parse.unquote(secret)) != ("Basic", "splay", SECRET):
            return self.answer(handler, 401, {"error": "invalid_client"})
        asked = self.codes.pop(sent["code"], None)
        digest = encoded(hashlib.sha256(sent["code_verifier"].encode()).digest())
        self.secrets.add(sent["code_verifier"])
        if asked is None or asked["code_challenge"] != digest or asked["code_challenge_method"] != "S256":
            return self.answer(handler, 400, {"error": "invalid_grant"})
        if sent["redirect_uri"] != asked["redirect_uri"] or sent["grant_type"] != "authorization_code":
            return self.answer(handler, 400, {"error": "invalid_grant"})
        token = self.make(self.claims(**({"nonce": asked["nonce"]} | self.changes)))
        self.secrets.add(token)
        return self.answer(handler, 200, {"id_token": token, "access_token": "opaque", "token_type": "Bearer"})


@dataclasses.dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes


class Browser:
    """Keeps cookies of hosts, and goes where it is sent if it is told to."""

    def __init__(self) -> None:
        self.cookies: dict[str, dict[str, str]] = {}
        self.set: list[str] = []
        """Cookies as they were set."""

    def ask(self, url: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
        parts = urllib.parse.urlsplit(url)
        kept = self.cookies.setdefault(parts.hostname or "", {})
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if kept:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in kept.items())
        connection.request(method, f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}", body, sent)
        answer = connection.getresponse()
        found = Answer(answer.status, answer.headers, answer.read())
        connection.close()
        for line in found.headers.get_all("set-cookie") or []:
            self.set.append(line)
            name, _, value = line.partition(";")[0].partition("=")
            if "Max-Age=0" in line:
                kept.pop(name, None)
            else:
                kept[name] = value
        return found

    def page(self, url: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
        """What a script of the console asks for."""
        return self.ask(url, method, body, sec_fetch_site="same-origin", **headers)

    def go(self, url: str, stop: str = "\0") -> tuple[str, Answer]:
        """Follows redirects until one leads to where ``stop`` is in the address; the last address, and its answer."""
        for _ in range(10):
            if stop in url:
                return url, Answer(0, http.client.HTTPMessage(), b"")
            # As browsers do: the console is sent packed alone.
            answer = self.ask(url, accept_encoding="gzip")
            if answer.status not in (302, 303):
                return url, answer
            url = urllib.parse.urljoin(url, answer.headers["location"])
        raise AssertionError("too many redirects")
