// Tables: what each has, in which partitions and tiers, and what was loaded into it.
import { useEffect, useState } from "preact/hooks";
import type { PageProperties } from "../app";
import { Problem, storage, type Table, type TableStorage } from "../api";
import { bytes, count, instant } from "../format";
import { link } from "../links";
import { DataTable } from "../parts/datatable";
import { Icon } from "../parts/icon";
import { quoted } from "../sql";
import { useShared, zone } from "../store";

export function TablesPage({ place, tables, refresh }: PageProperties) {
  const table = tables.find((one) => one.name === place.name);
  useEffect(refresh, []);
  if (place.name && table) return <OneTable key={table.name} table={table} />;
  const all = tables.reduce((sum, one) => sum + (one.bytes ?? 0), 0);
  return (
    <div class="page">
      <div class="page-head">
        <h1>Tables</h1>
        <p class="hint">
          {count(tables.length)} {tables.length === 1 ? "table" : "tables"}, {bytes(all)}
        </p>
        <button type="button" class="quiet" onClick={refresh} aria-label="Look again">
          <Icon name="refresh" />
        </button>
      </div>
      {place.name && <p class="error">There is no table “{place.name}”.</p>}
      {tables.length === 0 ? (
        <p>
          The database has no tables yet. <code>splay load</code> and rows that are written make them.
        </p>
      ) : (
        <DataTable
          label="Tables"
          columns={["Table", "Rows", "Size", "Partitions", "Dates", "Ordered by"]}
          right={[1, 2, 3]}
          rows={tables.map((one) => [
            <a href={link("tables", one.name)}>{one.name}</a>,
            one.error ? <span class="error">{one.error}</span> : count(one.rows),
            one.error ? "" : bytes(one.bytes),
            one.error ? "" : count(one.partitions),
            one.first_date ? (one.first_date === one.last_date ? one.first_date : `${one.first_date} to ${one.last_date}`) : "–",
            [one.symbol, one.time ?? one.effective, ...(one.key ?? [])].filter((name, index, names) => name && names.indexOf(name) === index).join(", "),
          ])}
        />
      )}
    </div>
  );
}

function OneTable({ table }: { table: Table }) {
  const [stored, setStored] = useState<TableStorage | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const shown = useShared(zone);
  useEffect(() => {
    storage(table.name).then(setStored, (error: unknown) => setProblem(error instanceof Problem ? error.message : String(error)));
  }, [table]);
  const role = (name: string) =>
    [name === table.symbol && "symbol", name === table.time && "time", table.key?.includes(name) && "key", name === table.effective && "effective"].filter(Boolean).join(", ");
  const at = (nanoseconds: number | null) => (nanoseconds === null ? "" : instant(BigInt(Math.round(nanoseconds)), shown, 0));
  const tiers = new Map<string, { bytes: number; partitions: number }>();
  for (const partition of stored?.partitions ?? []) {
    const name = partition.tiers.join(", ") || "memory";
    const before = tiers.get(name) ?? { bytes: 0, partitions: 0 };
    tiers.set(name, { bytes: before.bytes + partition.bytes, partitions: before.partitions + 1 });
  }
  return (
    <div class="page">
      <nav aria-label="Path">
        <a href={link("tables")}>Tables</a> <span aria-hidden="true">/</span>
      </nav>
      <div class="page-head">
        <h1>{table.name}</h1>
        <a class="button" href={link("query", "", { sql: `select * from ${quoted(table.name)} limit 100` })}>
          Query
        </a>
        {table.time && (
          <a class="button" href={link("live", table.name)}>
            Follow
          </a>
        )}
      </div>
      <dl class="tiles">
        <Tile name="Rows" value={count(table.rows)} />
        <Tile name="On disk" value={bytes(table.bytes)} />
        <Tile name="Bytes a row" value={table.rows > 0 ? (table.bytes / table.rows).toFixed(1) : "–"} />
        <Tile name="Partitions" value={count(table.partitions)} />
        <Tile name="Dates in" value={table.day_start === "00:00" ? table.time_zone : `${table.time_zone} from ${table.day_start}`} />
        <Tile name="Commits" value={stored ? count(stored.commits) : "…"} />
        {[...tiers].map(([name, tier]) => (
          <Tile name={`Tier ${name}`} value={`${bytes(tier.bytes)} in ${count(tier.partitions)}`} />
        ))}
      </dl>
      {problem && <p class="error">{problem}</p>}
      <section>
        <h2>Columns</h2>
        <DataTable
          label="Columns"
          columns={["Column", "Type", "Role", "Size", "Factor", "Kept as"]}
          right={[3, 4]}
          rows={table.columns.map((column) => {
            const mine = (stored?.columns ?? []).filter((one) => one.column === column.name);
            const size = mine.reduce((sum, one) => sum + one.bytes, 0);
            const plain = mine.every((one) => one.plain_bytes !== null) ? mine.reduce((sum, one) => sum + one.plain_bytes!, 0) : 0;
            const kept = [...new Set(mine.map((one) => `${one.tier}: ${one.encoding}`))].join("; ");
            return [column.name, <code>{column.type}</code>, role(column.name), mine.length ? bytes(size) : "", plain > 0 && size > 0 ? (plain / size).toFixed(2) : "", kept];
          })}
        />
        <p class="hint">Sizes are those of the newest partition in each tier.</p>
      </section>
      <section>
        <h2>Partitions</h2>
        {stored && stored.partitions.length === 0 && <p class="hint">None yet.</p>}
        {stored && stored.partitions.length > 0 && (
          <DataTable
            label="Partitions"
            columns={[stored.period === "day" ? "Date" : "From", "Tier", "Rows", "In memory", "Size", "Segments", "First", "Last"]}
            right={[2, 3, 4, 5]}
            rows={stored.partitions.map((one) => [
              one.date ?? "all",
              one.tiers.map((tier) => <span class={`tier tier-${tier}`}>{tier}</span>),
              count(one.rows),
              one.live_rows > 0 ? count(one.live_rows) : "",
              bytes(one.bytes),
              count(one.segments),
              at(one.time_min),
              at(one.time_max),
            ])}
          />
        )}
        {stored && stored.partition_count > stored.partitions.length && (
          <p class="hint">
            The newest {count(stored.partitions.length)} of {count(stored.partition_count)}.
          </p>
        )}
      </section>
      <section>
        <h2>Loads</h2>
        {stored && stored.loads.length === 0 && <p class="hint">No file was loaded into this table.</p>}
        {stored && stored.loads.length > 0 && (
          <DataTable label="Loads" columns={["File", "Rows", "Commit"]} right={[1, 2]} rows={stored.loads.map((one) => [one.name, count(one.rows), count(one.commit)])} />
        )}
        {stored && stored.load_count > stored.loads.length && <p class="hint">The latest {count(stored.loads.length)} of {count(stored.load_count)}.</p>}
      </section>
    </div>
  );
}

function Tile({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
