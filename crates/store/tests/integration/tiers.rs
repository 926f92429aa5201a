//! Every tier gives back what was stored, bit for bit, however it is read.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeListArray, Float32Array,
    Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, Time64NanosecondArray, TimestampNanosecondArray,
    UInt32Array, UInt64Array,
};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Field, Int32Type};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use splay_store::storage::fault::FaultStorage;
use splay_store::{
    ColumnSpec, ColumnType, CompactOptions, Database, EncryptionSettings, LoadOptions, Publish, RowList, Settings,
    TableSpec, Tier,
};

use crate::encryption;
use crate::model::{self, Model, go_on, rng};

fn database(encryption: Option<EncryptionSettings>) -> Database {
    let settings = Settings { encryption, ..Settings::default() };
    Database::create_on(Arc::new(FaultStorage::new()), &settings).unwrap()
}

/// Columns of a type that encodings find easy, hard and impossible.
fn columns(rng: &mut ChaCha8Rng, rows: usize) -> Vec<(ColumnType, ArrayRef)> {
    let mut all: Vec<(ColumnType, ArrayRef)> = Vec::new();
    // Whole numbers: all bits, few values, rising, constant; each without nulls, with some, and nothing but nulls.
    for shape in 0..4 {
        for nulls in [0.0, 0.1, 1.0] {
            let mut last = 0_i64;
            let numbers: Vec<Option<i64>> = (0..rows)
                .map(|_| {
                    last = match shape {
                        0 => rng.random(),
                        1 => rng.random_range(-3..4) * 1000,
                        2 => last + rng.random_range(0..200),
                        _ => -7,
                    };
                    (!rng.random_bool(nulls)).then_some(last)
                })
                .collect();
            let wide = Int64Array::from(numbers.clone());
            let narrow = |data_type: &DataType, bits: u32| {
                let cut = |value: i64| value << (64 - bits) >> (64 - bits);
                cast(&wide.unary::<_, arrow::datatypes::Int64Type>(cut), data_type).unwrap()
            };
            let unsigned = |data_type: &DataType, bits: u32| {
                let cut = |value: i64| value.cast_unsigned() << (64 - bits) >> (64 - bits);
                cast(&wide.unary::<_, arrow::datatypes::UInt64Type>(cut), data_type).unwrap()
            };
            all.push((ColumnType::Int8, narrow(&DataType::Int8, 8)));
            all.push((ColumnType::Int16, narrow(&DataType::Int16, 16)));
            all.push((ColumnType::Int32, narrow(&DataType::Int32, 32)));
            all.push((ColumnType::Int64, Arc::new(wide.clone())));
            all.push((ColumnType::UInt8, unsigned(&DataType::UInt8, 8)));
            all.push((ColumnType::UInt16, unsigned(&DataType::UInt16, 16)));
            all.push((ColumnType::UInt32, unsigned(&DataType::UInt32, 32)));
            let bits = numbers.iter().map(|value| value.map(i64::cast_unsigned));
            all.push((ColumnType::UInt64, Arc::new(bits.collect::<UInt64Array>())));
            all.push((
                ColumnType::Bool,
                Arc::new(numbers.iter().map(|v| v.map(|v| v & 1 == 1)).collect::<BooleanArray>()),
            ));
            let day = |value: i64| i32::try_from(value % 100_000).unwrap();
            all.push((ColumnType::Date, Arc::new(numbers.iter().map(|v| v.map(day)).collect::<Date32Array>())));
            for unit in [1, 1_000, 1_000_000] {
                let times = numbers.iter().map(|v| v.map(|v| v / 1_000_000_000 * unit));
                let instants: TimestampNanosecondArray = times.clone().collect();
                all.push((ColumnType::Timestamp, Arc::new(instants.with_timezone("UTC"))));
                let of_day = times.map(|v| v.map(|v| v.rem_euclid(86_400_000_000_000)));
                all.push((ColumnType::Time, Arc::new(of_day.collect::<Time64NanosecondArray>())));
            }
            for (precision, scale) in [(9, 2), (18, 4), (38, 6)] {
                let limit = 10_i64.pow(u32::from(precision.min(18_u8)));
                let values = numbers.iter().map(|v| v.map(|v| i128::from(v % limit)));
                let values: Decimal128Array = values.collect();
                let values = values.with_precision_and_scale(precision, scale).unwrap();
                all.push((ColumnType::Decimal { precision, scale }, Arc::new(values)));
            }
            let texts: Vec<Option<String>> = numbers.iter().map(|v| v.map(|v| format!("{:x}", v % 5000))).collect();
            all.push((ColumnType::Text, Arc::new(StringArray::from(texts.clone()))));
            let coded: DictionaryArray<Int32Type> = texts.iter().map(Option::as_deref).collect();
            all.push((ColumnType::Symbol, Arc::new(coded)));
            // Prices of some digits, beside numbers that have none.
            for digits in [0, 2, 8] {
                for odd in [None, Some(f64::NAN), Some(-0.0), Some(f64::INFINITY), Some(5e-324), Some(1.0 / 3.0)] {
                    let mut prices: Vec<Option<f64>> = numbers
                        .iter()
                        .map(|v| v.map(|v| format!("{}e-{digits}", v % 100_000_000).parse::<f64>().unwrap()))
                        .collect();
                    // `+ 0.0` makes the negative zeros of the text positive ones.
                    prices.iter_mut().flatten().for_each(|price| *price += 0.0);
                    if let (Some(odd), true) = (odd, nulls < 1.0) {
                        let place = rng.random_range(0..rows);
                        prices[place] = Some(odd);
                    }
                    let singles = prices.iter().map(|price| price.map(|price| price as f32));
                    all.push((ColumnType::Float32, Arc::new(singles.collect::<Float32Array>())));
                    all.push((ColumnType::Float64, Arc::new(Float64Array::from(prices))));
                }
            }
            let bits = numbers.iter().map(|v| v.map(|v| f64::from_bits(v.cast_unsigned())).filter(|v| !v.is_nan()));
            all.push((ColumnType::Float64, Arc::new(bits.collect::<Float64Array>())));
            let items = Float64Array::from_iter_values((0..rows * 2).map(|item| item as f64 / 4.0));
            let item = Arc::new(Field::new("item", DataType::Float64, true));
            let lists = FixedSizeListArray::new(item, 2, Arc::new(items), wide.nulls().cloned());
            all.push((ColumnType::Levels { size: 2 }, Arc::new(lists)));
        }
    }
    all
}

