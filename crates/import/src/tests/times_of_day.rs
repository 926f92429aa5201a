//! A date and a time of day in two columns of text files: what is read, what is refused, what is named instead.

use super::*;

fn settings() -> ImportSettings {
    ImportSettings::default()
}

fn timed(time: &str) -> ImportSettings {
    ImportSettings { time: Some(time.to_owned()), ..settings() }
}

fn formats(formats: &[&str]) -> ImportSettings {
    ImportSettings { date_formats: formats.iter().map(|format| (*format).to_owned()).collect(), ..settings() }
}

fn with(text: &str, settings: ImportSettings) -> Loaded {
    load_bytes("t.csv", text.as_bytes(), settings).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn error(text: &str, settings: ImportSettings) -> String {
    error_of("t.csv", text.as_bytes(), settings)
}

fn nanos(text: &str) -> Option<i64> {
    chrono::DateTime::parse_from_rfc3339(text).unwrap().timestamp_nanos_opt()
}

fn file(name: &str, clocks: &[&str]) -> String {
    let rows: String = clocks.iter().map(|clock| format!("20240304,{clock},1.5\n")).collect();
    format!("date,{name},price\n{rows}")
}

/// Rows were at midnight, and the times of day were symbols or numbers.
#[test]
fn times_of_digits_are_read_where_all_of_them_have_one_form() {
    for (clocks, first, last) in [
        (&["093000", "160001"][..], "09:30:00", "16:00:01"),
        (&["93000", "160001"], "09:30:00", "16:00:01"),
        (&["0930", "1600"], "09:30:00", "16:00:00"),
        (&["930", "1600"], "09:30:00", "16:00:00"),
        (&["93000.25", "160001.5"], "09:30:00.25", "16:00:01.5"),
    ] {
        for name in ["time", "TIME_OF_DAY", "trade_time"] {
            let loaded = with(&file(name, clocks), settings());
            let expected = [first, last].map(|clock| nanos(&format!("2024-03-04T{clock}Z")));
            assert_eq!(times(&loaded.rows, name), expected, "{name} {clocks:?}");
            assert_eq!(loaded.spec.columns.len(), 2, "{name}");
        }
    }
    let json = br#"[{"date": "2024-03-04", "time": 93000}, {"date": "2024-03-04", "time": 160001}]"#;
    let loaded = load_bytes("t.json", json, settings()).unwrap();
    assert_eq!(times(&loaded.rows, "time"), ["2024-03-04T09:30:00Z", "2024-03-04T16:00:01Z"].map(nanos));
    let zoned = ImportSettings { zone: Some("America/New_York".to_owned()), ..settings() };
    assert_eq!(times(&with(&file("time", &["0930"]), zoned).rows, "time"), [nanos("2024-03-04T14:30:00Z")]);
    let named = with(&file("hour_and_minute", &["0930"]), timed("hour_and_minute"));
    assert_eq!(times(&named.rows, "hour_and_minute"), [nanos("2024-03-04T09:30:00Z")]);
    let again = load_with_table(&file("time", &["93000", "160001"]), &with(&file("time", &["0930"]), settings()).spec);
    assert_eq!(times(&again.rows, "time")[0], nanos("2024-03-04T09:30:00Z"));
}

fn load_with_table(text: &str, table: &TableSpec) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, text).unwrap();
    load_with(&path, settings(), Some(table), 4 << 20).unwrap()
}

#[test]
fn the_form_of_digits_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, file("time", &["93000", "160001"])).unwrap();
    let planned = plan("t", expand(&[path.display().to_string()]).unwrap(), settings(), None).unwrap();
    let note = "note: time is the time of day on the date of its row, written as HHMMSS";
    assert!(planned.describe().contains(note), "{}", planned.describe());
}

