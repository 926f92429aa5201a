//! What people have: exports of pandas, dates apart from times, other ways to write dates and numbers, local times.

use arrow::array::{Array, FixedSizeListArray};

use super::*;

fn settings() -> ImportSettings {
    ImportSettings::default()
}

fn with(text: &str, settings: ImportSettings) -> Loaded {
    load_bytes("t.csv", text.as_bytes(), settings).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn types(spec: &TableSpec) -> String {
    spec.columns.iter().map(|c| format!("{} {}", c.name, c.column_type)).collect::<Vec<_>>().join(", ")
}

fn error(text: &str, settings: ImportSettings) -> String {
    load_bytes("t.csv", text.as_bytes(), settings).map(|l| types(&l.spec)).unwrap_err().to_string()
}

fn described(text: &str, settings: ImportSettings) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, text).unwrap();
    plan("t", expand(&[path.display().to_string()]).unwrap(), settings, None).unwrap().describe()
}

fn nanos(text: &str) -> Option<i64> {
    let time = chrono::DateTime::parse_from_rfc3339(text).unwrap();
    time.timestamp_nanos_opt()
}

#[test]
fn an_index_of_pandas_is_left_out_or_is_the_time() {
    let counted = with(",time,sym,price\n0,2024-01-02 14:30:00,A,1.5\n1,2024-01-02 14:30:01,B,2.5\n", settings());
    assert_eq!(types(&counted.spec), "time timestamp, sym symbol, price float64");
    assert_eq!(floats(&counted.rows, "price"), [Some(1.5), Some(2.5)]);
    let again = with("Unnamed: 0,time,price\n0,2024-01-02 14:30:00,1.5\n", settings());
    assert_eq!(types(&again.spec), "time timestamp, price float64");
    let timed = with(",sym,price\n2024-01-02 14:30:00,A,1.5\n", settings());
    assert_eq!(
        (types(&timed.spec).as_str(), timed.spec.time.as_str()),
        ("time timestamp, sym symbol, price float64", "time")
    );
    let named = with(",price,time\nA,1.5,2024-01-02\n", settings());
    assert_eq!(types(&named.spec), "symbol symbol, price float64, time timestamp");
    // Into a table that exists, by a later file.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("next.csv");
    std::fs::write(&path, ",time,sym,price\n5,2024-01-03 14:30:00,C,3\n").unwrap();
    assert_eq!(load_with(&path, settings(), Some(&counted.spec), 4 << 20).unwrap().rows.num_rows(), 1);
    // An index of several levels.
    let levels = with(",,price\n2024-01-02 14:30:00,A,1.5\n2024-01-02 14:31:00,B,2.5\n", settings());
    assert_eq!(types(&levels.spec), "time timestamp, symbol symbol, price float64");
    assert_eq!((levels.spec.time.as_str(), levels.spec.symbol.as_deref()), ("time", Some("symbol")));
    assert_eq!(floats(&levels.rows, "price"), [Some(1.5), Some(2.5)]);
    let next = folder.path().join("levels.csv");
    std::fs::write(&next, ",,price\n2024-01-03 14:30:00,C,3\n").unwrap();
    assert_eq!(load_with(&next, settings(), Some(&levels.spec), 4 << 20).unwrap().rows.num_rows(), 1);
    let read_again = with("Unnamed: 0,Unnamed: 1,price\nA,2024-01-02 14:30:00,1.5\n", settings());
    assert_eq!(types(&read_again.spec), "symbol symbol, time timestamp, price float64");
    let others = with(",,,,price,symbol\nA,B,0.5,2024-01-02 14:30:00,1.5,C\n", settings());
    assert_eq!(
        types(&others.spec),
        "index symbol, index_2 symbol, index_3 float64, time timestamp, price float64, symbol symbol"
    );
    let counted = with(",,sym,price\n0,2024-01-02 14:30:00,A,1.5\n1,2024-01-02 14:30:01,B,2.5\n", settings());
    assert_eq!(types(&counted.spec), "time timestamp, sym symbol, price float64");
    // A blank name elsewhere, or a row of blank fields, is no header.
    assert!(
        error("time,,price\n2024-01-02,1,2\n", ImportSettings { time: Some("time".to_owned()), ..settings() })
            .contains("time")
    );
    let twice = error("time,price,price\n2024-01-02,1,2\n", settings());
    assert!(twice.contains("two of its columns are price"), "{twice}");
}

