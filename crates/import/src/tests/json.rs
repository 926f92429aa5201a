//! JSON lines and arrays: types, awkward files, what is refused.

use arrow::array::{Array, FixedSizeListArray};

use super::*;

const LINES: &str = r#"{"ts":"2024-01-02T14:30:00Z","sym":"IBM","price":"161.25","size":100,"live":true,"bids":[161.2,161.1],"raw":{"a":[1]}}
{"sym":"MSFT","ts":1704205801000,"size":null,"price":370.5,"bids":["370.4"],"live":false}

{"ts":"2024-01-02T14:30:02Z","price":-1e-3,"bids":null,"sym":"","raw":"x"}
"#;

fn types(spec: &TableSpec) -> String {
    spec.columns.iter().map(|c| format!("{} {}", c.name, c.column_type)).collect::<Vec<_>>().join(", ")
}

fn as_array(lines: &str) -> String {
    let objects: Vec<&str> = lines.lines().filter(|line| !line.is_empty()).collect();
    format!("\u{feff} \n[{}\n]\n", objects.join("\n ,\n"))
}

#[test]
fn lines_and_arrays_give_the_same_rows_whole_or_in_pieces_and_compressed() {
    let first = load_bytes(
        "t.jsonl",
        LINES.replace("1704205801000", "\"2024-01-02T14:30:01Z\"").as_bytes(),
        ImportSettings::default(),
    );
    let first = first.unwrap();
    assert_eq!(
        types(&first.spec),
        "ts timestamp, sym symbol, price float64, size int64, live bool, bids levels(2), raw text"
    );
    assert_eq!((first.spec.time.as_str(), first.spec.symbol.as_deref()), ("ts", Some("sym")));
    let at = |seconds: i64| Some((1_704_205_800 + seconds) * 1_000_000_000);
    assert_eq!(times(&first.rows, "ts"), [at(0), at(1), at(2)]);
    assert_eq!(floats(&first.rows, "price"), [Some(161.25), Some(370.5), Some(-0.001)]);
    assert_eq!(texts(&first.rows, "sym"), [Some("IBM".to_owned()), Some("MSFT".to_owned()), Some(String::new())]);
    assert_eq!(texts(&first.rows, "raw"), [Some("{\"a\":[1]}".to_owned()), None, Some("x".to_owned())]);
    let bids: &FixedSizeListArray = first.rows.column_by_name("bids").unwrap().as_fixed_size_list();
    assert_eq!(bids.value(1).as_primitive::<Float64Type>().iter().collect::<Vec<_>>(), [Some(370.4), None]);
    assert!(bids.is_null(2) && bids.is_valid(0));

    let folder = tempfile::tempdir().unwrap();
    let lines = LINES.replace("1704205801000", "\"2024-01-02T14:30:01Z\"");
    let array = as_array(&lines);
    let zstd = zstd::encode_all(array.as_bytes(), 1).unwrap();
    for (name, bytes) in [
        ("a.json", array.clone().into_bytes()),
        ("a", array.into_bytes()),
        ("l.ndjson.gz", gzip(lines.as_bytes())),
        ("a.json.zst", zstd),
    ] {
        for block_bytes in [1, 7, 200, 4 << 20] {
            let path = folder.path().join(name);
            std::fs::write(&path, &bytes).unwrap();
            let loaded = load_with(&path, ImportSettings::default(), None, block_bytes).unwrap();
            assert_eq!(loaded.rows, first.rows, "{name} in blocks of {block_bytes}");
        }
    }
}

