// Live: the rows of a table as they come, bars that grow, the book of a symbol.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { PageProperties } from "../app";
import { Answer } from "../answer";
import { type Ask, Problem, query, rows as read, subscribe, type Table } from "../api";
import { book, bookColumns } from "../book";
import { count, instant } from "../format";
import { link } from "../links";
import { BarSet, LATEST_MAX } from "../live";
import { BookView } from "../parts/bookview";
import { Grid } from "../parts/grid";
import { lazy } from "../parts/lazy";
import { literal, quoted } from "../sql";
import { useShared, zone } from "../store";

const ChartView = lazy(() => import("../parts/chart").then((module) => module.ChartView));

const MODES = ["rows", "bars", "book"] as const;
type Mode = (typeof MODES)[number];

/** The page is drawn anew at most so often. */
const DRAW_MILLISECONDS = 100;
/** Rows that are shown of what was there before. */
const EARLIER = 200;
const SYMBOLS_MAX = 1000;
const WIDTHS = ["1s", "10s", "1m", "5m", "15m", "1h"];

interface What {
  table: Table;
  mode: Mode;
  symbols: string[];
  every: string;
  price: string;
  size: string;
}

export function LivePage({ place, tables }: PageProperties) {
  const timed = tables.filter((table) => table.time && !table.error);
  const table = timed.find((one) => one.name === place.name) ?? timed[0];
  if (!table) return <p class="padded">There is no table to follow yet: live rows need a table with a time column.</p>;
  return <Choice key={table.name} tables={timed} table={table} place={place} />;
}

function Choice({ tables, table, place }: { tables: Table[]; table: Table; place: PageProperties["place"] }) {
  const given = (name: string) => place.parameters.get(name) ?? "";
  const numbers = table.columns.filter((column) => /^(float|int|uint|decimal)/.test(column.type)).map((column) => column.name);
  const hasBook = bookColumns(table.columns.map((column) => column.name)) !== null;
  const modes = MODES.filter((mode) => mode === "rows" || (mode === "bars" ? numbers.length > 0 : hasBook));
  const mode = modes.find((one) => one === given("mode")) ?? "rows";
  const price = numbers.find((name) => name === given("price")) ?? numbers.find((name) => /price|px|last/i.test(name)) ?? numbers[0] ?? "";
  const size = given("size") === "none" ? "" : (numbers.find((name) => name === given("size")) ?? numbers.find((name) => /size|volume|qty|quantity|amount/i.test(name)) ?? "");
  const every = WIDTHS.includes(given("every")) ? given("every") : "1m";
  const [known, setKnown] = useState<string[]>([]);
  useEffect(() => {
    if (table.symbol === null) return;
    const name = quoted(table.symbol);
    read(`select distinct ${name} from ${quoted(table.name)} order by 1 limit ${SYMBOLS_MAX}`).then(
      (found) => setKnown(found.rows.map(([one]) => String(one ?? ""))),
      () => undefined,
    );
  }, [table.name]);
  const chosen = given("symbols").split(",").map((text) => text.trim()).filter(Boolean);
  const symbols = mode !== "rows" && table.symbol !== null && chosen.length === 0 ? known.slice(0, 1) : chosen;
  const go = (change: Record<string, string | undefined>, name = table.name) =>
    (location.hash = link("live", name, { mode: mode === "rows" ? undefined : mode, symbols: chosen.join(","), every: mode === "bars" ? every : undefined, price: given("price"), size: given("size"), ...change }));
  const isReady = mode === "rows" || table.symbol === null || symbols.length > 0;
  const what = useMemo<What>(() => ({ table, mode, symbols: mode === "book" ? symbols.slice(0, 1) : symbols, every, price, size }), [table.name, mode, symbols.join("\n"), every, price, size]);
  const field = (label: string, value: string, options: string[], onChange: (value: string) => void) => (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map((name) => (
          <option value={name}>{name}</option>
        ))}
      </select>
    </label>
  );
  return (
    <div class="live">
      <h1 class="hidden">Live</h1>
      <form class="tools" onSubmit={(event) => event.preventDefault()}>
        {field("Table", table.name, tables.map((one) => one.name), (name) => (location.hash = link("live", name)))}
        <div class="segments" role="group" aria-label="What is followed">
          {modes.map((name) => (
            <button type="button" aria-pressed={mode === name} onClick={() => go({ mode: name })}>
              {name[0]!.toUpperCase() + name.slice(1)}
            </button>
          ))}
        </div>
        {table.symbol !== null && (
          <label>
            {mode === "book" ? "Symbol" : "Symbols"}{" "}
            <input
              list="symbols"
              value={mode === "rows" ? chosen.join(", ") : symbols.join(", ")}
              placeholder={mode === "rows" ? "all" : ""}
              onChange={(event) => go({ symbols: event.currentTarget.value.split(",").map((text) => text.trim()).filter(Boolean).join(",") })}
              spellcheck={false}
              autoComplete="off"
            />
            <datalist id="symbols">
              {known.map((name) => (
                <option value={name} />
              ))}
            </datalist>
          </label>
        )}
        {mode === "bars" && (
          <>
            {field("Every", every, WIDTHS, (value) => go({ every: value }))}
            {field("Price", price, numbers, (value) => go({ price: value }))}
            {field("Size", size || "none", ["none", ...numbers], (value) => go({ size: value }))}
          </>
        )}
      </form>
      {isReady ? <Followed what={what} /> : <p class="hint padded">Which symbol? The table has none yet.</p>}
    </div>
  );
}

