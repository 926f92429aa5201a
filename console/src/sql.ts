// What the console must understand of SQL's text: where statements end, which of them change something, where errors are.

export interface Statement {
  text: string;
  /** Where the text begins in what it was taken from. */
  from: number;
}

/** The end of a quoted text or comment that begins at `index`, or `index` if none begins there. */
function skip(text: string, index: number): number {
  const two = text.slice(index, index + 2);
  if (two === "--") return end(text.indexOf("\n", index), text.length);
  if (two === "/*") {
    const close = text.indexOf("*/", index + 2);
    return close < 0 ? text.length : close + 2;
  }
  const quote = text[index];
  if (quote !== "'" && quote !== '"') return index;
  const close = text.indexOf(quote, index + 1);
  // Two quotes within a text are one: the next text begins at once.
  return close < 0 ? text.length : close + 1;
}

function end(found: number, otherwise: number): number {
  return found < 0 ? otherwise : found;
}

/** The statements of a text, without the semicolons between them. */
export function statements(text: string): Statement[] {
  const found: Statement[] = [];
  let start = 0;
  const add = (stop: number) => {
    const part = text.slice(start, stop);
    const trimmed = part.trim();
    if (words(trimmed).length > 0) found.push({ text: trimmed, from: start + part.indexOf(trimmed) });
    start = stop + 1;
  };
  for (let index = 0; index < text.length; ) {
    const next = skip(text, index);
    if (next > index) index = next;
    else {
      if (text[index] === ";") add(index);
      index += 1;
    }
  }
  add(text.length);
  return found;
}

/** The statement at a place of the text: that before it, if it is between two. */
export function statementAt(text: string, place: number): Statement | undefined {
  const all = statements(text);
  return all.findLast((one) => one.from <= place) ?? all[0];
}

/** The words of a text outside quotes and comments; quoted names count as words. */
export function words(text: string): string[] {
  const found: string[] = [];
  for (let index = 0; index < text.length; ) {
    const next = skip(text, index);
    if (next > index) {
      if (text[index] === '"') found.push(text.slice(index + 1, next - 1));
      else if (text[index] === "'") found.push("''");
      index = next;
      continue;
    }
    const word = /^[\p{L}_][\p{L}\p{N}_$]*|^[^\s;]/u.exec(text.slice(index, index + 256))?.[0];
    if (word) found.push(word);
    index += word?.length ?? 1;
  }
  return found;
}

const READS = ["select", "with", "from", "values", "table", "pivot", "unpivot", "summarize", "("];

/** Whether `EXPLAIN ANALYZE` may run a statement once more. */
export function isExplained(text: string): boolean {
  return READS.includes(words(text)[0]?.toLowerCase() ?? "");
}

export function isExplain(text: string): boolean {
  return words(text)[0]?.toLowerCase() === "explain";
}

/** Which part of a statement an error names, as offsets in the statement; none if it names no place. */
export function errorPlace(statement: string, error: string): { from: number; to: number } | null {
  const line = /at Line: (\d+), Column: (\d+)/i.exec(error);
  if (line) {
    const lines = statement.split("\n");
    const row = Number(line[1]) - 1;
    const before = lines.slice(0, row).reduce((sum, text) => sum + text.length + 1, 0);
    const from = Math.min(before + Number(line[2]) - 1, statement.length);
    const word = /^[\p{L}\p{N}_$]+|^\S/u.exec(statement.slice(from))?.[0] ?? "";
    return { from, to: from + word.length };
  }
  const named =
    /No field named ([^\s]+?)\.(?:\s|$)/.exec(error)?.[1] ??
    /(?:no table|no column|no function|unknown function|Invalid function) ["']?([^\s"']+)["']?/i.exec(error)?.[1];
  const name = named?.replaceAll('"', "").split(".").at(-1);
  if (!name) return null;
  const escaped = name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const found = new RegExp(`(?<![\\p{L}\\p{N}_])${escaped}(?![\\p{L}\\p{N}_])`, "iu").exec(statement);
  return found ? { from: found.index, to: found.index + name.length } : null;
}

/** A name as SQL takes it. */
export function quoted(name: string): string {
  return /^[a-z_][a-z0-9_]*$/i.test(name) && !RESERVED.has(name.toLowerCase()) ? name : `"${name.replaceAll('"', '""')}"`;
}

const RESERVED = new Set(
  "all and any as asc between by case cast cross date desc distinct else end except exists false fetch for from full group having in inner interval intersect into is join left like limit natural not null offset on or order outer over partition qualify right select set some table then time timestamp to true union unique update user using values when where window with".split(
    " ",
  ),
);

/** A text as SQL takes it. */
export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
