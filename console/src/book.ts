// Books: which columns are the levels of an order book, and the book of a row.
import type { Answer, Column } from "./answer";

export interface Level {
  price: number;
  size: number;
  /** Sizes of this level and those before it. */
  depth: number;
}

export interface Book {
  bids: Level[];
  asks: Level[];
}

/** Where prices and sizes of each side are: a column of lists, or a column for each level. */
export interface BookColumns {
  bidPrice: string[];
  bidSize: string[];
  askPrice: string[];
  askSize: string[];
}

const SIDES: [keyof BookColumns, RegExp][] = [
  ["bidPrice", /^b(id)?s?_?(price|px|p)?s?_?(\d*)$|^bid_?(\d+)_?(price|px|p)$|^b(\d+)_?p$|^bid_levels?_price$/],
  ["bidSize", /^b(id)?s?_?(size|sz|qty|quantity|amount|volume|s|q)_?(\d*)$|^bid_?(\d+)_?(size|sz|qty|amount|s)$|^b(\d+)_?s$/],
  ["askPrice", /^(a|ask|offer)s?_?(price|px|p)?s?_?(\d*)$|^(ask|offer)_?(\d+)_?(price|px|p)$|^a(\d+)_?p$/],
  ["askSize", /^(a|ask|offer)s?_?(size|sz|qty|quantity|amount|volume|s|q)_?(\d*)$|^(ask|offer)_?(\d+)_?(size|sz|qty|amount|s)$|^a(\d+)_?s$/],
];

/** The levels among a table's columns; null if it has no book. */
export function bookColumns(names: readonly string[]): BookColumns | null {
  const found: BookColumns = { bidPrice: [], bidSize: [], askPrice: [], askSize: [] };
  const level = (name: string) => Number(/\d+/.exec(name)?.[0] ?? 0);
  for (const [side, pattern] of SIDES) {
    found[side] = names.filter((name) => pattern.test(name.toLowerCase())).sort((one, other) => level(one) - level(other));
  }
  return found.bidPrice.length > 0 && found.askPrice.length > 0 ? found : null;
}

/** The book of a row. Levels without a price are left out; without sizes all are 0. */
export function book(rows: Answer, columns: BookColumns, row: number): Book {
  return {
    bids: levels(rows, columns.bidPrice, columns.bidSize, row),
    asks: levels(rows, columns.askPrice, columns.askSize, row),
  };
}

function levels(rows: Answer, prices: string[], sizes: string[], row: number): Level[] {
  const values = (names: string[]) => names.flatMap((name) => numbers(rows.column(name), row));
  const [price, size] = [values(prices), values(sizes)];
  const found: Level[] = [];
  let depth = 0;
  for (const [index, one] of price.entries()) {
    if (!Number.isFinite(one)) continue;
    const amount = size[index] ?? 0;
    depth += Number.isFinite(amount) ? amount : 0;
    found.push({ price: one, size: amount, depth });
  }
  return found;
}

function numbers(column: Column | undefined, row: number): number[] {
  if (!column) return [];
  return column.kind === "list" ? column.list(row) : [column.number(row)];
}
