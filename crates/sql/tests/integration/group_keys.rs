//! Groups, distinct rows and numbers of different values by keys of every type, few values and many, give the rows that DataFusion gives.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, DictionaryArray, Float32Array, Int16Array, Int64Array, RecordBatch,
    StringArray, Time64NanosecondArray, TimestampNanosecondArray, UInt16Array, UInt64Array,
};
use arrow::datatypes::Int32Type;
use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, TableSpec, Tier};

use crate::both::both;
use crate::market::OPENING;

const ROWS: i64 = 30_000;

fn spec() -> TableSpec {
    let types = [
        ("ts", ColumnType::Timestamp),
        ("sym", ColumnType::Symbol),
        ("few", ColumnType::Int16),
        ("thousand", ColumnType::UInt16),
        ("many", ColumnType::UInt64),
        ("far", ColumnType::Int64),
        ("amount", ColumnType::Decimal { precision: 18, scale: 4 }),
        ("huge", ColumnType::Decimal { precision: 30, scale: 2 }),
        ("mark", ColumnType::Float32),
        ("day", ColumnType::Date),
        ("clock", ColumnType::Time),
        ("note", ColumnType::Text),
        ("code", ColumnType::Text),
    ];
    let columns = types.into_iter().map(|(name, of)| ColumnSpec::new(name, of)).collect();
    TableSpec::new("event", columns, "ts", Some("sym"))
}

fn scattered(row: i64, below: i64) -> i64 {
    (row.wrapping_mul(6_364_136_223_846_793_005) >> 33).rem_euclid(below)
}

fn rows() -> RecordBatch {
    let some = |row: i64, value: i64| (scattered(row + 7, 19) > 0).then_some(value);
    let all = || 0..ROWS;
    let decimal = |value: i64| i128::from(value);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            TimestampNanosecondArray::from_iter_values(all().map(|row| OPENING + row * 9_000_000_000))
                .with_timezone("UTC"),
        ),
        Arc::new(
            all()
                .map(|row| some(row, row).map(|_| ["A", "B", "C"][(row % 3) as usize]))
                .collect::<DictionaryArray<Int32Type>>(),
        ),
        Arc::new(all().map(|row| some(row, row).map(|row| (row % 9 - 4) as i16)).collect::<Int16Array>()),
        Arc::new(all().map(|row| scattered(row, 1_000) as u16).collect::<UInt16Array>()),
        Arc::new(all().map(|row| Some(u64::MAX - scattered(row, 20_000) as u64)).collect::<UInt64Array>()),
        Arc::new(all().map(|row| some(row, scattered(row, 900) << 30)).collect::<Int64Array>()),
        Arc::new(
            all()
                .map(|row| some(row, scattered(row, 700) * 125 - 9_000).map(decimal))
                .collect::<Decimal128Array>()
                .with_precision_and_scale(18, 4)
                .unwrap(),
        ),
        Arc::new(
            all()
                .map(|row| Some(decimal(scattered(row, 5)) << if row > ROWS - 9 { 70 } else { 3 }))
                .collect::<Decimal128Array>()
                .with_precision_and_scale(30, 2)
                .unwrap(),
        ),
        Arc::new(
            all().map(|row| some(row, scattered(row, 40)).map(|value| value as f32 - 20.0)).collect::<Float32Array>(),
        ),
        Arc::new(
            all().map(|row| some(row, scattered(row, 31)).map(|day| 18_000 + day as i32)).collect::<Date32Array>(),
        ),
        Arc::new(all().map(|row| some(row, scattered(row, 86_400) * 1_000_000_000)).collect::<Time64NanosecondArray>()),
        Arc::new(
            all().map(|row| some(row, scattered(row, 6_000)).map(|note| format!("N-{note}"))).collect::<StringArray>(),
        ),
        Arc::new(
            all()
                .map(|row| {
                    some(row, scattered(row, 5))
                        .map(|code| "a long code of few values "[..(6 + 5 * code) as usize].to_owned())
                })
                .collect::<StringArray>(),
        ),
    ];
    RecordBatch::try_new(spec().arrow(), columns).unwrap()
}

pub(crate) fn database(format: Tier) -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::create(folder.path().join("db")).unwrap();
    let mut load = database.load(&spec(), LoadOptions { tier: Some(format), ..LoadOptions::default() }).unwrap();
    load.append(&rows()).unwrap();
    load.commit().unwrap();
    (folder, database)
}

const KEYS: [&str; 12] =
    ["few", "thousand", "many", "far", "amount", "mark", "day", "clock", "note", "code", "thousand + 1", "length(sym)"];

