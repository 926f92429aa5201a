// Statements: editor, answer as grid, chart and plan, what was saved and what ran.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { PageProperties } from "../app";
import { functions, Problem, query } from "../api";
import type { Answer } from "../answer";
import type { FunctionInfo } from "../completion";
import { bytes, count, csvField, duration } from "../format";
import { link } from "../links";
import { Editor, type EditorHandle } from "../parts/editor";
import { Grid } from "../parts/grid";
import { Icon } from "../parts/icon";
import { lazy } from "../parts/lazy";
import { Library } from "../parts/library";
import type { Progress } from "../read";
import * as memory from "../saved";
import { errorPlace, isExplain, type Statement } from "../sql";
import { connection, zone } from "../store";

const AnswerChart = lazy(() => import("../parts/charts").then((module) => module.AnswerChart));
const PlanView = lazy(() => import("../parts/planview").then((module) => module.PlanView));

const VIEWS = ["grid", "chart", "plan"] as const;
type View = (typeof VIEWS)[number];

/** What is in the editor, for the next visit of the page. */
const DRAFT = "splay.draft";

type Run =
  | { state: "none" }
  | { state: "running"; statement: Statement; start: number; progress: Progress; number: number }
  | { state: "done"; statement: Statement; answer: Answer; number: number }
  | { state: "failed"; statement: Statement; problem: Problem; number: number };

export function QueryPage({ place, tables, refresh }: PageProperties) {
  const editor = useRef<EditorHandle | null>(null);
  const stop = useRef<AbortController | null>(null);
  const [run, setRun] = useState<Run>({ state: "none" });
  const [view, setView] = useState<View>("grid");
  const [known, setKnown] = useState<FunctionInfo[]>([]);
  const [hasPanel, setPanel] = useState(() => matchMedia("(min-width: 900px)").matches);
  const [saved, setSaved] = useState(memory.saved);
  const [ran, setRan] = useState(memory.ran);
  const linked = place.parameters.get("sql");
  const initial = useMemo(() => linked ?? localStorage.getItem(DRAFT) ?? example(tables.find((table) => table.time)?.name), []);

  useEffect(() => void functions().then(setKnown, () => undefined), []);
  // A link shows its statement and doesn't run it: whoever made it may not be who opens it.
  useEffect(() => {
    if (linked !== null) editor.current?.setText(linked);
    const wanted = place.parameters.get("view");
    if (VIEWS.includes(wanted as View)) setView(wanted as View);
  }, [place]);
  useEffect(() => () => stop.current?.abort(), []);

  const start = async () => {
    const statement = editor.current?.statement();
    if (!statement || stop.current) return;
    const mine = new AbortController();
    stop.current = mine;
    editor.current?.clearMarks();
    const [begin, number] = [performance.now(), Date.now()];
    const note = (rows: number, error?: string) =>
      setRan(memory.note({ sql: statement.text, at: number, milliseconds: performance.now() - begin, rows, ...(error === undefined ? {} : { error }) }));
    setRun({ state: "running", statement, start: begin, progress: { rows: 0, bytes: 0 }, number });
    try {
      let told = 0;
      const answer = await query(statement.text, mine.signal, (progress) => {
        const now = performance.now();
        if (now - told < 100) return;
        told = now;
        setRun({ state: "running", statement, start: begin, progress, number });
      });
      setRun({ state: "done", statement, answer, number });
      if (isExplain(statement.text)) setView("plan");
      note(answer.rows);
      if (/^\s*(create|drop|alter|insert|delete|update|truncate|copy|refresh)\b/i.test(statement.text)) refresh();
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem("internal", String(error));
      if (problem.code === "unreachable") connection.set("gone");
      if (problem.code === "unauthorized") refresh();
      setRun({ state: "failed", statement, problem, number });
      note(0, problem.message);
      const at = errorPlace(statement.text, problem.message);
      if (at && editor.current?.text().slice(statement.from).startsWith(statement.text)) {
        editor.current.mark(statement.from + at.from, statement.from + at.to, problem.message);
      }
    } finally {
      stop.current = null;
    }
  };
  const cancel = () => stop.current?.abort();
  const show = (sql: string) => {
    editor.current?.setText(sql);
    editor.current?.focus();
    if (matchMedia("(max-width: 899px)").matches) setPanel(false);
  };
  const save = () => {
    const sql = editor.current?.text().trim();
    const name = sql && prompt("Save the statement under which name?", "");
    if (name?.trim()) setSaved(memory.save(name.trim(), sql!));
  };
  const isRunning = run.state === "running";
  return (
    <div class={`query${hasPanel ? " with-panel" : ""}`}>
      <h1 class="hidden">Query</h1>
      {hasPanel && (
        <Library tables={tables} saved={saved} ran={ran} onShow={show} onInsert={(text) => editor.current?.insert(text)} onForget={(name) => setSaved(memory.forget(name))} />
      )}
      <section class="work" aria-label="Statement">
        <div class="tools">
          <button type="button" class="quiet" aria-pressed={hasPanel} title="Tables, saved statements, history" aria-label="Tables, saved statements, history" onClick={() => setPanel(!hasPanel)}>
            <Icon name="panel" />
          </button>
          <button type="button" class="main" onClick={() => void start()} disabled={isRunning} title="Run the statement at the cursor, or what is selected (Ctrl+Enter, ⌘+Enter)">
            <Icon name="run" /> Run
          </button>
          <button type="button" onClick={cancel} disabled={!isRunning} title="Cancel (Escape)">
            <Icon name="stop" /> Cancel
          </button>
          <span class="grow" />
          <button type="button" class="quiet" onClick={save}>
            <Icon name="save" />
            <span class="wide-only">Save</span>
          </button>
          <CopyLink text={() => editor.current?.text() ?? ""} view={view} />
        </div>
        <div class="editor-frame">
          <Editor
            initial={initial}
            tables={tables}
            functions={known}
            onRun={() => void start()}
            onCancel={cancel}
            onChange={(text) => {
              editor.current?.clearMarks();
              localStorage.setItem(DRAFT, text.slice(0, 100_000));
            }}
            onReady={(handle) => (editor.current = handle)}
          />
        </div>
        <Outcome run={run} view={view} onView={setView} />
      </section>
    </div>
  );
}

