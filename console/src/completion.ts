// What the editor proposes: columns of the tables that a statement names, tables, functions.
import { words } from "./sql";

export interface TableInfo {
  name: string;
  columns: { name: string; type: string }[];
}

export interface FunctionInfo {
  name: string;
  kind: string;
}

export interface Proposal {
  label: string;
  type: "property" | "class" | "function";
  detail: string;
  boost: number;
  /** What is inserted, if it isn't the label. */
  apply?: string;
}

const TABLE_FOLLOWS = new Set(["from", "join", "into", "update", "table", "describe", "summarize"]);

/** The tables of a statement under the names that they have there. */
export function namedTables(statement: string, tables: readonly TableInfo[]): Map<string, TableInfo> {
  const known = new Map(tables.map((table) => [table.name.toLowerCase(), table]));
  const found = new Map<string, TableInfo>();
  const all = words(statement);
  for (const [index, word] of all.entries()) {
    const table = known.get(word.toLowerCase());
    if (!table || all[index - 1] === ".") continue;
    found.set(word.toLowerCase(), table);
    const next = all[index + 1]?.toLowerCase() === "as" ? all[index + 2] : all[index + 1];
    if (next && /^[\p{L}_][\p{L}\p{N}_]*$/u.test(next) && !CLAUSES.has(next.toLowerCase())) found.set(next.toLowerCase(), table);
  }
  return found;
}

const CLAUSES = new Set(
  "where group order limit asof left right inner full cross join on using having window qualify union except intersect sample latest as at natural semi anti pivot unpivot offset fetch set values select".split(
    " ",
  ),
);

/** Proposals at a place: of the columns of `qualifier`, or of everything that may stand there. */
export function proposals(
  statement: string,
  before: string,
  qualifier: string | null,
  tables: readonly TableInfo[],
  functions: readonly FunctionInfo[],
): Proposal[] {
  const named = namedTables(statement, tables);
  if (qualifier !== null) {
    const table = named.get(qualifier.toLowerCase());
    return table ? table.columns.map((column) => proposal(column.name, "property", column.type, 3)) : [];
  }
  const last = words(before).at(-1)?.toLowerCase() ?? "";
  const ofTables = tables.map((table) => proposal(table.name, "class", "table", TABLE_FOLLOWS.has(last) ? 5 : 0));
  if (TABLE_FOLLOWS.has(last)) return ofTables;
  const columns = new Map<string, Proposal>();
  for (const table of new Set(named.values())) {
    for (const column of table.columns) columns.set(column.name, proposal(column.name, "property", `${column.type} · ${table.name}`, 3));
  }
  const ofFunctions = functions.map((one) => ({ ...proposal(one.name, "function", one.kind, -1), apply: `${one.name}(` }));
  return [...columns.values(), ...ofTables, ...ofFunctions];
}

function proposal(label: string, type: Proposal["type"], detail: string, boost: number): Proposal {
  return { label, type, detail, boost };
}