interface Shown {
  state: "opening" | "open" | "lost" | "ended";
  problem: string | null;
  updates: number;
  rows: number;
}

function Followed({ what }: { what: What }) {
  const [shown, setShown] = useState<Shown>({ state: "opening", problem: null, updates: 0, rows: 0 });
  const [, draw] = useState(0);
  const [isPaused, setPaused] = useState(false);
  const latest = useRef<Answer | null>(null);
  const bars = useRef(new BarSet());
  const paused = useRef(false);
  paused.current = isPaused;

  useEffect(() => {
    latest.current = null;
    bars.current.clear();
    const told: Shown = { state: "opening", problem: null, updates: 0, rows: 0 };
    let [timer, isOver] = [0, false];
    const later = () => {
      if (timer !== 0) return;
      timer = window.setTimeout(() => {
        timer = 0;
        if (isOver) return;
        setShown({ ...told });
        draw((before) => before + 1);
      }, DRAW_MILLISECONDS);
    };
    later();
    const stop = new AbortController();
    let close: () => void = () => undefined;
    const follow = () => {
      if (isOver) return;
      close = subscribe(ask(what), {
        onState: (state, problem) => {
          told.state = state;
          told.problem = problem?.message ?? null;
          later();
        },
        onUpdate: (update) => {
          told.updates += 1;
          told.rows += update.rows.rows;
          if (what.mode === "bars") {
            if (update.kind === "snapshot") bars.current.clear();
            bars.current.take(update.rows, what.table.time!, what.table.symbol);
          } else if (update.rows.rows > 0) latest.current = join(update.kind === "snapshot" ? null : latest.current, update.rows);
          if (!paused.current) later();
        },
      });
    };
    if (what.mode === "bars") follow();
    else {
      // What was there before comes by a statement: a snapshot would be all rows of the newest date.
      query(earlier(what), stop.signal, () => undefined)
        .then((answer) => (latest.current = answer.rows > 0 ? answer : null))
        .catch((error: unknown) => {
          if (error instanceof Problem && error.code !== "cancelled" && !isOver) told.problem = error.message;
        })
        .finally(() => {
          later();
          follow();
        });
    }
    return () => {
      isOver = true;
      stop.abort();
      clearTimeout(timer);
      close();
    };
  }, [what]);

  return (
    <>
      <div class="live-state">
        <p role="status">
          <span class={`dot ${shown.state}`} aria-hidden="true" /> {STATES[shown.state]}
          {shown.problem && <span class="error"> {shown.problem}</span>}
        </p>
        <p class="hint">
          {count(shown.updates)} updates, {count(shown.rows)} rows
        </p>
        <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? "Go on" : "Pause"}
        </button>
      </div>
      {what.mode === "rows" && (latest.current ? <Grid answer={latest.current} label={`Latest rows of ${what.table.name}`} newestFirst /> : <p class="hint padded">Waits for rows.</p>)}
      {what.mode === "bars" && <Bars what={what} bars={bars.current} />}
      {what.mode === "book" && <LatestBook what={what} latest={latest.current} />}
    </>
  );
}

