//! Sessions: parameters, refusals, stopping, memory, and what a statement sees while rows come in.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch, TimestampNanosecondArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{Date32Type, Float64Type, Int64Type, TimestampNanosecondType};
use splay_sql::{Error, Parameters, Progress, RunBy, ScalarValue, Session, SessionSettings, Stop, WaitOutcome};
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, TableSpec, Tier};

use crate::market;

fn count(session: &Session, text: &str, parameters: Parameters) -> i64 {
    let batches = session.sql(text, parameters).unwrap().batches().unwrap();
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[test]
fn parameters_are_bound_by_name_and_by_position() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 2, 8192);
    let named = HashMap::from([("sym".to_owned(), ScalarValue::from("IBM"))]);
    assert_eq!(count(&session, "select count(*) from trade where Symbol = $sym", Parameters::Named(named)), 4);
    let positional = vec![ScalarValue::from("AAPL"), ScalarValue::from(100_i64)];
    let text = "select count(*) from trade where Symbol = $1 and Trade_Volume > $2";
    assert_eq!(count(&session, text, Parameters::Positional(positional)), 2);
}

#[test]
fn parameters_that_are_times_to_the_minute_do_without_seconds() {
    let (_folder, database) = market::database(Tier::Mapped);
    for session in [market::session(&database, 2, 8192), market::session_without_tick_plans(&database)] {
        for (text, expected) in [("1970-01-01 00:00", 8), ("1970-01-01 00:00:00", 8), ("2200-01-01T00:00", 0)] {
            let parameter = || ScalarValue::from(text);
            let named = HashMap::from([("from".to_owned(), parameter())]);
            let statement = "select count(*) from trade where time >= $from";
            assert_eq!(count(&session, statement, Parameters::Named(named)), expected, "{text}");
            let statement = "select count(*) from trade where time >= $1";
            assert_eq!(count(&session, statement, Parameters::Positional(vec![parameter()])), expected, "{text}");
        }
    }
}

#[test]
fn a_parameter_without_a_value_is_named() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 1, 8192);
    let error = session.sql("select count(*) from trade where Symbol = $sym", Parameters::None).unwrap_err();
    assert!(error.to_string().contains("sym"), "{error}");
}

#[test]
fn statements_that_change_something_are_refused() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 1, 8192);
    for text in [
        "create table x (a int)",
        "create view v as select 1",
        "drop table trade",
        "insert into trade select * from trade",
        "delete from trade",
        "update trade set Trade_Volume = 0",
        "copy (select 1) to 'out.csv'",
        "create external table t stored as csv location '/etc/passwd'",
        "set datafusion.execution.batch_size = 1",
    ] {
        let error = session.sql(text, Parameters::None).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::ReadOnly { .. }), "{text}: {error:?}");
    }
    assert_eq!(count(&session, "select count(*) from trade", Parameters::None), 8);
}

/// Drops the answer to a statement that would go on for days, and asks the same, only thread for another one.
fn assert_stops(text: &str) {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 1, 8192);
    let mut answer = session.sql(text, Parameters::None).unwrap();
    // Until it is at work.
    assert!(matches!(answer.wait(Duration::from_millis(300)), WaitOutcome::TimedOut), "{text}");
    drop(answer);
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(count(&session, "select count(*) from trade", Parameters::None)));
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(8), "{text}");
}

#[test]
fn a_dropped_cross_join_stops() {
    assert_stops("select sum(a.size + b.value) from tick a cross join generate_series(1, 1000000000) b(value)");
}

#[test]
fn a_dropped_join_that_finds_no_pair_stops() {
    // Few rows on one side: the pairs of one batch of the other are the shortest step.
    let few = "(select size from tick where sym = 'S07') a";
    let pairs = "join generate_series(1, 1000000000) b(value) on a.size + b.value < -5000";
    assert_stops(&format!("select count(*) from {few} {pairs}"));
}

#[test]
fn a_dropped_join_by_key_stops() {
    let keys = "join generate_series(1, 1000000000) b(value) on a.size % 2 = b.value % 2";
    assert_stops(&format!("select sum(a.price) from tick a {keys}"));
}

