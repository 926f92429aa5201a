// Statements that the browser remembers: those that were saved under a name, and those that ran.

export interface Saved {
  name: string;
  sql: string;
}

export interface Ran {
  sql: string;
  at: number;
  milliseconds: number;
  rows: number;
  error?: string;
}

const SAVED = "splay.saved";
const HISTORY = "splay.history";
const HISTORY_MAX = 200;
const TEXT_MAX = 20_000;

function read<T>(key: string, storage: Storage): T[] {
  try {
    const found: unknown = JSON.parse(storage.getItem(key) ?? "[]");
    return Array.isArray(found) ? (found as T[]) : [];
  } catch {
    return [];
  }
}

function write(key: string, value: unknown, storage: Storage): void {
  try {
    storage.setItem(key, JSON.stringify(value));
  } catch {
    // Full, or forbidden: the page works without it.
  }
}

export function saved(storage = localStorage): Saved[] {
  return read<Saved>(SAVED, storage);
}

/** Saves a statement; one of the same name is replaced. */
export function save(name: string, sql: string, storage = localStorage): Saved[] {
  const others = saved(storage).filter((one) => one.name !== name);
  const all = [...others, { name, sql }].sort((one, other) => one.name.localeCompare(other.name));
  write(SAVED, all, storage);
  return all;
}

export function forget(name: string, storage = localStorage): Saved[] {
  const all = saved(storage).filter((one) => one.name !== name);
  write(SAVED, all, storage);
  return all;
}

export function ran(storage = localStorage): Ran[] {
  return read<Ran>(HISTORY, storage);
}

/** Notes that a statement ran, the latest first; an equal one is moved, and long ones aren't kept. */
export function note(one: Ran, storage = localStorage): Ran[] {
  const before = ran(storage);
  if (one.sql.length > TEXT_MAX) return before;
  const all = [one, ...before.filter((other) => other.sql !== one.sql)].slice(0, HISTORY_MAX);
  write(HISTORY, all, storage);
  return all;
}