/// A table of one series whose columns are these; the time is the row.
fn stored(columns: &[(ColumnType, ArrayRef)], tier: Tier) -> (Database, TableSpec) {
    stored_for(columns, tier, None, None)
}

/// The same in a form that others read, or encrypted.
fn stored_for(
    columns: &[(ColumnType, ArrayRef)],
    tier: Tier,
    publish: Option<Publish>,
    encryption: Option<EncryptionSettings>,
) -> (Database, TableSpec) {
    let rows = columns[0].1.len();
    let times = TimestampNanosecondArray::from_iter_values((0..rows as i64).map(|row| row * 1_000_003));
    let mut specs = vec![ColumnSpec::new("time", ColumnType::Timestamp)];
    let mut arrays: Vec<ArrayRef> = vec![Arc::new(times.with_timezone("UTC"))];
    for (number, (column_type, array)) in columns.iter().enumerate() {
        specs.push(ColumnSpec::new(format!("c.{number}"), column_type.clone()));
        arrays.push(Arc::clone(array));
    }
    let mut spec = TableSpec::new("t", specs, "time", None);
    spec.publish = publish;
    let database = database(encryption);
    let mut load = database.load(&spec, LoadOptions { tier: Some(tier), ..LoadOptions::default() }).unwrap();
    load.append(&RecordBatch::try_new(spec.arrow(), arrays).unwrap()).unwrap();
    load.commit().unwrap();
    (database, spec)
}

/// Floats as their bits and coded texts as texts, so that equal means equal bit for bit.
fn plain(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float64 => Arc::new(
            array
                .as_any()
                .downcast_ref::<Float64Array>()
                .unwrap()
                .unary::<_, arrow::datatypes::UInt64Type>(f64::to_bits),
        ),
        DataType::Float32 => Arc::new(
            array
                .as_any()
                .downcast_ref::<Float32Array>()
                .unwrap()
                .unary::<_, arrow::datatypes::UInt32Type>(f32::to_bits),
        ),
        DataType::Dictionary(..) => cast(array, &DataType::Utf8).unwrap(),
        _ => Arc::clone(array),
    }
}