#[test]
fn date_and_time_in_two_columns_are_one_time() {
    let text = "date,time,symbol,price\n2024-03-04,09:30:00.5,A,1\n20240305,9:31:00,B,2.5\n";
    let loaded = with(text, settings());
    assert_eq!(types(&loaded.spec), "time timestamp, symbol symbol, price float64");
    assert_eq!(times(&loaded.rows, "time"), [nanos("2024-03-04T09:30:00.5Z"), nanos("2024-03-05T09:31:00Z")]);
    assert!(described(text, settings()).contains("note: time is the time of day on the date of its row"));
    let zoned = with(text, ImportSettings { zone: Some("America/New_York".to_owned()), ..settings() });
    assert_eq!(times(&zoned.rows, "time")[0], nanos("2024-03-04T14:30:00.5Z"));
    // The date behind the time, other names, AM and PM, the table's own date column.
    let taq = with("SYM_ROOT,TIME_M,DATE,PRICE\nA,4:00:00.123456 PM,20240304,1\n", settings());
    assert_eq!(types(&taq.spec), "SYM_ROOT symbol, TIME_M timestamp, PRICE float64");
    assert_eq!(times(&taq.rows, "TIME_M"), [nanos("2024-03-04T16:00:00.123456Z")]);
    let settings_with_time = ImportSettings { time: Some("last_trade".to_owned()), ..settings() };
    let loaded = with("trade_date,last_trade,price\n2024-03-04,12:00,1\n", settings_with_time);
    assert_eq!(times(&loaded.rows, "last_trade"), [nanos("2024-03-04T12:00:00Z")]);
    let columns = vec![ColumnSpec::new("time", ColumnType::Timestamp), ColumnSpec::new("date", ColumnType::Date)];
    let table = TableSpec::new("t", columns, "time", None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, "time,date\n09:30,2024-03-04\n").unwrap();
    let both = load_with(&path, settings(), Some(&table), 4 << 20).unwrap();
    assert_eq!((times(&both.rows, "time")[0], both.rows.column(1).null_count()), (nanos("2024-03-04T09:30:00Z"), 0));
    // A time of day beside a full time, or without a date, is a column of its own.
    let own = with("ts,open_time\n2024-03-04 09:30:00,09:29\n", settings());
    assert_eq!(types(&own.spec), "ts timestamp, open_time time");
    assert!(error("time,price\n09:30,1\n", settings()).contains("no column looks like a time"));
    let wrong = error(
        "date,time,p\n2024-03-04,09:30,1\n2024-03-04,24:30,1\n",
        ImportSettings {
            types: vec![("time".to_owned(), ColumnType::Time)],
            time: Some("date".to_owned()),
            ..settings()
        },
    );
    assert!(wrong.contains("line 3, column time"), "{wrong}");
}

#[test]
fn a_zone_of_the_files_shifts_naive_times_alone() {
    let zone = |zone: &str| ImportSettings { zone: Some(zone.to_owned()), ..settings() };
    let text = "time,p\n2024-07-01 09:30:00,1\n2024-01-02 09:30:00,1\n2024-01-02 09:30:00Z,1\n";
    let loaded = with(text, zone("America/New_York"));
    assert_eq!(
        times(&loaded.rows, "time"),
        [nanos("2024-07-01T13:30:00Z"), nanos("2024-01-02T14:30:00Z"), nanos("2024-01-02T09:30:00Z")]
    );
    assert_eq!(loaded.spec.time_zone, "UTC", "dates of the table are another question");
    assert_eq!(times(&with(text, zone("+05:30")).rows, "time")[0], nanos("2024-07-01T04:00:00Z"));
    let epochs = with("time,p\n1704205800,1\n", zone("America/New_York"));
    assert_eq!(times(&epochs.rows, "time"), [nanos("2024-01-02T14:30:00Z")]);
    let gap = error("time,p\n2024-03-10 01:59:59,1\n2024-03-10 02:30:00,1\n", zone("America/New_York"));
    assert!(gap.contains("line 3, column time: \"2024-03-10 02:30:00\" the local time was skipped"), "{gap}");
    let twice = with("time,p\n2024-11-03 01:30:00,1\n", zone("America/New_York"));
    assert_eq!(times(&twice.rows, "time"), [nanos("2024-11-03T05:30:00Z")]);
    assert!(error(text, zone("Mars/Base")).contains("setting zone: \"Mars/Base\" is not"));
    let date = with("date,p\n2024-07-01,1\n", zone("America/New_York"));
    assert_eq!(times(&date.rows, "date"), [nanos("2024-07-01T04:00:00Z")]);
}

