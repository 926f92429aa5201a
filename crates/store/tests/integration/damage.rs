//! A flipped byte or a cut file is named, or makes no difference: never a panic, never a wrong row.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, DictionaryArray, RecordBatch, TimestampNanosecondArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Float64Type, Int32Type, TimestampNanosecondType};
use rand::Rng;
use splay_store::storage::Storage;
use splay_store::storage::fault::FaultStorage;
use splay_store::{
    Bounds, ColumnBounds, ColumnSpec, ColumnType, Database, Error, LoadOptions, Result, Selection, Summary, TableSpec,
    Tier, ValueKind, sortable,
};

use crate::model::{self, Model, go_on, load, open, read_snapshot, rng};
use crate::random::plain;

/// A database with a partition in each tier, each of more than one block of rows.
pub(crate) fn base(seed: u64) -> (FaultStorage, Model) {
    let storage = FaultStorage::new();
    let database = open(&storage).unwrap();
    let mut model = Model::new(Vec::new());
    for (day, tier) in (0_i64..).zip([Tier::Mapped, Tier::Small, Tier::Fast, Tier::Dense]) {
        let rows = model::rows(seed + day.unsigned_abs(), 1300, day..day + 1, 2);
        load(&database, &rows, LoadOptions { tier: Some(tier), ..LoadOptions::default() }).unwrap();
        model = model.plus(&rows);
    }
    (storage.copy(), model)
}

/// What is asked of a damaged database: the selection, and which rows match it.
pub(crate) struct Question {
    pub(crate) selection: Selection,
    matches: Box<dyn Fn(&RecordBatch) -> BooleanArray>,
}

pub(crate) fn questions() -> Vec<Question> {
    let symbol = |batch: &RecordBatch| -> BooleanArray {
        let symbols = batch.column(1).as_dictionary::<Int32Type>();
        let symbols = symbols.downcast_dict::<arrow::array::StringArray>().unwrap();
        symbols.into_iter().map(|symbol| Some(symbol == Some("IBM"))).collect()
    };
    let (from, to) = (10_000_000_000, model::DAY + 20_000_000_000);
    let time = move |batch: &RecordBatch| -> BooleanArray {
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
        times.values().iter().map(|time| Some((from..=to).contains(time))).collect()
    };
    let price = |batch: &RecordBatch| -> BooleanArray {
        batch.column(2).as_primitive::<Float64Type>().values().iter().map(|price| Some(*price >= 99.0)).collect()
    };
    let bounds = (sortable(ValueKind::Float, 99.0_f64.to_bits()), sortable(ValueKind::Float, f64::MAX.to_bits()));
    let columns = vec![ColumnBounds { column: "price".to_owned(), kind: ValueKind::Float, bounds }];
    let all = |batch: &RecordBatch| BooleanArray::from(vec![true; batch.num_rows()]);
    vec![
        Question { selection: Selection::default(), matches: Box::new(all) },
        Question {
            selection: Selection { symbols: Some(vec!["IBM".to_owned()]), ..Selection::default() },
            matches: Box::new(symbol),
        },
        Question {
            selection: Selection { time: Bounds { min: from, max: to }, ..Selection::default() },
            matches: Box::new(time),
        },
        Question { selection: Selection { columns, ..Selection::default() }, matches: Box::new(price) },
    ]
}

pub(crate) type Summaries = Vec<(u64, Option<String>, Vec<Summary>)>;

/// All that the indexes say.
pub(crate) fn summaries(database: &Database) -> Result<Summaries> {
    let snapshot = database.table("trade")?.snapshot()?;
    let mut all = Vec::new();
    for segment in snapshot.partitions().iter().flat_map(|partition| partition.segments.iter()) {
        let index = segment.index()?;
        for column in snapshot.spec().columns.iter().map(|column| &column.name) {
            for run in 0..index.symbols()? {
                all.push((index.symbol_rows(run)?.start, index.symbol(run)?.map(str::to_owned), Vec::new()));
            }
            let by_block = index.by_block(column)?;
            all.push((index.rows(), None, by_block.iter().flat_map(|s| (0..s.len()).map(|i| s.get(i))).collect()));
        }
    }
    Ok(all)
}

struct Expected {
    answers: Vec<RecordBatch>,
    summaries: Summaries,
}

