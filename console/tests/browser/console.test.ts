// The console as its users meet it: in Chromium, before a server of its own.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, Visit } from "./browser";
import { provide } from "./provider";
import { bookLine, makeToken, market, Server } from "./server";

let browser: Browser;
let server: Server;

beforeAll(async () => {
  browser = await launch();
  server = new Server();
  await server.start();
  const { trades, books } = market();
  await server.write(trades);
  await server.write(books);
});

afterAll(async () => {
  await browser.close();
  await server.end();
});

/** A statement that runs until it is cancelled, or for as long as statements may. */
const ENDLESS = "select count(*) from trade a, trade b, trade c where a.price * b.price < c.price + c.size";

const BARS = `select sym, time_bucket('5 minutes', time) as time, first(price) as open, max(price) as high, min(price) as low,
       last(price) as close, sum(size) as volume
from trade group by 1, 2 order by 1, 2`;

test("a statement's rows are a grid that is driven by the keyboard", async () => {
  const visit = await Visit.open(browser, server.url);
  const { page } = visit;
  await visit.run("select * from trade order by time, sym");
  const grid = page.getByRole("grid");
  await grid.waitFor();
  expect(await grid.getAttribute("aria-rowcount")).toBe("3001");
  expect(await page.getByText("3,000 rows").count()).toBeGreaterThan(0);
  // What is in the page is what is in sight.
  expect(await page.getByRole("row").count()).toBeLessThan(100);
  await grid.focus();
  await page.keyboard.press("Control+End");
  await page.locator('[aria-rowindex="3001"]').waitFor();
  await page.keyboard.press("Home");
  expect(await page.locator(".grid-cell.selected").textContent()).toMatch(/^2026-01-02 15:30:09\.\d{9}$/);
  await page.getByLabel("Times in").fill("America/New_York");
  await page.keyboard.press("Enter");
  await page.getByText(/2026-01-02 10:30:09/).first().waitFor();
  await visit.checkAccess("rows");
  await visit.picture("rows");
  await visit.close();
});

test("values of every type are told exactly", async () => {
  const visit = await Visit.open(browser, server.url);
  await visit.run(
    "select 9223372036854775807 as big, cast('-12345678901234.5678' as decimal(18, 4)) as exact, timestamp '1677-09-22T00:00:00.000000001' as early, " +
      "date '2024-02-29' as day, true as yes, null as nothing, 'a,\"b' as words, [1, 2, null] as list, 0.1::double + 0.2::double as sum, interval '90 minutes' as span",
  );
  await visit.page.getByRole("gridcell").first().waitFor();
  const cells = await visit.page.getByRole("gridcell").allTextContents();
  expect(cells.slice(0, 9)).toEqual(["9223372036854775807", "-12345678901234.5678", "1677-09-22 00:00:00.000000001", "2024-02-29", "true", "null", 'a,"b', "[1, 2, ]", "0.30000000000000004"]);
  await visit.close();
});

test("bars are candles, numbers over time are lines, numbers by text are bars", async () => {
  const visit = await Visit.open(browser, server.url);
  const { page } = visit;
  await visit.run(BARS);
  await page.getByRole("tab", { name: "Chart" }).click();
  await page.getByRole("img", { name: /candles of/ }).waitFor();
  await page.locator("canvas").waitFor();
  await visit.checkAccess("candles");
  await visit.picture("candles");
  await page.getByRole("combobox", { name: "Chart" }).selectOption("lines");
  await page.getByRole("img", { name: /lines of/ }).waitFor();
  await visit.picture("lines");
  await visit.run("select sym, sum(size) as volume from trade group by 1 order by 1");
  await page.getByRole("img", { name: /bars of 3 rows/ }).waitFor();
  await visit.close();
});

test("a plan tells its steps, their costs, and why a statement is slow", async () => {
  const visit = await Visit.open(browser, server.url);
  const { page } = visit;
  // Recursion has no tick plan by its nature: each round reads the rows of the one before.
  await visit.run("with recursive n as (select 1 as i union all select i + 1 from n where i < 1000) select count(*), max(price) from trade, n where size > i");
  await page.getByRole("tab", { name: "Plan" }).click();
  await page.getByText("The statement has no tick plan").waitFor();
  await page.getByText(/% of the time is spent in/).waitFor();
  await visit.checkAccess("plan");
  await visit.picture("plan");
  await visit.run(BARS);
  await page.getByRole("heading", { name: "Tick plan" }).waitFor();
  await page.getByText("peak memory").waitFor();
  await visit.close();
});