#[test]
fn rows_of_parquet_and_arrow_that_do_not_fit_go_to_quarantine() {
    use arrow::array::{Float64Array, StringArray, TimestampMicrosecondArray};
    use std::sync::Arc;
    let time: ArrayRef =
        Arc::new(TimestampMicrosecondArray::from(vec![Some(1_704_205_800_000_000), None, Some(1), Some(2)]));
    let size: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), Some(2.0), Some(2.5), None]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d"]));
    let rows = RecordBatch::try_from_iter([("time", time), ("size", size), ("note", text)]).unwrap();
    let types = vec![("size".to_owned(), ColumnType::Int64)];
    let folder = tempfile::tempdir().unwrap();
    let side = folder.path().join("bad.csv");
    for (name, bytes) in [("t.parquet", parquet(&rows)), ("t.arrow", ipc_file(&rows))] {
        let stop = ImportSettings { types: types.clone(), ..settings() };
        let error = error_of(name, &bytes, stop.clone());
        assert!(error.contains("the first such value is 2.5 in row 3"), "{error}");
        let aside = ImportSettings { on_error: OnError::Quarantine { path: side.clone() }, ..stop };
        let loaded = load_bytes(name, &bytes, aside).unwrap();
        assert_eq!((loaded.report.rows, loaded.report.quarantined), (2, 2), "{name}");
        assert_eq!(texts(&loaded.rows, "note"), [Some("a".to_owned()), Some("d".to_owned())]);
        let written = std::fs::read_to_string(&side).unwrap();
        assert!(written.contains(",\"2\",\"time\",\"the time is null\","), "{written}");
        assert!(written.contains(",\"3\",\"size\",\"2.5 is not int64"), "{written}");
        let none = ImportSettings { on_error: OnError::Quarantine { path: side.clone() }, ..settings() };
        assert_eq!(load_bytes(name, &bytes, none).unwrap().report.quarantined, 1);
    }
    let zoned = ImportSettings {
        zone: Some("America/New_York".to_owned()),
        on_error: OnError::Quarantine { path: side },
        ..settings()
    };
    let zoned = load_bytes("t.parquet", &parquet(&rows), zoned).unwrap();
    assert_eq!(times(&zoned.rows, "time")[0], nanos("2024-01-02T19:30:00Z"));
    let gap: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1_710_037_800_000_000]));
    let gap = RecordBatch::try_from_iter([("time", gap)]).unwrap();
    let error = error_of(
        "t.parquet",
        &parquet(&gap),
        ImportSettings { zone: Some("America/New_York".to_owned()), ..settings() },
    );
    assert!(error.contains("skipped by the change to summer time"), "{error}");
    let error = error_of(
        "t.parquet",
        &parquet(&gap),
        ImportSettings { numbers: Some("1.234,5".parse().unwrap()), ..settings() },
    );
    assert!(error.contains("needs none: its values have types"), "{error}");
}

#[test]
fn a_column_without_a_type_has_that_of_the_table_or_of_the_settings() {
    use arrow::array::{NullArray, StringArray, TimestampMicrosecondArray};
    use std::sync::Arc;
    let rows = |name: &str| {
        let time: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1_704_205_800_000_000, 2]));
        let sym: ArrayRef = Arc::new(StringArray::from(vec!["A", "B"]));
        RecordBatch::try_from_iter_with_nullable([
            ("time", time, false),
            ("sym", sym, true),
            (name, Arc::new(NullArray::new(2)) as ArrayRef, true),
        ])
        .unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let types = |name: &str| ImportSettings { types: vec![(name.to_owned(), ColumnType::Int32)], ..settings() };
    for (name, bytes) in [("t.parquet", parquet(&rows("x"))), ("t.arrow", ipc_file(&rows("x")))] {
        let error = error_of(name, &bytes, settings());
        assert!(error.contains("column x has no value and no type; name one, as in --type x=float64"), "{error}");
        let new = load_bytes(name, &bytes, types("X")).unwrap();
        assert_eq!(new.rows.column_by_name("x").unwrap().null_count(), 2);
        let path = folder.path().join(name);
        std::fs::write(&path, &bytes).unwrap();
        let more = load_with(&path, settings(), Some(&new.spec), 1 << 20).unwrap();
        assert_eq!((more.report.rows, more.rows.column_by_name("x").unwrap().null_count()), (2, 2), "{name}");
    }
}

