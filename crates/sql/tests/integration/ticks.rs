//! Statements that run as tick plans give the rows that DataFusion gives for them.
//!
//! `SPLAY_TICK_STATEMENTS` sets how many statements are generated; the test run makes 1,000. With `SPLAY_TICK_REASONS` set, the
//! reasons why some of them had no tick plan are printed.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{DictionaryArray, Float64Array, RecordBatch};
use arrow::datatypes::Int32Type;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use splay_sql::{Parameters, Session, SessionSettings};
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, Tier};

use crate::both::{Both, both, cells, without_ticks};
use crate::generated::{Numbers, captured, database, filter, in_order, rows, spec, statement};

fn count() -> u64 {
    std::env::var("SPLAY_TICK_STATEMENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(1000)
}

fn compare_all(format: Tier, threads: usize, seed: u64, count: u64) {
    let (_folder, database) = database(format);
    let ticks = compare_with(&both(&database, threads), seed, count);
    // Otherwise nothing would have been compared.
    assert!(ticks * 10 > count * 7, "only {ticks} of {count} statements ran as tick plans");
}

/// Compares statements, and says how many of them ran as tick plans.
fn compare_with(both: &Both, seed: u64, count: u64) -> u64 {
    let mut numbers = Numbers(seed);
    let (mut ticks, mut errors) = (0, Vec::new());
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for _ in 0..count {
        let text = statement(&mut numbers);
        match both.compare(&text) {
            Ok(true) => ticks += 1,
            Ok(false) => *reasons.entry(both.reason(&text).unwrap_or_default()).or_default() += 1,
            Err(error) => errors.push(error),
        }
    }
    assert!(errors.is_empty(), "{} of {count}:\n{}", errors.len(), errors[..errors.len().min(8)].join("\n\n"));
    if std::env::var_os("SPLAY_TICK_REASONS").is_some() {
        eprintln!("{ticks} of {count} statements ran as tick plans: {reasons:#?}");
    }
    ticks
}

#[test]
fn generated_statements_over_captured_rows_give_those_of_loaded_ones() {
    let (_folder, loaded) = database(Tier::Mapped);
    let (_other, live, capture) = captured();
    let (mut spread, mut cut) = (0, 0);
    for table in ["quote", "trade", "late"] {
        let snapshot = live.table(table).unwrap().snapshot().unwrap();
        spread += snapshot.partitions().iter().filter(|partition| !partition.is_in_sequence()).count();
        cut += snapshot.partitions().iter().flat_map(|p| p.segments.iter()).filter(|segment| segment.is_cut()).count();
    }
    assert!(spread > 5 && cut > 1, "{spread} partitions are spread, {cut} segments are cut");
    let tick = both(&live, 2).tick;
    let ticks = compare_with(&Both { tick, other: without_ticks(&loaded, 2) }, 3, count() / 2);
    assert!(ticks * 10 > count() / 2 * 7, "only {ticks} statements ran as tick plans");
    let tick = without_ticks(&live, 2);
    compare_with(&Both { tick, other: without_ticks(&loaded, 2) }, 4, count() / 4);
    capture.close().unwrap();
}

#[test]
fn generated_statements_give_the_same_rows_both_ways() {
    compare_all(Tier::Mapped, 2, 1, count() * 3 / 4);
}

#[test]
fn generated_statements_give_the_same_rows_over_parquet() {
    compare_all(Tier::Small, 1, 2, count() / 4);
}

#[test]
fn shapes_are_bound_anew_and_parameters_too() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for symbol in ["S00", "S05", "none", "S11"] {
        for date in ["2019-10-07", "2019-10-13", "2031-01-01"] {
            let text = format!("select sum(bid), count(*) from quote where sym = '{symbol}' and date = date '{date}'");
            assert_eq!(both.compare(&text), Ok(true));
        }
    }
    let text = "select count(*) as n from quote where sym = $1 and bid > $2";
    let mut counts = Vec::new();
    for bid in [100.0, 150.0, 199.0] {
        let parameters = Parameters::Positional(vec!["S00".into(), bid.into()]);
        let mut of_tick = both.tick.sql(text, parameters.clone()).unwrap();
        assert!(of_tick.is_tick_plan());
        let mut of_other = both.other.sql(text, parameters).unwrap();
        let (one, other) = (cells(&of_tick.batches().unwrap()), cells(&of_other.batches().unwrap()));
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
        counts.push(format!("{one:?}"));
    }
    counts.dedup();
    assert_eq!(counts.len(), 3);
}