#[test]
fn groups_by_keys_of_every_type_are_tick_plans() {
    for (format, threads) in [(Tier::Mapped, 2), (Tier::Small, 1)] {
        let (_folder, database) = database(format);
        let both = both(&database, threads);
        for (number, key) in KEYS.iter().enumerate() {
            let other = KEYS[(number + 3) % KEYS.len()];
            for text in [
                format!(
                    "select {key} as k, count(*), sum(far), min(note), max(sym), count(distinct few) from event group by 1"
                ),
                format!(
                    "select {key} as k, {other} as o, count(*), max(amount) from event where few > -3 group by 1, 2"
                ),
                format!("select sym, {key} as k, count(*) from event group by 1, 2"),
                format!("select ts, min(sym) over (partition by {key}) from event where thousand < 300"),
                format!("select distinct {key} as k, sym, code from event where thousand < 300"),
                format!("select count(distinct {key}), count(distinct {other}) from event"),
                format!("select sym, count(distinct {key}) as n from event where clock > '06:00:00' group by sym"),
                format!(
                    "select k, count(*) as n from (select {key} as k, few from event order by ts limit 9000) group by k"
                ),
            ] {
                let is_tick_plan = both.compare(&text);
                assert_eq!(is_tick_plan, Ok(true), "{text}: {:?}", both.reason(&text));
            }
        }
        let all = KEYS.join(", ");
        for text in [
            format!("select distinct {all}, ts, 1 + few, 2 + few, 3 + few, 4 + few, 5 + few, 6 + few from event"),
            format!("select count(*) from (select distinct {all} from event) d"),
            "select e.ts, g.n from event e join (select mark as k, count(*) as n from event group by 1) g on e.mark = g.k where few = 2"
                .to_owned(),
            "select e.ts, g.n from event e left join (select amount as k, count(*) as n from event where few > 0 group by 1) g \
             on e.amount = g.k where few = 2"
                .to_owned(),
        ] {
            assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
        }
        // Values that don't fit a word are DataFusion's, at the latest when they come by.
        assert_eq!(both.compare("select huge, count(*) from event group by huge"), Ok(false));
        let text = "select huge, count(*) from event where thousand < 500 and huge < 100 group by huge";
        assert_eq!(both.compare(text), Ok(true), "{:?}", both.reason(text));
    }
}

#[test]
fn groups_by_functions_of_time_change_with_its_hours() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for key in [
        "extract(hour from ts)",
        "extract(dow from ts)",
        "cast(ts as date)",
        "date_trunc('hour', ts) , date_trunc('day', ts)",
        "extract(hour from ts) > 11",
        "case when extract(hour from ts) < 12 then 'early' else 'late' end",
        "extract(hour from ts), extract(day from ts), few",
        "time_bucket(interval '90 minutes', ts), extract(hour from ts)",
        "extract(minute from ts)",
        "extract(hour from ts at time zone 'Asia/Kolkata')",
    ] {
        for filter in ["", "where few > 0", "where sym = 'B'"] {
            for and in ["", ", sym"] {
                let text = format!(
                    "select {key}{and}, count(*), sum(far), first(few) from event {filter} group by {key}{and}"
                );
                assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
            }
        }
    }
}

#[test]
fn ranges_that_exclude_each_other_read_nothing() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for (condition, rows) in [
        ("far > 600 and far < 600", 0),
        ("clock < '04:00:00' and clock > '05:00:00'", 0),
        ("day between '2019-05-01' and '2019-05-03' and day in ('2019-04-15', '2019-04-16')", 0),
        ("far >= 0 and far <= 4000000000000", ROWS),
    ] {
        let text = format!("select count(*) as n, sum(far) as s from event where {condition}");
        assert_eq!(both.compare(&text), Ok(true), "{text}");
        let mut answer = both.tick.sql(&text, splay_sql::Parameters::None).unwrap();
        answer.batches().unwrap();
        let selected = answer.stats().selection.rows.selected;
        assert_eq!(selected, u64::try_from(rows).unwrap(), "{condition}");
    }
}

/// Of two conditions the second is asked of the rows that the first passes, where these are few.
#[test]
fn conditions_of_few_rows_and_choices_that_may_fail_keep_the_same_rows() {
    let (_folder, database) = database(Tier::Mapped);
    let both = both(&database, 2);
    for condition in [
        "thousand in (7, 8, 900) and day in ('2019-04-15', '2019-04-20', '2019-05-01', null)",
        "thousand < 20 and note like '%9' and code is not null",
        "note = 'N-17' and far is null",
        "thousand < 3 and (few > 1 or few is null)",
        "day in ('2019-04-15', '2019-04-20', '2019-05-01', '2019-05-02', '2019-05-03', '2019-04-21', '2019-04-22', \
         '2019-04-23', '2019-04-24') and thousand % 50 = 0",
    ] {
        let text = format!("select ts, sym, note, amount from event where {condition}");
        assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
        let text = format!("select sym, count(*), sum(far) from event where {condition} group by sym");
        assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
    }
    for choice in [
        "case when few <> 0 then 100 / few end",
        "case when few > 0 then 1000 / few when few < 0 then far / few else thousand end",
        "case when thousand > 0 then far * 2 else far - 1 end",
        "coalesce(far + 1, thousand * 2)",
        "case few when 0 then null else 7 % few end",
    ] {
        let text = format!("select ts, {choice} as c from event");
        assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
        let text = format!("select sym, sum({choice}) as c from event group by sym");
        assert_eq!(both.compare(&text), Ok(true), "{text}: {:?}", both.reason(&text));
    }
    // What is asked for and fails is refused in the same words.
    assert_eq!(both.compare("select case when few > -9 then 100 / few end as c from event"), Ok(false));
}