const STATES: Record<Shown["state"], string> = { opening: "Connecting", open: "Live", lost: "The connection was lost; connects again", ended: "Ended" };

function ask(what: What): Ask {
  const { table, mode, symbols, every, price, size } = what;
  const base: Ask = { table: table.name, from: mode === "bars" ? "snapshot" : "now", ...(symbols.length > 0 && table.symbol !== null ? { symbols } : {}) };
  if (mode === "bars") return { ...base, bars: { every, price, ...(size ? { size } : {}) } };
  return base;
}

/** The last rows of the newest date, the oldest first. */
function earlier({ table, symbols, mode }: What): string {
  const time = quoted(table.time!);
  const conditions = [
    ...(table.last_date ? [`date = ${literal(table.last_date)}`] : []),
    ...(symbols.length > 0 && table.symbol !== null ? [`${quoted(table.symbol)} in (${symbols.map(literal).join(", ")})`] : []),
  ];
  const columns = table.columns.map((column) => quoted(column.name)).join(", ");
  const where = conditions.length > 0 ? ` where ${conditions.join(" and ")}` : "";
  return `select * from (select ${columns} from ${quoted(table.name)}${where} order by ${time} desc limit ${mode === "book" ? 1 : EARLIER}) order by ${time}`;
}

/** The rows before with those behind them, and no more than are shown. */
function join(before: Answer | null, rows: Answer): Answer {
  const isSame = before !== null && before.columns.length === rows.columns.length && before.columns.every((column, index) => column.name === rows.columns[index]!.name);
  let batches = isSame ? [...before.batches, ...rows.batches] : [...rows.batches];
  let over = batches.reduce((sum, batch) => sum + batch.numRows, 0) - LATEST_MAX;
  while (over > 0 && batches.length > 0) {
    const [first, ...others] = batches;
    batches = first!.numRows > over ? [first!.slice(over), ...others] : others;
    over -= Math.min(over, first!.numRows);
  }
  return new Answer(rows.schema, batches);
}

function Bars({ what, bars }: { what: What; bars: BarSet }) {
  const names = what.table.symbol === null ? [""] : what.symbols;
  return (
    <div class="bars" role="region" aria-label="Bars" tabIndex={0}>
      {names.map((name) => {
        const chart = bars.candles(name);
        return (
          <section key={name} class="card">
            <h2>
              {name || what.table.name} <span class="hint">{what.every}</span>
            </h2>
            {chart ? <ChartView chart={chart} label={`Bars of ${name || what.table.name}: ${chart.time.length}, the last closes at ${chart.close.at(-1)}`} height={names.length > 1 ? 260 : 420} /> : <p class="hint">Waits for rows.</p>}
          </section>
        );
      })}
    </div>
  );
}

function LatestBook({ what, latest }: { what: What; latest: Answer | null }) {
  const shown = useShared(zone);
  const columns = bookColumns(what.table.columns.map((column) => column.name));
  if (!columns || !latest || latest.rows === 0) return <p class="hint padded">Waits for rows.</p>;
  const row = latest.rows - 1;
  const at = latest.column(what.table.time!)?.instant(row);
  return <BookView book={book(latest, columns, row)} title={what.symbols[0] ?? what.table.name} at={at == null ? "" : instant(at, shown)} />;
}