#[test]
fn a_tick_plan_stops_wherever_it_is_told_to() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 2, 8192);
    for text in [
        "select * from trade where Trade_Volume > 10",
        "select Symbol, Exchange, sum(Trade_Price + 1) from trade group by 1, 2",
        "select Symbol, max(Trade_Price) from trade group by 1",
        "select Symbol, lag(Trade_Price) over (partition by Symbol order by Time) from trade",
        "select t.Time, q.bid from trade t asof join quote q match_condition (t.Time >= q.Time) on t.Symbol = q.Symbol",
    ] {
        let checks = AtomicUsize::new(0);
        let run = |limit: usize| {
            checks.store(0, Ordering::SeqCst);
            let is_over = || checks.fetch_add(1, Ordering::SeqCst) >= limit;
            session.sql_until(text, Parameters::None, Stop::when(&is_over)).and_then(|mut answer| answer.batches())
        };
        // A new shape is planned, and looks as long as that takes.
        run(usize::MAX).unwrap();
        let whole = run(usize::MAX).unwrap();
        let looks = checks.load(Ordering::SeqCst);
        assert!(looks > 1, "{text}: looked {looks} times");
        for limit in 0..looks {
            assert!(matches!(run(limit), Err(Error::Cancelled)), "{text}: stopped at look {limit} of {looks}");
        }
        assert_eq!(run(looks).unwrap(), whole, "{text}");
    }
}

#[test]
fn a_statement_tells_how_far_it_is() {
    let (_folder, database) = market::database(Tier::Mapped);
    let ticks = market::session(&database, 2, 8192);
    let datafusion = market::session_without_tick_plans(&database);
    for text in [
        "select * from trade where Trade_Volume > 10",
        "select Symbol, Exchange, sum(Trade_Price + 1) from trade group by 1, 2",
        "select Symbol, max(Trade_Price) from trade group by 1",
    ] {
        let rows = count(&ticks, "select count(*) from trade", Parameters::None).unsigned_abs();
        // While it runs, to the progress of its stop.
        let progress = Progress::default();
        let answer = ticks.sql_until(text, Parameters::None, Stop::NEVER.telling(&progress)).unwrap();
        assert!(answer.is_tick_plan(), "{text}");
        assert_eq!((progress.rows(), progress.total()), (rows, rows), "{text}");
        // While the answer is waited for, when asked.
        let progress = Progress::default();
        let mut answer = datafusion.sql_until(text, Parameters::None, Stop::NEVER.telling(&progress)).unwrap();
        answer.tell(&progress);
        assert_eq!(progress.total(), rows, "{text}");
        answer.batches().unwrap();
        answer.tell(&progress);
        assert_eq!((progress.rows(), progress.total()), (rows, rows), "{text}");
    }
    // Rows that are joined are gone through, too.
    let asof =
        "select t.Time, q.bid from trade t asof join quote q match_condition (t.Time >= q.Time) on t.Symbol = q.Symbol";
    let progress = Progress::default();
    drop(ticks.sql_until(asof, Parameters::None, Stop::NEVER.telling(&progress)).unwrap());
    assert!(progress.rows() > 0 && progress.rows() == progress.total(), "{progress:?}");
}

#[test]
fn a_statement_that_needs_too_much_memory_is_told_so() {
    let (_folder, database) = market::database(Tier::Mapped);
    let settings = SessionSettings { memory_bytes: 1 << 20, threads: 2, ..SessionSettings::default() };
    let session = Session::new(database, settings).unwrap();
    let text = "select count(*) from (select a.ts, b.ts from tick a join tick b on a.size = b.size)";
    let error = session.sql(text, Parameters::None).unwrap().batches().unwrap_err();
    assert!(matches!(error, Error::Memory { limit_bytes: 1_048_576, .. }), "{error:?}");
}

#[test]
fn deep_expressions_are_answered_or_refused() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 1, 8192);
    let text = format!("select {}1{}", "(".repeat(2000), ")".repeat(2000));
    let _ = session.sql(&text, Parameters::None).map(|mut answer| answer.batches());
    let sum = format!("select {}", vec!["1"; 500].join(" + "));
    assert_eq!(count(&session, &sum, Parameters::None), 500);
}