impl Expected {
    fn of(storage: &FaultStorage, model: &Model) -> Expected {
        let rows = model.batch();
        let answers = questions().iter().map(|q| filter_record_batch(&rows, &(q.matches)(&rows)).unwrap()).collect();
        Expected { answers, summaries: summaries(&open(storage).unwrap()).unwrap() }
    }
}

/// Whether summaries are as they should be, but for those that there aren't: a damaged section of an index has none.
fn are_sound(actual: &Summaries, expected: &Summaries) -> bool {
    let is_sound = |(one, other): (&(u64, Option<String>, Vec<Summary>), &(u64, Option<String>, Vec<Summary>))| {
        (one.0, &one.1) == (other.0, &other.1) && (one.2 == other.2 || one.2.is_empty())
    };
    actual.len() == expected.len() && actual.iter().zip(expected).all(is_sound)
}

/// Whether something was found to be wrong.
fn read_everything(storage: &FaultStorage, expected: &Expected, checked: bool, what: &str) -> bool {
    let mut refused = 0;
    let mut refuse = |error: &Error| {
        let named = matches!(
            error,
            Error::Corrupt { .. } | Error::FormatVersion { .. } | Error::Io { .. } | Error::Setting { .. }
        );
        assert!(named, "{what}: {error:?}");
        refused += 1;
    };
    let database = match Database::open_on(Arc::new(storage.clone())) {
        Ok(database) => database,
        Err(error) => {
            refuse(&error);
            return true;
        }
    };
    for (question, rows) in questions().iter().zip(&expected.answers) {
        // Each on its own snapshot, so that the first to touch a file is another one each time.
        let database = Database::open_on(Arc::new(storage.clone())).unwrap();
        let answer = database.table("trade").and_then(|table| read_snapshot(&table.snapshot()?, &question.selection));
        match answer {
            Ok(actual) if checked => {
                let actual = filter_record_batch(&actual, &(question.matches)(&actual)).unwrap();
                assert!(actual == *rows, "{what}: wrong rows for {:?}", question.selection);
            }
            // Values may be wrong where nobody checks them.
            Ok(actual) => assert_eq!(plain(&actual).num_rows(), actual.num_rows()),
            Err(error) => refuse(&error),
        }
    }
    match summaries(&database) {
        Ok(actual) => assert!(are_sound(&actual, &expected.summaries), "{what}: wrong summaries"),
        Err(error) => refuse(&error),
    }
    match database.table("trade").and_then(|table| table.verify(&mut go_on)) {
        Ok(problems) => problems.iter().for_each(|problem| refuse(&problem.error)),
        Err(error) => refuse(&error),
    }
    refused > 0
}

/// No answer needs a sound index. Before, flips in the sections that are read last failed the statements that looked at them.
#[test]
fn every_answer_is_there_with_a_damaged_index() {
    let (storage, model) = base(4);
    let expected = Expected::of(&storage, &model);
    for index in storage.paths().iter().filter(|path| path.ends_with(".index")) {
        let length = storage.read(index).unwrap().len();
        for place in (0..length).step_by(7) {
            let damaged = storage.copy();
            damaged.damage(index, |bytes| bytes[place] ^= 0x41).unwrap();
            for (question, rows) in questions().iter().zip(&expected.answers) {
                let database = Database::open_on(Arc::new(damaged.clone())).unwrap();
                let snapshot = database.table("trade").unwrap().snapshot().unwrap();
                let actual = read_snapshot(&snapshot, &question.selection).unwrap();
                let actual = filter_record_batch(&actual, &(question.matches)(&actual)).unwrap();
                assert!(actual == *rows, "{index}, byte {place}: wrong rows for {:?}", question.selection);
            }
        }
    }
}

