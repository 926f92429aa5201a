// The plan of a statement: what makes it slow, what it cost, and its steps with their shares of the time.
import { useEffect, useState } from "preact/hooks";
import { Problem, rows } from "../api";
import { bytes, duration, short } from "../format";
import { type Explained, explained, own, type Plan } from "../plan";
import { isExplain, isExplained } from "../sql";

type State = { state: "running" } | { state: "failed"; message: string } | { state: "there"; explained: Explained };

/** Runs the statement once more, under EXPLAIN ANALYZE, each time that `run` is another number. */
export function PlanView({ sql, run }: { sql: string; run: number }) {
  const [state, setState] = useState<State>({ state: "running" });
  const [again, setAgain] = useState(0);
  useEffect(() => {
    if (!isExplained(sql) && !isExplain(sql)) return setState({ state: "failed", message: "Only statements that read have a plan to show." });
    const stop = new AbortController();
    setState({ state: "running" });
    rows(isExplain(sql) ? sql : `EXPLAIN ANALYZE ${sql}`, stop.signal).then(
      (answer) => setState({ state: "there", explained: explained(answer.rows.map((row) => [String(row[0]), String(row[1])] as const)) }),
      (error: unknown) => {
        if (!stop.signal.aborted) setState({ state: "failed", message: error instanceof Problem ? error.message : String(error) });
      },
    );
    return () => stop.abort();
  }, [sql, run, again]);

  if (state.state === "running") return <p class="hint padded">Runs the statement once more, and measures its steps…</p>;
  if (state.state === "failed") return <p class="error padded">{state.message}</p>;
  const { plans, costs, findings, refusal } = state.explained;
  return (
    <div class="plan padded">
      <div class="plan-head">
        <h2>Why it takes its time</h2>
        <button type="button" onClick={() => setAgain(again + 1)}>
          Measure again
        </button>
      </div>
      {findings.length > 0 ? (
        <ul class="findings">
          {findings.map((text) => (
            <li>{text}</li>
          ))}
        </ul>
      ) : (
        <p>{refusal === null ? "Nothing stands out: it runs as a tick plan." : "Nothing stands out."}</p>
      )}
      {Object.keys(costs).length > 0 && <Costs costs={costs} />}
      {plans.map((plan) => (
        <Steps plan={plan} />
      ))}
    </div>
  );
}

function Costs({ costs }: { costs: Record<string, string> }) {
  const name = (key: string) => key.replace(/_/g, " ").replace(" bytes", "");
  const value = (key: string, text: string) => (/bytes/.test(key) && /^\d+$/.test(text) ? bytes(Number(text)) : /^\d+$/.test(text) ? Number(text).toLocaleString("en-US") : text);
  return (
    <dl class="costs">
      {Object.entries(costs).map(([key, text]) => (
        <div>
          <dt>{name(key)}</dt>
          <dd>{value(key, text)}</dd>
        </div>
      ))}
    </dl>
  );
}

function Steps({ plan }: { plan: Plan }) {
  const times = own(plan);
  const all = times.reduce((sum, time) => sum + time, 0);
  const isMeasured = plan.steps.some((step) => step.seconds !== null);
  return (
    <section>
      <h2>{plan.title}</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label={plan.title}>
        <table class="steps">
          <thead>
            <tr>
              <th scope="col">Step</th>
              {isMeasured && (
                <>
                  <th scope="col">Time</th>
                  <th scope="col" class="right">
                    Rows
                  </th>
                  <th scope="col" class="right">
                    Memory
                  </th>
                </>
              )}
            </tr>
          </thead>
          <tbody>
            {plan.steps.map((step, index) => (
              <tr>
                <td>
                  <div style={{ paddingLeft: `${step.depth * 16}px` }}>
                    <strong>{step.name}</strong> <span class="step-detail">{step.detail}</span>
                  </div>
                </td>
                {isMeasured && (
                  <>
                    <td class="step-time">
                      <span class="share" style={{ width: `${all > 0 ? Math.round((times[index]! / all) * 100) : 0}%` }} />
                      <span>{step.seconds === null ? "" : duration(times[index]!)}</span>
                    </td>
                    <td class="right">{step.rows === null ? "" : short(step.rows)}</td>
                    <td class="right">{step.bytes === null ? "" : bytes(step.bytes)}</td>
                  </>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