/// The ends of time are found by the ends of each symbol's rows, with ties of an instant among them.
#[test]
fn first_and_last_rows_by_time_are_those_of_a_sort() {
    let (_folder, database) = database(Tier::Mapped);
    let (_captured_folder, captured, _capture) = captured();
    let filters = [
        "",
        "where sym = 'S01'",
        "where sym in ('S00', 'S07', 'none')",
        "where ts <= '2019-10-09T15:00:00Z'",
        "where sym = 'none'",
    ];
    for database in [database, captured] {
        let both = both(&database, 1);
        for table in ["quote", "trade", "late"] {
            for filter in filters {
                for order in ["ts desc", "ts"] {
                    for limit in ["limit 1", "limit 7", "limit 20 offset 3", "limit 2500"] {
                        // All columns, so that the order is told.
                        let order = format!("{order}, sym, venue, seq, bid, ask, size, firm");
                        let text = format!("select * from {table} {filter} order by {order} {limit}");
                        assert_eq!(both.compare(&text), Ok(true), "{text}");
                    }
                }
            }
        }
    }
}

/// The latest rows of each symbol, and its first, are found by the ends of its rows, with ties of an instant among them.
#[test]
fn latest_rows_of_symbols_are_found_by_the_ends_of_their_rows() {
    let (_folder, loaded) = database(Tier::Mapped);
    let (_captured_folder, captured, _capture) = captured();
    let rest = "seq, bid, ask, size, venue, firm";
    let mut statements = Vec::new();
    for filter in
        ["", "where sym in ('S01', 'S05', 'none')", "where ts <= '2019-10-09T15:00:00Z'", "where date = '2019-10-08'"]
    {
        for order in ["ts desc", "ts"] {
            statements.push(format!("select distinct on (sym) * from quote {filter} order by sym, {order}, {rest}"));
            for rows in ["= 1", "<= 3", "< 6"] {
                let number = format!("row_number() over (partition by sym order by {order}, {rest})");
                statements.push(format!("select *, {number} as place from quote {filter} qualify {number} {rows}"));
            }
        }
    }
    for database in [loaded, captured] {
        let both = both(&database, 2);
        for text in &statements {
            assert_eq!(both.compare(text), Ok(true), "{text}");
            let mut answer = both.tick.sql(text, Parameters::None).unwrap();
            let returned: usize = answer.batches().unwrap().iter().map(RecordBatch::num_rows).sum();
            let scanned = answer.stats().rows_scanned;
            // Of each of twelve symbols, of a null one, and of each date and piece in memory a few.
            assert!(returned > 0 && scanned < 3_000, "{text}: {scanned} rows");
        }
        // What isn't told by the ends is sorted.
        for text in [
            "select distinct on (venue) * from quote order by venue, ts desc, sym, seq, bid, ask, size, firm"
                .to_owned(),
            format!("select distinct on (sym) * from quote where bid > 150 order by sym, ts desc, {rest}"),
            "select distinct on (sym, venue) * from quote order by sym, venue desc, ts desc, seq, bid, ask, size, firm"
                .to_owned(),
        ] {
            assert_eq!(both.compare(&text), Ok(true), "{text}");
        }
    }
}