#[test]
fn mistakes_name_line_and_field() {
    let with = |line: &str| {
        format!("{{\"ts\":\"2024-01-02T14:30:00Z\",\"p\":1.5}}\n{line}\n{{\"ts\":\"2024-01-02\",\"p\":2}}\n")
    };
    for (line, expected_error) in [
        (r#"{"ts":"2024-01-02","p":"x"}"#, "line 2, column p: \"x\" is not a float64; --type p=text would take it"),
        (r#"{"ts":"2024-01-02","p":1"#, "line 2: is not a JSON object: , or } expected, and it ends"),
        (r#"{"ts":"2024-01-02","p":1} {"#, "line 2: more follows the object"),
        (r#"{"p":1}"#, "line 2, column ts: the time is missing"),
        (r#"{"p":1,"ts":null}"#, "line 2, column ts: the time is missing"),
        (r#"{"ts":"2024-01-02","p":[1]}"#, "line 2, column p: \"[1]\" is not a float64"),
        (r#"{"ts":"2024-01-02","p":1,"P":2}"#, "line 2, column p: the field comes twice"),
        (r#"{"ts":"2024-13-02","p":1}"#, "line 2, column ts: \"2024-13-02\" is not a timestamp"),
        ("2024,1.5", "line 2: is not a JSON object: { expected, '2' found"),
        (r#"{"ts":"2024-01-02","p":1,"q":2}"#, ""),
    ] {
        match error_in_text(&with(line)) {
            Some(text) => assert!(text.contains(expected_error) && !expected_error.is_empty(), "{line}: {text}"),
            None => assert!(expected_error.is_empty(), "{line}"),
        }
    }
    // A field that comes after the rows that were looked at.
    let mut many: String = (0..12_000).map(|n| format!("{{\"ts\":\"2024-01-02T14:30:00Z\",\"p\":{n}}}\n")).collect();
    many += "{\"ts\":\"2024-01-02\",\"late\":3}\n";
    let error = error_of("t.jsonl", many.as_bytes(), ImportSettings::default());
    assert!(error.contains("line 12001: the field \"late\" isn't among the columns; --type late=TYPE"), "{error}");
    let settings = ImportSettings { types: vec![("late".to_owned(), ColumnType::Int64)], ..ImportSettings::default() };
    let loaded = load_bytes("t.jsonl", many.as_bytes(), settings).unwrap();
    assert_eq!(loaded.rows.column_by_name("late").unwrap().null_count(), 12_000);
}

fn p_is_float() -> ImportSettings {
    ImportSettings {
        types: vec![("p".to_owned(), ColumnType::Float64)],
        time: Some("ts".to_owned()),
        ..ImportSettings::default()
    }
}

fn error_in_text(text: &str) -> Option<String> {
    load_bytes("t.jsonl", text.as_bytes(), p_is_float()).err().map(|error| error.to_string())
}

#[test]
fn arrays_that_are_cut_short_or_hold_other_things_are_refused() {
    let good = r#"{"ts":"2024-01-02T14:30:00Z","p":1}"#;
    for (text, expected_error) in [
        (format!("[{good},\n{good}"), "the array isn't closed; the file may be cut short"),
        (format!("[{good},\n{}", &good[..20]), "ends within an object"),
        (format!("[{good}\n{good}]"), "line 2: isn't what an array"),
        (format!("[{good},\n]"), "line 2: isn't what an array"),
        (format!("[{good},\n[1]]"), "line 2: isn't what an array"),
        (format!("[{good}]\n{good}"), "line 2: isn't what an array"),
        (format!("[{good},\n1.5]"), "line 2: isn't what an array"),
    ] {
        for block_bytes in [1, 4 << 20] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("t.json");
            std::fs::write(&path, &text).unwrap();
            let error =
                load_with(&path, ImportSettings::default(), None, block_bytes).map(|l| l.rows).unwrap_err().to_string();
            assert!(error.contains(expected_error), "{text} in blocks of {block_bytes}: {error}");
        }
    }
}

#[test]
fn malformed_objects_go_to_quarantine() {
    let folder = tempfile::tempdir().unwrap();
    let side = folder.path().join("bad.csv");
    let good = r#"{"ts":"2024-01-02T14:30:00Z","p":1}"#;
    let bad = r#"{"ts":"2024-01-02T14:30:00Z","p":"x"}"#;
    for (name, text) in [
        ("a.jsonl", format!("{good}\n{bad}\n{{\"ts\":\n{good}\n")),
        ("a.json", format!("[\n{good},\n{bad},\n{{\"ts\":1 2}},\n{good}]")),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let settings = ImportSettings { on_error: OnError::Quarantine { path: side.clone() }, ..p_is_float() };
        let loaded = load_file(&path, settings).unwrap();
        assert_eq!((loaded.rows.num_rows(), loaded.report.quarantined), (2, 2), "{name}");
        let written = std::fs::read_to_string(&side).unwrap();
        assert!(written.contains("\"p\",\"\"\"x\"\" is not a float64"), "{written}");
    }
}

#[test]
fn empty_files_and_odd_values_are_told() {
    for (name, text, expected_error) in [
        ("a.jsonl", "", "no rows"),
        ("a.json", "[]", "no rows"),
        ("a.json", "\n \n", "no rows"),
        ("a.json", "3", "no rows"),
        ("page.csv", "<!DOCTYPE html><html></html>", "is a web page"),
        ("e.csv", "", "no rows"),
    ] {
        let error = error_of(name, text.as_bytes(), ImportSettings::default());
        assert!(error.contains(expected_error), "{name} {text}: {error}");
    }
    let text = "{\"ts\":\"2024-01-02\",\"a\":NaN,\"b\":12345678901234567890123,\"c\":\"007\",\"d\":1e300}\n";
    let loaded = load_bytes("t.jsonl", text.as_bytes(), ImportSettings::default()).unwrap();
    assert_eq!(types(&loaded.spec), "ts timestamp, a float64, b symbol, c symbol, d float64");
    assert!(floats(&loaded.rows, "a")[0].is_some_and(f64::is_nan));
    assert_eq!(texts(&loaded.rows, "b"), [Some("12345678901234567890123".to_owned())]);
}

#[test]
fn a_table_takes_fewer_fields_and_lists_of_its_length() {
    let columns = vec![
        ColumnSpec::new("ts", ColumnType::Timestamp),
        ColumnSpec::new("bids", ColumnType::Levels { size: 2 }),
        ColumnSpec::new("note", ColumnType::Text),
    ];
    let table = TableSpec::new("t", columns, "ts", None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.jsonl");
    std::fs::write(&path, "{\"TS\":\"2024-01-02\",\"bids\":[1]}\n{\"ts\":\"2024-01-02\"}\n").unwrap();
    let loaded = load_with(&path, ImportSettings::default(), Some(&table), 1 << 20).unwrap();
    assert_eq!(loaded.rows.num_rows(), 2);
    std::fs::write(&path, "{\"ts\":\"2024-01-02\",\"bids\":[1,2,3]}\n").unwrap();
    let error =
        load_with(&path, ImportSettings::default(), Some(&table), 1 << 20).map(|l| l.rows).unwrap_err().to_string();
    assert!(error.contains("column bids: a list of 3 is longer than 2 levels"), "{error}");
    std::fs::write(&path, "{\"ts\":\"2024-01-02\",\"other\":1}\n").unwrap();
    let error =
        load_with(&path, ImportSettings::default(), Some(&table), 1 << 20).map(|l| l.rows).unwrap_err().to_string();
    assert!(error.contains("there is no place for its columns other"), "{error}");
}

#[test]
fn reference_tables_take_objects_as_they_take_rows_of_csv() {
    let lines = r#"{"Symbol":"MSFT","Name":"Microsoft","TickSize":0.01,"Lot":100,"Listed":"1986-03-13","Changed":"2024-03-04 09:30:00"}
{"Lot":"1","Symbol":"BRK A","Changed":null,"TickSize":1,"Listed":"1980-03-17"}
"#;
    let csv = "Symbol,Name,TickSize,Lot,Listed,Changed\n\
        MSFT,Microsoft,0.01,100,1986-03-13,2024-03-04 09:30:00\nBRK A,,1,1,1980-03-17,\n";
    let reference = || splay_store::Reference { key: vec!["symbol".to_owned()], effective: None };
    let settings = || ImportSettings {
        reference: Some(reference()),
        zone: Some("America/New_York".to_owned()),
        ..ImportSettings::default()
    };
    let from_csv = load_bytes("t.csv", csv.as_bytes(), settings()).unwrap();
    assert_eq!(from_csv.spec.key_positions(), [0]);
    // The zone is that of times without one, here as for tables of ticks.
    assert_eq!(times(&from_csv.rows, "Changed"), [Some(1_709_562_600_000_000_000), None]);
    let array = as_array(lines);
    let zstd = zstd::encode_all(array.as_bytes(), 1).unwrap();
    for (name, bytes) in [
        ("l.jsonl", lines.as_bytes().to_vec()),
        ("l.ndjson.gz", gzip(lines.as_bytes())),
        ("a.json", array.into_bytes()),
        ("a.json.zst", zstd),
    ] {
        let loaded = load_bytes(name, &bytes, settings()).unwrap();
        assert_eq!(loaded.spec, from_csv.spec, "{name}");
        assert_eq!(loaded.rows, from_csv.rows, "{name}");
        // Into the table that is there, whose types they then are.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, &bytes).unwrap();
        let existing = ImportSettings { reference: None, ..settings() };
        let loaded = load_with(&path, existing, Some(&from_csv.spec), 1 << 20).unwrap();
        assert_eq!(loaded.rows, from_csv.rows, "{name}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.jsonl");
    for (line, error) in [
        (r#"{"Symbol":"A","Lot":{"round":100}}"#, "column Lot: \"{\\\"round\\\":100}\" is not a int64"),
        (r#"{"Symbol":"A","Sector":"x"}"#, "there is no place for its columns Sector"),
        (r#"{"Symbol":"A","Lot":"many"}"#, "column Lot: \"many\" is not an int64"),
    ] {
        std::fs::write(&path, line).unwrap();
        let loaded = load_with(&path, ImportSettings::default(), Some(&from_csv.spec), 1 << 20);
        let text = loaded.map(|loaded| loaded.rows).unwrap_err().to_string();
        assert!(text.contains(error), "{line}: {text}");
    }
}