#[test]
fn each_tier_gives_back_every_bit() {
    let mut rng = rng(11);
    for rows in [1, 5, 9011] {
        let columns = columns(&mut rng, rows);
        let published = [(Tier::Fast, Some(Publish::Delta), None), (Tier::Small, Some(Publish::DeltaNanos), None)];
        let encrypted = Tier::LOCAL.map(|tier| (tier, None, Some(encryption::settings())));
        let plain_ones = Tier::LOCAL.map(|tier| (tier, None, None));
        for (tier, form, encryption) in plain_ones.into_iter().chain(published).chain(encrypted) {
            if rows == 5 && encryption.is_some() {
                continue;
            }
            let key = encryption.as_ref().filter(|_| tier != Tier::Mapped).map(|_| "second".to_owned());
            let (database, spec) = stored_for(&columns, tier, form, encryption);
            let snapshot = database.table("t").unwrap().snapshot().unwrap();
            let partitions = snapshot.partitions();
            let segment = &partitions[0].segments[0];
            assert_eq!((partitions.len(), partitions[0].segments.len(), segment.entry().tier), (1, 1, tier));
            assert_eq!(segment.entry().key, key);
            segment.verify(&spec).unwrap();
            let mut ranges = vec![0..rows, 0..1, rows - 1..rows, 0..0];
            for _ in 0..8 {
                let start = rng.random_range(0..rows);
                ranges.push(start..rng.random_range(start..=rows));
                ranges.push(start..(start + 7).min(rows));
            }
            let all: Vec<usize> = (0..spec.columns.len()).collect();
            for rows in &ranges {
                let batch = segment.read(&spec, &all, rows.start as u64..rows.end as u64).unwrap();
                for (number, (column_type, array)) in columns.iter().enumerate() {
                    let expected = plain(&array.slice(rows.start, rows.len()));
                    assert_eq!(&plain(batch.column(number + 1)), &expected, "{tier:?} {column_type} {number} {rows:?}");
                }
            }
            for (number, (column_type, array)) in columns.iter().enumerate() {
                let reader = segment.column(&spec, number + 1).unwrap();
                for rows in &ranges {
                    reader.read_ahead(rows.clone());
                    let expected = plain(&array.slice(rows.start, rows.len()));
                    let read = reader.read(rows.clone()).unwrap();
                    assert_eq!(&plain(&read), &expected, "{tier:?} {column_type} {number} {rows:?}");
                }
                let pieces = &ranges[4..];
                let parts: Vec<ArrayRef> = pieces.iter().map(|rows| array.slice(rows.start, rows.len())).collect();
                let parts: Vec<ArrayRef> = parts.iter().map(plain).collect();
                let expected = concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap();
                let together = reader.read_pieces(pieces).unwrap();
                assert_eq!(&plain(&together), &expected, "{tier:?} {column_type} {number}");
                let any = |rng: &mut ChaCha8Rng| rng.random_range(0..rows as u32);
                let mixed: Vec<u32> = (0..200).map(|_| any(&mut rng)).collect();
                let sorted: Vec<u32> = (0..rows as u32).filter(|row| row % 700 < 2).collect();
                for list in [
                    mixed.iter().map(|row| (row % 3 > 0).then_some(*row)).collect(),
                    mixed.into(),
                    sorted.into(),
                    UInt32Array::from(vec![0; 0]),
                ] {
                    let selected_rows = reader.take(&RowList::from(list.clone())).unwrap();
                    let expected = plain(&take(array, &list, None).unwrap());
                    assert_eq!(&plain(&selected_rows), &expected, "{tier:?} {column_type} {number} {list:?}");
                }
                assert!(reader.take(&RowList::from(UInt32Array::from(vec![0, rows as u32]))).is_err());
            }
        }
    }
}

/// Row groups have dictionaries of their own; whoever reads across them gets one.
#[test]
fn row_groups_with_other_texts_share_a_dictionary() {
    let rows = (1 << 20) + 9000;
    let texts = ["A", "B", "C", "D"];
    let of_row = |row: usize| if row < 1 << 20 { row % 3 } else { 1 + row % 3 };
    let codes = Int32Array::from_iter_values((0..rows).map(|row| of_row(row) as i32));
    let symbols = DictionaryArray::new(codes, Arc::new(StringArray::from(texts.to_vec())));
    let numbers = Int64Array::from_iter_values((0..rows).map(|row| [1 << 40, 5, -9, 77][of_row(row)]));
    let columns: Vec<(ColumnType, ArrayRef)> =
        vec![(ColumnType::Symbol, Arc::new(symbols)), (ColumnType::Int64, Arc::new(numbers))];
    for tier in [Tier::Fast, Tier::Small, Tier::Dense] {
        let (database, spec) = stored(&columns, tier);
        let snapshot = database.table("t").unwrap().snapshot().unwrap();
        let partitions = snapshot.partitions();
        let segment = &partitions[0].segments[0];
        for rows in [(1 << 20) - 5..(1 << 20) + 5, 0..rows, rows - 3..rows] {
            for column in 0..2 {
                let read = segment.column(&spec, column + 1).unwrap().read(rows.clone()).unwrap();
                let expected = columns[column].1.slice(rows.start, rows.len());
                assert_eq!(&plain(&read), &plain(&expected), "{tier:?} {rows:?}");
            }
            let read = segment.column(&spec, 1).unwrap().read(rows.clone()).unwrap();
            let read = read.as_any().downcast_ref::<DictionaryArray<Int32Type>>().unwrap();
            assert_eq!(read.values().len(), 4, "each text once");
        }
    }
}

