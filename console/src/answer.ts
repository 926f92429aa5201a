// An answer as columns: Arrow's record batches, with the values read where they are. Nothing is copied out of the batches.
import { type Data, DataType, type Field, type RecordBatch, type Schema, type Vector } from "apache-arrow";
import * as format from "./format";

export type Kind = "number" | "time" | "date" | "boolean" | "text" | "list" | "other";

/** A column of an answer. */
export interface Column {
  name: string;
  /** Its type in SplayDB's words. */
  type: string;
  kind: Kind;
  /** Whether its values have few texts, as symbols have. */
  isSymbol: boolean;
  rows: number;
  isNull(row: number): boolean;
  /** The value as people read it; empty for null. */
  text(row: number, zone: string): string;
  /** The value as a float, seconds since the epoch for times; NaN where there is none. */
  number(row: number): number;
  /** Nanoseconds since the epoch, of times and dates. */
  instant(row: number): bigint | null;
  /** The numbers of a list. */
  list(row: number): number[];
}

/** Rows of an answer, as far as they were read. */
export class Answer {
  readonly columns: Column[];
  readonly rows: number;
  /** Whether rows were left unread because there were too many for a page. */
  isCut = false;
  /** Bytes that came. */
  bytes = 0;
  milliseconds = 0;

  constructor(
    readonly schema: Schema,
    readonly batches: readonly RecordBatch[],
  ) {
    const starts = [0];
    for (const batch of batches) starts.push((starts.at(-1) ?? 0) + batch.numRows);
    this.rows = starts.at(-1) ?? 0;
    const filled = batches.map((batch) => batch);
    this.columns = schema.fields.map((field, index) => column(field, filled, index, starts));
  }

  column(name: string): Column | undefined {
    return this.columns.find((column) => column.name.toLowerCase() === name.toLowerCase());
  }
}

/** Nanoseconds of Arrow's units: second, milli, micro, nano. */
const UNITS = [1_000_000_000n, 1_000_000n, 1_000n, 1n];

interface Read {
  text: (place: Place, zone: string) => string;
  number: (place: Place) => number;
  instant?: (place: Place) => bigint;
  list?: (place: Place) => number[];
}

/** Where a value is: a batch's vector, and the row in it. */
interface Place {
  vector: Vector;
  data: Data;
  row: number;
}

function column(field: Field, batches: RecordBatch[], index: number, starts: number[]): Column {
  const vectors = batches.map((batch) => batch.getChildAt(index));
  let last = 0;
  const place: Place = { vector: undefined as never, data: undefined as never, row: 0 };
  const at = (row: number): Place | null => {
    // Rows are mostly read one after the other.
    if (row < (starts[last] ?? 0) || row >= (starts[last + 1] ?? 0)) last = search(starts, row);
    const vector = vectors[last];
    const data = vector?.data[0];
    if (!vector || !data) return null;
    place.vector = vector;
    place.data = data;
    place.row = row - (starts[last] ?? 0);
    return !DataType.isNull(field.type) && data.getValid(place.row) ? place : null;
  };
  const [kind, read] = reader(field.type);
  return {
    name: field.name,
    type: typeName(field.type),
    kind,
    isSymbol: DataType.isDictionary(field.type),
    rows: starts.at(-1) ?? 0,
    isNull: (row) => at(row) === null,
    text: (row, zone) => {
      const found = at(row);
      return found ? read.text(found, zone) : "";
    },
    number: (row) => {
      const found = at(row);
      return found ? read.number(found) : NaN;
    },
    instant: (row) => {
      const found = at(row);
      return found && read.instant ? read.instant(found) : null;
    },
    list: (row) => {
      const found = at(row);
      return found && read.list ? read.list(found) : [];
    },
  };
}

/** The batch that has a row. */
function search(starts: number[], row: number): number {
  let [low, high] = [0, starts.length - 1];
  while (low + 1 < high) {
    const middle = (low + high) >> 1;
    if ((starts[middle] ?? 0) <= row) low = middle;
    else high = middle;
  }
  return low;
}