function example(table: string | undefined): string {
  return table === undefined ? "select 1 + 1 as two" : `select * from ${table} limit 100`;
}

function CopyLink({ text, view }: { text: () => string; view: View }) {
  const [isDone, setDone] = useState(false);
  const copy = () => {
    const address = new URL(link("query", "", { sql: text(), view: view === "grid" ? undefined : view }), location.href);
    history.replaceState(null, "", address);
    void navigator.clipboard?.writeText(String(address)).catch(() => undefined);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button type="button" class="quiet" onClick={copy} title="Put the statement into the address, and copy it" aria-label="Copy link">
      <Icon name="link" />
      <span class="wide-only" aria-live="polite">
        {isDone ? "Copied" : "Link"}
      </span>
    </button>
  );
}

function Outcome({ run, view, onView }: { run: Run; view: View; onView: (view: View) => void }) {
  if (run.state === "none") return <p class="hint padded">The answer comes here. Ctrl+Enter or ⌘+Enter runs the statement at the cursor, Escape cancels it.</p>;
  const onKey = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    const next = VIEWS[(VIEWS.indexOf(view) + step + VIEWS.length) % VIEWS.length]!;
    onView(next);
    document.getElementById(`view-${next}`)?.focus();
  };
  return (
    <div class="outcome">
      <div class="outcome-head">
        <div role="tablist" aria-label="Answer" class="tabs" onKeyDown={onKey}>
          {VIEWS.map((name) => (
            <button type="button" role="tab" id={`view-${name}`} aria-selected={view === name} aria-controls="outcome" tabIndex={view === name ? 0 : -1} onClick={() => onView(name)}>
              {name === "grid" ? "Rows" : name === "chart" ? "Chart" : "Plan"}
            </button>
          ))}
        </div>
        <p class="told" role="status">
          <Told run={run} />
        </p>
        {run.state === "done" && view === "grid" && run.answer.rows > 0 && <Take answer={run.answer} />}
      </div>
      <div id="outcome" role="tabpanel" aria-labelledby={`view-${view}`} class="outcome-body" tabIndex={view === "grid" && run.state === "done" ? -1 : 0}>
        <Shown run={run} view={view} />
      </div>
    </div>
  );
}

