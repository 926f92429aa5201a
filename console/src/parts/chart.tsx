// Draws charts by uPlot: candles with volume, lines, bars. The numbers are those of chartdata.ts.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Candles, Chart } from "../chartdata";
import { instant, short } from "../format";
import { isDark, useShared, zone } from "../store";

const HUES = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5", "--series-6", "--series-7", "--series-8", "--series-9", "--series-10", "--series-11", "--series-12"];
/** More points than this are drawn as a line without dots. */
const DOTS_MAX = 200;

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function ChartView({ chart, label, height = 420 }: { chart: Chart; label: string; height?: number }) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<{ key: string; plot: uPlot } | null>(null);
  const shownZone = useShared(zone);
  const dark = useShared(isDark);
  const key = `${chart.kind} ${shownZone} ${dark} ${height} ${names(chart).join("\n")}`;

  useEffect(() => {
    const data = numbers(chart);
    // New numbers of the same series are given to the chart that is there, so that it doesn't flicker.
    if (plot.current?.key === key) {
      plot.current.plot.setData(data);
      return;
    }
    plot.current?.plot.destroy();
    const element = frame.current!;
    plot.current = { key, plot: new uPlot(options(chart, shownZone, element.clientWidth, height), data, element) };
  }, [chart, key]);

  useEffect(() => {
    const element = frame.current!;
    const observer = new ResizeObserver(() => plot.current?.plot.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.current?.plot.destroy();
      plot.current = null;
    };
  }, []);
  return <div class="chart" ref={frame} role="img" aria-label={label} />;
}

function names(chart: Chart): string[] {
  if (chart.kind === "candles") return ["open", "high", "low", "close", ...(chart.volume ? ["volume"] : [])];
  return chart.kind === "bars" ? [...chart.series.map((one) => one.name), ...chart.labels] : chart.series.map((one) => one.name);
}

function numbers(chart: Chart): uPlot.AlignedData {
  if (chart.kind === "candles") {
    const { time, open, high, low, close, volume } = chart;
    return [time, open, high, low, close, ...(volume ? [volume] : [])];
  }
  const x = chart.kind === "bars" ? chart.labels.map((_, index) => index) : chart.x;
  return [x, ...chart.series.map((one) => one.values)] as uPlot.AlignedData;
}

function options(chart: Chart, zone: string, width: number, height: number): uPlot.Options {
  const isTime = chart.kind === "candles" || (chart.kind === "lines" && chart.isTime);
  const [text, grid] = [colour("--muted"), colour("--grid-line")];
  const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "12px system-ui, sans-serif" };
  const values = (_: uPlot, splits: number[]) => splits.map((value) => short(value));
  const labels = chart.kind === "bars" ? { values: (_: uPlot, splits: number[]) => splits.map((at) => (Number.isInteger(at) ? (chart.labels[at] ?? "") : "")), rotate: -40, size: 90 } : {};
  const common: uPlot.Options = {
    width,
    height,
    padding: [12, 14, 0, 0],
    scales: {
      x: { time: isTime, ...(chart.kind === "bars" ? { range: () => [-0.6, chart.labels.length - 0.4] } : {}) },
      // A line of zeros lies at the bottom, and not in a hundred of nothing.
      y: { range: (_: uPlot, min: number, max: number) => (min === 0 && max === 0 ? [0, 1] : uPlot.rangeNum(min, max, 0.1, true)) },
    },
    axes: [
      { ...axis, ...labels, ...(isTime ? { values: timeLabels(zone), size: 44 } : chart.kind === "bars" ? {} : { values }) },
      { ...axis, values, size: 64, side: chart.kind === "candles" ? 1 : 3 },
    ],
    series: [],
    cursor: { points: { size: 6 }, drag: { x: true, y: false } },
    legend: { live: true },
    ...(isTime ? { tzDate: (seconds: number) => (zone === "UTC" ? utcDate(seconds) : uPlot.tzDate(new Date(seconds * 1000), zone)) } : {}),
  };
  const x: uPlot.Series = { label: chart.kind === "lines" ? chart.xName : "", value: (_: uPlot, value: number | null) => (value === null ? "–" : xText(chart, value, zone)) };
  if (chart.kind === "candles") return { ...common, ...candleOptions(chart, x) };
  common.series = [
    x,
    ...chart.series.map((one, index): uPlot.Series => {
      const stroke = colour(HUES[index % HUES.length]!);
      const base = { label: one.name, stroke, width: 1.5, spanGaps: true, value: (_: uPlot, value: number | null) => (value === null ? "–" : short(value)) };
      if (chart.kind === "bars") return { ...base, fill: `${stroke}cc`, paths: uPlot.paths.bars!({ size: [0.7 / chart.series.length, 60], align: 0 }), points: { show: false } };
      return { ...base, points: { show: chart.x.length <= DOTS_MAX, size: 4, fill: stroke } };
    }),
  ];
  return common;
}

