//! Statements of which parts run as tick plans give the rows that DataFusion gives for them.

use splay_sql::{Error, Parameters, Session, SessionSettings, Stop};
use splay_store::{Database, LoadOptions, Tier};

use crate::both::{Both, both, cells, without_ticks};
use crate::generated::{Numbers, captured, database, in_parts, rows, spec};

const STATEMENTS: u64 = 300;
const GROUPS: &str = "(select sym, venue, count(*) as n, max(bid) as high from quote group by sym, venue)";
const OTHERS: &str = "(select sym, venue, sum(size) as size from trade group by sym, venue)";

fn compare(both: &Both, seed: u64, count: u64) {
    let mut numbers = Numbers(seed);
    let (mut with_parts, mut errors) = (0, Vec::new());
    for _ in 0..count {
        let text = in_parts(&mut numbers);
        match both.compare(&text) {
            Ok(_) => with_parts += u64::from(both.plan(&text).is_some_and(|plan| plan.contains("TickPartExec"))),
            Err(error) => errors.push(error),
        }
    }
    assert!(errors.is_empty(), "{} of {count}:\n{}", errors.len(), errors[..errors.len().min(8)].join("\n\n"));
    assert!(with_parts * 4 > count, "only {with_parts} of {count} statements had parts");
}

#[test]
fn generated_statements_with_parts_give_the_same_rows() {
    let (_folder, database) = database(Tier::Mapped);
    compare(&both(&database, 2), 21, STATEMENTS);
}

#[test]
fn captured_rows_and_parquet_give_the_same_rows_in_parts() {
    let (_folder, loaded) = database(Tier::Mapped);
    let (_live_folder, live, capture) = captured();
    compare(&Both { tick: both(&live, 2).tick, other: without_ticks(&loaded, 2) }, 22, STATEMENTS / 2);
    capture.close().unwrap();
    let (_parquet_folder, parquet) = database(Tier::Small);
    compare(&Both { tick: both(&parquet, 1).tick, other: without_ticks(&loaded, 2) }, 23, STATEMENTS / 2);
}

/// How often a plan has a part that the engine runs.
fn parts(both: &Both, text: &str) -> usize {
    both.compare(text).unwrap();
    both.plan(text).unwrap().matches("TickPartExec").count()
}

#[test]
fn groupings_are_parts_wherever_they_stand() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for (text, expected) in [
        // A value of no table is DataFusion's.
        (format!("select * from {GROUPS} g full join {OTHERS} o on g.sym = o.sym and g.venue = o.venue where (select 0) = 0"), 2),
        (format!("with g as {GROUPS} select a.sym, b.n from g a full join g b on a.sym = b.sym and a.n < b.n"), 2),
        (format!("select sym, high from {GROUPS} union all select sym, size from {OTHERS} union select 'x', (select 1)"), 2),
        ("select seq, bid from trade where bid > (select avg(bid) from quote where sym = 'S01') + (select 0)".to_owned(), 1),
        (format!("select sym, nth_value(venue, 2 order by venue) from {GROUPS} group by sym"), 1),
        (format!("select t.seq, g.n from trade t right join {GROUPS} g on t.sym = g.sym and t.venue = g.venue where (select 0) = 0"), 1),
        // What is asked of the time says nothing of the minute that is computed of it.
        (
            "select t.seq, g.low from trade t left join (select sym, time_bucket(interval '1 minute', ts) as m, min(bid) as low from quote \
             group by 1, 2) g on t.sym = g.sym and time_bucket(interval '1 minute', t.ts) = g.m and t.seq <> g.low where t.ts < timestamp '2100-01-01' and (select 0) = 0"
                .to_owned(),
            1,
        ),
        // What is asked of the groups themselves is asked of the part's rows.
        (format!("select g.sym, o.size from {GROUPS} g full join {OTHERS} o on g.sym = o.sym where g.n > 40 and (select 0) = 0"), 2),
        (
            "select a.sym, a.n, w.c from (select sym, count(*) as n from late group by sym) a full join (select t.sym, count(q.ts) as c \
             from trade t asof join quote q match_condition (t.ts >= q.ts) on t.sym = q.sym group by t.sym) w on a.sym = w.sym where (select 0) = 0"
                .to_owned(),
            1,
        ),
    ] {
        assert_eq!(parts(&both, &text), expected, "{text}\n{}", both.plan(&text).unwrap());
    }
}

/// What DataFusion reads a few rows for is left to it.
#[test]
fn a_filter_that_gets_down_to_the_tables_is_let_through() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    let joined = format!("{GROUPS} g join {OTHERS} o on g.sym = o.sym");
    for text in [
        format!("select g.sym, g.n, o.size from {joined} where g.sym = 'S05'"),
        format!("select g.sym, g.n, o.size from {joined} and o.sym = 'S05'"),
        format!("select x.name, x.n from (select g.sym as name, g.n, o.size from {joined}) x where x.name = 'S05'"),
    ] {
        assert_eq!(parts(&both, &text), 0, "{text}");
        let mut answer = both.tick.sql(&text, Parameters::None).unwrap();
        answer.batches().unwrap();
        let scanned = answer.stats().rows_scanned;
        assert!(scanned < 10_000, "{text}: {scanned} of 41,000 rows");
    }
    // What a limit leaves depends on all rows.
    let joined = format!("{GROUPS} g full join {OTHERS} o on g.sym = o.sym");
    let text = format!(
        "select * from (select g.sym, g.n from {joined} where (select 0) = 0 order by g.n desc, g.sym limit 20) where sym = 'S05'"
    );
    assert_eq!(parts(&both, &text), 2);
}

