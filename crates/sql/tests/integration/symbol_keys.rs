//! Groups by what follows from the symbol alone, and look-ups of symbols in other tables: of long runs of rows and short ones, of symbols that
//! are missing and null, over several dates. Tick plans give the rows that DataFusion gives.

use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray};
use arrow::datatypes::Int32Type;
use splay_sql::{IntoFiles, Parameters, Session, Stop};
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, TableSpec, Tier};

use crate::both::{Both, both};
use crate::market::OPENING;

const DAY: i64 = 86_400_000_000_000;

/// Rows of three dates: those of a few symbols stand together by hundreds, those of `rare` others one or two at a time. Each date has another
/// choice of the symbols, so that their dictionaries differ, and some rows have none.
fn rows(rare: i64) -> Vec<(i64, Option<String>, i64, f64)> {
    let mut rows = Vec::new();
    for date in 0..3 {
        for row in 0..6_000 {
            let busy = (row % 11 > 0).then(|| format!("B{}", (row * 7 + date) % (9 + date)));
            rows.push((OPENING + date * DAY + row * 1_000_000, busy, row % 97 - 40, (row % 13) as f64 / 4.0));
        }
        for number in (0..rare).filter(|number| (number + date) % 3 > 0) {
            let time = OPENING + date * DAY + number * 3_000_000;
            rows.push((time, Some(format!("R{number:04}")), number, 0.5));
        }
    }
    rows
}

fn database(tier: Tier, rare: i64) -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let columns = [
        ("ts", ColumnType::Timestamp),
        ("sym", ColumnType::Symbol),
        ("size", ColumnType::Int64),
        ("price", ColumnType::Float64),
    ];
    let columns = columns.into_iter().map(|(name, of)| ColumnSpec::new(name, of)).collect();
    let spec = TableSpec::new("trade", columns, "ts", Some("sym"));
    let rows = rows(rare);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.0)).with_timezone("UTC")),
        Arc::new(rows.iter().map(|row| row.1.as_deref()).collect::<DictionaryArray<Int32Type>>()),
        Arc::new(rows.iter().map(|row| row.2).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.3).collect::<Float64Array>()),
    ];
    let mut load = database.load(&spec, LoadOptions { tier: Some(tier), ..LoadOptions::default() }).unwrap();
    load.append(&RecordBatch::try_new(spec.arrow(), columns).unwrap()).unwrap();
    load.commit().unwrap();
    (folder, database)
}

fn run(session: &Session, statement: &str) {
    session.change(statement, Parameters::None, Stop::NEVER, &IntoFiles(session.database())).unwrap();
}

/// Two of the busy symbols and every seventh rare one have no instrument.
fn with_instruments(database: &Database, rare: i64) -> Both {
    let both = both(database, 2);
    let run = |text: &str| run(&both.tick, text);
    run("create table instrument (sym symbol primary key, sector text, lot bigint, venue symbol)");
    let busy = (0..9).map(|number| format!("('B{number}', 'S{}', {}, 'V{}')", number % 4, 10 * number + 1, number % 2));
    let rare = (0..rare).filter(|number| number % 7 > 0).map(|number| {
        let sector = if number % 5 == 0 { "null".to_owned() } else { format!("'S{}'", number % 6) };
        format!("('R{number:04}', {sector}, {}, 'V{}')", number % 3, number % 5)
    });
    let values: Vec<String> = busy.chain(rare).collect();
    for values in values.chunks(500) {
        run(&format!("insert into instrument values {}", values.join(", ")));
    }
    both
}