#[test]
fn a_number_that_no_float_holds_is_refused_with_its_row_and_column() {
    let refused = |text: &str, types: Vec<(String, ColumnType)>| {
        error_of("t.csv", text.as_bytes(), ImportSettings { types, ..settings() })
    };
    let error = refused("time,price\n2024-01-02,1.5\n2024-01-03,1e400\n", Vec::new());
    assert!(error.contains("line 3, column price: \"1e400\" is not a float64"), "{error}");
    let float32 = vec![("price".to_owned(), ColumnType::Float32)];
    let error = refused("time,price\n2024-01-02,-1e39\n", float32);
    assert!(error.contains("--type price=float64 would take it"), "{error}");
    let error = error_of(
        "t.json",
        b"{\"time\":\"2024-01-02\",\"price\":1.5}\n{\"time\":\"2024-01-03\",\"price\":1e400}",
        settings(),
    );
    assert!(error.contains("column price") && error.contains("1e400"), "{error}");
    let written = load_text("time,price\n2024-01-02,1.5\n2024-01-03,inf\n2024-01-04,-Infinity\n").unwrap();
    assert_eq!(floats(&written.rows, "price"), [Some(1.5), Some(f64::INFINITY), Some(f64::NEG_INFINITY)]);
}

#[cfg(unix)]
#[test]
fn pipes_are_no_files_of_a_folder_and_are_refused_by_name() {
    use std::os::unix::net::UnixListener;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.csv"), "time,n\n2024-01-02,1\n").unwrap();
    let socket = folder.path().join("b.csv");
    let _listens = UnixListener::bind(&socket).unwrap();
    let pattern = |end: &str| vec![format!("{}{end}", folder.path().display())];
    for end in ["", "/*.csv"] {
        let names: Vec<String> = expand(&pattern(end)).unwrap().into_iter().map(|file| file.name).collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert!(names[0].ends_with("a.csv"), "{names:?}");
    }
    let error = expand(&[socket.display().to_string()]).unwrap_err().to_string();
    assert!(error.contains("b.csv") && error.contains("is no regular file"), "{error}");
}

#[test]
fn dates_in_other_orders_are_named_and_read_by_a_format() {
    let formats = |formats: &[&str]| ImportSettings {
        date_formats: formats.iter().map(|f| (*f).to_owned()).collect(),
        ..settings()
    };
    let text = "when,p\n04/03/2024 09:30:00 PM,1\n31/03/2024 09:30:00 AM,2\n";
    let refused = error(text, settings());
    assert!(refused.contains("--date-format '%d/%m/%Y %I:%M:%S %p' would read it"), "{refused}");
    let refused = error("when,p\n04.03.2024,1\n", settings());
    assert!(refused.contains("--date-format '%d.%m.%Y' (or %m.%d, if the month comes first)"), "{refused}");
    let loaded = with(text, formats(&["%d/%m/%Y %I:%M:%S %p"]));
    assert_eq!(times(&loaded.rows, "when"), [nanos("2024-03-04T21:30:00Z"), nanos("2024-03-31T09:30:00Z")]);
    let day = with("day,p\n31.03.2024,1\n", formats(&["%d.%m.%Y"]));
    assert_eq!(times(&day.rows, "day"), [nanos("2024-03-31T00:00:00Z")]);
    let both = with("day,time,p\n31.03.2024,09h30,1\n", formats(&["%d.%m.%Y", "%Hh%M"]));
    assert_eq!(times(&both.rows, "time"), [nanos("2024-03-31T09:30:00Z")]);
    let none = error("time,p\n2024-01-02,1\n", formats(&["%d/%m/%Y"]));
    assert!(none.contains("no column's values are all written as %d/%m/%Y"), "{none}");
    let late: String = (0..12_000).map(|_| "2024-01-02 00:00:00,1\n").collect();
    let late = error(&format!("time,p\n{late}02/01/2024,1\n"), settings());
    assert!(late.contains("line 12002, column time: \"02/01/2024\" is not a timestamp; --date-format"), "{late}");
    assert!(
        error("time,p\n2024-01-02 13:00:00 PM,1\n", ImportSettings { time: Some("time".to_owned()), ..settings() })
            .contains("is not a timestamp")
    );
}