#[test]
fn times_that_are_not_sure_stop_the_load_by_name() {
    for (clocks, value, way) in [
        (&["34200"][..], "34200", "--date-format '%H%M%S' or a recipe, if it counts from midnight"),
        (&["34200000", "57600000"], "34200000", "a recipe, if it counts from midnight"),
        (&["9", "16"], "9", "--date-format '%H%M%S' or a recipe, if it counts from midnight"),
        (&["093000", "096100"], "096100", "a recipe"),
        (&["0930", "093000"], "093000", "--date-format '%H%M%S'"),
        (&["09:30:00 EST"], "09:30:00 EST", "--date-format '%H:%M:%S %Z'"),
        (&["09:30:00", "half past ten"], "half past ten", "--date-format with its pattern"),
    ] {
        let reason = error(&file("time", clocks), settings());
        assert!(reason.contains(&format!("and holds {value}, which isn't surely one")), "{reason}");
        assert!(reason.contains(way) && reason.contains("--time date takes the date alone"), "{reason}");
        // What was asked for is done, and said.
        let alone = with(&file("time", clocks), timed("date"));
        assert_eq!(times(&alone.rows, "date")[0], nanos("2024-03-04T00:00:00Z"));
    }
    let reason = error(&file("time", &["34200"]), timed("time"));
    assert!(reason.contains("holds 34200, which isn't surely one"), "{reason}");
    let few = file("time", &["09:30:00", "09:30:01", "09:30:02", "09:30:03", "09:30:04"])
        + &file("time", &["09:30:05", "09:30:06", "09:30:07", "09:30:08", "oops"]).replace("date,time,price\n", "");
    let reason = error(&few, settings());
    assert!(reason.contains("line 11, column time: \"oops\" is not a time of day"), "{reason}");
    let typed = ImportSettings { types: vec![("time".to_owned(), ColumnType::Int64)], ..settings() };
    assert_eq!(times(&with(&file("time", &["34200"]), typed).rows, "date"), [nanos("2024-03-04T00:00:00Z")]);
}

#[test]
fn the_date_alone_is_noted_where_it_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, file("time", &["34200"])).unwrap();
    let planned = plan("t", expand(&[path.display().to_string()]).unwrap(), timed("date"), None).unwrap();
    let note = "note: rows are at midnight of date: time isn't read as the time of day";
    assert!(planned.describe().contains(note), "{}", planned.describe());
}

#[test]
fn a_date_with_a_type_of_its_own_stays_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, file("time", &["09:30:00"])).unwrap();
    let own = ImportSettings { types: vec![("date".to_owned(), ColumnType::Date)], ..settings() };
    let planned = plan("t", expand(&[path.display().to_string()]).unwrap(), own, None).unwrap();
    assert_eq!((planned.spec().time.as_str(), planned.spec().columns.len()), ("date", 3));
    let note = "note: rows are at midnight of date: the times of day time stay apart";
    assert!(planned.describe().contains(note), "{}", planned.describe());
}

#[test]
fn a_format_of_digits_reads_times_without_their_first_zeros() {
    let text = file("time", &["93000", "160001", "5"]);
    let expected = ["2024-03-04T09:30:00Z", "2024-03-04T16:00:01Z", "2024-03-04T00:00:05Z"].map(nanos);
    for formats in [formats(&["%H%M%S"]), formats(&["%Y%m%d", "%H%M%S"])] {
        assert_eq!(times(&with(&text, formats).rows, "time"), expected);
    }
    let millis = with(&file("time", &["93000250"]), formats(&["%H%M%S%3f"]));
    assert_eq!(times(&millis.rows, "time"), [nanos("2024-03-04T09:30:00.25Z")]);
    let zoned = with(&file("time", &["09:30:00 EST"]), formats(&["%H:%M:%S %Z"]));
    assert_eq!(times(&zoned.rows, "time"), [nanos("2024-03-04T09:30:00Z")]);
    // Numbers of other columns stay numbers.
    let sized = with("date,time,size\n20240304,93000,200\n", formats(&["%H%M%S"]));
    assert_eq!(sized.spec.columns[1].column_type, ColumnType::Int64);
}