/** Times below an axis: as exact as the steps between them, with the date below the first and below each that begins another. */
function timeLabels(zone: string) {
  return (_: uPlot, splits: number[], __: number, ___: number, step: number): string[] => {
    let last = "";
    return splits.map((seconds) => {
      const text = instant(BigInt(Math.round(seconds * 1e6)) * 1000n, zone, step < 0.001 ? 6 : step < 1 ? 3 : 0);
      const [day = "", time = ""] = text.split(" ");
      const isNew = day !== last;
      last = day;
      if (step >= 86_400) return day;
      const shown = step >= 60 ? time.slice(0, 5) : time;
      return isNew ? `${shown}\n${day}` : shown;
    });
  };
}

function utcDate(seconds: number): Date {
  return uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC");
}

function xText(chart: Chart, value: number, zone: string): string {
  if (chart.kind === "bars") return chart.labels[value] ?? "";
  if (chart.kind === "lines" && !chart.isTime) return short(value);
  // Floats of seconds are exact to the microsecond.
  return instant(BigInt(Math.round(value * 1e6)) * 1000n, zone);
}

/** Candles are drawn by a hook over series that are themselves not drawn; the volume takes the lowest fifth. */
function candleOptions(chart: Candles, x: uPlot.Series): Partial<uPlot.Options> {
  const [up, down] = [colour("--up"), colour("--down")];
  const value = (_: uPlot, given: number | null) => (given === null ? "–" : short(given));
  const hidden = (label: string): uPlot.Series => ({ label, paths: () => null, points: { show: false }, value });
  const volume: uPlot.Series[] = chart.volume ? [{ label: "volume", scale: "volume", paths: () => null, points: { show: false }, value }] : [];
  const most = (_: uPlot, __: number, max: number): uPlot.Range.MinMax => [0, Math.max(max, 1) * 5];
  const room = (plot: uPlot, min: number, max: number): uPlot.Range.MinMax => {
    const size = max - min || Math.abs(max) * 0.01 || 1;
    return [min - size * (plot.series.length > 5 ? 0.3 : 0.05), max + size * 0.05];
  };
  // Half a candle of room at each end.
  const ends = (_: uPlot, min: number, max: number): uPlot.Range.MinMax => {
    const step = chart.time.length > 1 ? (chart.time.at(-1)! - chart.time[0]!) / (chart.time.length - 1) : 60;
    return [min - step * 0.6, max + step * 0.6];
  };
  return {
    scales: { x: { time: true, range: ends }, y: { range: room }, ...(chart.volume ? { volume: { range: most } } : {}) },
    series: [x, hidden("open"), hidden("high"), hidden("low"), hidden("close"), ...volume],
    hooks: { draw: [(plot) => drawCandles(plot, up, down)] },
  };
}

function drawCandles(plot: uPlot, up: string, down: string): void {
  const { ctx } = plot;
  const [time, open, high, low, close, volume] = plot.data as (number | null)[][];
  const [first, last] = plot.series[0]!.idxs ?? [0, 0];
  const at = (value: number, scale: string) => plot.valToPos(value, scale, true);
  // As wide as the closest two leave room for.
  let step = Infinity;
  for (let index = Math.max(1, first); index <= last; index += 1) step = Math.min(step, at(time![index]!, "x") - at(time![index - 1]!, "x"));
  const width = Math.max(1, Math.min(18, Number.isFinite(step) ? step * 0.7 : 12));
  ctx.save();
  ctx.beginPath();
  ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
  ctx.clip();
  for (let index = first; index <= last; index += 1) {
    const [o, h, l, c] = [open![index], high![index], low![index], close![index]];
    if (o == null || h == null || l == null || c == null || Number.isNaN(o + h + l + c)) continue;
    const x = at(time![index]!, "x");
    ctx.fillStyle = c >= o ? up : down;
    const size = volume?.[index];
    if (size != null && size > 0) {
      ctx.globalAlpha = 0.3;
      const top = at(size, "volume");
      ctx.fillRect(x - width / 2, top, width, plot.bbox.top + plot.bbox.height - top);
      ctx.globalAlpha = 1;
    }
    const [top, bottom] = [at(Math.max(o, c), "y"), at(Math.min(o, c), "y")];
    ctx.fillRect(Math.round(x) - 0.5, at(h, "y"), 1, Math.max(1, at(l, "y") - at(h, "y")));
    ctx.fillRect(x - width / 2, top, width, Math.max(1, bottom - top));
  }
  ctx.restore();
}
