// An OpenID Connect provider that signs everybody in at once. What one does wrong is tested by python/tests/test_oidc.py.
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";

async function bodyOf(incoming: IncomingMessage): Promise<string> {
  let body = "";
  for await (const chunk of incoming) body += String(chunk);
  return body;
}

/** The provider's address, and what ends it. `person` says who signs in. */
export async function provide(person: () => string): Promise<[string, () => void]> {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const asked = new Map<string, URLSearchParams>();
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const token = (claims: Record<string, unknown>) => {
    const message = `${encode({ alg: "ES256", kid: "key" })}.${encode(claims)}`;
    return `${message}.${sign("sha256", Buffer.from(message), { key: privateKey, dsaEncoding: "ieee-p1363" }).toString("base64url")}`;
  };
  const listener = createServer((incoming, outgoing) => {
    const issuer = `http://${incoming.headers.host}`;
    const { pathname, searchParams } = new URL(incoming.url ?? "/", issuer);
    const answer = (status: number, value: unknown, headers = {}) => {
      outgoing.writeHead(status, { "content-type": "application/json", ...headers });
      outgoing.end(JSON.stringify(value));
    };
    if (pathname === "/.well-known/openid-configuration")
      return answer(200, { issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token`, jwks_uri: `${issuer}/jwks` });
    if (pathname === "/jwks") return answer(200, { keys: [{ ...publicKey.export({ format: "jwk" }), kid: "key" }] });
    if (pathname === "/authorize") {
      const code = String(asked.size);
      asked.set(code, searchParams);
      const back = new URL(searchParams.get("redirect_uri")!);
      back.search = new URLSearchParams({ code, state: searchParams.get("state")! }).toString();
      return answer(302, {}, { location: back.href });
    }
    void bodyOf(incoming).then((body) => {
      const sent = new URLSearchParams(body);
      const begun = asked.get(sent.get("code") ?? "");
      const digest = createHash("sha256").update(sent.get("code_verifier") ?? "").digest("base64url");
      if (begun?.get("code_challenge") !== digest) return answer(400, { error: "invalid_grant" });
      const now = Math.floor(Date.now() / 1000);
      answer(200, { id_token: token({ iss: issuer, aud: "splay", sub: person(), nonce: begun.get("nonce"), iat: now, exp: now + 60 }) });
    });
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const close = () => {
    listener.close();
    listener.closeAllConnections();
  };
  return [`http://127.0.0.1:${(listener.address() as AddressInfo).port}`, close];
}
