// The server's HTTP interface, as docs/reference/http.md describes it. Nothing here is private to the console.
import type { Answer } from "./answer";
import type { FunctionInfo } from "./completion";
import type { Progress, Update } from "./read";

/** What a request failed with. */
export class Problem extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly status = 0,
  ) {
    super(message);
  }
}

export interface Table {
  name: string;
  error?: string;
  columns: { name: string; type: string }[];
  time: string | null;
  symbol: string | null;
  key: string[] | null;
  effective: string | null;
  time_zone: string;
  day_start: string;
  rows: number;
  bytes: number;
  partitions: number;
  first_date: string | null;
  last_date: string | null;
}

export interface TableStorage {
  period: string;
  commits: number;
  partition_count: number;
  partitions: {
    date: string | null;
    tiers: string[];
    rows: number;
    live_rows: number;
    segments: number;
    bytes: number;
    time_min: number | null;
    time_max: number | null;
  }[];
  columns: { tier: string; column: string; rows: number; bytes: number; plain_bytes: number | null; encoding: string }[];
  load_count: number;
  loads: { name: string; rows: number; commit: number }[];
}

interface Rows {
  columns: { name: string; type: string }[];
  rows: unknown[][];
}

const TOKEN = "splay.token";

/** The token of this tab; other tabs, and the next visit, ask again. */
let token = sessionStorage.getItem(TOKEN);

export function hasToken(): boolean {
  return token !== null;
}

export function setToken(given: string | null): void {
  token = given;
  if (given === null) sessionStorage.removeItem(TOKEN);
  else sessionStorage.setItem(TOKEN, given);
}

/** Who signs users in besides tokens, and who has signed in by a cookie that no script can read. */
export interface SignInState {
  oidc: { name: string; path: string } | null;
  session: { user: string } | null;
}

export async function signInState(): Promise<SignInState> {
  return (await (await request("/auth")).json()) as SignInState;
}

/** Ends what the cookie stands for; a server that is away forgets it by itself. */
export async function signOut(): Promise<void> {
  await request("/auth/sign-out", { method: "POST" }).catch(() => undefined);
}

const PLACE = "splay.place";

/** Goes to the provider, which sends the browser back to the console. */
export function leaveToSignIn(path: string): void {
  sessionStorage.setItem(PLACE, location.hash);
  location.assign(path);
}

/** Where the console was before it was left to sign in, once. */
export function placeBefore(): string | null {
  const place = sessionStorage.getItem(PLACE);
  sessionStorage.removeItem(PLACE);
  return place;
}

async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (token !== null) headers.set("authorization", `Bearer ${token}`);
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers, cache: "no-store", credentials: "same-origin" });
  } catch (error) {
    throw unreachable(error);
  }
  if (!response.ok) throw await problem(response);
  return response;
}

function unreachable(error: unknown): Error {
  if (error instanceof DOMException && error.name === "AbortError") return new Problem("cancelled", "The statement was cancelled.");
  return new Problem("unreachable", "The server can't be reached.");
}

async function problem(response: Response): Promise<Problem> {
  try {
    const said = (await response.json()) as { code?: string; error?: string };
    return new Problem(said.code ?? "internal", said.error ?? response.statusText, response.status);
  } catch {
    return new Problem(response.status >= 500 ? "unreachable" : "internal", `The server answered ${response.status}.`, response.status);
  }
}

const asked = (sql: string, format: string, signal?: AbortSignal): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ sql, format }),
  ...(signal ? { signal } : {}),
});

/** Runs a statement and reads its answer as it comes. Aborting stops the statement in the server. */
export async function query(sql: string, signal: AbortSignal, onProgress: (progress: Progress) => void): Promise<Answer> {
  const start = performance.now();
  const stop = new AbortController();
  const [response, { readAnswer }] = await Promise.all([
    request("/query", asked(sql, "arrow", AbortSignal.any([signal, stop.signal]))),
    import("./read"),
  ]);
  try {
    if (!response.body) throw new Problem("internal", "The answer has no body.");
    const answer = await readAnswer(response.body, onProgress);
    answer.milliseconds = performance.now() - start;
    return answer;
  } catch (error) {
    if (signal.aborted) throw new Problem("cancelled", "The statement was cancelled.");
    if (error instanceof Problem) throw error;
    throw new Problem("broken", "The answer broke off before its end: the statement failed, or the server went away. The server's log says which.");
  } finally {
    // What wasn't read isn't computed.
    stop.abort();
  }
}

/** Rows of a statement with a small answer. */
export async function rows(sql: string, signal?: AbortSignal): Promise<Rows> {
  return (await (await request("/query", asked(sql, "json", signal))).json()) as Rows;
}

export async function tables(): Promise<Table[]> {
  const found = (await (await request("/tables")).json()) as Partial<Table>[];
  return found.map((table) => ({ columns: [], ...table }) as Table);
}