function Shown({ run, view }: { run: Run; view: View }) {
  if (run.state === "failed" && !(view === "plan" && ["memory", "time", "rows", "cancelled"].includes(run.problem.code))) {
    return (
      <div class="failure padded" role="alert">
        <p class="error">{run.problem.message}</p>
        <p class="hint">
          Code <code>{run.problem.code}</code>
          {ADVICE[run.problem.code] ? `: ${ADVICE[run.problem.code]}` : ""}
        </p>
      </div>
    );
  }
  if (view === "plan" && run.state !== "running" && run.state !== "none") return <PlanView sql={run.statement.text} run={run.number} />;
  if (run.state !== "done") return <p class="hint padded">{run.state === "running" ? "Running…" : ""}</p>;
  if (view === "chart") return <AnswerChart key={run.number} answer={run.answer} />;
  if (run.answer.columns.length === 0) return <p class="hint padded">Done.</p>;
  return <Grid key={run.number} answer={run.answer} label="Rows of the answer" />;
}

const ADVICE: Record<string, string> = {
  memory: "ask for fewer rows or groups, or raise the limit of the server.",
  time: "ask for less, or raise the limit of the server. Its plan tells what takes long.",
  rows: "ask for fewer rows, or raise the limit of the server.",
  busy: "too many statements run; try again.",
  forbidden: "this token doesn’t allow it.",
};

function Told({ run }: { run: Run }) {
  const [, tick] = useState(0);
  const isRunning = run.state === "running";
  useEffect(() => {
    if (!isRunning) return;
    const timer = setInterval(() => tick((before) => before + 1), 100);
    return () => clearInterval(timer);
  }, [isRunning]);
  if (run.state === "running") {
    const { rows, bytes: read } = run.progress;
    return (
      <>
        <span class="spinner" aria-hidden="true" /> {duration((performance.now() - run.start) / 1000)}
        {rows > 0 && `, ${count(rows)} rows, ${bytes(read)}`}
      </>
    );
  }
  if (run.state === "failed") return <span class="error">{run.problem.code === "cancelled" ? "Cancelled" : "Failed"}</span>;
  if (run.state === "none") return null;
  const { answer } = run;
  return (
    <>
      {count(answer.rows)} {answer.rows === 1 ? "row" : "rows"}, {bytes(answer.bytes)}, {duration(answer.milliseconds / 1000)}
      {answer.isCut && <strong> The rest wasn’t read: a page holds {count(1_000_000)} rows.</strong>}
    </>
  );
}

/** Takes the rows out of the page: as CSV, to a file or the clipboard. */
function Take({ answer }: { answer: Answer }) {
  const csv = () => {
    const lines = [answer.columns.map((column) => csvField(column.name)).join(",")];
    for (let row = 0; row < answer.rows; row += 1) lines.push(answer.columns.map((column) => csvField(column.text(row, zone.value))).join(","));
    return `${lines.join("\n")}\n`;
  };
  const download = () => {
    const address = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
    const anchor = Object.assign(document.createElement("a"), { href: address, download: "answer.csv" });
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  };
  return (
    <span class="take">
      <button type="button" class="quiet" onClick={() => void navigator.clipboard?.writeText(csv())} title="Copy as CSV" aria-label="Copy as CSV">
        <Icon name="copy" />
      </button>
      <button type="button" class="quiet" onClick={download} title="Download as CSV" aria-label="Download as CSV">
        <Icon name="download" />
      </button>
    </span>
  );
}