/// Rows of one instant are in the order of arrival, which is that of the loads and of the appends.
#[test]
fn windows_over_ties_go_by_arrival() {
    let (_folder, loaded) = database(Tier::Mapped);
    let (_parquet_folder, parquet) = database(Tier::Small);
    let (_captured_folder, captured, _capture) = captured();
    let (loaded, captured) = (both(&loaded, 2).tick, both(&captured, 2).tick);
    let parquet = both(&parquet, 1).tick;
    let mut numbers = Numbers(5);
    for _ in 0..100 {
        let rows = format!("{}{}", numbers.one(&["quote", "late", "trade"]), filter(&mut numbers));
        let text = in_order(&mut numbers, &rows);
        let ask = |session: &Session| {
            let mut answer = session.sql(&text, Parameters::None).unwrap();
            assert!(answer.is_tick_plan(), "{text}");
            cells(&answer.batches().unwrap())
        };
        let expected = ask(&loaded);
        for other in [ask(&captured), ask(&parquet)] {
            assert_eq!(expected.len(), other.len(), "{text}");
            for (one, other) in expected.iter().zip(&other) {
                assert!(one.iter().zip(other).all(|(one, other)| one.matches(other)), "{text}\n{one:?}\n{other:?}");
            }
        }
    }
    // A row's predecessor in arrival, where rows of a symbol and instant are numbered by it.
    let text =
        "select ts, sym, seq, lag(seq) over (partition by sym order by ts) as before from trade where sym is not null";
    let mut answer = loaded.sql(text, Parameters::None).unwrap();
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    for batch in answer.batches().unwrap() {
        let text = |column: usize, row: usize| {
            let options = FormatOptions::default().with_null("NULL");
            ArrayFormatter::try_new(batch.column(column), &options).unwrap().value(row).to_string()
        };
        for row in 0..batch.num_rows() {
            let previous = last.insert(text(1, row), text(2, row)).unwrap_or_else(|| "NULL".to_owned());
            assert_eq!(text(3, row), previous);
        }
    }
    assert!(last.len() > 8);
}

/// Parquet's row groups have dictionaries of their own, of which rows of one symbol may read several.
#[test]
fn joins_by_codes_find_those_of_every_row_group() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let spec = spec("long");
    let options = LoadOptions { tier: Some(Tier::Small), ..LoadOptions::default() };
    let mut load = database.load(&spec, options).unwrap();
    // More than the 2^20 rows of a row group, all of one symbol.
    let rows = rows(&mut Numbers(5), &spec, 1_200_000, 0, 1);
    let mut columns = rows.columns().to_vec();
    let one = std::iter::repeat_n("S00", rows.num_rows()).collect::<DictionaryArray<Int32Type>>();
    columns[1] = Arc::new(one);
    load.append(&RecordBatch::try_new(spec.arrow(), columns).unwrap()).unwrap();
    load.commit().unwrap();
    let both = both(&database, 2);
    let sub_query = "(select * from long where seq % 4001 = 1) t";
    for text in [
        format!(
            "select t.sym, t.venue, t.ts, t.seq, count(q.ts), max(q.bid) from {sub_query} window join long q on t.sym = q.sym and \
             t.venue = q.venue and q.ts between t.ts and t.ts"
        ),
        format!(
            "select t.sym, t.venue, count(q.ts), max(q.ts) from {sub_query} asof join long q match_condition (t.ts > q.ts) on \
             t.sym = q.sym and t.venue = q.venue group by t.sym, t.venue"
        ),
    ] {
        assert_eq!(both.compare(&text), Ok(true), "{text}");
    }
}

/// Of long stretches summaries give all but the ends, which are read by themselves: nothing else of the column is touched.
#[test]
fn what_summaries_leave_over_is_read_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let spec = spec("long");
    for day in [0, 1] {
        let mut load = database.load(&spec, LoadOptions::default()).unwrap();
        load.append(&rows(&mut Numbers(5), &spec, 60_000, day, 1)).unwrap();
        load.commit().unwrap();
    }
    for keys in ["", "sym", "date", "sym, date"] {
        for values in [
            "max(bid)",
            "min(ask), max(ask), count(ask)",
            "sum(seq), avg(bid), max(ts)",
            "sum(bid), max(bid), first(ask)",
        ] {
            for filter in ["", "where sym = 'S00'", "where sym in ('S01', 'S00')"] {
                let group = if keys.is_empty() { String::new() } else { format!("group by {keys}") };
                let comma = if keys.is_empty() { "" } else { ", " };
                let text = format!("select {keys}{comma}{values} from long {filter} {group}");
                // The table is opened anew, for what was read once is at hand.
                let database = Database::open(folder.path().join("db")).unwrap();
                assert_eq!(both(&database, 2).compare(&text), Ok(true), "{text}");
            }
        }
    }
}