test("an error is marked where it is", async () => {
  const visit = await Visit.open(browser, server.url);
  const { page } = visit;
  await visit.run("select 1;\nselect sym,\n  prise\nfrom trade");
  await page.getByRole("alert").getByText("No field named").waitFor();
  expect(await page.locator(".cm-lintRange-error").textContent()).toBe("prise");
  await visit.run("select sym frm trade x y");
  await page.getByRole("alert").getByText("Expected").waitFor();
  await page.locator(".cm-lintRange-error").waitFor();
  await visit.checkAccess("error");
  await visit.picture("error");
  await visit.close();
});

test("tables, columns and functions are proposed", async () => {
  const visit = await Visit.open(browser, server.url);
  const { page } = visit;
  await visit.type("select  from trade t");
  for (let step = 0; step < 13; step += 1) await page.keyboard.press("ArrowLeft");
  await page.keyboard.type("vw");
  await page.locator(".cm-tooltip-autocomplete").getByText("vwap").first().waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Backspace");
  await page.keyboard.press("Backspace");
  await page.keyboard.type("t.siz");
  const proposed = page.locator(".cm-tooltip-autocomplete").getByRole("option", { name: /^size/ });
  await proposed.waitFor();
  await visit.picture("completion");
  await proposed.click();
  expect(await page.locator(".cm-content").innerText()).toBe("select t.size from trade t");
  await visit.close();
});

test("cancelling ends the statement in the server", async () => {
  const visit = await Visit.open(browser, server.url);
  const { page } = visit;
  await visit.run(ENDLESS);
  await expect.poll(() => server.metric("statements_running")).toBe(1);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Cancelled", { exact: true }).waitFor();
  await expect.poll(() => server.metric("statements_running"), { timeout: 20_000 }).toBe(0);
  await visit.close();
});

test("statements are saved, linked and remembered; a link runs nothing", async () => {
  const visit = await Visit.open(browser, server.url);
  const { page } = visit;
  page.on("dialog", (dialog) => void dialog.accept("By symbol"));
  await visit.run("select sym, count(*) as n from trade group by 1");
  await page.getByRole("grid").waitFor();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "Copy link" }).click();
  const address = page.url();
  expect(address).toContain("#/query?sql=select");
  await page.reload();
  await page.getByRole("group", { name: "What the library shows" }).getByText("History").click();
  await page.getByText("3 rows").waitFor();
  await page.getByRole("group", { name: "What the library shows" }).getByText("Saved").click();
  await visit.type("select 1");
  await page.getByRole("button", { name: "By symbol", exact: true }).click();
  expect(await page.locator(".cm-content").innerText()).toContain("count(*)");
  await visit.close();
  const before = await server.metric("rows_out_total");
  const other = await Visit.open(browser, address.slice(0, address.indexOf("/#")), address.slice(address.indexOf("#")));
  await expect.poll(() => other.page.locator(".cm-content").innerText()).toContain("count(*)");
  expect(await other.page.getByRole("grid").count()).toBe(0);
  // The names of the functions are all that was asked.
  expect((await server.metric("rows_out_total")) - before).not.toBe(3);
  await other.close();
});

test("tables tell columns, partitions, tiers and sizes", async () => {
  const visit = await Visit.open(browser, server.url, "#/tables");
  const { page } = visit;
  await page.getByRole("link", { name: "trade" }).click();
  await page.getByRole("heading", { name: "trade" }).waitFor();
  await page.getByRole("region", { name: "Columns" }).getByText("symbol").first().waitFor();
  await page.getByRole("region", { name: "Partitions" }).getByText("2026-01-02").first().waitFor();
  await visit.checkAccess("table");
  await visit.picture("table");
  await visit.close();
});

test("live rows come as they are written, also after the server was away", async () => {
  const own = new Server();
  await own.start();
  await own.write("trade,sym=IBM price=100,size=1i 1767364200000000000");
  const visit = await Visit.open(browser, own.url, "#/live/trade");
  const { page } = visit;
  await page.getByText("Live", { exact: true }).last().waitFor();
  await page.getByRole("gridcell", { name: "100", exact: true }).waitFor();
  await own.write("trade,sym=IBM price=101.25,size=2i 1767364201000000000");
  await page.getByRole("gridcell", { name: "101.25" }).waitFor();
  await visit.checkAccess("live");
  await own.stop();
  await page.getByText("The connection was lost").waitFor();
  await own.start();
  await own.write("trade,sym=MSFT price=77.5,size=3i 1767364202000000000");
  await page.getByRole("gridcell", { name: "77.5" }).waitFor();
  // Nothing twice: what was there is there once.
  expect(await page.getByRole("gridcell", { name: "101.25" }).count()).toBe(1);
  await visit.close();
  await own.end();
});

