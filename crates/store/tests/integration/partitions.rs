//! Partitions of months, years and all time: the rows are those of a table of dates.

use std::collections::HashSet;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use splay_store::storage::fault::FaultStorage;
use splay_store::{
    Bounds, CompactOptions, Database, Error, LoadOptions, Period, Removal, Replace, Retention, Selection, TableSpec,
    Tier, of_dates,
};

use crate::model::{self, DAY, Row, batch, go_on, open, read_snapshot, read_table, rows};

/// 2023-12-01.
const FIRST: i64 = 19_692;

fn spec(period: Period) -> TableSpec {
    model::trade().with_partition(period)
}

fn load_into(database: &Database, spec: &TableSpec, rows: &[Row], options: LoadOptions) {
    let mut load = database.load(spec, options).unwrap();
    rows.chunks(700).for_each(|chunk| load.append(&batch(chunk)).unwrap());
    load.commit().unwrap();
}

/// A load whose table has partitions of this length, also if it is new.
fn by(period: Period) -> LoadOptions {
    LoadOptions { partition: Some(period), ..LoadOptions::default() }
}

/// The rows in the table's order.
fn in_order(rows: &[Row], period: Period) -> RecordBatch {
    let mut sorted = rows.to_vec();
    sorted.sort_by_key(|row| (period.first(row.date()), row.sym, row.time));
    batch(&sorted)
}

fn partitions(rows: &[Row], period: Period) -> usize {
    rows.iter().map(|row| period.first(row.date())).collect::<HashSet<i32>>().len()
}

const LONGER: [Period; 3] = [Period::Month, Period::Year, Period::All];

#[test]
fn rows_of_all_periods_are_the_same() {
    let all = rows(1, 4000, FIRST..FIRST + 90, 4);
    for period in Period::ALL {
        for memory_bytes in [1 << 20, 64 << 20] {
            let storage = FaultStorage::new();
            let database = open(&storage).unwrap();
            let options = || LoadOptions { memory_bytes, ..by(period) };
            load_into(&database, &spec(period), &all[..2500], options());
            load_into(&database, &spec(period), &all[2500..], options());
            assert_eq!(read_table(&database, "trade").unwrap(), in_order(&all, period), "{period}");
            let table = database.table("trade").unwrap();
            assert_eq!(table.snapshot().unwrap().partitions().len(), partitions(&all, period), "{period}");
            table
                .compact(&CompactOptions { tier: Some(Tier::Small), ..CompactOptions::default() }, &mut go_on)
                .unwrap();
            assert!(table.verify(&mut go_on).unwrap().is_empty());
            drop((table, database));
            assert_eq!(read_table(&open(&storage).unwrap(), "trade").unwrap(), in_order(&all, period), "{period}");
        }
    }
}

#[test]
fn replaced_dates_and_symbols_leave_the_rest_of_their_partition() {
    let old = rows(2, 3000, FIRST..FIRST + 60, 4);
    let new = rows(3, 300, FIRST + 20..FIRST + 40, 4);
    for period in Period::ALL {
        for replace in [Replace::Dates, Replace::Symbols] {
            let database = open(&FaultStorage::new()).unwrap();
            load_into(&database, &spec(period), &old, by(period));
            load_into(&database, &spec(period), &new, LoadOptions { replace, ..LoadOptions::default() });
            let goes = |row: &Row| match replace {
                Replace::Symbols => new.iter().any(|other| (other.date(), other.sym) == (row.date(), row.sym)),
                _ => new.iter().any(|other| other.date() == row.date()),
            };
            let remaining: Vec<Row> = old.iter().filter(|row| !goes(row)).chain(&new).cloned().collect();
            assert_eq!(read_table(&database, "trade").unwrap(), in_order(&remaining, period), "{period} {replace:?}");
            // And back.
            let table = database.table("trade").unwrap();
            table.undo(2).unwrap();
            assert_eq!(read_table(&database, "trade").unwrap(), in_order(&old, period), "{period} {replace:?}");
        }
    }
}

#[test]
fn dates_are_deleted_out_of_their_partition() {
    let all = rows(4, 3000, FIRST..FIRST + 60, 4);
    let first = i32::try_from(FIRST + 10).unwrap();
    for period in Period::ALL {
        let database = open(&FaultStorage::new()).unwrap();
        load_into(&database, &spec(period), &all, by(period));
        let table = database.table("trade").unwrap();
        table.delete(Removal::of(&spec(period), of_dates(first, first + 24)).unwrap()).unwrap();
        let remaining: Vec<Row> =
            all.iter().filter(|row| !(first..=first + 24).contains(&row.date())).cloned().collect();
        assert_eq!(read_table(&database, "trade").unwrap(), in_order(&remaining, period), "{period}");
    }
}

