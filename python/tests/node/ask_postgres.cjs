// Asks a server by node-postgres: types, placeholders, arrays, a prepared statement, a transaction, an error, a cancellation.
// node ask_postgres.cjs HOST PORT; a line for each answer, as JSON.
const { Client, Pool } = require("pg");

const [host, port] = process.argv.slice(2);
const place = { host, port: Number(port), user: "any", database: "market" };
const tell = (what, value) => console.log(`${what} ${JSON.stringify(value)}`);

async function main() {
  const client = new Client(place);
  await client.connect();
  const rows = await client.query("select time, sym, price, size from trade order by size limit 2");
  tell("columns", rows.fields.map((field) => field.name));
  tell("rows", rows.rows);
  const counted = await client.query("select count(*) as n from trade where sym = $1 and size < $2", ["IBM", 10]);
  tell("counted", counted.rows);
  const among = await client.query("select distinct sym from trade where sym = any($1) order by sym", [["AIG", "IBM", "no"]]);
  tell("among", among.rows.map((row) => row.sym));
  for (const size of [1, 2, 3]) {
    const named = await client.query({ name: "by_size", text: "select sym from trade where size = $1", values: [size] });
    tell("named", named.rows);
  }
  await client.query("begin");
  tell("within", (await client.query("select 1 + 1 as two")).rows);
  await client.query("rollback");
  await client.query("select nothing from trade").catch((error) => tell("refused", error.code));
  tell("after", (await client.query("select null::double precision as none, true as yes")).rows);
  await client.end();
  const pool = new Pool({ ...place, max: 4 });
  const sums = await Promise.all([...Array(20).keys()].map((n) => pool.query("select $1::bigint * 2 as n", [n])));
  tell("pooled", sums.map((answer) => Number(answer.rows[0].n)));
  await pool.end();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