/// Damages each file in many ways and reads everything each time.
fn survives(storage: &FaultStorage, model: &Model, checked: bool) {
    let expected = Expected::of(storage, model);
    for path in storage.paths().into_iter().filter(|path| path != "readers.lock" && !path.ends_with("CREATED")) {
        let length = storage.read(&path).unwrap().len();
        let mut rng = rng(length as u64);
        let near_ends = (0..length).filter(|place| *place < 2048 || *place + 2048 >= length);
        let mut places: BTreeSet<usize> = near_ends.collect();
        places.extend((0..300).map(|_| rng.random_range(0..length)));
        let (mut flips, mut cuts, mut unnoticed) = (0, 0, 0);
        let mut try_one = |damaged: FaultStorage, what: String| {
            let outcome = catch_unwind(AssertUnwindSafe(|| read_everything(&damaged, &expected, checked, &what)));
            match outcome {
                Ok(is_noticed) => unnoticed += usize::from(!is_noticed),
                Err(panic) => {
                    eprintln!("{what}");
                    std::panic::resume_unwind(panic)
                }
            }
        };
        for place in &places {
            let damaged = storage.copy();
            let mask = rng.random_range(1..=255_u8);
            damaged.damage(&path, |bytes| bytes[*place] ^= mask).unwrap();
            try_one(damaged, format!("{path}, byte {place} of {length} xor {mask}"));
            flips += 1;
        }
        for place in places.iter().step_by(8) {
            let damaged = storage.copy();
            damaged.damage(&path, |bytes| bytes.truncate(*place)).unwrap();
            try_one(damaged, format!("{path}, cut from {length} to {place} bytes"));
            cuts += 1;
        }
        println!("{path}: {flips} flips, {cuts} cuts, {unnoticed} of them unnoticed");
        assert!(path == "splay.toml" || unnoticed == 0, "{path}: {unnoticed} went unnoticed");
    }
}

#[test]
fn damage_is_named_or_harmless() {
    let (storage, model) = base(1);
    survives(&storage, &model, true);
}

#[test]
fn damage_to_unchecked_data_never_panics() {
    let (storage, model) = base(1);
    let unchecked = |bytes: &mut Vec<u8>| {
        let text = String::from_utf8(bytes.clone()).unwrap().replace("verify_on_read = true", "verify_on_read = false");
        *bytes = text.into_bytes();
    };
    storage.damage("splay.toml", unchecked).unwrap();
    assert!(!open(&storage).unwrap().settings().verify_on_read);
    survives(&storage, &model, false);
}

/// A symbol that spans row groups has another code in each of their dictionaries: the index made anew held it twice.
#[test]
fn an_index_made_anew_finds_all_rows_of_a_symbol() {
    let storage = FaultStorage::new();
    let database = open(&storage).unwrap();
    let columns = vec![ColumnSpec::new("time", ColumnType::Timestamp), ColumnSpec::new("sym", ColumnType::Symbol)];
    let spec = TableSpec::new("t", columns, "time", Some("sym"));
    let rows = 1_200_000;
    let times = TimestampNanosecondArray::from_iter_values(0..rows).with_timezone("UTC");
    let symbols: DictionaryArray<Int32Type> = (0..rows).map(|row| if row % 3 == 0 { "AAPL" } else { "IBM" }).collect();
    let batch = RecordBatch::try_new(spec.arrow(), vec![Arc::new(times), Arc::new(symbols)]).unwrap();
    let options = LoadOptions { tier: Some(Tier::Small), ..LoadOptions::default() };
    let mut loading = database.load(&spec, options).unwrap();
    loading.append(&batch).unwrap();
    loading.commit().unwrap();
    storage.remove("t/date=1970-01-01/00000001.000001.index").unwrap();
    let snapshot = open(&storage).unwrap().table("t").unwrap().snapshot().unwrap();
    let symbols = Some(vec!["IBM".to_owned()]);
    let ibm = read_snapshot(&snapshot, &Selection { symbols, ..Selection::default() }).unwrap();
    assert_eq!(ibm.num_rows(), 800_000);
}

/// The index is never the truth: without it, or with another one, every answer is the same.
#[test]
fn an_index_is_made_anew_where_it_is_damaged() {
    let (storage, model) = base(3);
    let clean = Expected::of(&storage, &model);
    for index in storage.paths().iter().filter(|path| path.ends_with(".index")) {
        let damaged = storage.copy();
        damaged.damage(index, |bytes| bytes[20] ^= 1).unwrap();
        assert!(read_everything(&damaged, &clean, true, "a damaged index"), "verify names the index");
        assert_eq!(model::read(&damaged).unwrap().as_ref(), Some(&clean.answers[0]));
        damaged.remove(index).unwrap();
        let problems = open(&damaged).unwrap().table("trade").unwrap().verify(&mut go_on).unwrap();
        let named = problems.iter().any(|problem| {
            let segment = problem.path.strip_prefix("trade").unwrap().display().to_string();
            let text = problem.error.to_string();
            text.contains(index.as_str()) && text.contains(&format!("the index of {segment}"))
        });
        assert!(named, "{problems:?}");
        assert!(read_everything(&damaged, &clean, true, "a lost index"), "verify names the index");
        assert_eq!(model::read(&damaged).unwrap().as_ref(), Some(&clean.answers[0]));
    }
}