#[test]
fn a_statement_sees_one_state_while_rows_come_in() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 2, 2);
    let mut before = session.sql("select Trade_Volume from trade", Parameters::None).unwrap();
    let mut load = database.load(&market::trade_spec(), LoadOptions::default()).unwrap();
    load.append(&market::trades()).unwrap();
    load.commit().unwrap();
    let rows: usize = before.batches().unwrap().iter().map(arrow::array::RecordBatch::num_rows).sum();
    assert_eq!(rows, 8);
    assert_eq!(count(&session, "select count(*) from trade", Parameters::None), 16);
}

#[test]
fn time_order_holds_where_a_clock_goes_back_over_midnight() {
    // In St. John's the clock went from 00:01 of the 29th back to 23:01 of the 28th: the first instant has the later date.
    let instants = [1_162_089_030_000_000_000, 1_162_089_900_000_000_000];
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path()).unwrap();
    let columns = vec![ColumnSpec::new("ts", ColumnType::Timestamp)];
    let spec = TableSpec::new("t", columns, "ts", None).with_time_zone("America/St_Johns");
    let times = TimestampNanosecondArray::from(instants.to_vec()).with_timezone("UTC");
    let mut load = database.load(&spec, LoadOptions::default()).unwrap();
    load.append(&RecordBatch::try_new(spec.arrow(), vec![Arc::new(times)]).unwrap()).unwrap();
    load.commit().unwrap();
    let session = market::session(&database, 2, 8192);
    let batches = session.sql("select ts, date from t order by ts", Parameters::None).unwrap().batches().unwrap();
    let batch = concat_batches(batches[0].schema_ref(), &batches).unwrap();
    assert_eq!(batch.column(0).as_primitive::<TimestampNanosecondType>().values()[..], instants);
    assert!(
        batch.column(1).as_primitive::<Date32Type>().value(0) > batch.column(1).as_primitive::<Date32Type>().value(1)
    );
}

#[test]
fn costs_are_reported() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 2, 8192);
    let mut answer = session.sql("select max(price) from tick where sym = 'S07'", Parameters::None).unwrap();
    let batches = answer.batches().unwrap();
    assert!(batches[0].column(0).as_primitive::<Float64Type>().is_valid(0));
    let stats = answer.stats();
    assert_eq!(stats.rows_returned, 1);
    assert!(stats.rows_scanned > 0 && stats.rows_scanned < 20_000, "{stats:?}");
    assert_eq!(stats.selection.rows.total, 200_000);
    assert!(stats.selection.symbols.selected < stats.selection.symbols.total);
}

#[test]
fn explain_analyze_shows_what_was_kept_and_what_it_cost() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = Session::new(database, SessionSettings { tick_plans: false, ..SessionSettings::default() }).unwrap();
    let text = "explain analyze select max(price) from tick where sym = 'S07' and date = '2019-10-08'";
    let mut answer = session.sql(text, Parameters::None).unwrap();
    let batches = answer.batches().unwrap();
    let plan = batches[0].column_by_name("plan").unwrap().as_string::<i32>().value(0).to_owned();
    let scan = plan.lines().find(|line| line.contains("TickScanExec")).unwrap_or_else(|| panic!("no scan in {plan}"));
    for part in [
        "table=tick",
        "partitions=1/3",
        "symbols=1/40",
        "rows=2152/200000",
        "partitions_kept=1",
        "partitions_total=3",
        "symbols_kept=1",
        "symbols_total=40",
        "blocks_kept=",
        "rows_scanned=",
        "output_rows=",
        "elapsed_compute=",
    ] {
        assert!(scan.contains(part), "{part} is missing in {scan}");
    }
    assert!(plan.contains("AggregateExec") && plan.contains("output_rows=1,"), "{plan}");
    assert_eq!(answer.stats().rows_scanned, 2152);
    assert_eq!(answer.stats().bytes_scanned, 2152 * 8);
}