/// An order within, which `first` goes by, is seen by DataFusion; and so is a condition without columns.
#[test]
fn the_rest_of_the_statement_keeps_its_meaning() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for text in [
        "select first(sym), count(distinct n) from (select sym, count(*) as n from quote group by sym order by n desc limit 3)"
            .to_owned(),
        format!("select g.sym, o.size from {GROUPS} g join {OTHERS} o on g.sym = o.sym where 1 = 0"),
        format!("select g.sym, o.size from {GROUPS} g join {OTHERS} o on g.sym = o.sym where random() < 0"),
        format!("select g.sym, o.size from {GROUPS} g cross join {OTHERS} o order by g.sym, g.venue, o.size limit 7"),
        "select sym, (select count(*) from quote q where q.sym = t.sym) as n from trade t where seq > 40000".to_owned(),
        "select count(distinct sym) from (select sym from quote where bid < 0 group by sym)".to_owned(),
        "with recursive r as (select max(size) as m from trade union all select m / 2 from r where m > 4) select * from r"
            .to_owned(),
    ] {
        both.compare(&text).unwrap();
    }
}

/// DataFusion computes what is asked for, and below the filters that it has moved down.
#[test]
fn what_nobody_asks_for_fails_nothing() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for text in [
        format!("select g.sym, g.n from (select sym, count(*) as n, sum(cast(venue as bigint)) as x from trade group by sym) g join {OTHERS} o on g.sym = o.sym"),
        format!(
            "select a.sym, a.r from (select sym, venue, sum(seq) / (count(*) - 1) as r, count(*) as n from trade group by sym, venue) a \
             join {GROUPS} g on a.sym = g.sym and a.venue = g.venue where a.n > 1"
        ),
        // Names that differ, and a type that the third one widens.
        "select max(size) from trade union all select sum(seq) from trade union all select avg(bid) from quote".to_owned(),
        "select count(distinct b), sum(n) from (select time_bucket_gapfill('1 hour', ts) as b, count(*) as n from trade where \
         ts between '2019-10-07' and '2019-10-09' group by b)"
            .to_owned(),
    ] {
        both.compare(&text).unwrap();
    }
}

/// What DataFusion groups faster is left to it.
#[test]
fn groupings_by_other_values_are_no_parts() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for key in ["seq", "size % 10", "bid", "ts", "time_bucket('1 minute', ts)", "cast(size as text)"] {
        let text = format!("select count(distinct n) from (select {key} as k, count(*) as n from quote group by 1)");
        assert_eq!(parts(&both, &text), 0, "{text}");
    }
}

#[test]
fn what_parts_read_is_counted() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    let text = format!("select count(distinct n), max(high) from {GROUPS} where n > (select 0)");
    assert_eq!(parts(&both, &text), 1);
    let stats = |session: &Session| {
        let mut answer = session.sql(&text, Parameters::None).unwrap();
        answer.batches().unwrap();
        answer.stats()
    };
    let (ours, theirs) = (stats(&both.tick), stats(&both.other));
    assert_eq!((ours.rows_scanned, ours.selection.rows), (theirs.rows_scanned, theirs.selection.rows));
    assert!(ours.bytes_scanned > 0 && ours.peak_memory_bytes > 0);
}

/// What doesn't fit is DataFusion's to say, in its words.
#[test]
fn a_part_that_the_engine_refuses_is_run_by_datafusion() {
    let (_folder, database) = database(Tier::Mapped);
    let text = "select count(distinct n), sum(n) from (select sym, venue, date, count(*) as n from quote group by sym, venue, date) \
                where n > (select 0)";
    let full = both(&database, 2);
    assert_eq!(parts(&full, text), 1);
    let session = |memory_bytes, tick_plans| {
        let settings = SessionSettings { threads: 2, memory_bytes, tick_plans, ..SessionSettings::default() };
        Session::new(database.clone(), settings).unwrap()
    };
    let ask = |session: &Session| session.sql(text, Parameters::None).unwrap().batches().map(|rows| cells(&rows));
    let expected = format!("{:?}", ask(&full.other).unwrap());
    let mut failed = 0;
    for bytes in (10..22).map(|power| 1 << power) {
        match (ask(&session(bytes, true)), ask(&session(bytes, false))) {
            (Ok(rows), _) => assert_eq!(format!("{rows:?}"), expected),
            (Err(Error::Memory { .. }), Err(Error::Memory { .. })) => failed += 1,
            other => panic!("with {bytes} bytes: {other:?}"),
        }
    }
    assert!(failed > 0 && failed < 12, "{failed} of 12 failed");
}

/// Answers are dropped while the engine is at work, at any moment of it.
#[test]
fn answers_that_are_dropped_leave_the_session_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let spec = spec("long");
    let mut load = database.load(&spec, LoadOptions::default()).unwrap();
    load.append(&rows(&mut Numbers(5), &spec, 400_000, 0, 1)).unwrap();
    load.commit().unwrap();
    let session = both(&database, 2).tick;
    let text = "select count(distinct m) from (select sym, venue, median(bid) as m from long group by sym, venue) \
                where m > (select 0)";
    for _ in 0..20 {
        drop(session.sql_until(text, Parameters::None, Stop::NEVER).unwrap());
    }
    let mut answer = session.sql(text, Parameters::None).unwrap();
    assert_eq!(answer.batches().unwrap().len(), 1);
}