test("bars grow with the rows", async () => {
  const visit = await Visit.open(browser, server.url, "#/live/trade?mode=bars&symbols=IBM&every=1m");
  const { page } = visit;
  const chart = page.getByRole("img", { name: /Bars of IBM/ });
  await chart.waitFor();
  await visit.picture("bars");
  await server.write("trade,sym=IBM price=999.5,size=5i 1767369000000000000");
  await page.getByRole("img", { name: /the last closes at 999\.5/ }).waitFor();
  await visit.checkAccess("bars");
  await visit.close();
});

test("the book of a symbol has its levels with their depth", async () => {
  const visit = await Visit.open(browser, server.url, "#/live/book?mode=book&symbols=MSFT");
  const { page } = visit;
  await page.getByRole("heading", { name: "MSFT" }).waitFor();
  expect(await page.locator(".bids tbody tr").count()).toBe(10);
  await visit.checkAccess("book");
  await visit.picture("book");
  await server.write(bookLine("MSFT", 500, 1_767_369_000_000_000_000n, () => 0.5));
  await page.locator(".bids .price", { hasText: "499.99" }).waitFor();
  await page.locator(".asks .price", { hasText: "500.01" }).waitFor();
  await visit.close();
});

test("the server's page tells feeds, latency and refused rows", async () => {
  await server.post("/api/v2/write", "trade,sym=IBM price=oops\n");
  const visit = await Visit.open(browser, server.url, "#/server");
  const { page } = visit;
  await page.getByRole("region", { name: "Quality of feeds" }).getByText("trade").first().waitFor();
  await page.getByRole("region", { name: "Refused rows" }).getByText("oops").first().waitFor();
  await page.getByRole("region", { name: "Latency" }).getByText("Receipt to queries").first().waitFor();
  await page.locator("canvas").first().waitFor();
  await visit.checkAccess("server");
  await visit.picture("server");
  await visit.close();
});

test("a token is asked for, a wrong one refused, and the right one kept for the tab", async () => {
  const [reader, writer] = [makeToken("reader", ["read"]), makeToken("writer", ["write"])];
  const own = new Server(reader.settings + writer.settings);
  await own.start();
  await own.write("trade,sym=IBM price=100,size=1i 1767364200000000000", writer.token);
  const visit = await Visit.open(browser, own.url);
  const { page } = visit;
  const signIn = async (token: string) => {
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
  };
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await visit.checkAccess("sign-in");
  await visit.picture("sign-in");
  await signIn("wrong");
  await page.getByRole("alert").getByText("the token is not known").waitFor();
  await signIn(writer.token);
  await page.getByRole("alert").getByText("doesn't allow to read").waitFor();
  await signIn(reader.token);
  await visit.run("select * from trade");
  await page.getByRole("gridcell", { name: "100" }).waitFor();
  await visit.run("delete from trade where price = 100");
  await page.getByRole("alert").getByText("doesn't allow to write").waitFor();
  await page.goto(`${own.url}/#/live/trade`);
  await page.locator(".dot.open").waitFor();
  await own.write("trade,sym=IBM price=102.5,size=1i 1767364203000000000", writer.token);
  await page.getByRole("gridcell", { name: "102.5" }).waitFor();
  await page.reload();
  await page.locator(".dot.open").waitFor();
  expect(page.url()).not.toContain(reader.token);
  expect(await page.evaluate(() => JSON.stringify(localStorage))).not.toContain(reader.token);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await visit.close();
  await own.end();
});