export async function storage(name: string): Promise<TableStorage> {
  return (await (await request(`/tables/${encodeURIComponent(name)}/storage`)).json()) as TableStorage;
}

export async function functions(): Promise<FunctionInfo[]> {
  const found = await rows("select distinct routine_name, function_type from information_schema.routines order by 1");
  return found.rows.map(([name, kind]) => ({ name: String(name), kind: String(kind).toLowerCase() }));
}

export async function status(): Promise<Status> {
  return (await (await request("/status")).json()) as Status;
}

export async function metrics(): Promise<string> {
  return await (await request("/metrics")).text();
}

/** Whether the server answers at all, asked without a token. */
export async function isThere(): Promise<boolean> {
  try {
    return (await fetch("/health", { cache: "no-store", signal: AbortSignal.timeout(3000) })).ok;
  } catch {
    return false;
  }
}

export interface Ask {
  table: string;
  symbols?: string[];
  columns?: string[];
  from?: "snapshot" | "now";
  after?: number;
  bars?: { every: string; price: string; size?: string };
}

export interface Listener {
  onState(state: "open" | "lost" | "ended", problem?: Problem): void;
  onUpdate(update: Update): void;
}

/** Updates that may wait for the page; each that it has shown makes room for another. */
const CREDIT = 16;
const RETRY_MIN = 500;
const RETRY_MAX = 8000;

/** Follows a table, and again after the connection was lost; returns what ends it. */
export function subscribe(ask: Ask, listener: Listener): () => void {
  let [isOver, wait] = [false, RETRY_MIN];
  let after: string | null = null;
  let socket: WebSocket | null = null;
  let timer = 0;
  const open = () => {
    socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/subscribe`, protocols());
    socket.binaryType = "arraybuffer";
    const mine = socket;
    let failure: Problem | null = null;
    mine.onopen = () => {
      const first = { slow: "snapshot", format: "arrow", credit: CREDIT, ...ask };
      // Rows go on where they ended; bars begin anew. Numbers beyond 2^53 are written as they came.
      const text = JSON.stringify(first);
      mine.send(after !== null && !ask.bars ? text.replace(/\}$/, `,"after":${after}}`) : text);
    };
    mine.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (typeof data === "string") {
        const said = JSON.parse(data) as { subscribed?: unknown; code?: string; error?: string };
        if (said.subscribed !== undefined) {
          wait = RETRY_MIN;
          listener.onState("open");
        } else failure = new Problem(said.code ?? "internal", said.error ?? "The subscription ended.");
        return;
      }
      void import("./read").then(({ readUpdate }) => {
        if (isOver || mine !== socket) return;
        const update = readUpdate(data);
        if (update.sequence) after = update.sequence;
        listener.onUpdate(update);
        if (mine.readyState === WebSocket.OPEN) mine.send(JSON.stringify({ credit: 1 }));
      });
    };
    mine.onclose = ({ code }) => {
      if (isOver || mine !== socket) return;
      if (code === 1000) return listener.onState("ended");
      if (failure && failure.code === "gone") after = null;
      else if (failure && !["closed", "busy", "too_slow"].includes(failure.code)) return listener.onState("ended", failure);
      listener.onState("lost");
      timer = window.setTimeout(open, wait);
      wait = Math.min(wait * 2, RETRY_MAX);
    };
  };
  open();
  return () => {
    isOver = true;
    clearTimeout(timer);
    socket?.close();
  };
}

/** A page can give a WebSocket no header but its subprotocols. */
function protocols(): string[] {
  if (token === null) return [];
  const bytes = String.fromCharCode(...new TextEncoder().encode(token));
  return ["splay", `splay.bearer.${btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`];
}

export interface Status {
  version: string;
  state: string;
  capture: Capture | null;
  tables: { table: string; stored_rows: number; stored_bytes: number; partitions: number; segments: number; error: string | null }[];
  rejected_latest: { at: number; way: string; reason: string; sample: string }[];
}

export interface Capture {
  sequence: number;
  batches: number;
  rows: number;
  rejected: number;
  quarantined: number;
  duplicate_rows: number;
  journal_bytes: number;
  queue_bytes: number;
  full: boolean;
  failed: string | null;
  journal_losses: unknown[];
  disk: { free_bytes: number; is_refusing: boolean };
  subscribers: number;
  subscriber_lags: { table: string; batches: number; bytes: number; is_lost: boolean }[];
  producers_latest: { name: string; sequence: number; at: number }[];
  tables: CapturedTable[];
}

export interface Latency {
  counts: number[];
  sum_seconds: number;
}

export interface CapturedTable {
  table: string;
  live_rows: number;
  live_bytes: number;
  latencies: Record<string, Latency>;
  quality: Record<string, unknown>;
}