#[test]
fn a_table_moves_from_tier_to_tier() {
    let columns = columns(&mut rng(12), 3000);
    let (database, spec) = stored(&columns, Tier::Mapped);
    let table = database.table("t").unwrap();
    let mut sizes = Vec::new();
    for tier in [Tier::Fast, Tier::Small, Tier::Mapped, Tier::Small, Tier::Fast, Tier::Dense, Tier::Mapped, Tier::Dense]
    {
        let report =
            table.compact(&CompactOptions { tier: Some(tier), ..CompactOptions::default() }, &mut go_on).unwrap();
        assert_eq!(report.partitions, 1);
        let snapshot = table.snapshot().unwrap();
        let partitions = snapshot.partitions();
        let segment = &partitions[0].segments[0];
        assert_eq!(segment.entry().tier, tier);
        let all: Vec<usize> = (0..spec.columns.len()).collect();
        let batch = segment.read_all(&spec, &all).unwrap();
        for (number, (column_type, array)) in columns.iter().enumerate() {
            assert_eq!(&plain(batch.column(number + 1)), &plain(array), "{tier:?} {column_type} {number}");
        }
        sizes.push(segment.entry().bytes);
        let again =
            table.compact(&CompactOptions { tier: Some(tier), ..CompactOptions::default() }, &mut go_on).unwrap();
        assert_eq!(again.partitions, 0, "it is so already");
    }
    assert!(sizes[1] < sizes[0] && sizes[0] < sizes[2], "{sizes:?}");
    assert_eq!((sizes[0], sizes[1]), (sizes[4], sizes[3]), "the same rows make the same bytes");
    assert_eq!(sizes[5], sizes[7], "the same rows make the same bytes");
}

/// A table of five days that says how dates are kept by their age.
#[test]
fn dates_move_to_the_tier_of_their_age() {
    let storage = FaultStorage::new();
    let database = model::open(&storage).unwrap();
    let rows = model::rows(7, 500, 0..5, 4);
    model::load(&database, &rows, LoadOptions::default()).unwrap();
    let table = database.table("trade").unwrap();
    let tiers = || -> Vec<Tier> {
        let snapshot = table.snapshot().unwrap();
        snapshot.partitions().iter().map(|partition| partition.segments[0].entry().tier).collect()
    };
    assert!(table.stored().unwrap().due_moves().is_empty(), "without rules all stays");
    table.set_tier(Tier::Small, 3).unwrap();
    table.set_tier(Tier::Fast, 1).unwrap();
    table.set_tier(Tier::Fast, 2).unwrap();
    assert_eq!(table.stored().unwrap().spec().tiers.len(), 2, "a rule that says nothing new is none");
    let due = table.stored().unwrap().due_moves();
    assert_eq!(due, [(0, Tier::Small), (1, Tier::Small), (2, Tier::Fast), (3, Tier::Fast)]);
    for (date, _) in &due[1..] {
        table.compact(&CompactOptions { date: Some(*date), ..CompactOptions::default() }, &mut go_on).unwrap();
    }
    assert_eq!(tiers(), [Tier::Mapped, Tier::Small, Tier::Fast, Tier::Fast, Tier::Mapped]);
    assert_eq!(table.stored().unwrap().due_moves(), due[..1]);
    // Rows that come late are kept as their date is; an age that is asked for wins.
    let late = model::rows(8, 100, 0..5, 4);
    model::load(&database, &late, LoadOptions::default()).unwrap();
    assert_eq!(tiers(), [Tier::Small, Tier::Small, Tier::Fast, Tier::Fast, Tier::Mapped]);
    let options = LoadOptions { tier: Some(Tier::Fast), ..LoadOptions::default() };
    let more = model::rows(9, 10, 4..5, 4);
    model::load(&database, &more, options).unwrap();
    assert_eq!(tiers()[4], Tier::Fast);
    let all = [rows, late, more].concat();
    assert_eq!(model::read(&storage).unwrap().unwrap(), Model::new(all).batch());
    table.set_tier(Tier::Mapped, 0).unwrap();
    table.compact(&CompactOptions::default(), &mut go_on).unwrap();
    assert_eq!(tiers(), [Tier::Small, Tier::Small, Tier::Fast, Tier::Fast, Tier::Mapped]);
}
