//! The crypto month: rows, order, books, and the same values in both formats.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimestampNanosecondType};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use splay_lab::{CryptoSettings, FileFormat, WrittenFile, generate_crypto};
use tempfile::tempdir;

use super::support::{all_files, column, digest, table, text};

fn settings(out: &Path) -> CryptoSettings {
    CryptoSettings { out: out.to_path_buf(), scale: 0.000_1, seed: 42, ..CryptoSettings::default() }
}

fn rows_of(written: &[WrittenFile], part: &str) -> u64 {
    written.iter().filter(|file| file.path.to_str().unwrap().contains(part)).map(|file| file.rows).sum()
}

#[test]
fn a_tiny_scale_has_every_file_and_exact_counts() {
    let folder = tempdir().unwrap();
    let mut last = 0;
    let written = generate_crypto(&settings(folder.path()), &mut |rows| last = rows).unwrap();
    let names: Vec<String> = all_files(folder.path()).into_keys().collect();
    assert_eq!(names.len(), 30 * 2 + 1 + 2);
    for name in
        ["trades_2022-06-18.csv", "books_2022-07-17.csv", "books_2022-07-20.csv", "write/trades.csv", "write/books.csv"]
    {
        assert!(names.contains(&name.to_owned()), "{name}");
    }
    assert_eq!(rows_of(&written, "/trades_2022"), 881 + 1_001 + 76);
    assert_eq!(rows_of(&written, "/books_2022") - rows_of(&written, "2022-07-20"), 1_566 + 1_406 + 92);
    assert_eq!(rows_of(&written, "2022-07-20"), 143 + 122 + 11);
    assert_eq!((rows_of(&written, "write/trades"), rows_of(&written, "write/books")), (100, 150));
    assert_eq!(last, written.iter().map(|file| file.rows).sum::<u64>());
    for file in &written {
        let (_, rows) = table(&text(&file.path), ',');
        assert_eq!(rows.len() as u64, file.rows, "{}", file.path.display());
    }
}

#[test]
fn same_settings_same_bytes_and_days_are_a_prefix() {
    let folders = [tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap()];
    generate_crypto(&settings(folders[0].path()), &mut |_| {}).unwrap();
    generate_crypto(&settings(folders[1].path()), &mut |_| {}).unwrap();
    generate_crypto(&CryptoSettings { days: Some(2), ..settings(folders[2].path()) }, &mut |_| {}).unwrap();
    let [first, again, prefix] = folders.each_ref().map(|folder| all_files(folder.path()));
    assert!(first == again);
    assert_eq!(prefix.len(), 4);
    assert!(prefix.iter().all(|(name, bytes)| first[name] == *bytes));
    // The bytes every machine gives. Changing the simulator changes them: then say so in the changelog.
    let of = |name: &str| digest(&text(&folders[0].path().join(name)));
    assert_eq!(
        [of("trades_2022-06-18.csv"), of("books_2022-06-18.csv")],
        [0x4c76_fcd6_b7cd_9cb8, 0x3d84_1bc0_be26_075a]
    );
}

/// The decimals of a number's text.
fn decimals(text: &str) -> usize {
    text.split_once('.').unwrap().1.len()
}

#[test]
fn books_are_ordered_uncrossed_and_on_the_grid() {
    let folder = tempdir().unwrap();
    let written = generate_crypto(&CryptoSettings { scale: 0.001, ..settings(folder.path()) }, &mut |_| {}).unwrap();
    let mut exchanges = BTreeSet::new();
    for file in written.iter().filter(|file| file.path.to_str().unwrap().contains("books")) {
        let (header, rows) = table(&text(&file.path), ',');
        let level = |name: &str| column(&header, name);
        assert_eq!([level("b1p"), level("b20p"), level("b1s"), level("a1p"), level("a20s")], [3, 22, 23, 43, 82]);
        assert!(rows.windows(2).all(|pair| pair[0][0] <= pair[1][0]), "time order");
        for row in &rows {
            let numbers: Vec<f64> = row[3..].iter().map(|field| field.parse().unwrap()).collect();
            assert!(numbers.iter().all(|number| *number > 0.0));
            assert!(numbers[..20].windows(2).all(|pair| pair[0] > pair[1]), "bids fall");
            assert!(numbers[40..60].windows(2).all(|pair| pair[0] < pair[1]), "asks rise");
            assert!(numbers[0] < numbers[40], "{row:?}");
            let (price, size) = if row[1] == "USDT-USD" { (5, 4) } else { (2, 8) };
            assert!(row[3..23].iter().all(|field| decimals(field) <= price));
            assert!(row[23..43].iter().all(|field| decimals(field) <= size));
            exchanges.insert((file.path.ends_with("books_2022-07-20.csv"), row[2].clone()));
        }
    }
    assert_eq!(exchanges.iter().filter(|(nbbo_day, _)| *nbbo_day).count(), 5);
    assert_eq!(exchanges.iter().filter(|(nbbo_day, _)| !*nbbo_day).count(), 1);
}