function reader(type: DataType): [Kind, Read] {
  if (DataType.isTimestamp(type)) {
    const unit = UNITS[type.unit] ?? 1n;
    const instant = ({ data, row }: Place) => (data.values as BigInt64Array)[row]! * unit;
    return ["time", { text: (place, zone) => format.instant(instant(place), zone), number: seconds(instant), instant }];
  }
  if (DataType.isDate(type)) {
    const days = ({ data, row }: Place) => {
      const value = (data.values as Int32Array | BigInt64Array)[row]!;
      return typeof value === "bigint" ? Number(value / 86_400_000n) : value;
    };
    const instant = (place: Place) => BigInt(days(place)) * 86_400_000_000_000n;
    return ["date", { text: (place) => format.date(days(place)), number: seconds(instant), instant }];
  }
  if (DataType.isTime(type)) {
    const unit = UNITS[type.unit] ?? 1n;
    const value = ({ data, row }: Place) => BigInt((data.values as Int32Array | BigInt64Array)[row]!) * unit;
    return ["other", { text: (place) => format.timeOfDay(value(place)), number: seconds(value) }];
  }
  if (DataType.isDuration(type)) {
    const unit = UNITS[type.unit] ?? 1n;
    const value = ({ data, row }: Place) => Number((data.values as BigInt64Array)[row]! * unit) / 1e9;
    return ["number", { text: (place) => format.duration(value(place)), number: value }];
  }
  if (DataType.isDecimal(type)) {
    const words = type.bitWidth / 32;
    const text = ({ data, row }: Place) =>
      decimal((data.values as Uint32Array).subarray(row * words, (row + 1) * words), type.scale);
    return ["number", { text, number: (place) => Number(text(place)) }];
  }
  if (DataType.isInt(type) || DataType.isFloat(type)) {
    const value = ({ vector, row }: Place) => vector.get(row) as number | bigint;
    return ["number", { text: (place) => String(value(place)), number: (place) => Number(value(place)) }];
  }
  if (DataType.isBool(type)) {
    const value = ({ vector, row }: Place) => vector.get(row) as boolean;
    return ["boolean", { text: (place) => String(value(place)), number: (place) => Number(value(place)) }];
  }
  const value = ({ vector, row }: Place) => vector.get(row) as unknown;
  if (DataType.isList(type) || DataType.isFixedSizeList(type)) {
    const list = (place: Place) => numbers(value(place));
    return ["list", { text: (place) => plain(value(place)), number: () => NaN, list }];
  }
  const holdsText = DataType.isDictionary(type) || isText(type);
  return [holdsText ? "text" : "other", { text: (place) => plain(value(place)), number: () => NaN }];
}

function isText(type: DataType): boolean {
  return DataType.isUtf8(type) || DataType.isLargeUtf8(type) || /^(Large)?Utf8/.test(String(type));
}

function seconds(instant: (place: Place) => bigint): (place: Place) => number {
  return (place) => {
    const value = instant(place);
    const whole = value / 1_000_000_000n;
    return Number(whole) + Number(value - whole * 1_000_000_000n) / 1e9;
  };
}

function numbers(value: unknown): number[] {
  return value && typeof value === "object" && Symbol.iterator in value
    ? Array.from(value as Iterable<unknown>, (one) => (one === null ? NaN : Number(one)))
    : [];
}

/** Values of other types, nested ones among them. */
function plain(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value !== "object") return String(value);
  if (value instanceof Uint8Array) return Array.from(value, (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (Symbol.iterator in value && !("toJSON" in value && !("length" in value))) {
    return `[${Array.from(value as Iterable<unknown>, (one) => plain(one)).join(", ")}]`;
  }
  return JSON.stringify(value, (_, inner: unknown) => (typeof inner === "bigint" ? inner.toString() : inner));
}

/** A decimal of little-endian words in two's complement. */
export function decimal(words: Uint32Array, scale: number): string {
  let value = 0n;
  for (let index = words.length - 1; index >= 0; index -= 1) value = (value << 32n) | BigInt(words[index]!);
  value = BigInt.asIntN(words.length * 32, value);
  const sign = value < 0n ? "-" : "";
  const digits = (value < 0n ? -value : value).toString().padStart(scale + 1, "0");
  if (scale <= 0) return sign + digits + "0".repeat(-scale);
  return `${sign}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

/** A type as SplayDB calls it. */
export function typeName(type: DataType): string {
  if (DataType.isTimestamp(type)) return "timestamp";
  if (DataType.isDictionary(type)) return isText(type.dictionary as DataType) ? "symbol" : typeName(type.dictionary as DataType);
  if (DataType.isDate(type)) return "date";
  if (DataType.isTime(type)) return "time";
  if (DataType.isDuration(type)) return "duration";
  if (DataType.isInterval(type)) return "interval";
  if (DataType.isDecimal(type)) return `decimal(${type.precision}, ${type.scale})`;
  if (DataType.isBool(type)) return "boolean";
  if (DataType.isFloat(type)) return ["float16", "float32", "float64"][type.precision] ?? "float64";
  if (DataType.isInt(type)) return `${type.isSigned ? "" : "u"}int${type.bitWidth}`;
  if (DataType.isList(type) || DataType.isFixedSizeList(type)) return `${typeName(type.children[0]!.type as DataType)}[]`;
  return isText(type) ? "text" : String(type).toLowerCase();
}
