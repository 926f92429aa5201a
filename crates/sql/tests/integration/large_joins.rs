//! Joins of sides that don't fit the memory of a statement give the rows of those that do.

use splay_sql::{Error, IntoFiles, Parameters, Session, SessionSettings, Stop};
use splay_store::Database;

const ROWS: u64 = 500_000;

fn run(session: &Session, statement: &str) -> Result<Vec<String>, Error> {
    let insert = IntoFiles(session.database());
    let mut answer = session.change(statement, Parameters::None, Stop::NEVER, &insert)?;
    let options = arrow::util::display::FormatOptions::default().with_null("null");
    let mut rows = Vec::new();
    for batch in answer.batches()? {
        let columns = batch.columns().iter();
        let columns: Vec<_> =
            columns.map(|column| arrow::util::display::ArrayFormatter::try_new(column, &options).unwrap()).collect();
        let row = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|");
        rows.extend((0..batch.num_rows()).map(row));
    }
    Ok(rows)
}

fn session(database: &Database, memory_bytes: usize, threads: usize) -> Session {
    let settings = SessionSettings { memory_bytes, threads, tick_plans: false, ..SessionSettings::default() };
    Session::new(database.clone(), settings).unwrap()
}

#[test]
fn joins_of_two_large_sides_are_by_sorted_rows() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let large = session(&database, 1 << 30, 2);
    for (table, factor) in [("a", 7), ("b", 11)] {
        run(
            &large,
            &format!("create table {table} (time timestamp, sym symbol, id bigint, x double precision, note text)"),
        )
        .unwrap();
        run(
            &large,
            &format!(
                "insert into {table} select timestamp '2026-03-02' + n * interval '1 second', case n % 3 when 0 then 'A' when 1 then 'B' end, \
                 case when n % 10 > 0 then n * {factor} % {ROWS} end, n % 1000, repeat('n', cast(n % 40 as int)) \
                 from (select value as n from generate_series(0, {})) order by n",
                ROWS - 1
            ),
        )
        .unwrap();
    }
    let of = |join: &str, keys: &str| {
        format!(
            "select count(*), sum(a.x), count(a.id), max(a.note), max(b.note) from a {join} b on {keys} where coalesce(a.x, 0) < 990"
        )
    };
    let sorted = [
        of("join", "a.id = b.id"),
        of("left join", "a.id = b.id and a.x < b.x"),
        of("full join", "a.id = b.id and a.sym = b.sym"),
        of("join", "a.sym = b.sym and a.time = b.time"),
        of("join", "a.note = b.note and a.id = b.id"),
    ];
    let others = [
        "select count(*), sum(x), max(note) from a where id in (select id from b where x > 3)",
        "select count(*), sum(x), max(note) from a where not exists (select 1 from b where b.id = a.id and b.x > 300)",
    ];
    for threads in [1, 2] {
        let small = session(&database, 48 << 20, threads);
        for statement in &sorted {
            let plan = run(&small, &format!("explain analyze {statement}")).unwrap().join("\n");
            assert!(plan.contains("SortMergeJoin"), "{statement}:\n{plan}");
            assert_eq!(run(&small, statement).unwrap(), run(&large, statement).unwrap(), "{statement}");
        }
        for statement in others {
            assert_eq!(run(&small, statement).unwrap(), run(&large, statement).unwrap(), "{statement}");
        }
        let floats = of("join", "a.x = b.x and a.id + 1 = b.id");
        let plan = run(&small, &format!("explain analyze {floats}")).unwrap().join("\n");
        assert!(
            plan.contains("HashJoin") && !plan.contains("SortMergeJoin"),
            "NaN can't be compared by sorted rows:\n{plan}"
        );
        let plan = run(&large, &format!("explain analyze {}", sorted[0])).unwrap().join("\n");
        assert!(plan.contains("HashJoin"), "{plan}");
    }
}
