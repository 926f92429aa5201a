// The modules that know no page.
import { expect, test } from "vitest";
import { bookColumns } from "../../src/book";
import { decimal } from "../../src/answer";
import { namedTables, proposals } from "../../src/completion";
import * as format from "../../src/format";
import { link, parse } from "../../src/links";
import { Metrics, quantile } from "../../src/openmetrics";
import { explained } from "../../src/plan";
import { errorPlace, isExplained, quoted, statementAt, statements } from "../../src/sql";

test("instants are exact, by the clock of any zone", () => {
  expect(format.instant(1_767_364_200_123_456_789n, "UTC")).toBe("2026-01-02 14:30:00.123456789");
  expect(format.instant(1_767_364_200_000_000_000n, "America/New_York")).toBe("2026-01-02 09:30:00");
  expect(format.instant(-1n, "UTC")).toBe("1969-12-31 23:59:59.999999999");
});

test("statements end at semicolons outside texts and comments", () => {
  const text = "select ';' -- ;\n; /* ; */ select \"a;b\";";
  expect(statements(text).map((one) => one.text)).toEqual(["select ';' -- ;", '/* ; */ select "a;b"']);
  expect(statementAt("select 1; select 2", 12)).toEqual({ text: "select 2", from: 10 });
});

test("only statements that read are explained", () => {
  expect(["select 1", "with a as (select 1) select * from a", "FROM t"].every(isExplained)).toBe(true);
  expect(["delete from t", "insert into t values (1)", "explain select 1"].some(isExplained)).toBe(false);
});

test("an error's place is found by line and column, and by name", () => {
  expect(errorPlace("select 1\nfrm x", "Expected: end, found: frm at Line: 2, Column: 1")).toEqual({ from: 9, to: 12 });
  expect(errorPlace("select foo from t", "Schema error: No field named foo.\nValid fields are t.a.")).toEqual({ from: 7, to: 10 });
  expect(errorPlace("select 1", "out of memory")).toBeNull();
});

test("names are quoted where SQL needs it", () => {
  expect([quoted("sym"), quoted("order"), quoted('a"b')]).toEqual(["sym", '"order"', '"a""b"']);
});

test("links lead back to what they were made of", () => {
  const made = link("query", "", { sql: "select '&#?' + 1" });
  expect(parse(made).parameters.get("sql")).toBe("select '&#?' + 1");
  expect(parse(link("tables", "a/b")).name).toBe("a/b");
  expect(parse("#/nothing").page).toBe("query");
});

test("columns of the tables under their names are proposed", () => {
  const tables = [{ name: "trade", columns: [{ name: "price", type: "float64" }] }];
  expect([...namedTables("select t. from trade as t", tables).keys()]).toEqual(["trade", "t"]);
  expect(proposals("select t. from trade t", "select ", "t", tables, []).map((one) => one.label)).toEqual(["price"]);
  expect(proposals("select * from ", "select * from ", null, tables, [{ name: "vwap", kind: "aggregate" }]).map((one) => one.label)).toEqual(["trade"]);
});

test("decimals are exact", () => {
  expect(decimal(new Uint32Array([0xffff_fff6, 0xffff_ffff, 0xffff_ffff, 0xffff_ffff]), 4)).toBe("-0.0010");
});

test("books are found by the names of their columns", () => {
  expect(bookColumns(["bid_px_1", "bid_px_0", "bid_sz_0", "bid_sz_1", "ask_px_0", "ask_sz_0"])?.bidPrice).toEqual(["bid_px_0", "bid_px_1"]);
  expect(bookColumns(["bid_price", "bid_size", "ask_price", "ask_size"])?.askSize).toEqual(["ask_size"]);
  expect(bookColumns(["price", "size"])).toBeNull();
});

test("metrics are read with their labels, and quantiles of their buckets", () => {
  const metrics = new Metrics('# TYPE splay_a counter\nsplay_a_total{way="x",b="q\\"u"} 3\nsplay_a_total{way="y"} 4\nsplay_u 1.5\n');
  expect(metrics.sum("a_total")).toBe(7);
  expect(metrics.all("a_total")[0]!.labels["b"]).toBe('q"u');
  expect(quantile([0, 9, 1], 0.5)).toBeCloseTo(20e-6);
  expect(quantile([0, 1, 9], 0.5)).toBe(Infinity);
  expect(quantile([], 0.5)).toBeNaN();
});

test("a plan is its steps with costs, and says why it is slow", () => {
  const found = explained([
    ["tick_plan", "none, because of a join by more than equalities"],
    ["Plan with Metrics", "HashJoinExec: on=[(a, b)], metrics=[output_rows=20.80 M, elapsed_compute=1.07s]\n  TickScanExec: table=trade, blocks=98/98, metrics=[output_rows=100.0 K, elapsed_compute=1.32ms]\n"],
  ]);
  expect(found.plans[0]!.steps.map(({ name, depth, rows, seconds }) => [name, depth, rows, seconds])).toEqual([
    ["HashJoinExec", 0, 20_800_000, 1.07],
    ["TickScanExec", 1, 100_000, 0.00132],
  ]);
  expect(found.findings.join("\n")).toMatch(/no tick plan.*100 % of the time is spent in HashJoinExec.*multiplies rows.*read whole/s);
});
