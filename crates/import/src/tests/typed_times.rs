//! Times in columns of texts and numbers of Parquet and Arrow files.

use std::sync::Arc;

use arrow::array::{Date32Array, Float64Array, Int32Array, Int64Array, StringArray};

use super::*;

fn settings() -> ImportSettings {
    ImportSettings::default()
}

fn timed(time: &str) -> ImportSettings {
    ImportSettings { time: Some(time.to_owned()), ..settings() }
}

fn typed(name: &str, column_type: ColumnType) -> ImportSettings {
    ImportSettings { types: vec![(name.to_owned(), column_type)], ..settings() }
}

fn nanos(text: &str) -> Option<i64> {
    chrono::DateTime::parse_from_rfc3339(text).unwrap().timestamp_nanos_opt()
}

fn strings(texts: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(texts.to_vec()))
}

fn numbers(numbers: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(numbers.to_vec()))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, values)| (name, values, true))).unwrap()
}

fn dates(rows: usize) -> ArrayRef {
    Arc::new(Date32Array::from(vec![19_786; rows]))
}

/// The same rows as Parquet and as Arrow.
fn with(rows: &RecordBatch, settings: &ImportSettings) -> Loaded {
    let of_parquet = load_bytes("t.parquet", &parquet(rows), settings.clone()).unwrap_or_else(|e| panic!("{e}"));
    let of_arrow = load_bytes("t.arrow", &ipc_file(rows), settings.clone()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((&of_parquet.spec, &of_parquet.rows), (&of_arrow.spec, &of_arrow.rows));
    of_parquet
}

fn error(rows: &RecordBatch, settings: &ImportSettings) -> String {
    error_of("t.parquet", &parquet(rows), settings.clone())
}

/// Digits were read as nanoseconds since midnight.
#[test]
fn times_of_digits_are_read_as_those_of_text_files() {
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![93_000.0, 160_001.0]));
    let int_dates: ArrayRef = Arc::new(Int32Array::from(vec![20_240_304; 2]));
    let expected = ["2024-03-04T09:30:00Z", "2024-03-04T16:00:01Z"].map(nanos);
    for date in [dates(2), int_dates, strings(&["2024-03-04", "20240304"])] {
        for clock in [
            strings(&["093000", "160001"]),
            strings(&["09:30:00", "16:00:01"]),
            numbers(&[93_000, 160_001]),
            Arc::clone(&floats),
        ] {
            let rows = batch(vec![("date", Arc::clone(&date)), ("time", clock)]);
            for settings in [settings(), timed("time")] {
                assert_eq!(times(&with(&rows, &settings).rows, "time"), expected);
            }
        }
    }
    let minutes = batch(vec![("date", dates(2)), ("time", strings(&["0930", "1600"]))]);
    let loaded = with(&minutes, &settings());
    assert_eq!(times(&loaded.rows, "time"), ["2024-03-04T09:30:00Z", "2024-03-04T16:00:00Z"].map(nanos));
    let frame = DateAndClock::of(&minutes.schema(), None, None, &|_| false).unwrap().join(&minutes).unwrap();
    assert_eq!(
        frame.column(0).as_primitive::<TimestampNanosecondType>().value(1),
        nanos("2024-03-04T16:00:00Z").unwrap()
    );
}

#[test]
fn times_that_are_not_sure_are_refused() {
    for clock in [strings(&["34200"]), strings(&["9"]), numbers(&[34_200]), numbers(&[34_200_000]), numbers(&[9])] {
        let rows = batch(vec![("date", dates(1)), ("time", clock)]);
        let reason = error(&rows, &settings());
        assert!(reason.contains("time should have the time of day on the date of its row, and holds"), "{reason}");
        assert!(reason.contains("CREATE TABLE ... AS SELECT ... FROM 'file'"), "{reason}");
        assert_eq!(times(&with(&rows, &timed("date")).rows, "date"), [nanos("2024-03-04T00:00:00Z")]);
        let frame = DateAndClock::of(&rows.schema(), None, None, &|_| false).unwrap();
        assert!(frame.join(&rows).unwrap_err().contains("is no time of day for sure"));
    }
    let mixed = batch(vec![("date", dates(1)), ("time", numbers(&[1_709_544_600_123]))]);
    let reason = error(&mixed, &settings());
    assert!(reason.contains("--time time"), "{reason}");
    assert_eq!(times(&with(&mixed, &timed("time")).rows, "time"), [nanos("2024-03-04T09:30:00.123Z")]);
}