#[test]
fn what_is_selected_by_dates_holds_all_their_rows() {
    let all = rows(5, 3000, FIRST..FIRST + 60, 4);
    for period in Period::ALL {
        let database = open(&FaultStorage::new()).unwrap();
        load_into(&database, &spec(period), &all, by(period));
        let snapshot = database.table("trade").unwrap().snapshot().unwrap();
        for (from, to) in [(0, 0), (3, 9), (29, 33), (59, 80), (-10, -1)] {
            let day = |offset: i64| i32::try_from(FIRST + offset).unwrap();
            let date = Bounds { min: day(from), max: day(to) };
            let actual = read_snapshot(&snapshot, &Selection { date, ..Selection::default() }).unwrap();
            let times = actual.column(0);
            let times: &arrow::array::TimestampNanosecondArray = arrow::array::AsArray::as_primitive(times);
            let count = times.values().iter().filter(|time| date.contains(i32::try_from(*time / DAY).unwrap())).count();
            assert_eq!(count, all.iter().filter(|row| date.contains(row.date())).count(), "{period} {from} {to}");
        }
        if period == Period::Month {
            let date = Bounds { min: i32::try_from(FIRST).unwrap(), max: i32::try_from(FIRST + 1).unwrap() };
            let (pieces, _) = snapshot.select(&Selection { date, ..Selection::default() }).unwrap();
            assert!(pieces.iter().all(|piece| i64::from(piece.date) == FIRST), "the other month isn't looked at");
        }
    }
}

#[test]
fn a_table_changes_what_its_partitions_span() {
    let all = rows(6, 3000, FIRST..FIRST + 60, 4);
    let storage = FaultStorage::new();
    let database = open(&storage).unwrap();
    load_into(&database, &spec(Period::Day), &all, LoadOptions { tier: Some(Tier::Fast), ..by(Period::Day) });
    let table = database.table("trade").unwrap();
    for period in [Period::Month, Period::All, Period::Year, Period::Day] {
        let before = table.snapshot().unwrap();
        let report =
            table.set_partition(period, LoadOptions { memory_bytes: 1 << 20, ..LoadOptions::default() }).unwrap();
        assert_eq!((report.rows, report.removed, report.partitions > 0), (0, 0, true));
        assert_eq!(read_table(&database, "trade").unwrap(), in_order(&all, period), "{period}");
        assert_eq!(before.rows(), 3000, "readers go on with what they see");
        let snapshot = table.snapshot().unwrap();
        assert_eq!(snapshot.partitions().len(), partitions(&all, period));
        let tiers = snapshot.partitions().iter().flat_map(|partition| partition.segments.iter());
        assert!(tiers.map(|segment| segment.entry().tier).all(|tier| tier == Tier::Fast), "{period}");
        assert_eq!(table.set_partition(period, LoadOptions::default()).unwrap().segments, 0, "it is so already");
        // What is older is of other partitions.
        let commits = table.commits(2).unwrap();
        assert_eq!(commits[0].operation, "partition");
        for commit in &commits {
            assert!(commit.cannot_undo.is_some(), "{commit:?}");
            assert!(table.undo(commit.commit).is_err());
        }
        assert!(matches!(table.at_commit(commits[1].commit), Err(Error::NoSuchCommit { .. })));
        assert!(table.verify(&mut go_on).unwrap().is_empty());
    }
    drop((table, database));
    assert_eq!(read_table(&open(&storage).unwrap(), "trade").unwrap(), in_order(&all, Period::Day));
}

#[test]
fn loads_by_other_partitions_are_refused() {
    let all = rows(7, 100, FIRST..FIRST + 60, 4);
    let database = open(&FaultStorage::new()).unwrap();
    load_into(&database, &spec(Period::Month), &all, LoadOptions::default());
    let options = LoadOptions { partition: Some(Period::Year), ..LoadOptions::default() };
    let error = database.load(&model::trade(), options).unwrap_err().to_string();
    assert!(error.contains("its partitions are those of \"month\", not of \"year\""), "{error}");
    // A load that says nothing follows the table.
    load_into(&database, &model::trade(), &all, LoadOptions::default());
    assert_eq!(database.table("trade").unwrap().snapshot().unwrap().spec().partition, Period::Month);
}

