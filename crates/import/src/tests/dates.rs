//! A column `date` beside a time.

use super::*;

const OF_TIMES: &str = "time,sym,size,date\n2024-03-01 23:30:00,A,1,2024-03-01\n2024-03-02 00:30:00,B,2,2024-03-02\n";

fn column_names(spec: &TableSpec) -> Vec<&str> {
    spec.columns.iter().map(|column| column.name.as_str()).collect()
}

#[test]
fn dates_of_the_times_arent_kept() {
    let loaded = load_text(OF_TIMES).unwrap();
    assert_eq!(column_names(&loaded.spec), ["time", "sym", "size"]);
    assert_eq!(loaded.rows.num_columns(), 3);
    let json = br#"{"time": "2024-03-01T23:30:00Z", "date": "2024-03-01", "size": 1}"#;
    assert_eq!(column_names(&load_bytes("t.json", json, ImportSettings::default()).unwrap().spec), ["time", "size"]);
    for write in [parquet, ipc_file] {
        let other = load_with_date();
        let loaded = load_bytes("t.bin", &write(&other), ImportSettings::default()).unwrap();
        assert_eq!((column_names(&loaded.spec), loaded.rows.num_rows()), (vec!["time", "sym", "size"], 2));
    }
}

/// The rows with their dates as a column.
fn load_with_date() -> RecordBatch {
    let types = vec![("date".to_owned(), ColumnType::Date)];
    let loaded =
        load_bytes("t.csv", OF_TIMES.as_bytes(), ImportSettings { types, ..ImportSettings::default() }).unwrap();
    assert_eq!(column_names(&loaded.spec), ["time", "sym", "size", "date"]);
    loaded.rows
}

#[test]
fn other_dates_are_a_column_like_others() {
    let tokyo = ImportSettings { time_zone: Some("Asia/Tokyo".to_owned()), ..ImportSettings::default() };
    let loaded = load_bytes("t.csv", OF_TIMES.as_bytes(), tokyo).unwrap();
    assert_eq!(column_names(&loaded.spec), ["time", "sym", "size", "date"]);
    let some = OF_TIMES.replace("2024-03-01\n", "\n");
    assert_eq!(column_names(&load_text(&some).unwrap().spec), ["time", "sym", "size", "date"]);
}

#[test]
fn a_table_takes_its_dates_and_refuses_others() {
    let table = load_text(OF_TIMES).unwrap().spec;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    let load = |text: &str| {
        std::fs::write(&path, text).unwrap();
        load_with(&path, ImportSettings::default(), Some(&table), 4 << 20)
    };
    assert_eq!(load(OF_TIMES).unwrap().rows.num_rows(), 2);
    assert_eq!(load(&OF_TIMES.replace("date\n", "DATE\n")).unwrap().rows.num_rows(), 2);
    let error = load(&OF_TIMES.replace(",2024-03-02\n", ",2024-03-03\n")).unwrap_err().to_string();
    assert!(
        error.contains("its row 2 has the date 2024-03-03, and its time 2024-03-02T00:30:00Z is of 2024-03-02"),
        "{error}"
    );
    std::fs::write(&path, parquet(&load_with_date())).unwrap();
    assert_eq!(load_with(&path, ImportSettings::default(), Some(&table), 4 << 20).unwrap().rows.num_columns(), 3);
}

/// The first block decides; a later row that differs is refused.
#[test]
fn a_later_row_of_another_date_is_refused() {
    let mut text = "time,size,date\n".to_owned();
    while text.len() < 3 * crate::text_blocks::BLOCK_BYTES {
        text += "2024-03-01 10:00:00,1,2024-03-01\n";
    }
    text += "2024-03-01 23:00:00,1,2024-03-04\n";
    let error = error_of("t.csv", text.as_bytes(), ImportSettings::default());
    assert!(error.contains("has the date 2024-03-04") && error.contains("another name"), "{error}");
    let types = vec![("date".to_owned(), ColumnType::Date)];
    let loaded = load_bytes("t.csv", text.as_bytes(), ImportSettings { types, ..ImportSettings::default() }).unwrap();
    assert_eq!(column_names(&loaded.spec), ["time", "size", "date"]);
}
