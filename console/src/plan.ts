// A plan as EXPLAIN ANALYZE tells it: its steps with their costs, and what of it makes a statement slow.

export interface Step {
  depth: number;
  name: string;
  detail: string;
  rows: number | null;
  seconds: number | null;
  bytes: number | null;
}

export interface Plan {
  /** `tick plan`, or what DataFusion calls its plans. */
  title: string;
  steps: Step[];
}

export interface Explained {
  plans: Plan[];
  /** Why there is no tick plan. */
  refusal: string | null;
  /** Costs of the whole statement by name, as they are told. */
  costs: Record<string, string>;
  findings: string[];
}

const TITLES: Record<string, string> = {
  tick_plan: "Tick plan",
  logical_plan: "Logical plan",
  physical_plan: "Physical plan",
  "Plan with Metrics": "Physical plan, as it ran",
};

/** Reads the two columns of an answer to EXPLAIN or EXPLAIN ANALYZE. */
export function explained(rows: readonly (readonly [string, string])[]): Explained {
  const found: Explained = { plans: [], refusal: null, costs: {}, findings: [] };
  for (const [type, text] of rows) {
    if (type === "metrics") Object.assign(found.costs, pairs(text));
    else if (type === "tick_plan" && text.startsWith("none")) found.refusal = text.replace(/^none,?\s*/, "");
    else found.plans.push({ title: TITLES[type] ?? type, steps: steps(text) });
  }
  found.findings = findings(found);
  return found;
}

function steps(text: string): Step[] {
  return text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const depth = Math.floor((line.length - line.trimStart().length) / 2);
      const [, head = "", costs = ""] = /^(.*?)(?:,?\s*(?:metrics=)?\[((?:rows|output_rows|elapsed_compute)=.*)\]|,?\s*metrics=\[\])?$/s.exec(line.trim()) ?? [];
      const [, name = head, detail = ""] = /^([^:\s]+):?\s*(.*)$/s.exec(head) ?? [];
      const given = pairs(costs);
      return {
        depth,
        name: name.replace(/,$/, ""),
        detail,
        rows: scaled(given["rows"] ?? given["output_rows"]),
        seconds: seconds(given["time"] ?? given["elapsed_compute"]),
        bytes: sized(given["memory"] ?? given["output_bytes"]),
      };
    });
}

/** `a=1, b=2` by name. Commas within parentheses don't end a value. */
export function pairs(text: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [, name, value] of text.matchAll(/(\w+)=((?:\([^)]*\)|\[[^\]]*\]|[^,([]+)*)/g)) found[name!] = value!.trim();
  return found;
}

/** `20.80 M` as a number. */
export function scaled(text: string | undefined): number | null {
  const found = /^([\d.]+)\s*([KMBT]?)$/.exec(text ?? "");
  return found ? Number(found[1]) * { "": 1, K: 1e3, M: 1e6, B: 1e9, T: 1e12 }[found[2]!]! : null;
}

/** `1.07s`, `65.443µs` in seconds. */
export function seconds(text: string | undefined): number | null {
  const found = /^([\d.]+)\s*(ns|µs|us|ms|s|m)$/.exec(text ?? "");
  return found ? Number(found[1]) * { ns: 1e-9, "µs": 1e-6, us: 1e-6, ms: 1e-3, s: 1, m: 60 }[found[2]!]! : null;
}

function sized(text: string | undefined): number | null {
  const found = /^([\d.]+)\s*(bytes|B|KB|MB|GB|TB)$/.exec(text ?? "");
  return found ? Number(found[1]) * { bytes: 1, B: 1, KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3, TB: 1024 ** 4 }[found[2]!]! : null;
}

/** A pair such as `98/391`. */
function share(text: string | undefined): [number, number] | null {
  const found = /^(\d+)\/(\d+)$/.exec(text ?? "");
  return found ? [Number(found[1]), Number(found[2])] : null;
}

/** Times of a step without those of the steps below it: a tick plan's steps include them. */
export function own(plan: Plan): number[] {
  const isInclusive = plan.title === TITLES["tick_plan"];
  return plan.steps.map((step, index) => {
    if (!isInclusive || step.seconds === null) return step.seconds ?? 0;
    let below = 0;
    for (let next = index + 1; next < plan.steps.length && plan.steps[next]!.depth > step.depth; next += 1) {
      if (plan.steps[next]!.depth === step.depth + 1) below += plan.steps[next]!.seconds ?? 0;
    }
    return Math.max(0, step.seconds - below);
  });
}

function findings(found: Explained): string[] {
  const told: string[] = [];
  if (found.refusal) told.push(`The statement has no tick plan, because of ${found.refusal.replace(/^because of /, "")}. DataFusion runs it.`);
  for (const plan of found.plans) told.push(...slowest(plan));
  const scanned = reads(found);
  for (const { table, kept, all, what } of scanned) {
    if (all > 8 && kept === all) told.push(`${table} is read whole, all ${all.toLocaleString("en-US")} ${what}: a condition on time, date or symbol would skip some.`);
    else if (all > 8 && kept < all) told.push(`${table}: ${(all - kept).toLocaleString("en-US")} of ${all.toLocaleString("en-US")} ${what} were skipped by the index.`);
  }
  const [planning, execution] = [seconds(found.costs["planning"]), seconds(found.costs["execution"])];
  if (planning !== null && execution !== null && planning > execution && planning > 0.005) {
    told.push("Planning took longer than running. The next statement of this shape, with other values, is planned already.");
  }
  return told;
}

/** The step that takes most of the time, if one does. */
function slowest(plan: Plan): string[] {
  const times = own(plan);
  const all = times.reduce((sum, time) => sum + time, 0);
  const most = times.indexOf(Math.max(...times));
  const step = plan.steps[most];
  if (!step || plan.steps.length < 2 || all < 0.001 || times[most]! < all * 0.4) return [];
  const percent = Math.round((times[most]! / all) * 100);
  const told = [`${percent} % of the time is spent in ${step.name}${step.rows === null ? "" : `, which gives ${step.rows.toLocaleString("en-US")} rows`}.`];
  const below = plan.steps.slice(most + 1).filter((other) => other.depth > step.depth && other.rows !== null);
  const rowsBelow = Math.max(0, ...below.map((other) => other.rows!));
  if (/join/i.test(step.name) && step.rows !== null && rowsBelow > 0 && step.rows > rowsBelow * 10) {
    told.push(`That join multiplies rows: the largest input has ${rowsBelow.toLocaleString("en-US")}. A further key or an as-of join would give fewer.`);
  }
  return told;
}

/** What was read of the tables. */
function reads(found: Explained): { table: string; kept: number; all: number; what: string }[] {
  const whole = share(found.costs["blocks"]);
  if (whole) return [{ table: "The table", kept: whole[0], all: whole[1], what: "blocks" }];
  return found.plans.flatMap((plan) =>
    plan.steps.flatMap((step) => {
      const table = /table=([^,]+)/.exec(step.detail)?.[1];
      const blocks = share(/blocks=(\d+\/\d+)/.exec(step.detail)?.[1]);
      return table && blocks ? [{ table, kept: blocks[0], all: blocks[1], what: "blocks" }] : [];
    }),
  );
}