#[test]
fn explain_analyze_of_a_tick_plan_runs_that_and_shows_what_it_cost() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 2, 8192);
    let plans = |text: &str| {
        let mut answer = session.sql(text, Parameters::None).unwrap();
        let batches = answer.batches().unwrap();
        let column = |name: &str| -> Vec<String> {
            let texts = batches[0].column_by_name(name).unwrap();
            texts.as_string::<i32>().iter().map(|text| text.unwrap().to_owned()).collect()
        };
        assert_eq!(column("plan_type"), ["tick_plan", "metrics"]);
        (column("plan"), answer.stats())
    };
    let (plan, stats) = plans(
        "Explain  ANALYZE select max(price * 2), sum(size * 2) from tick where sym = 'S07' and date = '2019-10-08'",
    );
    assert!(plan[0].contains("AggregateTable: by [], [Max, Sum]"), "{}", plan[0]);
    assert!(plan[0].contains(" [rows=1, time="), "{}", plan[0]);
    for part in ["output_rows=1,", "partitions=1/3,", "symbols=1/40,", "rows=2152/200000,", "rows_scanned=2152,"] {
        assert!(plan[1].contains(part), "{part} is missing in {}", plan[1]);
    }
    assert_eq!(stats.bytes_scanned, 2152 * (8 + 4));
    // Of whole blocks the summaries do, so that less is looked into than there is.
    let (_, summarised) = plans("explain analyze verbose select max(price) from tick where sym = 'S07'");
    let (_, rows) = plans("explain analyze select price from tick where sym = 'S07'");
    assert!(0 < summarised.bytes_scanned && summarised.bytes_scanned < rows.bytes_scanned, "{summarised:?}, {rows:?}");
    assert_eq!(rows.bytes_scanned, 8 * rows.rows_scanned);
    // What doesn't run as a tick plan is told by DataFusion's, and why.
    let mut answer = session.sql("explain analyze select random() from tick limit 1", Parameters::None).unwrap();
    let kinds = answer.batches().unwrap();
    assert_eq!(kinds[0].column(0).as_string::<i32>().value(0), "tick_plan");
    assert!(kinds[0].column(1).as_string::<i32>().value(0).starts_with("none, because"));
}

#[test]
fn each_step_of_a_tick_plan_tells_its_rows_time_and_memory() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 2, 8192);
    let text = "explain analyze select sym, price * 2 as p from tick where sym in ('S07', 'S08') order by p limit 5";
    let mut answer = session.sql(text, Parameters::None).unwrap();
    let batches = answer.batches().unwrap();
    let plan = batches[0].column_by_name("plan").unwrap().as_string::<i32>();
    let steps: Vec<&str> = plan.value(0).lines().collect();
    assert!(steps.len() > 1);
    for step in &steps {
        assert!(step.contains(" [rows=") && step.contains(", time=") && step.contains(", memory="), "{step}");
    }
    let sorted = steps.iter().find(|step| step.contains("Sort")).unwrap();
    assert!(sorted.contains("[rows=5,"), "{sorted}");
    // The computed column alone is in memory: 8 bytes for each row that was read.
    let stats = answer.stats();
    assert!(stats.peak_memory_bytes >= 8 * stats.rows_scanned, "{stats:?}");
    assert!(plan.value(1).contains(&format!("peak_memory_bytes={},", stats.peak_memory_bytes)));
    // Columns of mapped files take none, unless short pieces were copied together.
    let mut mapped = session.sql("explain analyze select price from tick", Parameters::None).unwrap();
    mapped.batches().unwrap();
    let stats = mapped.stats();
    assert!(stats.peak_memory_bytes < 8 * stats.rows_scanned, "{stats:?}");
}

