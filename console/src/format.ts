// Values as people read them. Instants are whole nanoseconds since the epoch: a number of JavaScript can't hold them.

const MINUTE = 60_000;
const QUARTER = 15 * MINUTE;

/** Clocks of zones, with what they were ahead of UTC in each quarter of an hour that was asked for. */
const clocks = new Map<string, { format: Intl.DateTimeFormat; ahead: Map<number, number> }>();

function clock(zone: string) {
  let found = clocks.get(zone);
  if (!found) {
    const format = new Intl.DateTimeFormat("en-US", {
      timeZone: zone,
      hourCycle: "h23",
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      era: "short",
    });
    clocks.set(zone, (found = { format, ahead: new Map() }));
  }
  return found;
}

/** Whether the browser knows a zone. */
export function isZone(zone: string): boolean {
  try {
    clock(zone);
    return true;
  } catch {
    return false;
  }
}

/** Milliseconds that a zone's clock is ahead of UTC at an instant. Zones change their clocks at quarters of an hour. */
export function aheadOfUtc(milliseconds: number, zone: string): number {
  if (zone === "UTC") return 0;
  const { format, ahead } = clock(zone);
  const quarter = Math.floor(milliseconds / QUARTER);
  const before = ahead.get(quarter);
  if (before !== undefined) return before;
  const parts: Record<string, string> = {};
  for (const { type, value } of format.formatToParts(quarter * QUARTER)) parts[type] = value;
  const number = (name: string) => Number(parts[name]);
  const year = parts["era"] === "BC" ? 1 - number("year") : number("year");
  const local = new Date(0);
  local.setUTCFullYear(year, number("month") - 1, number("day"));
  local.setUTCHours(number("hour"), number("minute"), number("second"));
  const difference = local.getTime() - quarter * QUARTER;
  if (ahead.size > 10_000) ahead.clear();
  ahead.set(quarter, difference);
  return difference;
}

/** How many digits of a second an instant needs: 0, 3, 6 or 9. */
export function secondDigits(nanoseconds: bigint): number {
  if (nanoseconds % 1_000_000_000n === 0n) return 0;
  if (nanoseconds % 1_000_000n === 0n) return 3;
  return nanoseconds % 1_000n === 0n ? 6 : 9;
}

/** An instant by the clock of a zone: `2026-01-02 09:30:00.123456789`. */
export function instant(nanoseconds: bigint, zone: string, digits = secondDigits(nanoseconds)): string {
  const fraction = ((nanoseconds % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n;
  const milliseconds = Number((nanoseconds - fraction) / 1_000_000n);
  const local = new Date(milliseconds + aheadOfUtc(milliseconds, zone));
  // From 1677 to 2262: years of four digits.
  const text = local.toISOString().replace("T", " ").slice(0, 19);
  return digits === 0 ? text : `${text}.${fraction.toString().padStart(9, "0").slice(0, digits)}`;
}

/** A date, of days since the epoch. */
export function date(days: number): string {
  return new Date(days * 86_400_000).toISOString().slice(0, 10);
}

/** A time of day, of nanoseconds since midnight. */
export function timeOfDay(nanoseconds: bigint): string {
  return instant(nanoseconds, "UTC").slice(11);
}

const grouped = new Intl.NumberFormat("en-US");

/** A count with its thousands apart. */
export function count(value: number | bigint): string {
  return grouped.format(value);
}

/** Bytes in the unit that keeps three digits. */
export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value : Number(value.toPrecision(3))} ${units[unit]}`;
}

/** A length of time in the unit that keeps three digits. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  const size = Math.abs(seconds);
  if (size >= 86_400) return `${Math.floor(seconds / 86_400)} d ${Math.round((seconds % 86_400) / 3600)} h`;
  if (size >= 3600) return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
  if (size >= 60) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (size >= 1) return `${Number(seconds.toPrecision(3))} s`;
  if (size >= 1e-3) return `${Number((seconds * 1e3).toPrecision(3))} ms`;
  if (size >= 1e-6) return `${Number((seconds * 1e6).toPrecision(3))} µs`;
  return size === 0 ? "0 s" : `${Math.round(seconds * 1e9)} ns`;
}

/** A number for an axis or a tile: short, and never wrong by more than its last digit. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e4) {
    return new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 }).format(value);
  }
  return size === 0 || size >= 1e-4 ? String(Number(value.toPrecision(6))) : value.toExponential(2);
}

/** Rows as a file of CSV. */
export function csvField(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