#[test]
fn a_date_and_a_time_of_day_may_be_called_alike() {
    for (date, clock) in [("2024-03-04", "09:30:00"), ("20240304", "093000"), ("20240304", "09:30")] {
        let loaded = with(&format!("trade_date,trade_time,p\n{date},{clock},1\n"), settings());
        assert_eq!(times(&loaded.rows, "trade_time"), [nanos("2024-03-04T09:30:00Z")], "{date} {clock}");
    }
    let several = "expiry_date,fill_date,fill_time,p\n2024-12-20,2024-03-04,09:30,1\n";
    assert_eq!(times(&with(several, settings()).rows, "fill_time"), [nanos("2024-03-04T09:30:00Z")]);
    let unclear = error("expiry_date,value_date,time,p\n2024-12-20,2024-03-04,09:30,1\n", settings());
    assert!(unclear.contains("no column looks like a time"), "{unclear}");
    // Numbers under another name that ends so are no times of day.
    let waited = with("date,holding_time,p\n2024-03-04,930,1\n", settings());
    assert_eq!(times(&waited.rows, "date"), [nanos("2024-03-04T00:00:00Z")]);
    let unsure = error("fill_date,fill_time,p\n20240304,34200,1\n", settings());
    assert!(unsure.contains("fill_time should have the time of day on the fill_date of its row"), "{unsure}");
}

#[test]
fn a_time_of_day_without_a_date_says_what_is_missing() {
    for settings in [timed("time"), settings()] {
        let reason = error("time,price\n09:30:00,1\n", settings);
        assert!(reason.contains("time has times of day, such as 09:30:00, and no date belongs to them"), "{reason}");
        assert!(reason.contains("a recipe takes it from the file's name, by date = \"name\""), "{reason}");
    }
}

#[test]
fn a_recipe_is_named_if_it_reads_the_file() {
    let bars = "Date,Time,Open,High,Low,Close,Volume\n01/13/2024,09:31,1,2,0.5,1.5,100\n";
    let reason = error(bars, settings());
    assert!(!reason.contains("recipe ohlcv"), "{reason}");
    assert!(reason.contains("--date-format '%m/%d/%Y' would read it"), "{reason}");
    let loaded = with(bars, formats(&["%m/%d/%Y"]));
    assert_eq!(times(&loaded.rows, "Time"), [nanos("2024-01-13T09:31:00Z")]);
}

#[test]
fn formats_of_instants_are_named() {
    for (value, format, instant) in [
        ("04-Mar-2024 09:30:00", "%d-%b-%Y %H:%M:%S", "2024-03-04T09:30:00Z"),
        ("20240304093000", "%Y%m%d%H%M%S", "2024-03-04T09:30:00Z"),
        ("20240304 093000123", "%Y%m%d %H%M%S%3f", "2024-03-04T09:30:00.123Z"),
        ("20240304-09:30:00.5", "%Y%m%d-%H:%M:%S%.f", "2024-03-04T09:30:00.5Z"),
    ] {
        let text = format!("when,price\n{value},1\n");
        for settings in [settings(), timed("when")] {
            let reason = error(&text, settings);
            assert!(reason.contains(&format!("--date-format '{format}'")), "{reason}");
        }
        assert_eq!(times(&with(&text, formats(&[format])).rows, "when"), [nanos(instant)], "{value}");
    }
}

#[test]
fn numbers_with_blanks_that_no_line_breaks_at_are_read() {
    let french = ImportSettings { numbers: Some("1 234,5".parse().unwrap()), ..settings() };
    let text = "time;prix\n2024-03-04;1\u{a0}234,5\n2024-03-04;2\u{202f}345\u{202f}678,25\n";
    assert_eq!(floats(&with(text, french).rows, "prix"), [Some(1234.5), Some(2_345_678.25)]);
}
