import type { ComponentChildren } from "preact";

/** A table of some rows, which scrolls within its frame on narrow screens. */
export function DataTable({ label, columns, rows, right = [] }: { label: string; columns: string[]; rows: ComponentChildren[][]; right?: number[] }) {
  const side = (index: number) => (right.includes(index) ? "right" : undefined);
  return (
    <div class="scroll" role="region" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((name, index) => (
              <th scope="col" class={side(index)}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cells) => (
            <tr>
              {cells.map((cell, index) => (
                <td class={side(index)}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
