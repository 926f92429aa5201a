// Serves the built console in front of a server whose command has another one, or none, so that the pages can be worked on without
// compiling. It answers as crates/server/src/http/console.rs does, and passes everything else on.
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, request } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { extname, join } from "node:path";

const built = join(__dirname, "../../dist");
const source = readFileSync(join(__dirname, "../../../crates/server/src/http/console.rs"), "utf8");
const policy = /const POLICY: &str = "([^"]*)"/.exec(source)![1]!.replace(/\\\n\s*/g, "");
const kinds: Record<string, string> = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

/** The address of the console before a server, and what ends it. */
export async function front(server: string): Promise<[string, () => void]> {
  const target = new URL(server);
  const headersOf = (incoming: IncomingMessage) => ({
    ...incoming.headers,
    host: target.host,
    ...(incoming.headers.origin ? { origin: target.origin } : {}),
  });
  const listener = createServer((incoming, outgoing) => {
    const path = new URL(incoming.url ?? "/", server).pathname;
    if (path === "/" || path.startsWith("/assets/")) {
      const name = path === "/" ? "/index.html" : path;
      outgoing.writeHead(200, { "content-type": kinds[extname(name)] ?? "text/plain", "content-security-policy": policy, "x-content-type-options": "nosniff" });
      outgoing.end(readFileSync(join(built, name)));
      return;
    }
    const passed = request({ host: target.hostname, port: target.port, path: incoming.url, method: incoming.method, headers: headersOf(incoming) }, (answer) => {
      const { location } = answer.headers;
      // A provider is told where the browser comes back to: here.
      if (location) answer.headers.location = location.replace(encodeURIComponent(target.origin), encodeURIComponent(`http://${incoming.headers.host}`));
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
      answer.on("error", () => outgoing.destroy());
    });
    passed.on("error", () => outgoing.destroy());
    outgoing.on("close", () => passed.destroy());
    incoming.pipe(passed);
  });
  const sockets = new Set<Socket>();
  listener.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  listener.on("upgrade", (incoming, socket) => {
    const passed = connect(Number(target.port), target.hostname, () => {
      const lines = Object.entries(headersOf(incoming)).map(([name, value]) => `${name}: ${String(value)}\r\n`);
      passed.write(`GET ${incoming.url} HTTP/1.1\r\n${lines.join("")}\r\n`);
      passed.pipe(socket);
      socket.pipe(passed);
    });
    passed.on("error", () => socket.destroy());
    passed.on("close", () => socket.destroy());
    socket.on("error", () => passed.destroy());
    socket.on("close", () => passed.destroy());
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const close = () => {
    listener.close();
    for (const socket of sockets) socket.destroy();
  };
  return [`http://127.0.0.1:${(listener.address() as AddressInfo).port}`, close];
}