const STATEMENTS: [&str; 20] = [
    "select i.sector, count(*), sum(t.size), min(t.price), max(t.size) from trade t join instrument i on t.sym = i.sym group by 1",
    "select i.venue, i.sector, sum(t.size * i.lot), avg(t.price) from trade t join instrument i on t.sym = i.sym group by 1, 2",
    "select i.lot, count(*), sum(t.size) from trade t left join instrument i on t.sym = i.sym group by 1",
    "select i.venue, time_bucket(interval '1 hour', t.ts) as hour, sum(t.size) from trade t join instrument i on t.sym = i.sym group by 1, 2",
    "select i.sector, t.sym, date, sum(t.size) from trade t join instrument i on t.sym = i.sym group by 1, 2, 3",
    "select t.sym, i.sector, i.lot, sum(t.size) from trade t join instrument i on t.sym = i.sym group by 1, 2, 3",
    "select t.sym, i.sector, count(*) from trade t join instrument i on t.sym = i.sym where t.ts >= '2019-10-08 13:30:01' and t.ts < '2019-10-08 13:30:04' and t.size > 20 group by 1, 2",
    "select i.sector, t.size, count(*) from trade t join instrument i on t.sym = i.sym where t.price > 1 group by 1, 2",
    "select distinct i.venue, i.sector from trade t join instrument i on t.sym = i.sym",
    "select count(*) from trade t left join instrument i on t.sym = i.sym where i.sym is null",
    "select count(*), sum(t.size) from trade t join instrument i on t.sym = i.sym where i.venue = 'V1'",
    "select t.ts, t.size * i.lot from trade t join instrument i on t.sym = i.sym where t.sym = 'B3' and t.size > 50",
    "select t.sym, t.size, i.sector from trade t join instrument i on t.sym = i.sym where i.lot = 71",
    "select count(*) from trade t where t.sym in (select sym from instrument where lot in (1, 11, 71))",
    "select substr(sym, 1, 1) as k, count(*), sum(size), first(price order by ts), last(size order by ts) from trade group by 1",
    "select case when sym < 'C' then 'busy' when sym is null then 'none' end as k, count(*), sum(size) from trade group by 1",
    "select length(sym) as k, date, sum(size) filter (where sym <> 'B1'), count(distinct size) from trade group by 1, 2",
    "select sym in ('B1', 'B2', 'R0001') as k, median(size), count(*) from trade group by 1",
    // What is no number is in rows that aren't asked for.
    "select cast(substr(sym, 2) as bigint) % 5 as k, sum(size) from trade where sym is not null group by 1",
    "select cast(sym as bigint) as k, sum(size) from trade where sym = 'none' group by 1",
];

#[test]
fn groups_by_what_follows_from_symbols_are_those_of_their_rows() {
    for (tier, rare) in [(Tier::Mapped, 300), (Tier::Mapped, 30_000), (Tier::Fast, 300)] {
        let (_folder, database) = database(tier, rare);
        let both = with_instruments(&database, rare);
        for text in STATEMENTS {
            // The second time by what was kept for the dictionaries.
            for _ in 0..2 {
                let is_tick_plan = both.compare(text);
                assert_eq!(is_tick_plan, Ok(true), "{rare} rare symbols, {text}: {:?}", both.reason(text));
            }
        }
        // Another version of the table has another dictionary.
        let run = |text: &str| run(&both.tick, text);
        run("insert into instrument values ('A', 'S9', 7, 'V9')");
        run("update instrument set sector = 'S8' where sym = 'B3'");
        run("delete from instrument where sym = 'R0001'");
        for text in &STATEMENTS[..12] {
            assert_eq!(both.compare(text), Ok(true), "after a change, {text}");
        }
    }
}

#[test]
fn a_symbol_that_a_function_refuses_is_an_error_only_where_its_rows_are_asked_for() {
    let (_folder, database) = database(Tier::Mapped, 20);
    let both = both(&database, 2);
    let fails = both.compare("select cast(sym as bigint) as k, count(*) from trade group by 1");
    assert_eq!(fails, Ok(false), "both refuse it in the same words");
    let text = "select 10 / (length(sym) - 2) as k, count(*) from trade where sym >= 'R' group by 1";
    assert_eq!(both.compare(text), Ok(true), "{:?}", both.reason(text));
    // What finds nothing is null, in a segment whose keys are refused as in others.
    run(&both.tick, "create table place (n bigint primary key, name text)");
    run(&both.tick, "insert into place values (3, 'three'), (7, 'seven')");
    let text = "select p.name, count(*) from trade t left join place p on 10 / (length(t.sym) - 2) + (case when t.sym like '%1' then 1 else 0 end) = p.n where t.sym >= 'R' group by 1";
    assert_eq!(both.compare(text), Ok(true), "{:?}", both.reason(text));
}