/// Both zeros are one value, in comparisons, as keys, and in blocks that hold one of them alone.
#[test]
fn zeros_of_both_signs_are_equal() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let spec = spec("zeros");
    let mut load = database.load(&spec, LoadOptions::default()).unwrap();
    let rows = rows(&mut Numbers(5), &spec, 6_000, 0, 1);
    let mut columns = rows.columns().to_vec();
    // Whole blocks of one zero, then rows of each.
    let zero = |row: usize| if row < 2_500 || row % 3 == 1 { -0.0 } else { 0.0 };
    columns[3] = Arc::new(
        (0..6_000).map(|row| Some(if row % 7 == 1 && row > 4_000 { 1.0 } else { zero(row) })).collect::<Float64Array>(),
    );
    columns[4] = Arc::new((0..6_000).map(|row| (row % 5 > 0).then(|| -zero(row / 2))).collect::<Float64Array>());
    load.append(&RecordBatch::try_new(spec.arrow(), columns).unwrap()).unwrap();
    load.commit().unwrap();
    let both = both(&database, 2);
    for condition in [
        "bid = 0",
        "bid = -0.0",
        "bid < 0",
        "bid <= -0.0",
        "0 < bid",
        "bid >= 0",
        "bid <> 0",
        "bid = ask",
        "bid < ask",
        "ask >= bid",
    ] {
        for rows in ["count(*)", "count(*), sum(seq)", "sym, count(*)"] {
            let group = if rows.starts_with("sym") { " group by sym" } else { "" };
            let text = format!("select {rows} from zeros where {condition}{group}");
            assert_eq!(both.compare(&text), Ok(true), "{text}");
        }
        assert_eq!(both.compare(&format!("select seq, sym from zeros where {condition}")), Ok(true), "{condition}");
    }
    for text in [
        "select bid, count(*) from zeros group by bid",
        "select sym, ask, bid, sum(seq) from zeros group by sym, ask, bid",
        "select distinct ask from zeros",
        "select bid, count(*) from (select bid, sym, count(*) as n from zeros group by bid, sym) group by bid",
    ] {
        assert_eq!(both.compare(text), Ok(true), "{text}");
    }
}

#[test]
fn a_commit_is_seen_by_a_known_shape() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 1);
    let text = "select count(*) from quote where sym = 'S01'";
    assert_eq!(both.compare(text), Ok(true));
    let spec = database.table("quote").unwrap().snapshot().unwrap().spec().clone();
    let mut load = database.load(&spec, LoadOptions::default()).unwrap();
    load.append(&rows(&mut Numbers(9), &spec, 1000, 20, 1)).unwrap();
    load.commit().unwrap();
    assert_eq!(both.compare(text), Ok(true));
    let mut wider = spec.clone();
    wider.columns.push(ColumnSpec::new("note", ColumnType::Text));
    let load = database.load(&wider, LoadOptions::default()).unwrap();
    load.commit().unwrap();
    assert_eq!(both.compare(text), Ok(true));
}

#[test]
fn kept_answers_are_those_of_the_present_state() {
    let (_folder, database) = database(Tier::Mapped);
    let settings = SessionSettings { result_cache_bytes: 1 << 20, threads: 1, ..SessionSettings::default() };
    let session = Session::new(database.clone(), settings).unwrap();
    let ask = |value: i64| {
        let text = format!("select count(*) from trade where size < {value}");
        let mut answer = session.sql(&text, Parameters::None).unwrap();
        assert!(answer.is_tick_plan());
        format!("{:?}", cells(&answer.batches().unwrap()))
    };
    let first = ask(250);
    assert_eq!(ask(250), first);
    assert_ne!(ask(100), first);
    let spec = spec("trade");
    let mut load = database.load(&spec, LoadOptions::default()).unwrap();
    load.append(&rows(&mut Numbers(11), &spec, 1000, 20, 1)).unwrap();
    load.commit().unwrap();
    assert_ne!(ask(250), first);
}

