import { defineConfig } from "vite";

// `SPLAY_URL=http://127.0.0.1:7750 npm run dev` works on the console against a server that runs.
const server = process.env["SPLAY_URL"] ?? "http://127.0.0.1:7750";
const proxy = Object.fromEntries(
  ["/query", "/tables", "/status", "/metrics", "/health", "/ready", "/subscribe", "/api"].map((path) => [
    path,
    // The server refuses pages of other origins; this one stands in for its own.
    { target: server, changeOrigin: true, ws: path === "/subscribe", headers: { origin: server } },
  ]),
);

export default defineConfig({
  build: {
    target: "es2022",
    // Everything is a file of its own: the policy of the page allows no inlined script or style.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: "licences.txt" },
    chunkSizeWarningLimit: 1000,
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  server: { proxy },
  test: { include: ["tests/unit/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