#[test]
fn what_the_engine_refuses_while_it_runs_is_counted_remembered_and_shown() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 2, 8192);
    // Eight times 2 to the 59th fits into 64 bits, which the engine can't tell from the sizes of the numbers.
    let text = "select sum(cast(Trade_Volume as bigint) * 0 + 576460752303423488) as s from trade";
    for _ in 0..2 {
        let mut answer = session.sql(text, Parameters::None).unwrap();
        let batches = answer.batches().unwrap();
        assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().value(0), 1 << 62);
        assert_eq!(answer.refusal(), Some("the engine has no kernel for a sum that might need more than 64 bits"));
        assert_eq!((answer.stats().tick_plans_refused, answer.stats().run_by), (1, RunBy::DataFusion));
    }
    let mut explained = session.sql(&format!("explain analyze {text}"), Parameters::None).unwrap();
    let batches = explained.batches().unwrap();
    let plan = batches[0].column(1).as_string::<i32>().value(0);
    assert!(plan.contains("refused: the engine has no kernel for a sum"), "{plan}");
    let mut other =
        session.sql("select sum(cast(Trade_Volume as bigint) * 0 + 5) as s from trade", Parameters::None).unwrap();
    other.batches().unwrap();
    assert_eq!((other.stats().tick_plans_refused, other.stats().run_by), (0, RunBy::TickPlan));
}

#[test]
fn why_a_statement_is_no_tick_plan_is_told_behind_it() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 2, 8192);
    for (text, by, has_reason) in [
        ("select max(price) from tick", RunBy::TickPlan, false),
        ("select random() from tick limit 1", RunBy::DataFusion, true),
    ] {
        let mut answer = session.sql(text, Parameters::None).unwrap();
        answer.batches().unwrap();
        assert_eq!(answer.stats().run_by, by, "{text}");
        assert_eq!(session.why_no_tick_plan(text, &Parameters::None).is_some(), has_reason, "{text}");
    }
}

#[test]
fn no_more_blocks_are_counted_than_there_are() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 2, 8192);
    for text in [
        "select sym, first(price), last(size) from tick group by sym",
        "select sym, avg(price * size) from tick where size > 10 group by sym",
        "select a.sym, a.m + b.m from (select sym, max(price) m from tick group by sym) a \
         join (select sym, min(price) m from tick group by sym) b on a.sym = b.sym",
    ] {
        let mut answer = session.sql(text, Parameters::None).unwrap();
        answer.batches().unwrap();
        let stats = answer.stats().selection;
        assert!(stats.blocks.selected > 0 && stats.blocks.selected <= stats.blocks.total, "{text}: {stats:?}");
        assert!(stats.partitions.selected <= stats.partitions.total, "{text}: {stats:?}");
    }
}

#[test]
fn comments_leave_a_statement_a_tick_plan() {
    let (_folder, database) = market::database(Tier::Mapped);
    let session = market::session(&database, 2, 8192);
    for text in [
        "-- The last price.\nexplain select last(price) from tick where sym = 'S07'",
        "explain /* of one */ select last(price) from tick /* symbol -- */ where sym = 'S07' -- and no other",
    ] {
        let batches = session.sql(text, Parameters::None).unwrap().batches().unwrap();
        assert_eq!(batches[0].column(0).as_string::<i32>().value(0), "tick_plan");
        let plan = batches[0].column(1).as_string::<i32>().value(0);
        assert!(plan.contains("AggregateTable"), "{plan}");
    }
}

#[test]
fn kept_answers_are_of_the_rows_that_are_there() {
    let (_folder, database, capture) = market::captured();
    let settings = SessionSettings { result_cache_bytes: 1 << 20, ..SessionSettings::default() };
    let session = Session::new(database.clone(), settings).unwrap();
    let rows = || {
        let batches = session.sql("select count(*) from tick", Parameters::None).unwrap().batches().unwrap();
        batches[0].column(0).as_primitive::<Int64Type>().value(0)
    };
    let before = rows();
    assert_eq!(rows(), before, "a kept answer");
    let batches =
        session.sql("select * exclude (date) from tick limit 3", Parameters::None).unwrap().batches().unwrap();
    let batch = concat_batches(batches[0].schema_ref(), &batches).unwrap();
    capture.append(splay_capture::Append::new("tick", batch)).unwrap();
    assert_eq!(rows(), before + 3, "captured, and not yet in files");
    capture.close().unwrap();
}
