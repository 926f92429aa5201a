// A server of the tests' own, on a free port, as its users start it.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { front } from "./front";

const program = process.env["SPLAY"] ?? join(__dirname, "../../../target/release/splay");

export interface Token {
  token: string;
  settings: string;
}

/** A token with these roles, by the command that makes them for everybody. */
export function makeToken(name: string, roles: string[]): Token {
  const text = run(["token", name]);
  const token = /^#\s+([0-9a-f]{64})$/m.exec(text)?.[1];
  const digest = /^blake3 = .*$/m.exec(text)?.[0];
  if (!token || !digest) throw new Error(`no token in ${text}`);
  return { token, settings: `[[auth.tokens]]\nname = "${name}"\n${digest}\nroles = ${JSON.stringify(roles)}\n` };
}

function run(parameters: string[], input?: string): string {
  const done = spawnSync(program, parameters, { encoding: "utf8", input });
  if (done.status !== 0) throw new Error(`${program} ${parameters.join(" ")}: ${done.error ?? done.stderr}`);
  return done.stdout;
}

export class Server {
  private child: ChildProcess | null = null;
  private port = 0;
  private closeFront: (() => void) | null = null;
  readonly folder = mkdtempSync(join(tmpdir(), "splay-console-"));
  /** Where the console is. */
  url = "";
  /** Where the server is. */
  api = "";

  constructor(private readonly settings = "") {}

  /** Starts it, the second time on the port that it had. */
  async start(): Promise<void> {
    const config = join(this.folder, "server.toml");
    writeFileSync(config, this.settings);
    const parameters = ["serve", join(this.folder, "market"), "--config", config, "--http", `127.0.0.1:${this.port}`, "--flight", "off", "--line", "off", "--postgres", "off"];
    const child = spawn(program, parameters, { stdio: ["ignore", "pipe", "pipe"] });
    this.child = child;
    this.api = await new Promise<string>((resolve, reject) => {
      let said = "";
      const read = (chunk: Buffer) => {
        said += chunk.toString();
        const found = /^http\s+(http:\/\/\S+)/m.exec(said)?.[1];
        if (found) resolve(found);
      };
      child.stdout!.on("data", read);
      child.stderr!.on("data", read);
      child.once("error", reject);
      child.once("exit", () => reject(new Error(`the server has ended: ${said}`)));
    });
    this.port = Number(new URL(this.api).port);
    if (this.url !== "") return;
    const page = await (await fetch(this.api)).text();
    const isThis = page === readFileSync(join(__dirname, "../../dist/index.html"), "utf8");
    if (isThis) this.url = this.api;
    else {
      if (process.env["SPLAY_CONSOLE"] === "required") throw new Error("the command was built without this console");
      [this.url, this.closeFront] = await front(this.api);
    }
  }

  async stop(): Promise<void> {
    const { child } = this;
    if (!child || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    await ended;
  }

  async end(): Promise<void> {
    await this.stop();
    this.closeFront?.();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Stores rows of line protocol. */
  async write(lines: string, token?: string): Promise<void> {
    const headers = token ? { authorization: `Bearer ${token}` } : {};
    const response = await fetch(`${this.api}/api/v2/write`, { method: "POST", body: lines, headers });
    if (!response.ok) throw new Error(await response.text());
  }

  async post(path: string, body: string, token?: string): Promise<Response> {
    const headers = token ? { authorization: `Bearer ${token}` } : {};
    return await fetch(`${this.api}${path}`, { method: "POST", body, headers });
  }

  /** A number among the metrics. */
  async metric(name: string, token?: string): Promise<number> {
    const headers = token ? { authorization: `Bearer ${token}` } : {};
    const text = await (await fetch(`${this.api}/metrics`, { headers })).text();
    return Number(new RegExp(`^splay_${name}(?:\\{[^}]*\\})? (\\S+)`, "m").exec(text)?.[1] ?? NaN);
  }

  /** Runs a statement on the folder, as whoever has it. */
  onFolder(sql: string): void {
    run(["sql", join(this.folder, "market"), sql]);
  }

  async statement(sql: string): Promise<void> {
    const response = await fetch(`${this.api}/query`, { method: "POST", body: sql, headers: { "content-type": "text/plain" } });
    if (!response.ok) throw new Error(await response.text());
  }
}

/** Trades and books of some symbols, by a rule: the same each time. */
export function market(): { trades: string; books: string } {
  const start = 1_767_364_200_000_000_000n;
  const symbols = ["AAPL", "IBM", "MSFT"];
  const trades: string[] = [];
  const books: string[] = [];
  let seed = 7;
  const random = () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  const prices = symbols.map((_, index) => 150 + index * 60);
  for (let step = 0; step < 3000; step += 1) {
    const index = step % symbols.length;
    const drift = Math.round((random() - 0.498) * 40) / 100;
    prices[index] = Math.round((prices[index]! + drift) * 100) / 100;
    const price = prices[index]!;
    const at = start + BigInt(step) * 1_203_517_011n;
    trades.push(`trade,sym=${symbols[index]} price=${price},size=${1 + Math.floor(random() * 400)}i,side="${random() < 0.5 ? "buy" : "sell"}" ${at}`);
    if (step % 10 === 0) books.push(bookLine(symbols[index]!, price, at, random));
  }
  return { trades: trades.join("\n"), books: books.join("\n") };
}

export function bookLine(symbol: string, price: number, at: bigint, random: () => number): string {
  const levels = Array.from({ length: 10 }, (_, level) => level);
  const cell = (side: string, level: number, away: number) =>
    `${side}_px_${level}=${(price + away * (level + 1) * 0.01).toFixed(2)},${side}_sz_${level}=${(100 + random() * 900 * (level + 1)).toFixed(0)}`;
  return `book,sym=${symbol} ${levels.map((level) => `${cell("bid", level, -1)},${cell("ask", level, 1)}`).join(",")} ${at}`;
}