/// Rows of some symbols, one a date each.
fn bars(symbols: &[&'static str], dates: std::ops::Range<i64>, rows_of_date: i64) -> Vec<Row> {
    let mut all = Vec::new();
    for date in dates {
        for number in 0..rows_of_date {
            for symbol in symbols {
                let time = date * DAY + number * 1_000_000;
                all.push(Row { time, sym: Some(symbol), price: 1.0, size: Some(1), note: None });
            }
        }
    }
    all
}

#[test]
fn a_new_table_gets_the_partitions_that_suit_its_rows() {
    let few = ["AAPL", "IBM", "MSFT"];
    for (rows, expected) in [
        // Few dates have one each, however few rows.
        (bars(&few, FIRST..FIRST + 31, 1), Period::Day),
        (bars(&few, FIRST..FIRST + 40, 1), Period::Year),
        (bars(&few, FIRST..FIRST + 62, 4_000), Period::Month),
    ] {
        for memory_bytes in [4 << 20, 1 << 30] {
            let database = open(&FaultStorage::new()).unwrap();
            load_into(&database, &model::trade(), &rows, LoadOptions { memory_bytes, ..LoadOptions::default() });
            let snapshot = database.table("trade").unwrap().snapshot().unwrap();
            assert_eq!((snapshot.spec().partition, snapshot.rows()), (expected, rows.len() as u64));
            assert_eq!(snapshot.partitions().len(), partitions(&rows, expected));
        }
        // What is said is done.
        let database = open(&FaultStorage::new()).unwrap();
        let options = LoadOptions { partition: Some(Period::Day), ..LoadOptions::default() };
        load_into(&database, &model::trade(), &rows, options);
        assert_eq!(database.table("trade").unwrap().snapshot().unwrap().spec().partition, Period::Day);
    }
}

#[test]
fn later_rows_leave_the_segments_of_a_large_partition() {
    let database = open(&FaultStorage::new()).unwrap();
    let many = bars(&["AAPL", "IBM", "MSFT"], FIRST..FIRST + 20, 5_000);
    load_into(&database, &spec(Period::Year), &many, LoadOptions::default());
    let table = database.table("trade").unwrap();
    let paths = || -> Vec<String> {
        let snapshot = table.snapshot().unwrap();
        let segments = snapshot.partitions().iter().flat_map(|partition| partition.segments.iter());
        segments.map(|segment| segment.entry().path.clone()).collect()
    };
    let before = paths();
    let mut all = many;
    for night in 0..40 {
        let rows = bars(&["IBM", "AAPL", "ZZZ"], FIRST + 20 + night..FIRST + 21 + night, 2);
        load_into(&database, &spec(Period::Year), &rows, LoadOptions::default());
        if night == 0 {
            assert!(before.iter().all(|path| paths().contains(path)), "nothing was written anew");
        }
        all.extend(rows);
        assert!(paths().len() <= 33, "segments are joined when there are many");
    }
    let mut sorted = all.clone();
    sorted.sort_by_key(|row| (Period::Year.first(row.date()), row.sym, row.time));
    assert_eq!(lines_of(&table.snapshot().unwrap()), texts(&batch(&sorted)));
    table.compact(&CompactOptions::default(), &mut go_on).unwrap();
    assert_eq!(read_table(&database, "trade").unwrap(), batch(&sorted));
}

/// The rows of a snapshot, symbol by symbol.
fn lines_of(snapshot: &splay_store::TableSnapshot) -> Vec<String> {
    let read = read_snapshot(snapshot, &Selection::default()).unwrap();
    texts(&concat_batches(&read.schema(), [&read]).unwrap())
}

fn texts(rows: &RecordBatch) -> Vec<String> {
    let cell = |column: &arrow::array::ArrayRef, row| arrow::util::display::array_value_to_string(column, row).unwrap();
    (0..rows.num_rows()).map(|row| rows.columns().iter().map(|column| cell(column, row) + "|").collect()).collect()
}

#[test]
fn retention_and_tiers_go_by_the_last_date_of_a_partition() {
    // 2023-12-01 to 2024-02-28.
    let all = rows(8, 2000, FIRST..FIRST + 90, 4);
    assert_eq!(all.iter().map(Row::date).max(), Some(i32::try_from(FIRST + 89).unwrap()));
    for (days, period, first_kept) in [
        (10, Period::Month, 62),
        // Of January the last two dates are no older.
        (30, Period::Month, 31),
        (10, Period::Year, 31),
        (59, Period::Year, 31),
        (60, Period::Year, 0),
        (10, Period::All, 0),
    ] {
        let database = open(&FaultStorage::new()).unwrap();
        load_into(&database, &spec(period), &all, by(period));
        let table = database.table("trade").unwrap();
        table.set_tier(Tier::Small, days).unwrap();
        let kept: HashSet<i32> = all
            .iter()
            .filter(|row| i64::from(row.date()) >= FIRST + first_kept)
            .map(|row| period.first(row.date()))
            .collect();
        let moves = table.stored().unwrap().due_moves().len();
        assert_eq!(moves, partitions(&all, period) - kept.len(), "{days} {period}");
        table.expire(Retention { days: Some(days), bytes: None }, false).unwrap();
        let remaining = all.iter().filter(|row| kept.contains(&period.first(row.date())));
        assert_eq!(remaining.count() as u64, table.snapshot().unwrap().rows(), "{days} {period}");
    }
}
