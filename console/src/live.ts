// Rows of a subscription, as much of them as a page shows.
import type { Answer } from "./answer";
import type { Candles } from "./chartdata";

/** The latest rows that are kept. */
export const LATEST_MAX = 2000;
/** Bars that are kept for each symbol. */
export const BARS_MAX = 2000;

export interface Bar {
  time: number;
  open: number;
  high: number;
  low: number;
  close: number;
  volume: number;
  isFinal: boolean;
}

/** Bars by symbol and time; each update replaces what it names. */
export class BarSet {
  readonly bySymbol = new Map<string, Map<number, Bar>>();

  clear(): void {
    this.bySymbol.clear();
  }

  /** Takes the bars of an update, whose first column is the time and whose second is the symbol, if the table has one. */
  take(rows: Answer, time: string, symbol: string | null): void {
    const times = rows.column(time);
    if (!times) return;
    const symbols = symbol === null ? undefined : rows.column(symbol);
    const number = (name: string, row: number) => rows.column(name)?.number(row) ?? NaN;
    for (let row = 0; row < rows.rows; row += 1) {
      const name = symbols?.text(row, "UTC") ?? "";
      const bars = this.bySymbol.get(name) ?? new Map<number, Bar>();
      this.bySymbol.set(name, bars);
      const at = times.number(row);
      bars.set(at, {
        time: at,
        open: number("open", row),
        high: number("high", row),
        low: number("low", row),
        close: number("close", row),
        volume: number("volume", row),
        isFinal: rows.column("final")?.text(row, "UTC") === "true",
      });
      if (bars.size > BARS_MAX) bars.delete(Math.min(...bars.keys()));
    }
  }

  candles(symbol: string): Candles | null {
    const bars = [...(this.bySymbol.get(symbol)?.values() ?? [])].sort((one, other) => one.time - other.time);
    if (bars.length === 0) return null;
    const column = (name: "time" | "open" | "high" | "low" | "close" | "volume") => bars.map((bar) => bar[name]);
    const volume = bars.some((bar) => Number.isFinite(bar.volume)) ? column("volume") : null;
    return { kind: "candles", time: column("time"), open: column("open"), high: column("high"), low: column("low"), close: column("close"), volume };
  }
}
