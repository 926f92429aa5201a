// A grid of any number of rows: only those in sight are in the page. Arrow keys move, Ctrl-C copies.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { instant, secondDigits } from "../format";
import type { Answer, Column } from "../answer";
import { useShared, zone } from "../store";

const ROW = 26;
/** Rows beyond what is in sight, so that scrolling shows no gaps. */
const SPARE = 8;
/** Browsers lay out nothing higher; grids with more rows move faster than their bar. */
const HEIGHT_MAX = 15_000_000;
const WIDTH_MIN = 56;
const WIDTH_MAX = 360;
/** Rows by which widths and digits are chosen. */
const SAMPLE = 200;

interface Layout {
  widths: number[];
  starts: number[];
  all: number;
  digits: number[];
}

export function Grid({ answer, label, newestFirst = false }: { answer: Answer; label: string; newestFirst?: boolean }) {
  const shown = useShared(zone);
  const frame = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, left: 0, height: 400, width: 800 });
  const [cell, setCell] = useState({ row: 0, column: 0 });
  const [changed, setChanged] = useState<Record<number, number>>({});
  const layout = useMemo(() => measure(answer, shown, changed), [answer, shown, changed]);

  useLayoutEffect(() => {
    const element = frame.current!;
    const read = () => setView({ top: element.scrollTop, left: element.scrollLeft, height: element.clientHeight, width: element.clientWidth });
    const observer = new ResizeObserver(read);
    observer.observe(element);
    element.addEventListener("scroll", read, { passive: true });
    read();
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", read);
    };
  }, []);
  useEffect(() => setCell((before) => ({ row: Math.min(before.row, Math.max(0, answer.rows - 1)), column: Math.min(before.column, answer.columns.length - 1) })), [answer]);

  // Where a bar can't be as long as the rows, each of its pixels stands for several.
  const full = answer.rows * ROW;
  const height = Math.min(full, HEIGHT_MAX);
  const room = Math.max(1, height - view.height + ROW);
  const offset = full > height ? (view.top / room) * (full - view.height + ROW) : view.top;
  const first = Math.max(0, Math.floor(offset / ROW) - SPARE);
  const last = Math.min(answer.rows, Math.ceil((offset + view.height) / ROW) + SPARE);
  const isSeen = (column: number) => layout.starts[column]! < view.left + view.width + 200 && layout.starts[column]! + layout.widths[column]! > view.left - 200;
  const columns = answer.columns.map((column, index) => ({ column, index })).filter(({ index }) => isSeen(index) || index === cell.column);
  const rowOf = (shownRow: number) => (newestFirst ? answer.rows - 1 - shownRow : shownRow);

  const moveTo = (row: number, column: number) => {
    const next = { row: clamp(row, answer.rows), column: clamp(column, answer.columns.length) };
    setCell(next);
    reveal(frame.current!, next.row, layout, next.column, { full, height, room });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(view.height / ROW) - 2);
    const { row, column } = cell;
    const isFar = event.ctrlKey || event.metaKey;
    const moves: Record<string, [number, number]> = {
      ArrowDown: [row + 1, column],
      ArrowUp: [row - 1, column],
      ArrowRight: [row, column + 1],
      ArrowLeft: [row, column - 1],
      PageDown: [row + page, column],
      PageUp: [row - page, column],
      Home: [isFar ? 0 : row, 0],
      End: [isFar ? answer.rows - 1 : row, answer.columns.length - 1],
    };
    const move = moves[event.key];
    if (move) {
      event.preventDefault();
      moveTo(...move);
    } else if (isFar && event.key.toLowerCase() === "c" && String(getSelection()) === "") {
      event.preventDefault();
      void navigator.clipboard.writeText(answer.columns[column]?.text(rowOf(row), shown) ?? "");
    }
  };
  const active = `cell-${cell.row}-${cell.column}`;
  return (
    <div
      class="grid"
      role="grid"
      aria-label={label}
      aria-rowcount={answer.rows + 1}
      aria-colcount={answer.columns.length}
      aria-activedescendant={answer.rows > 0 ? active : undefined}
      tabIndex={0}
      ref={frame}
      onKeyDown={onKeyDown}
    >
      <div class="grid-head" role="row" aria-rowindex={1} style={{ width: `${layout.all}px` }}>
        {columns.map(({ column, index }) => (
          <Head key={index} column={column} index={index} layout={layout} onWidth={(width) => setChanged({ ...changed, [index]: width })} />
        ))}
      </div>
      <div class="grid-body" role="rowgroup" style={{ height: `${height}px`, width: `${layout.all}px` }}>
        {Array.from({ length: Math.max(0, last - first) }, (_, step) => {
          const row = first + step;
          return (
            <div
              key={row}
              role="row"
              class={`grid-row${row % 2 ? " odd" : ""}${row === cell.row ? " active" : ""}`}
              aria-rowindex={row + 2}
              style={{ transform: `translateY(${row * ROW - offset + view.top}px)` }}
            >
              {columns.map(({ column, index }) => {
                const isNull = column.isNull(rowOf(row));
                return (
                  <div
                    key={index}
                    id={`cell-${row}-${index}`}
                    role="gridcell"
                    aria-colindex={index + 1}
                    aria-selected={row === cell.row && index === cell.column}
                    class={`grid-cell ${alignment(column)}${isNull ? " null" : ""}${row === cell.row && index === cell.column ? " selected" : ""}`}
                    style={{ left: `${layout.starts[index]}px`, width: `${layout.widths[index]}px` }}
                    onMouseDown={() => setCell({ row, column: index })}
                  >
                    {isNull ? "null" : text(column, rowOf(row), shown, layout.digits[index]!)}
                  </div>
                );
              })}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Head({ column, index, layout, onWidth }: { column: Column; index: number; layout: Layout; onWidth: (width: number) => void }) {
  const drag = (event: PointerEvent) => {
    event.preventDefault();
    const [start, width] = [event.clientX, layout.widths[index]!];
    const move = (moved: PointerEvent) => onWidth(Math.max(WIDTH_MIN, width + moved.clientX - start));
    addEventListener("pointermove", move);
    addEventListener("pointerup", () => removeEventListener("pointermove", move), { once: true });
  };
  return (
    <div role="columnheader" class={`grid-cell ${alignment(column)}`} aria-colindex={index + 1} title={`${column.name}: ${column.type}`} style={{ left: `${layout.starts[index]}px`, width: `${layout.widths[index]}px` }}>
      <span class="grid-name">{column.name}</span>
      <span class="grid-type">{column.type}</span>
      <span class="grid-edge" aria-hidden="true" onPointerDown={drag} />
    </div>
  );
}

function alignment(column: Column): string {
  return column.kind === "number" ? "right" : "left";
}

function text(column: Column, row: number, zone: string, digits: number): string {
  const at = column.kind === "time" ? column.instant(row) : null;
  return at === null ? column.text(row, zone) : instant(at, zone, digits);
}

/** Widths by the texts of the first rows, and digits of times so that they stand below each other. */
function measure(answer: Answer, zone: string, changed: Record<number, number>): Layout {
  const rows = Math.min(answer.rows, SAMPLE);
  const digits = answer.columns.map((column) => {
    let most = 0;
    for (let row = 0; column.kind === "time" && row < rows; row += 1) most = Math.max(most, secondDigits(column.instant(row) ?? 0n));
    return most;
  });
  const widths = answer.columns.map((column, index) => {
    const given = changed[index];
    if (given !== undefined) return given;
    let longest = Math.max(column.name.length + 1, column.type.length * 0.85);
    for (let row = 0; row < rows; row += 1) longest = Math.max(longest, text(column, row, zone, digits[index]!).length);
    return Math.round(Math.min(WIDTH_MAX, Math.max(WIDTH_MIN, longest * 7.6 + 22)));
  });
  const starts: number[] = [];
  let all = 0;
  for (const width of widths) {
    starts.push(all);
    all += width;
  }
  return { widths, starts, all, digits };
}

function clamp(number: number, count: number): number {
  return Math.max(0, Math.min(count - 1, number));
}

/** Scrolls until a cell is in sight. */
function reveal(element: HTMLElement, row: number, layout: Layout, column: number, bar: { full: number; height: number; room: number }): void {
  const factor = bar.full > bar.height ? bar.room / (bar.full - element.clientHeight + ROW) : 1;
  const [top, bottom] = [row * ROW, (row + 1) * ROW - (element.clientHeight - 40)];
  if (top * factor < element.scrollTop) element.scrollTop = top * factor;
  else if (bottom * factor > element.scrollTop) element.scrollTop = bottom * factor;
  const [left, right] = [layout.starts[column]!, layout.starts[column]! + layout.widths[column]!];
  if (left < element.scrollLeft) element.scrollLeft = left;
  else if (right > element.scrollLeft + element.clientWidth) element.scrollLeft = right - element.clientWidth;
}
