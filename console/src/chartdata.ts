// Which chart an answer makes, and its numbers. Draws nothing.
import type { Answer, Column } from "./answer";

/** Series that a chart shows; further symbols are left out, and the chart says so. */
export const SERIES_MAX = 12;
/** Bars by text that fit beside each other. */
export const BARS_MAX = 60;

export interface Candles {
  kind: "candles";
  time: number[];
  open: number[];
  high: number[];
  low: number[];
  close: number[];
  volume: number[] | null;
}

export interface Lines {
  kind: "lines";
  /** Seconds since the epoch, or numbers of rows or of a column. */
  x: number[];
  isTime: boolean;
  xName: string;
  series: { name: string; values: (number | null)[] }[];
  left: number;
}

export interface Bars {
  kind: "bars";
  labels: string[];
  series: { name: string; values: (number | null)[] }[];
  left: number;
}

export type Chart = Candles | Lines | Bars;

/** What can be drawn of an answer. */
export interface Choices {
  time: Column | undefined;
  /** The column by which rows are of different series. */
  split: Column | undefined;
  values: Column[];
  candles: Record<"open" | "high" | "low" | "close", Column> | null;
  volume: Column | undefined;
}

const isInstant = (column: Column) => column.kind === "time" || column.kind === "date";

export function choices(answer: Answer): Choices {
  const { columns } = answer;
  const time = columns.find((column) => column.kind === "time") ?? columns.find(isInstant);
  const values = columns.filter((column) => column.kind === "number");
  const split = columns.find((column) => column.kind === "text" && column.isSymbol) ?? columns.find((column) => column.kind === "text");
  const named = (...names: string[]) =>
    values.find((column) => names.includes(column.name.toLowerCase())) ??
    values.find((column) => names.some((name) => name.length > 1 && column.name.toLowerCase().endsWith(`_${name}`)));
  const [open, high, low, close] = [named("open", "o"), named("high", "h"), named("low", "l"), named("close", "c")];
  const candles = time && open && high && low && close ? { open, high, low, close } : null;
  return { time, split, values, candles, volume: named("volume", "vol", "v") };
}

/** The texts of a column, by how many rows have each, the most first. */
export function symbols(column: Column | undefined, max = 1000): string[] {
  if (!column) return [];
  const found = new Map<string, number>();
  for (let row = 0; row < column.rows; row += 1) {
    const text = column.text(row, "UTC");
    const before = found.get(text);
    if (before !== undefined || found.size < max) found.set(text, (before ?? 0) + 1);
  }
  return [...found].sort((one, other) => other[1] - one[1]).map(([text]) => text);
}

/** Rows of one text of a column, or all, in the order of a column's numbers; those without a number are left out. */
function ordered(by: Column, split: Column | undefined, symbol: string | null): number[] {
  const rows: number[] = [];
  let isOrdered = true;
  let last = -Infinity;
  for (let row = 0; row < by.rows; row += 1) {
    if (split && symbol !== null && split.text(row, "UTC") !== symbol) continue;
    const number = by.number(row);
    if (Number.isNaN(number)) continue;
    isOrdered &&= number >= last;
    last = number;
    rows.push(row);
  }
  if (!isOrdered) {
    const keys = new Map(rows.map((row) => [row, by.number(row)]));
    rows.sort((one, other) => keys.get(one)! - keys.get(other)!);
  }
  return rows;
}

export function candles(found: Choices, symbol: string | null): Candles | null {
  if (!found.candles || !found.time) return null;
  const rows = ordered(found.time, found.split, symbol);
  const numbers = (column: Column) => rows.map((row) => column.number(row));
  const { open, high, low, close } = found.candles;
  return {
    kind: "candles",
    time: numbers(found.time),
    open: numbers(open),
    high: numbers(high),
    low: numbers(low),
    close: numbers(close),
    volume: found.volume ? numbers(found.volume) : null,
  };
}

const orNull = (number: number) => (Number.isFinite(number) ? number : null);

/** Lines of the values over time, a line for each text of the split column if there is one value alone. */
export function lines(found: Choices, values: Column[], split: Column | undefined): Lines | null {
  const first = values[0];
  if (!first) return null;
  const { time } = found;
  if (!time) {
    const x = Array.from({ length: first.rows }, (_, row) => row + 1);
    const series = values.map((column) => ({ name: column.name, values: x.map((row) => orNull(column.number(row - 1))) }));
    return { kind: "lines", x, isTime: false, xName: "row", series, left: 0 };
  }
  if (!split) {
    const rows = ordered(time, undefined, null);
    const series = values.map((column) => ({ name: column.name, values: rows.map((row) => orNull(column.number(row))) }));
    return { kind: "lines", x: rows.map((row) => time.number(row)), isTime: true, xName: time.name, series, left: 0 };
  }
  return splitLines(time, values, split);
}

/** All series over the times that any of them has. Where a series has no row there is no point, and the line goes on. */
function splitLines(time: Column, values: Column[], split: Column): Lines {
  const all = symbols(split);
  const perSymbol = Math.max(1, Math.floor(SERIES_MAX / values.length));
  const shown = new Map(all.slice(0, perSymbol).map((symbol, index) => [symbol, index]));
  const rows = ordered(time, undefined, null).filter((row) => shown.has(split.text(row, "UTC")));
  const x: number[] = [];
  const series = [...shown.keys()].flatMap((symbol) =>
    values.map((column) => ({ name: values.length > 1 ? `${symbol} ${column.name}` : symbol, values: [] as (number | null)[] })),
  );
  // Rows of one instant share a place, unless they are of the same series.
  let taken = new Set<number>();
  for (const row of rows) {
    const now = time.number(row);
    const symbol = shown.get(split.text(row, "UTC"))!;
    if (x.at(-1) !== now || taken.has(symbol)) {
      x.push(now);
      for (const one of series) one.values.push(null);
      taken = new Set();
    }
    taken.add(symbol);
    for (const [index, column] of values.entries()) {
      series[symbol * values.length + index]!.values[x.length - 1] = orNull(column.number(row));
    }
  }
  return { kind: "lines", x, isTime: true, xName: time.name, series, left: all.length - shown.size };
}

/** Values beside each other by the text of a column, in the order of the rows. */
export function bars(label: Column, values: Column[]): Bars {
  const rows = Math.min(label.rows, BARS_MAX);
  const indexes = Array.from({ length: rows }, (_, row) => row);
  return {
    kind: "bars",
    labels: indexes.map((row) => label.text(row, "UTC")),
    series: values.map((column) => ({ name: column.name, values: indexes.map((row) => orNull(column.number(row))) })),
    left: label.rows - rows,
  };
}