/// Whatever a condition, a value or an aggregate is made of, it runs as a tick plan.
#[test]
fn expressions_of_all_kinds_are_tick_plans() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    let long: Vec<String> = (0..3000).map(|number| (number * 7).to_string()).collect();
    let long = format!("seq not in ({})", long.join(", "));
    for condition in [
        "sym like 'S0_'",
        "sym not like '%1'",
        "sym ilike 's0%' and venue like 'N'",
        "sym ~ '1$' or sym !~* '^s'",
        "sym similar to 'S(01|02)'",
        "sym is distinct from 'S01'",
        "sym in ('S01', 'S02', 'S01', null)",
        "sym not in ('S01', 'S02')",
        "sym not in ('S01', null)",
        "sym in ('S01', 'S02') and sym like '%2'",
        "sym is null",
        "upper(sym) = 'S01' or sym is null",
        "try_cast(right(sym, 1) as int) > 4",
        "cast(right(sym, 1) as int) > 4",
        "venue in ('N', null) or venue not in ('P', 'Q')",
        "(bid > 150) is not true",
        "firm is unknown",
        "size & 3 = 1 or seq >> 2 > 5",
        "ask is not distinct from null",
        "case when size % 5 <> 0 then 100 / (size % 5) else 0 end > 30",
        "nvl(ask, bid) > 120 and nvl2(ask, 1, 2) = 1",
        "greatest(bid, ask) > 180 and least(bid, ask) < 150",
        "bid in (100, 100.5, 120.25, 199, 101)",
        "ts in ('2019-10-07T13:30:00Z', '2019-10-08T13:30:05Z')",
        "date in ('2019-10-07', '2019-10-09')",
        "sym || '/' || venue in ('S01/N', 'S02/Q')",
        "replace(sym, '0', '') like 'S_' or concat(venue, size) = 'N100'",
        "regexp_replace(sym, '[0-9]', '#', 'g') = 'S##' and lpad(venue, 3, '-') <> '--N'",
        "concat_ws('-', sym, venue, firm) like '%N-true' and length(repeat(sym, 3)) = 9",
        "string_to_array(sym, '0')[2] = '1' or levenshtein(sym, 'S07') < 2",
        &long,
    ] {
        for text in [
            format!("select count(*), sum(size) from quote where {condition}"),
            format!("select venue, count(*) filter (where {condition}) from quote group by venue"),
            format!("select sym, seq, bid from quote where {condition}"),
            format!("select {condition} as c, count(*) from quote group by 1"),
        ] {
            let ran = both.compare(&text);
            assert_eq!(ran, Ok(true), "{text}: {:?}", both.reason(&text));
        }
    }
    for call in [
        "count(distinct sym)",
        "count(distinct size), count(distinct bid)",
        "count(distinct firm), count(distinct ts), count(distinct date)",
        "count(distinct venue) filter (where sym like 'S0%')",
        "count(distinct upper(venue))",
        "sum(distinct size), avg(distinct size)",
        "bool_and(firm), bool_or(firm)",
        "bit_and(size), bit_or(size), bit_xor(seq)",
        "stddev(size), var(seq), var_pop(ask)",
        "median(size), median(ask)",
        "percentile_cont(0.25) within group (order by bid)",
        "percentile_cont(0.25) within group (order by bid desc)",
        "approx_distinct(seq)",
        "covar_samp(bid, ask), regr_slope(bid, ask)",
        "min(venue), max(venue)",
        "min(sym || venue), max(replace(sym, 'S', '__')), count(distinct concat(sym, seq % 5))",
    ] {
        for keys in
            ["", "sym", "venue", "date, venue", "size / 100", "time_bucket(interval '1 hour', ts)", "sym || venue"]
        {
            let group = if keys.is_empty() { String::new() } else { format!("group by {keys}") };
            let comma = if keys.is_empty() { "" } else { ", " };
            let text = format!("select {keys}{comma}{call} from quote {group}");
            assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
            let text = format!("select {keys}{comma}{call} from quote where seq > 60000 {group}");
            assert_eq!(both.compare(&text), Ok(true), "of nothing: {text}");
        }
    }
}