test("a provider signs in, by a cookie that the page doesn't have, and back to where the page was", async () => {
  let person = "ann";
  const [issuer, close] = await provide(() => person);
  const own = new Server(`[auth.oidc]\nissuer = "${issuer}"\nclient_id = "splay"\nname = "Example"\n`);
  await own.start();
  own.onFolder("create user admin superuser");
  own.onFolder("create user ann");
  own.onFolder("create table trade (time timestamp, sym symbol, price double) with (symbol = 'sym')");
  own.onFolder("grant select on trade to ann");
  const visit = await Visit.open(browser, own.url, "#/tables");
  const { page } = visit;
  visit.elsewhere = issuer;
  const link = page.getByRole("link", { name: "Sign in with Example" });
  await link.waitFor();
  await visit.checkAccess("sign-in by a provider");
  await visit.picture("sign-in-provider");
  person = "nobody";
  await link.click();
  await page.getByText("You aren't signed in (forbidden)").waitFor();
  person = "ann";
  await page.goto(`${own.url}/#/tables`);
  await link.click();
  await page.getByRole("cell", { name: "trade" }).or(page.getByRole("link", { name: "trade" })).first().waitFor();
  expect(page.url()).toBe(`${own.url}/#/tables`);
  expect(await page.evaluate(() => `${document.cookie}${JSON.stringify(localStorage)}${JSON.stringify(sessionStorage)}`)).toBe("{}{}");
  await page.goto(`${own.url}/#/query`);
  await visit.run("select count(*) as n from trade");
  await page.getByRole("gridcell", { name: "0" }).waitFor();
  await page.goto(`${own.url}/#/live/trade`);
  await page.locator(".dot.open").waitFor();
  await page.reload();
  await page.locator(".dot.open").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await link.waitFor();
  await page.reload();
  await link.waitFor();
  await visit.close();
  await own.end();
  close();
});

test("a server that is gone is told, and the console goes on when it is back", async () => {
  const own = new Server();
  await own.start();
  await own.write("trade,sym=IBM price=100,size=1i 1767364200000000000");
  const visit = await Visit.open(browser, own.url);
  const { page } = visit;
  await page.getByRole("button", { name: "Run" }).waitFor();
  await own.stop();
  await visit.run("select * from trade");
  await page.getByText("The console goes on when it is back").waitFor();
  await own.start();
  await page.getByText("The console goes on when it is back").waitFor({ state: "detached" });
  await visit.run("select * from trade");
  await page.getByRole("gridcell", { name: "100" }).waitFor();
  await visit.close();
  await own.end();
});

test("it is usable in the dark and on a narrow screen", async () => {
  for (const [name, options] of [
    ["dark", { colorScheme: "dark" as const }],
    ["narrow", { viewport: { width: 390, height: 780 } }],
    ["narrow-dark", { viewport: { width: 390, height: 780 }, colorScheme: "dark" as const }],
  ] as const) {
    const visit = await Visit.open(browser, server.url, "", options);
    const { page } = visit;
    await visit.run(BARS);
    await page.getByRole("grid").waitFor();
    await visit.checkAccess(name);
    await visit.picture(`${name}-rows`);
    await page.getByRole("tab", { name: "Chart" }).click();
    await page.locator("canvas").waitFor();
    await visit.checkAccess(`${name} chart`);
    await visit.picture(`${name}-candles`);
    for (const path of ["tables", "tables/trade", "live/trade", "live/book?mode=book&symbols=MSFT", "server"]) {
      await page.goto(`${server.url}/#/${path}`);
      await page.locator("main h1").waitFor();
      await page.waitForLoadState("networkidle").catch(() => undefined);
      await visit.checkAccess(`${name} ${path}`);
      await visit.picture(`${name}-${path.replace(/\W+/g, "-")}`);
    }
    // Nothing is wider than the screen.
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
    await visit.close();
  }
});

test("the theme is chosen by hand and remembered", async () => {
  const visit = await Visit.open(browser, server.url);
  const { page } = visit;
  await page.getByRole("button", { name: "Theme: system" }).click();
  await page.getByRole("button", { name: "Theme: light" }).click();
  expect(await page.evaluate(() => document.documentElement.dataset["theme"])).toBe("dark");
  await page.reload();
  expect(await page.evaluate(() => document.documentElement.dataset["theme"])).toBe("dark");
  await visit.close();
});

test("the page is painted, and the time until then is told", async () => {
  const visit = await Visit.open(browser, server.url);
  await visit.page.locator(".cm-content").waitFor();
  const paint = await visit.page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Infinity);
  console.log(`first contentful paint: ${paint.toFixed(0)} ms`);
  expect(paint).toBeGreaterThan(0);
  expect(Number.isFinite(paint)).toBe(true);
  await visit.close();
});