#[test]
fn trades_meet_the_book_and_their_ids_rise() {
    let folder = tempdir().unwrap();
    generate_crypto(&CryptoSettings { scale: 0.01, days: Some(2), ..settings(folder.path()) }, &mut |_| {}).unwrap();
    let mut ids: BTreeMap<String, u64> = BTreeMap::new();
    let mut ties = 0;
    for date in ["2022-06-18", "2022-06-19"] {
        let (header, trades) = table(&text(&folder.path().join(format!("trades_{date}.csv"))), ',');
        assert_eq!(header.join(","), "timestamp,symbol,exchange,side,price,amount,id");
        let (_, books) = table(&text(&folder.path().join(format!("books_{date}.csv"))), ',');
        ties += trades.windows(2).filter(|pair| pair[0][0] == pair[1][0]).count();
        let mut books = books.into_iter().peekable();
        let mut last_book: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for trade in &trades {
            assert!(trade[0].starts_with(date) && trade[0].len() == "2022-06-18T00:00:00.123456Z".len());
            let id = trade[6].parse().unwrap();
            assert!(ids.insert(trade[1].clone(), id).is_none_or(|before| before < id));
            while let Some(book) = books.next_if(|book| book[0] <= trade[0]) {
                last_book.insert(book[1].clone(), book);
            }
            let Some(book) = last_book.get(&trade[1]) else {
                continue;
            };
            assert_eq!(trade[4], if trade[3] == "buy" { book[43].as_str() } else { book[3].as_str() });
        }
    }
    assert_eq!(ids.len(), 3);
    assert!(ties > 100, "equal times occur: {ties}");
}

/// The rows of a Parquet file as text fields, floats as their bits.
fn parquet_rows(path: &Path) -> Vec<Vec<String>> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap().build().unwrap();
    reader.flat_map(|batch| batch_rows(&batch.unwrap())).collect()
}

fn batch_rows(batch: &RecordBatch) -> Vec<Vec<String>> {
    let columns: Vec<Vec<String>> = batch.columns().iter().map(|array| fields(array.as_ref())).collect();
    (0..batch.num_rows()).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect()
}

fn fields(array: &dyn Array) -> Vec<String> {
    match array.data_type() {
        DataType::Timestamp(_, zone) => {
            assert_eq!(zone.as_deref(), Some("UTC"));
            array.as_primitive::<TimestampNanosecondType>().values().iter().map(i64::to_string).collect()
        }
        DataType::Float64 => {
            array.as_primitive::<Float64Type>().values().iter().map(|value| value.to_bits().to_string()).collect()
        }
        DataType::Int64 => array.as_primitive::<Int64Type>().values().iter().map(i64::to_string).collect(),
        DataType::Dictionary(..) => {
            let text = cast(array, &DataType::Utf8).unwrap();
            text.as_string::<i32>().iter().map(|value| value.unwrap().to_owned()).collect()
        }
        other => panic!("unexpected type {other}"),
    }
}

/// The rows of a CSV file in the form of [`parquet_rows`].
fn csv_rows(path: &Path) -> Vec<Vec<String>> {
    let (_, rows) = table(&text(path), ',');
    let field = |(index, text): (usize, String)| match (index, text.parse::<f64>()) {
        (0, _) => chrono::DateTime::parse_from_rfc3339(&text).unwrap().timestamp_nanos_opt().unwrap().to_string(),
        (_, Ok(number)) if text.contains('.') => number.to_bits().to_string(),
        _ => text,
    };
    rows.into_iter().map(|row| row.into_iter().enumerate().map(field).collect()).collect()
}

#[test]
fn parquet_and_csv_hold_the_same_values() {
    let (csv, parquet) = (tempdir().unwrap(), tempdir().unwrap());
    // More than one batch of 4,096 rows a file.
    let small = CryptoSettings { scale: 0.005, days: Some(1), ..settings(csv.path()) };
    generate_crypto(&small, &mut |_| {}).unwrap();
    let written = generate_crypto(
        &CryptoSettings { out: parquet.path().to_path_buf(), format: FileFormat::Parquet, ..small },
        &mut |_| {},
    );
    for file in written.unwrap() {
        let name = file.path.file_name().unwrap();
        let rows = parquet_rows(&file.path);
        assert_eq!(rows.len() as u64, file.rows);
        assert!(rows.len() > 1_000);
        assert!(rows == csv_rows(&csv.path().join(name).with_extension("csv")), "{}", file.path.display());
    }
}

#[test]
fn the_write_day_is_csv_in_either_format() {
    let folder = tempdir().unwrap();
    generate_crypto(&CryptoSettings { format: FileFormat::Parquet, ..settings(folder.path()) }, &mut |_| {}).unwrap();
    let names: BTreeSet<String> = all_files(folder.path()).into_keys().collect();
    assert!(names.contains("write/trades.csv") && names.contains("books_2022-07-20.parquet"));
}