#[test]
fn lists_as_rows_are_tick_plans() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for text in [
        "select count(*), sum(u) from (select unnest([size, seq, null]) as u from quote)",
        "select seq, unnest(string_to_array(sym, '0')) as part, venue from quote where size > 300 order by 1, 2",
        "select sym, max(u), count(v) from (select sym, unnest([bid, ask]) as u, unnest([size]) as v from quote) where u > 120 group by sym",
        "select u, count(*) from (select unnest(list_sort(l)) as u from (select sym, list(distinct venue) as l from quote group by sym)) group by u",
        "select seq, unnest(make_array(bid, ask)) as price from quote order by price desc, seq limit 9",
    ] {
        assert_eq!(both.compare(text), Ok(true), "{text}: {:?}", both.reason(text));
    }
}

/// Filters of aggregates and choices that are null otherwise, which keep all rows, most, half, few or none.
#[test]
fn filters_and_choices_within_aggregates_keep_the_same_rows() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    let calls = ["sum(V)", "avg(V)", "count(V)", "min(V)", "max(V)", "var(V)", "median(V)", "count(distinct V)"];
    let values = ["bid", "ask", "size", "seq", "1", "0.5"];
    let (mut ticks, mut all) = (0, 0);
    let several = [
        "sum(case when C then size else 0 end), sum(case when C then bid else 0 end)",
        "vwap(case when C then bid end, size), corr(bid, case when C then ask end), wsum(bid, ask) filter (where C)",
        "min(case when C then venue end), max(case when C then ts end), count(case when C then firm end)",
        "sum(case when C then bid end) filter (where size > 3), avg(case when C then bid end), sum(bid) filter (where C)",
        "count(*) filter (where C), count(case when C then 1 end), count(case when C then null end)",
        "sum(case when C then size * 2 end), max(case when C then null else bid end), bool_or(case when C then firm end)",
        "sum(case firm when true then bid end), first(case when C then bid end), last(bid) filter (where C)",
        "sum(case when C then bid when firm then ask end), avg(coalesce(ask, bid)), sum(coalesce(ask, 0))",
        "max(case when C then firm else ask is null end), min(case when C then size else seq end)",
    ];
    let conditions =
        ["size > -1", "size % 17 <> 3", "bid > 150", "seq % 40 = 1", "size < -1", "ask > 120", "sym = 'S01'"];
    for (turn, condition) in conditions.into_iter().enumerate() {
        let whole = calls.iter().map(|call| {
            let call = |value: &str| {
                let by_case = call.replace('V', &format!("case when {condition} then {value} end"));
                format!("{by_case}, {} filter (where {condition})", call.replace('V', value))
            };
            values.iter().map(|value| call(value)).collect::<Vec<_>>().join(", ")
        });
        let several = several.iter().map(|calls| calls.replace('C', condition));
        for calls in whole.chain(several) {
            let keys = ["", "sym", "venue", "date, venue", "size / 100", "sym, time_bucket(interval '1 hour', ts)"];
            for (place, keys) in keys.into_iter().enumerate() {
                let group = if keys.is_empty() { String::new() } else { format!("group by {keys}") };
                let comma = if keys.is_empty() { "" } else { ", " };
                // Each condition meets all keys, and all rows by some of them.
                let rows = ["quote", "quote where seq % 3 > 0", "(select * from quote where bid > 0 limit 5000) as q"];
                let rows = rows[(turn + place) % rows.len()];
                let text = format!("select {keys}{comma}{calls} from {rows} {group}");
                let ran = both.compare(&text);
                assert!(ran.is_ok(), "{text}: {ran:?}");
                (ticks, all) = (ticks + u32::from(ran == Ok(true)), all + 1);
            }
        }
    }
    assert!(ticks * 10 > all * 9, "{ticks} of {all} were tick plans");
}