#[test]
fn a_later_batch_has_the_form_of_the_first() {
    let rows = |clock: i64| batch(vec![("date", dates(1)), ("time", numbers(&[clock]))]);
    let clock = DateAndClock::of(&rows(930).schema(), None, None, &|_| false).unwrap();
    assert!(clock.join(&rows(930)).is_ok());
    assert!(clock.join(&rows(93_000)).unwrap_err().contains("\"93000\" is no time of day"));
}

/// Whole numbers were nanoseconds, and rows in 1970.
#[test]
fn whole_numbers_are_times_by_their_size() {
    let expected = [nanos("2024-03-04T09:30:00Z"), None];
    for (unit, factor) in
        [("seconds", 1), ("milliseconds", 1_000), ("microseconds", 1_000_000), ("nanoseconds", 1_000_000_000)]
    {
        let counts: ArrayRef = Arc::new(Int64Array::from(vec![Some(1_709_544_600 * factor), None]));
        let rows = batch(vec![("ts", numbers(&[1_709_544_600 * factor; 2])), ("other", counts)]);
        let settings = ImportSettings { types: typed("other", ColumnType::Timestamp).types, ..timed("ts") };
        let loaded = with(&rows, &settings);
        assert_eq!((times(&loaded.rows, "ts")[1], times(&loaded.rows, "other")), (expected[0], expected.to_vec()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        std::fs::write(&path, parquet(&rows)).unwrap();
        let files = expand(&[path.display().to_string()]).unwrap();
        let planned = plan("t", files, settings.clone(), None).unwrap().describe();
        assert!(planned.contains(&format!("note: ts counts {unit} from 1970: 1709544600")), "{planned}");
        let more = load_with(&path, ImportSettings::default(), Some(&loaded.spec), 1 << 20).unwrap();
        assert_eq!(more.rows, loaded.rows);
    }
    let several = batch(vec![("ts", numbers(&[1_709_544_600, 1_709_544_600_123]))]);
    let reason = error(&several, &timed("ts"));
    assert!(reason.contains("counts milliseconds from 1970, and others count seconds"), "{reason}");
    assert!(reason.contains("1709544600123 in row 2"), "{reason}");
    let small = error(&batch(vec![("ts", numbers(&[5]))]), &timed("ts"));
    assert!(small.contains("no time of the years 1990 to 2100 in any unit from 1970"), "{small}");
}

#[test]
fn texts_are_times_as_those_of_text_files() {
    let rows = batch(vec![("ts", strings(&["2024-03-04 09:30:00", "2024-03-04T09:30:00.5Z", "2024-03-04"]))]);
    let expected = ["2024-03-04T09:30:00Z", "2024-03-04T09:30:00.5Z", "2024-03-04T00:00:00Z"].map(nanos);
    assert_eq!(times(&with(&rows, &timed("ts")).rows, "ts"), expected);
    let zoned = ImportSettings { zone: Some("America/New_York".to_owned()), ..timed("ts") };
    let loaded = with(&rows, &zoned);
    assert_eq!(times(&loaded.rows, "ts")[..2], [nanos("2024-03-04T14:30:00Z"), expected[1]]);
    let german = batch(vec![("ts", strings(&["04.03.2024 09:30"]))]);
    let formatted = ImportSettings { date_formats: vec!["%d.%m.%Y %H:%M".to_owned()], ..timed("ts") };
    assert_eq!(times(&with(&german, &formatted).rows, "ts"), expected[..1]);
    let reason = error(&german, &timed("ts"));
    assert!(reason.contains("\"04.03.2024 09:30\" is not a timestamp; --date-format '%d.%m.%Y %H:%M'"), "{reason}");
    let none = error(
        &batch(vec![("time", numbers(&[1_709_544_600])), ("n", numbers(&[1]))]),
        &ImportSettings { time: Some("time".to_owned()), ..formatted },
    );
    assert!(none.contains("has no texts that become dates or times"), "{none}");
}

#[test]
fn texts_are_numbers_if_all_of_them_are() {
    let rows = |text: &str| batch(vec![("date", dates(2)), ("x", strings(&["1", text]))]);
    let float64 = typed("x", ColumnType::Float64);
    assert_eq!(floats(&with(&rows("2.5"), &float64).rows, "x"), [Some(1.0), Some(2.5)]);
    let reason = error(&rows("two"), &float64);
    assert!(reason.contains("\"two\" is not a float64") && reason.contains("two in row 2"), "{reason}");
}
