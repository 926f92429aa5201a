// Beside the editor: tables with their columns, saved statements, the history.
import { useState } from "preact/hooks";
import type { Table } from "../api";
import { count, duration } from "../format";
import type { Ran, Saved } from "../saved";
import { quoted } from "../sql";
import { Icon } from "./icon";

interface Properties {
  tables: Table[];
  saved: Saved[];
  ran: Ran[];
  onShow: (sql: string) => void;
  onInsert: (text: string) => void;
  onForget: (name: string) => void;
}

const PARTS = ["tables", "saved", "history"] as const;

export function Library(properties: Properties) {
  const [part, setPart] = useState<(typeof PARTS)[number]>("tables");
  return (
    <aside class="library" aria-label="Library">
      <div class="segments" role="group" aria-label="What the library shows">
        {PARTS.map((name) => (
          <button type="button" aria-pressed={part === name} onClick={() => setPart(name)}>
            {name[0]!.toUpperCase() + name.slice(1)}
          </button>
        ))}
      </div>
      {part === "tables" && <Tables {...properties} />}
      {part === "saved" && <SavedList {...properties} />}
      {part === "history" && <History {...properties} />}
    </aside>
  );
}

function Tables({ tables, onInsert, onShow }: Properties) {
  if (tables.length === 0) return <p class="hint">The database has no tables yet.</p>;
  return (
    <ul class="tree">
      {tables.map((table) => (
        <li>
          <details>
            <summary>
              <span>{table.name}</span> <span class="hint">{table.error ? "damaged" : count(table.rows)}</span>
            </summary>
            <button type="button" class="text-button" onClick={() => onShow(`select * from ${quoted(table.name)} limit 100`)}>
              first rows
            </button>
            <ul>
              {table.columns.map((column) => (
                <li>
                  <button type="button" class="text-button column" onClick={() => onInsert(quoted(column.name))} title="Insert at the cursor">
                    <span>{column.name}</span> <span class="hint">{column.type}</span>
                  </button>
                </li>
              ))}
            </ul>
          </details>
        </li>
      ))}
    </ul>
  );
}

function SavedList({ saved, onShow, onForget }: Properties) {
  if (saved.length === 0) return <p class="hint">Statements that you save are kept in this browser.</p>;
  return (
    <ul class="list">
      {saved.map((one) => (
        <li>
          <button type="button" class="text-button" onClick={() => onShow(one.sql)} title={one.sql}>
            {one.name}
          </button>
          <button type="button" class="quiet small" aria-label={`Remove ${one.name}`} onClick={() => onForget(one.name)}>
            <Icon name="remove" />
          </button>
        </li>
      ))}
    </ul>
  );
}

function History({ ran, onShow }: Properties) {
  if (ran.length === 0) return <p class="hint">Statements that ran are kept in this browser.</p>;
  return (
    <ul class="list">
      {ran.map((one) => (
        <li>
          <button type="button" class="text-button" onClick={() => onShow(one.sql)} title={one.sql}>
            <code>{one.sql.slice(0, 160)}</code>
            <span class={one.error ? "error" : "hint"}>
              {new Date(one.at).toLocaleTimeString()} · {one.error ? "failed" : `${count(one.rows)} rows, ${duration(one.milliseconds / 1000)}`}
            </span>
          </button>
        </li>
      ))}
    </ul>
  );
}