/// Lists share a shape whatever their length, and a text may be long.
#[test]
fn long_lists_are_bound_anew() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for count in [1, 2, 31, 33, 5_000, 40_000, 3] {
        let symbols: Vec<String> = (0..count).map(|number| format!("'S{number:02}'")).collect();
        for (column, list) in [("sym", symbols.join(", ")), ("venue", format!("'N', {}", symbols.join(",")))] {
            for op in ["in", "not in"] {
                let text =
                    format!("select sym, count(*), max(bid) from quote where {column} {op} ({list}) group by sym");
                assert_eq!(both.compare(&text), Ok(true), "{count} items, {column} {op}");
            }
        }
        let text = format!(
            "select sum(case when sym in ({}) then 100 / (size + 1) else 0 end) as total from quote where size in \
             (1, {count})",
            symbols.join(", ")
        );
        assert_eq!(both.compare(&text), Ok(true), "{count} items in a choice");
    }
}

/// Joins to a list, to a small table and to groups look values up, by keys of any kind.
#[test]
fn joins_to_small_tables_are_tick_plans() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for join in ["join", "left join"] {
        for text in [
            format!("select q.seq, r.* from quote q {join} reference r on q.sym = r.sym where q.size < 50"),
            format!("select r.kind, sum(q.size) from quote q {join} reference r on r.sym = q.sym group by r.kind"),
            format!("select r.kind, count(*) from quote q {join} reference r on q.size = r.number group by r.kind"),
            format!(
                "select r.kind, count(*) from quote q {join} (select * from reference where kind > 'x') r on q.sym = r.sym group by 1"
            ),
            format!(
                "select q.seq, g.high - q.bid as below from quote q {join} (select sym, max(bid) as high from trade group by sym) g \
                     on q.sym = g.sym where q.size > 450"
            ),
            format!(
                "select v.b, count(*) from quote q {join} (values (1, true), (2, false), (3, null)) v (a, b) on q.size = v.a group by v.b"
            ),
            format!(
                "select v.b, count(*) from quote q {join} (values (date '2019-10-08', 'x')) v (a, b) on q.date = v.a group by v.b"
            ),
        ] {
            assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
        }
        let text = format!(
            "select r.kind, count(*) from quote q {join} reference r on q.sym = r.sym and q.size = r.number group by r.kind"
        );
        assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
        // A key that is there twice makes two rows of one, also where nothing of them is shown.
        for text in [
            format!("select count(*) from quote q {join} trade t on q.sym = t.sym where q.size < 3"),
            format!("select q.seq from quote q {join} trade t on q.sym = t.sym and q.venue = t.venue where q.size < 3"),
            format!(
                "select count(*), max(t.size) from quote q {join} trade t on q.sym = t.sym and q.venue = t.venue where q.size < 3"
            ),
            format!("select count(*), sum(t.size) from quote q {join} trade t on q.sym = t.sym where q.size < 3"),
            format!("select count(*) from quote q {join} (values (1, 1), (1, 2)) v (a, b) on q.size = v.a"),
        ] {
            assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
        }
    }
}

/// Conditions on the symbol are asked of the directory: rows of other symbols aren't read.
#[test]
fn rows_of_symbols_that_do_not_pass_are_not_read() {
    let (_folder, database) = database(Tier::Mapped);
    let tick = both(&database, 2).tick;
    for condition in
        ["sym like '%07'", "sym ~ '07$'", "sym in ('S07')", "right(sym, 2) = '07'", "sym > 'S06' and sym < 'S08'"]
    {
        for what in ["sum(size)", "count(distinct venue)"] {
            let mut answer =
                tick.sql(&format!("select {what} from quote where {condition}"), Parameters::None).unwrap();
            assert!(answer.is_tick_plan());
            answer.batches().unwrap();
            let (scanned, stats) = (answer.stats().rows_scanned, answer.stats().selection);
            assert!(stats.rows.selected > 100 && stats.rows.selected < 3_000, "{condition}: {scanned} rows, {stats:?}");
        }
    }
}

#[test]
fn literals_in_names_of_columns_are_kept_apart() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 1);
    for size in [3, 100, 400] {
        assert_eq!(both.compare(&format!("select count(*) filter (where size > {size}) from trade")), Ok(true));
    }
}