#[test]
fn numbers_with_commas_are_named_and_read_as_the_example_says() {
    let numbers = |form: &str| ImportSettings { numbers: Some(form.parse().unwrap()), ..settings() };
    let german = "time;preis;menge\n2024-01-02;1.234,50;1.000\n2024-01-02;-0,25;2.000.000\n";
    assert!(
        described(german, settings())
            .contains("note: preis holds 1.234,50, which stays text: --numbers 1.234,5 would read it")
    );
    let loaded = with(german, numbers("1.234,5"));
    assert_eq!(types(&loaded.spec), "time timestamp, preis float64, menge int64");
    assert_eq!(floats(&loaded.rows, "preis"), [Some(1234.5), Some(-0.25)]);
    let english = "time,price,n\n2024-01-02,\"1,234.5\",1\n2024-01-02,2,\"3,000\"\n";
    assert!(described(english, settings()).contains("--numbers 1,234.5 would read it"));
    let loaded = with(english, numbers("1,234.5"));
    assert_eq!(types(&loaded.spec), "time timestamp, price float64, n int64");
    let rows: String = (0..12_000).map(|_| "2024-01-02;1,5\n").collect();
    let wrong = error(&format!("time;p\n{rows}2024-01-02;1.5\n"), numbers("1.234,5"));
    assert!(wrong.contains("line 12002, column p: \"1.5\" is not a float64"), "{wrong}");
    assert!(!described("time,sym\n2024-01-02,A\n", settings()).contains("note"));
}

#[test]
fn whole_numbers_under_the_name_of_a_price_are_floats() {
    let loaded = with("time,price,bid_px_00,Open,size,bid_size,id\n2024-01-02,10,11,12,13,14,15\n", settings());
    assert_eq!(
        types(&loaded.spec),
        "time timestamp, price float64, bid_px_00 float64, Open float64, size int64, bid_size int64, id int64"
    );
    let large = with("time,price\n2024-01-02,9007199254740993\n", settings());
    assert_eq!(types(&large.spec), "time timestamp, price int64", "no digit is lost");
    let typed = ImportSettings { types: vec![("price".to_owned(), ColumnType::Int64)], ..settings() };
    assert_eq!(types(&with("time,price\n2024-01-02,10\n", typed).spec), "time timestamp, price int64");
    let columns = vec![ColumnSpec::new("time", ColumnType::Timestamp), ColumnSpec::new("price", ColumnType::Int64)];
    let table = TableSpec::new("t", columns, "time", None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, "time,price\n2024-01-02,2.5\n").unwrap();
    let error = load_with(&path, settings(), Some(&table), 4 << 20).map(|l| l.rows).unwrap_err().to_string();
    assert!(
        error.contains("\"2.5\" is not an int64, as the table has price; splay alter … widen price float64"),
        "{error}"
    );
}

#[test]
fn columns_of_levels_become_one() {
    let text =
        "time,bid_px_0,bid_sz_0,bid_px_1,bid_sz_1\n2024-01-02,1.5,10,1.4,20\n2024-01-02,2.5,,,\n2024-01-02,,,,\n";
    let levels = |name: &str, size| (name.to_owned(), ColumnType::Levels { size });
    let two_levels = ImportSettings { types: vec![levels("bid_px", 2), levels("bid_sz", 2)], ..settings() };
    for block_bytes in [1, 4 << 20] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, text).unwrap();
        let loaded = load_with(&path, two_levels.clone(), None, block_bytes).unwrap();
        assert_eq!(types(&loaded.spec), "time timestamp, bid_px levels(2), bid_sz levels(2)");
        let prices: &FixedSizeListArray = loaded.rows.column(1).as_fixed_size_list();
        let items = |row: usize| prices.value(row).as_primitive::<Float64Type>().iter().collect::<Vec<_>>();
        assert_eq!((items(0), items(1)), (vec![Some(1.5), Some(1.4)], vec![Some(2.5), None]));
        assert!(prices.is_null(2) && prices.is_valid(1) && loaded.rows.column(2).is_null(1));
        // Into the table by itself.
        assert_eq!(load_with(&path, settings(), Some(&loaded.spec), block_bytes).unwrap().rows, loaded.rows);
    }
    let from_one = text.replace("_1", "_2").replace("_0", "_1");
    assert_eq!(types(&with(&from_one, two_levels).spec), "time timestamp, bid_px levels(2), bid_sz levels(2)");
    let missing = error(text, ImportSettings { types: vec![levels("bid_px", 3)], ..settings() });
    assert!(missing.contains("bid_px of 3 levels is made of bid_px_0 to bid_px_2; bid_px_2 is missing"), "{missing}");
    let extra = error(text, ImportSettings { types: vec![levels("bid_px", 1)], ..settings() });
    assert!(extra.contains("bid_px has more than 1 levels in the files; bid_px=levels(2)"), "{extra}");
    let wrong = error("time,b_0,b_1\n2024-01-02,1,x\n", ImportSettings { types: vec![levels("b", 2)], ..settings() });
    assert!(wrong.contains("line 2, column b_1: \"x\" is not a number of a level"), "{wrong}");
}
