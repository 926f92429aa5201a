// The server: what it does now, how good its feeds are, what it refused.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Capture, type CapturedTable, metrics, Problem, status, type Status } from "../api";
import type { Lines } from "../chartdata";
import { bytes, count, duration, instant, short } from "../format";
import { Metrics, quantile } from "../openmetrics";
import { DataTable } from "../parts/datatable";
import { lazy } from "../parts/lazy";
import { connection, useShared, zone } from "../store";

const ChartView = lazy(() => import("../parts/chart").then((module) => module.ChartView));

const EVERY_MILLISECONDS = 2000;
/** Points of the charts: ten minutes. */
const POINTS_MAX = 300;

interface Now {
  status: Status;
  metrics: Metrics;
}

interface Point {
  at: number;
  rowsIn: number;
  statements: number;
  updates: number;
}

export function ServerPage() {
  const [now, setNow] = useState<Now | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [points, setPoints] = useState<Point[]>([]);
  const last = useRef<Point | null>(null);
  useEffect(() => {
    let [isOver, timer] = [false, 0];
    const look = async () => {
      if (document.visibilityState === "visible") {
        try {
          const [found, text] = await Promise.all([status(), metrics()]);
          if (isOver) return;
          const read = new Metrics(text);
          setNow({ status: found, metrics: read });
          setProblem(null);
          const point = { at: Date.now() / 1000, rowsIn: read.sum("rows_in_total"), statements: read.sum("statements_total"), updates: read.sum("updates_out_total") };
          const before = last.current;
          last.current = point;
          // Counters of a server that has started anew are below those of before.
          if (before && point.statements >= before.statements) setPoints((all) => [...all, rates(before, point)].slice(-POINTS_MAX));
        } catch (error) {
          if (error instanceof Problem && error.code === "unreachable") connection.set("gone");
          else setProblem((error as Error).message);
        }
      }
      if (!isOver) timer = window.setTimeout(() => void look(), EVERY_MILLISECONDS);
    };
    void look();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, []);
  if (!now) return <p class={`padded ${problem ? "error" : "hint"}`}>{problem ?? "Looking…"}</p>;
  const { capture } = now.status;
  return (
    <div class="page">
      <div class="page-head">
        <h1>Server</h1>
        <p class="hint">
          SplayDB {now.status.version}, <State status={now.status} />, up {duration(now.metrics.sum("uptime_seconds"))}
        </p>
      </div>
      {problem && <p class="error">{problem}</p>}
      <Tiles now={now} />
      <div class="charts">
        <Rate title="Rows in a second" points={points} value={(point) => point.rowsIn} />
        <Rate title="Statements a second" points={points} value={(point) => point.statements} />
      </div>
      {capture && <Feeds capture={capture} />}
      {capture && <Latencies tables={capture.tables} />}
      <Refused status={now.status} />
      {capture && <Others capture={capture} />}
      <Statements metrics={now.metrics} />
    </div>
  );
}

function rates(before: Point, point: Point): Point {
  const seconds = Math.max(0.1, point.at - before.at);
  const rate = (one: number, other: number) => Math.max(0, one - other) / seconds;
  return { at: point.at, rowsIn: rate(point.rowsIn, before.rowsIn), statements: rate(point.statements, before.statements), updates: rate(point.updates, before.updates) };
}

function State({ status }: { status: Status }) {
  const { capture } = status;
  if (capture?.failed) return <span class="error">capture has failed: {capture.failed}</span>;
  if (capture?.disk.is_refusing) return <span class="error">refuses rows: the disk is full</span>;
  const damaged = status.tables.filter((table) => table.error).length;
  if (damaged > 0) return <span class="error">{damaged} damaged tables</span>;
  if (capture && capture.journal_losses.length > 0) return <span class="error">the journal has losses</span>;
  return <span class="good">{status.state.replace("_", " ")}</span>;
}

function Tiles({ now }: { now: Now }) {
  const { metrics: read, status: { capture } } = now;
  const tiles: [string, string][] = [
    ["Running statements", `${count(read.sum("statements_running"))}${read.sum("statements_waiting") > 0 ? `, ${count(read.sum("statements_waiting"))} wait` : ""}`],
    ["Connections", count(read.sum("connections"))],
    ["Subscriptions", count(read.sum("subscriptions"))],
    ["Memory", bytes(read.sum("resident_bytes"))],
  ];
  if (capture) {
    const live = capture.tables.reduce((sum, table) => sum + table.live_rows, 0);
    tiles.push(["Rows in memory", short(live)], ["Journal", bytes(capture.journal_bytes)], ["Waiting for the journal", bytes(capture.queue_bytes)], ["Disk free", bytes(capture.disk.free_bytes)]);
    tiles.push(["Rows taken", short(capture.rows)], ["Refused messages", count(capture.rejected)], ["In quarantine", count(capture.quarantined)], ["Duplicate rows left out", count(capture.duplicate_rows)]);
  }
  return (
    <dl class="tiles">
      {tiles.map(([name, value]) => (
        <div>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Rate({ title, points, value }: { title: string; points: Point[]; value: (point: Point) => number }) {
  const chart: Lines = { kind: "lines", x: points.map((point) => point.at), isTime: true, xName: "time", series: [{ name: title.toLowerCase(), values: points.map(value) }], left: 0 };
  return (
    <section class="card">
      <h2>{title}</h2>
      {points.length > 1 ? <ChartView chart={chart} label={`${title}: now ${short(value(points.at(-1)!))}`} height={170} /> : <p class="hint chart-wait">Measured from now on.</p>}
    </section>
  );
}

const DEFECTS = [
  ["gaps", "Gaps"],
  ["missing", "Missing"],
  ["duplicates", "Duplicates"],
  ["out_of_order", "Out of order"],
  ["crossed", "Crossed"],
  ["late_rows", "Late"],
] as const;

function Feeds({ capture }: { capture: Capture }) {
  const rows = capture.tables.filter((table) => Number(table.quality["rows"] ?? 0) > 0);
  const worst = rows.flatMap((table) => ((table.quality["worst"] as Record<string, unknown>[] | undefined) ?? []).map((series) => ({ table: table.table, series })));
  const cell = (value: unknown) => (Number(value ?? 0) > 0 ? <strong class="warn">{count(Number(value))}</strong> : "0");
  return (
    <section>
      <h2>Feeds</h2>
      {rows.length === 0 ? (
        <p class="hint">No rows have come since the start.</p>
      ) : (
        <DataTable
          label="Quality of feeds"
          columns={["Table", "Series", "Rows", ...DEFECTS.map(([, title]) => title)]}
          right={[1, 2, 3, 4, 5, 6, 7, 8]}
          rows={rows.map((table) => [table.table, count(Number(table.quality["series"] ?? 0)), count(Number(table.quality["rows"] ?? 0)), ...DEFECTS.map(([key]) => cell(table.quality[key]))])}
        />
      )}
      {worst.length > 0 && (
        <>
          <h3>Worst series</h3>
          <DataTable
            label="Worst series"
            columns={["Table", "Symbol", "Venue", ...DEFECTS.slice(0, 5).map(([, title]) => title)]}
            right={[3, 4, 5, 6, 7]}
            rows={worst.slice(0, 20).map(({ table, series }) => [table, String(series["symbol"] ?? ""), String(series["venue"] ?? ""), ...DEFECTS.slice(0, 5).map(([key]) => cell(series[key]))])}
          />
        </>
      )}
    </section>
  );
}

const WAYS = [
  ["received", "Venue to receipt"],
  ["visible", "Receipt to queries"],
  ["durable", "Receipt to disk"],
] as const;

function Latencies({ tables }: { tables: CapturedTable[] }) {
  const measured = tables.flatMap((table) =>
    WAYS.flatMap(([key, title]) => {
      const latency = table.latencies[key];
      const rows = latency?.counts.reduce((sum, one) => sum + one, 0) ?? 0;
      return latency && rows > 0 ? [{ table: table.table, title, latency, rows }] : [];
    }),
  );
  if (measured.length === 0) return null;
  const below = (counts: number[], share: number) => {
    const found = quantile(counts, share);
    return Number.isFinite(found) ? `< ${duration(found)}` : "> 335 s";
  };
  return (
    <section>
      <h2>Latency</h2>
      <DataTable
        label="Latency"
        columns={["Table", "From, to", "Rows", "Mean", "Half", "99 %", "99.9 %"]}
        right={[2, 3, 4, 5, 6]}
        rows={measured.map(({ table, title, latency, rows }) => [
          table,
          title,
          count(rows),
          duration(latency.sum_seconds / rows),
          below(latency.counts, 0.5),
          below(latency.counts, 0.99),
          below(latency.counts, 0.999),
        ])}
      />
    </section>
  );
}

function Refused({ status }: { status: Status }) {
  const shown = useShared(zone);
  return (
    <section>
      <h2>Refused rows</h2>
      {status.rejected_latest.length === 0 ? (
        <p class="hint">None since the start.</p>
      ) : (
        <DataTable
          label="Refused rows"
          columns={["At", "Way", "Reason", "Sample"]}
          rows={status.rejected_latest.map((one) => [instant(BigInt(Math.round(one.at)), shown, 3), one.way, one.reason, <code class="sample">{one.sample}</code>])}
        />
      )}
    </section>
  );
}

function Others({ capture }: { capture: Capture }) {
  const shown = useShared(zone);
  return (
    <>
      {capture.producers_latest.length > 0 && (
        <section>
          <h2>Producers</h2>
          <DataTable
            label="Producers"
            columns={["Name", "Last number", "Heard of"]}
            right={[1]}
            rows={capture.producers_latest.slice(0, 20).map((one) => [one.name, count(one.sequence), instant(BigInt(Math.round(one.at)), shown, 3)])}
          />
        </section>
      )}
      {capture.subscriber_lags.length > 0 && (
        <section>
          <h2>Subscribers</h2>
          <DataTable
            label="Subscribers"
            columns={["Table", "Batches that wait", "Bytes"]}
            right={[1, 2]}
            rows={capture.subscriber_lags.map((one) => [one.table, `${count(one.batches)}${one.is_lost ? ", snapshot follows" : ""}`, bytes(one.bytes)])}
          />
        </section>
      )}
    </>
  );
}

function Statements({ metrics: read }: { metrics: Metrics }) {
  const ended = read.all("statements_total");
  if (ended.length === 0) return null;
  return (
    <section>
      <h2>Statements since the start</h2>
      <DataTable
        label="Statements since the start"
        columns={["Way", "Outcome", "Statements"]}
        right={[2]}
        rows={ended.map(({ labels, value }) => [labels["way"] ?? "", labels["outcome"] ?? "", count(value)])}
      />
      <p class="hint">
        {count(read.sum("rows_scanned_total"))} rows and {bytes(read.sum("bytes_scanned_total"))} were read, {count(read.sum("rows_out_total"))} rows sent.
      </p>
    </section>
  );
}
