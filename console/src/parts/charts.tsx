// The chart of an answer, and what the reader may choose of it.
import { useMemo, useState } from "preact/hooks";
import type { Answer } from "../answer";
import { bars, candles, type Chart, choices, lines, symbols } from "../chartdata";
import { ChartView } from "./chart";

type Form = "candles" | "lines" | "bars";

export function AnswerChart({ answer }: { answer: Answer }) {
  const found = useMemo(() => choices(answer), [answer]);
  const forms: Form[] = [
    ...(found.candles ? (["candles"] as const) : []),
    ...(found.values.length > 0 ? (["lines"] as const) : []),
    ...(found.values.length > 0 && found.split ? (["bars"] as const) : []),
  ];
  const [form, setForm] = useState<Form | null>(null);
  const [symbol, setSymbol] = useState<string | null>(null);
  const [isSplit, setSplit] = useState(true);
  const [picked, setPicked] = useState<string[] | null>(null);
  const all = useMemo(() => symbols(found.split), [found]);
  if (forms.length === 0) return <p class="hint padded">A chart needs a column of numbers. Lines go over a column of times, if there is one; candles need open, high, low and close.</p>;

  const shown = form !== null && forms.includes(form) ? form : found.candles ? "candles" : found.time ? "lines" : (forms.at(-1) ?? "lines");
  const names = found.values.map((column) => column.name);
  const standard = found.time ? names.slice(0, 1) : names.slice(0, 3);
  const values = found.values.filter((column) => (picked ?? standard).includes(column.name));
  const one = symbol !== null && all.includes(symbol) ? symbol : (all[0] ?? null);
  const chart = useMemo<Chart | null>(() => {
    if (shown === "candles") return candles(found, one);
    if (shown === "bars") return bars(found.split!, values);
    return lines(found, values, isSplit ? found.split : undefined);
  }, [found, shown, one, isSplit, values.map((column) => column.name).join("\n")]);
  const left = chart && chart.kind !== "candles" ? chart.left : 0;
  const toggle = (name: string) => {
    const now = picked ?? standard;
    setPicked(now.includes(name) ? now.filter((other) => other !== name) : [...now, name]);
  };
  return (
    <div class="answer-chart">
      <div class="chart-choices">
        {forms.length > 1 && (
          <label>
            Chart{" "}
            <select value={shown} onChange={(event) => setForm(event.currentTarget.value as Form)}>
              {forms.map((name) => (
                <option value={name}>{name}</option>
              ))}
            </select>
          </label>
        )}
        {shown === "candles" && found.split && all.length > 1 && (
          <label>
            {found.split.name}{" "}
            <select value={one ?? ""} onChange={(event) => setSymbol(event.currentTarget.value)}>
              {all.map((text) => (
                <option value={text}>{text}</option>
              ))}
            </select>
          </label>
        )}
        {shown === "lines" && found.split && found.time && (
          <label>
            <input type="checkbox" checked={isSplit} onChange={() => setSplit(!isSplit)} /> a line for each {found.split.name}
          </label>
        )}
        {shown !== "candles" && names.length > 1 && (
          <fieldset>
            <legend>Values</legend>
            {names.slice(0, 40).map((name) => (
              <label>
                <input type="checkbox" checked={values.some((column) => column.name === name)} onChange={() => toggle(name)} /> {name}
              </label>
            ))}
          </fieldset>
        )}
        {left > 0 && <span class="hint">{left.toLocaleString("en-US")} more aren’t drawn</span>}
      </div>
      {chart ? <ChartView chart={chart} label={`${shown} of ${answer.rows.toLocaleString("en-US")} rows`} /> : <p class="hint padded">No values are chosen.</p>}
    </div>
  );
}
