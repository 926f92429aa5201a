//! Whole imports: random tables against what was written, awkward files, error texts, damage.

use std::io::Write;
use std::path::Path;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Float64Type, Int64Type, TimestampNanosecondType};
use proptest::prelude::*;
use splay_store::{ColumnSpec, ColumnType, TableSpec};

use crate::*;

mod dates;
mod delimited;
mod hostile;
mod itch;
mod json;
mod people;
mod times_of_day;
mod typed_times;

#[derive(Debug)]
struct Loaded {
    spec: TableSpec,
    rows: RecordBatch,
    report: ImportReport,
}

fn load_with(
    path: &Path,
    settings: ImportSettings,
    existing: Option<&TableSpec>,
    block_bytes: usize,
) -> Result<Loaded> {
    let mut import = plan("t", expand(&[path.display().to_string()])?, settings, existing)?;
    import.block_bytes = block_bytes;
    let spec = import.spec().clone();
    let mut batches = Vec::new();
    let report = import.run::<Error>(&mut |block| {
        assert!(block.batch.num_rows() <= 1 << 16);
        batches.push(block.batch);
        Ok(())
    })?;
    let rows = concat_batches(&spec.as_read().arrow(), &batches).unwrap();
    assert_eq!(report.rows, rows.num_rows() as u64);
    Ok(Loaded { spec, rows, report })
}

fn load_file(path: &Path, settings: ImportSettings) -> Result<Loaded> {
    load_with(path, settings, None, 4 << 20)
}

fn load_bytes(name: &str, bytes: &[u8], settings: ImportSettings) -> Result<Loaded> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    load_file(&path, settings)
}

fn load_text(text: &str) -> Result<Loaded> {
    load_bytes("t.csv", text.as_bytes(), ImportSettings::default())
}

/// The error's text without the folder that the test made.
fn error_of(name: &str, bytes: &[u8], settings: ImportSettings) -> String {
    let text = load_bytes(name, bytes, settings).map(|l| l.rows).unwrap_err().to_string();
    match text.find(name) {
        Some(at) => text[at..].to_owned(),
        None => text,
    }
}

fn floats(rows: &RecordBatch, name: &str) -> Vec<Option<f64>> {
    rows.column_by_name(name).unwrap().as_primitive::<Float64Type>().iter().collect()
}

fn times(rows: &RecordBatch, name: &str) -> Vec<Option<i64>> {
    rows.column_by_name(name).unwrap().as_primitive::<TimestampNanosecondType>().iter().collect()
}

fn texts(rows: &RecordBatch, name: &str) -> Vec<Option<String>> {
    let array = rows.column_by_name(name).unwrap();
    let plain: ArrayRef = arrow::compute::cast(array, &arrow::datatypes::DataType::Utf8).unwrap();
    plain.as_string::<i32>().iter().map(|v| v.map(str::to_owned)).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

type Row = (Option<f64>, Option<i64>, Option<String>, Option<String>);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let number = prop_oneof![
        (-1_000_000i64..1_000_000).prop_map(|n| n as f64 / 100.0),
        any::<f64>().prop_filter("finite", |f| f.is_finite()),
    ];
    let text = "[a-z ,\"\r\n\u{e9}\u{4e2d};|]{0,12}";
    let row = (
        proptest::option::of(number),
        proptest::option::of(any::<i64>()),
        proptest::option::of("[A-C]{1,2}"),
        proptest::option::of(text),
    );
    proptest::collection::vec(row, 0..60)
}

fn written(text: &str, quote: bool) -> String {
    if quote || text.is_empty() || text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_written_is_read_back_at_any_block_size_and_thread_count(
        rows in rows(),
        quotes in proptest::collection::vec(any::<bool>(), 64),
        crlf in any::<bool>(),
        last_newline in any::<bool>(),
        block_bytes in 16usize..4096,
        threads in prop_oneof![Just(1usize), Just(2), Just(4)],
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let mut text = format!("time,f,i,s,x{end}");
        for (index, (f, i, s, x)) in rows.iter().enumerate() {
            let quote = |place: usize| quotes[(index * 5 + place) % quotes.len()];
            let number = f.map(|f| f.to_string()).map(|t| if quote(1) { format!("\"{t}\"") } else { t }).unwrap_or_default();
            let integer = i.map(|i| i.to_string()).unwrap_or_default();
            let symbol = s.as_deref().map(|s| written(s, quote(2))).unwrap_or_default();
            let free = x.as_deref().map(|x| written(x, quote(3))).unwrap_or_default();
            text += &format!("{},{number},{integer},{symbol},{free}{end}", 1_700_000_000_000_000_000u64 + index as u64);
        }
        if !last_newline {
            text.truncate(text.len() - end.len());
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, &text).unwrap();
        let types = [("f", ColumnType::Float64), ("i", ColumnType::Int64), ("s", ColumnType::Symbol), ("x", ColumnType::Text)];
        let settings = ImportSettings {
            types: types.into_iter().map(|(n, t)| (n.to_owned(), t)).chain([("time".to_owned(), ColumnType::Timestamp)]).collect(),
            header: Some(true),
            format: Some(Format::Csv),
            threads,
            ..ImportSettings::default()
        };
        let loaded = load_with(&path, settings, None, block_bytes).unwrap();
        prop_assert_eq!(loaded.rows.num_rows(), rows.len());
        let bits = |values: Vec<Option<f64>>| values.into_iter().map(|v| v.map(f64::to_bits)).collect::<Vec<_>>();
        prop_assert_eq!(bits(floats(&loaded.rows, "f")), bits(rows.iter().map(|r| r.0).collect()));
        let integers: Vec<Option<i64>> = loaded.rows.column_by_name("i").unwrap().as_primitive::<Int64Type>().iter().collect();
        prop_assert_eq!(integers, rows.iter().map(|r| r.1).collect::<Vec<_>>());
        prop_assert_eq!(texts(&loaded.rows, "s"), rows.iter().map(|r| r.2.clone()).collect::<Vec<_>>());
        prop_assert_eq!(texts(&loaded.rows, "x"), rows.iter().map(|r| r.3.clone()).collect::<Vec<_>>());
    }

    #[test]
    fn a_fault_names_its_line_at_any_block_size(before in 0usize..200, block_bytes in 16usize..512, threads in 1usize..4) {
        let good: String = (0..before).map(|n| format!("2024-01-02 00:00:00,\"a\nb\",{n}\n")).collect();
        let text = format!("time,x,n\n\n{good}2024-01-02 00:00:00,a,7x\n{good}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, &text).unwrap();
        let settings = ImportSettings {
            types: vec![("n".to_owned(), ColumnType::Int64)], header: Some(true), threads, ..ImportSettings::default()
        };
        let error = load_with(&path, settings, None, block_bytes).map(|l| l.rows).unwrap_err().to_string();
        let expected = format!("line {}, column n: \"7x\" is not an int64", 3 + 2 * before);
        prop_assert!(error.contains(&expected), "{} / {}", error, expected);
    }
}

#[test]
fn awkward_files_are_read_right() {
    let plain = load_text("time,sym,price\n2024-01-02T14:30:00Z,IBM,161.25\n2024-01-02T14:30:01Z,AIG,\n").unwrap();
    assert_eq!(floats(&plain.rows, "price"), [Some(161.25), None]);
    assert_eq!((plain.spec.time.as_str(), plain.spec.symbol.as_deref()), ("time", Some("sym")));
    for same in [
        "\u{feff}time,sym,price\n2024-01-02T14:30:00Z,IBM,161.25\n2024-01-02T14:30:01Z,AIG,",
        "time,sym,price\r\n\r\n2024-01-02T14:30:00Z,IBM,161.25\r\n2024-01-02T14:30:01Z,AIG,\r\n\r\n",
        "\n\n\"time\",\"sym\",\"price\"\n\"2024-01-02T14:30:00Z\",\"IBM\",\"161.25\"\n2024-01-02 14:30:01,AIG,NA\n",
        "time\tsym\tprice\n20240102 14:30:00\tIBM\t161.25\n20240102 14:30:01\tAIG\t\n",
        "time|sym|price\n2024/01/02 14:30:00|IBM|161.25\n2024.01.02D14:30:01|AIG|\n",
        "time;sym;price\n2024-01-02T15:30:00+01:00;IBM;161.25\n2024-01-02T14:30:01;AIG;\n",
    ] {
        let loaded = load_text(same).unwrap();
        assert_eq!(floats(&loaded.rows, "price"), floats(&plain.rows, "price"), "{same:?}");
        assert_eq!(times(&loaded.rows, "time"), times(&plain.rows, "time"), "{same:?}");
        assert_eq!(texts(&loaded.rows, "sym"), texts(&plain.rows, "sym"), "{same:?}");
    }
}

#[test]
fn empty_files_and_bare_headers_hold_no_rows() {
    let existing = load_text("time,price\n2024-01-02,1.5\n").unwrap().spec;
    for bytes in ["", "\n", "time,price\n", "\u{feff}time,price"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, bytes).unwrap();
        let loaded = load_with(&path, ImportSettings::default(), Some(&existing), 4 << 20).unwrap();
        assert_eq!(loaded.rows.num_rows(), 0, "{bytes:?}");
    }
}

#[test]
fn error_texts_say_where_and_what_helps() {
    let none = ImportSettings::default;
    let head = "time,sym,size\n2024-01-02,IBM,5\n";
    let of = |rest: &[u8]| {
        let settings = ImportSettings { header: Some(true), time: Some("time".to_owned()), ..none() };
        error_of("t.csv", &[head.as_bytes(), rest].concat(), settings)
    };
    assert_eq!(of(b"2024-01-03,IBM\n"), "t.csv line 3: expected 3 fields, found 2: 2024-01-03,IBM");
    assert_eq!(of(b"2024-01-03,IBM,1,2\n"), "t.csv line 3: expected 3 fields, found 4: 2024-01-03,IBM,1,2");
    assert_eq!(of(b",IBM,1\n"), "t.csv line 3, column time: the time is empty: ,IBM,1");
    assert_eq!(
        of(b"2024-02-30,IBM,1\n"),
        "t.csv line 3, column time: \"2024-02-30\" is not a timestamp: 2024-02-30,IBM,1"
    );
    assert_eq!(of(b"2024-01-03,I\xffM,1\n"), "t.csv line 3, column sym: is not UTF-8 text: 2024-01-03,I\u{fffd}M,1");
    assert!(of(b"2024-01-03,I\0M,1\n").starts_with("t.csv line 3, column sym: holds a NUL byte"));
    let typed = |rest: &str| {
        let types = vec![("size".to_owned(), ColumnType::Int64)];
        error_of("t.csv", format!("{head}{rest}").as_bytes(), ImportSettings { types, ..none() })
    };
    assert_eq!(
        typed("2024-01-03,IBM,1.5\n"),
        "t.csv line 3, column size: \"1.5\" is not an int64; --type size=float64 would take it: 2024-01-03,IBM,1.5"
    );
    assert_eq!(
        typed("2024-01-03,\"IBM,1\n"),
        "t.csv line 3, column sym: a quote is opened and never closed: 2024-01-03,\"IBM,1"
    );
    let no_time = error_of("t.csv", b"a,b\n1,2\n", none());
    let helps = "no column looks like a time; name one with --time, of a, b, or load a reference table with --key or --reference";
    assert!(no_time.ends_with(helps), "{no_time}");
    let missing = plan("t", expand(&["/nonexistent/*.csv".to_owned()]).unwrap_or_default(), none(), None).unwrap_err();
    assert_eq!(missing.to_string(), "setting files: there is no file to read");
    assert_eq!(
        expand(&["/nonexistent/*.csv".to_owned()]).unwrap_err().to_string(),
        "no file matches \"/nonexistent/*.csv\""
    );
}

#[test]
fn a_file_without_a_time_says_what_was_stumbled_over() {
    let of = |text: &str| error_of("t.csv", text.as_bytes(), ImportSettings::default());
    let with = |text: &str, settings: ImportSettings| error_of("t.csv", text.as_bytes(), settings);
    // No rows: types would be guesses for good.
    let bare = of("time,sym,price\n");
    assert!(
        bare.contains("it has no rows from which the types of its columns time, sym, price could be inferred"),
        "{bare}"
    );
    assert!(bare.ends_with("as in --type time=timestamp"), "{bare}");
    let time = Some("time".to_owned());
    let named = with("time,sym,price\n", ImportSettings { time: time.clone(), ..ImportSettings::default() });
    assert!(named.contains("its columns sym, price could be inferred"), "{named}");
    let types = vec![("sym".to_owned(), ColumnType::Symbol), ("price".to_owned(), ColumnType::Float64)];
    let typed = ImportSettings { time, types, ..ImportSettings::default() };
    assert_eq!(load_bytes("t.csv", b"time,sym,price\n", typed).unwrap().rows.num_rows(), 0);
    // Rows that aren't.
    let uneven = of("time,sym\n2024-01-02,A,1\n2024-01-03,A,2\n");
    assert!(uneven.ends_with("its first rows can't be read: line 2: expected 2 fields, found 3"), "{uneven}");
    let unclosed = of("time,sym\n2024-01-02,\"A\n2024-01-03,B\n");
    assert!(unclosed.ends_with("line 2: a quote is opened and never closed"), "{unclosed}");
    let long = of(&format!("time,note\n2024-01-02,{}\n", "x".repeat(2 << 20)));
    assert!(long.contains("no row ends within the first 1048576 bytes"), "{long}");
    let later = of("a,b\n1,2\n3\n");
    assert!(
        later.contains("no column looks like a time") && later.ends_with("line 3: expected 2 fields, found 1"),
        "{later}"
    );
    // Names of many columns are cut.
    let names: Vec<String> = (0..30).map(|n| format!("c{n}")).collect();
    let many = of(&format!("{}\n{}\n", names.join(","), vec!["1"; 30].join(",")));
    assert!(many.contains("of c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 and 20 others, or load"), "{many}");
    let shadow = of("root:!:19000\ndaemon:*:19000\n");
    assert!(shadow.ends_with("--no-header if the first line has values"), "{shadow}");
}

#[test]
fn headers_of_known_vendors_name_their_recipe() {
    let taq = of_bytes("t.psv", TAQ);
    assert!(taq.ends_with("its header fits the recipe nyse-taq-trade: load it with --recipe nyse-taq-trade"), "{taq}");
    for name in Recipe::names() {
        let recipe = Recipe::builtin(name).unwrap();
        let columns: Vec<&str> =
            recipe.format.rules.iter().filter(|rule| rule.value.is_none()).map(|rule| rule.names[0].as_str()).collect();
        let fitting = Recipe::fitting(&columns);
        assert!(!recipe.format.header || fitting.is_some(), "{name}");
    }
    assert_eq!(Recipe::fitting(&["a", "b"]), None);
}

fn of_bytes(name: &str, text: &str) -> String {
    error_of(name, text.as_bytes(), ImportSettings::default())
}

#[test]
fn files_of_other_kinds_are_named() {
    let of = |name: &str, bytes: &[u8]| error_of(name, bytes, ImportSettings::default());
    let utf16: Vec<u8> = "time,price\n2024-01-02,1\n".bytes().flat_map(|byte| [byte, 0]).collect();
    assert!(of("t.csv", &utf16).ends_with("is UTF-16 text; convert it to UTF-8"));
    assert!(of("t.dat", &utf16).ends_with("is UTF-16 text; convert it to UTF-8"));
    let unknown = of("t.bin", &[1, 0, 2, 0, 0, 0, 9]);
    assert!(unknown.contains("there are csv, tsv, psv, json, parquet, arrow, dbn and itch"), "{unknown}");
    let recorded = of("t.txt", b"1723075200000000000 {\"stream\":\"btcusdt@trade\",\"data\":{}}\n");
    assert!(recorded.contains("splay.feeds"), "{recorded}");
    assert_eq!(
        expand(&["/nonexistent/x.csv".to_owned()]).unwrap_err().to_string(),
        "there is no file or folder \"/nonexistent/x.csv\""
    );
}

#[test]
fn malformed_rows_go_to_quarantine_and_the_rest_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, "time,n\n2024-01-02,1\n2024-01-03,x\n2024-01-04\n2024-01-05,2\n").unwrap();
    let bad = folder.path().join("bad.csv");
    let settings = ImportSettings {
        on_error: OnError::Quarantine { path: bad.clone() },
        types: vec![("n".to_owned(), ColumnType::Int64)],
        ..ImportSettings::default()
    };
    let loaded = load_with(&path, settings, None, 24).unwrap();
    assert_eq!((loaded.report.rows, loaded.report.quarantined), (2, 2));
    let text = std::fs::read_to_string(bad).unwrap();
    assert!(text.starts_with("file,line,column,reason,text\n"), "{text}");
    assert!(
        text.contains("\"3\",\"n\"") && text.contains("\"4\",\"\",\"expected 2 fields, found 1\",\"2024-01-04\""),
        "{text}"
    );
}

#[test]
fn a_table_that_exists_gives_names_types_and_nulls() {
    let spec = TableSpec::new(
        "t",
        vec![
            ColumnSpec::new("Time", ColumnType::Timestamp),
            ColumnSpec::new("Sym", ColumnType::Symbol),
            ColumnSpec::new("Price", ColumnType::Float64),
            ColumnSpec::new("Note", ColumnType::Text),
        ],
        "Time",
        Some("Sym"),
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, "price,TIME,sym\n1,2024-01-02,7\n").unwrap();
    let loaded = load_with(&path, ImportSettings::default(), Some(&spec), 4096).unwrap();
    assert_eq!(floats(&loaded.rows, "Price"), [Some(1.0)]);
    assert_eq!(texts(&loaded.rows, "Sym"), [Some("7".to_owned())]);
    assert_eq!(texts(&loaded.rows, "Note"), [None]);
    std::fs::write(&path, "price,TIME,sym,venue,flag\n1,2024-01-02,7,X,1\n").unwrap();
    let error = load_with(&path, ImportSettings::default(), Some(&spec), 4096).map(|l| l.rows).unwrap_err().to_string();
    assert!(error.contains("there is no place for its columns venue, flag"), "{error}");
}

const TAQ: &str = "Time|Exchange|Symbol|Sale Condition|Trade Volume|Trade Price\n\
    093000123456789|N|BRK A|@ F |100|161.25\n\
    093000223456789|P|IBM|    |200|161.26\n";

fn taq(name: &str, text: &str) -> Result<Loaded> {
    let recipe = Recipe::builtin("nyse-taq-trade");
    load_bytes(name, text.as_bytes(), ImportSettings { recipe, ..ImportSettings::default() })
}

#[test]
fn taq_times_are_new_york_nanoseconds_and_the_last_line_is_checked() {
    let name = "EQY_US_ALL_TRADE_20240702.csv";
    let loaded = taq(name, &format!("{TAQ}END|20240702|2|||\n")).unwrap();
    // 2024-07-02T13:30:00.123456789Z
    assert_eq!(times(&loaded.rows, "Time"), [Some(1_719_927_000_123_456_789), Some(1_719_927_000_223_456_789)]);
    assert_eq!(texts(&loaded.rows, "Sale_Condition"), [Some("@ F ".to_owned()), None]);
    assert_eq!(texts(&loaded.rows, "Symbol"), [Some("BRK A".to_owned()), Some("IBM".to_owned())]);
    assert_eq!(loaded.spec.time_zone, "America/New_York");
    let error = |text: &str| taq(name, text).map(|l| l.rows).unwrap_err().to_string();
    assert!(error(TAQ).contains("is cut short: its last line doesn't begin with \"END|\""));
    assert!(error(&format!("{TAQ}END|20240702|9|||\n")).contains("its last line counts 9 rows, and 2 were read"));
    assert!(error(&format!("{TAQ}END|20240702|2|||\n093000123456789|N|A||1|1\n")).contains("rows follow"));
    assert!(error(&TAQ.replace("|100|", "|0.5|")).contains("--type Trade_Volume=float64 would take it"));
    let unnamed = taq("trades.csv", TAQ).map(|l| l.rows).unwrap_err().to_string();
    assert!(unnamed.contains("the recipe expects a name like EQY_US_ALL_TRADE_{date:%Y%m%d}.gz"), "{unnamed}");
    assert!(unnamed.contains("a pattern such as 'EQY_US_ALL_TRADE_*.gz' leaves other files out"), "{unnamed}");
}

#[test]
fn local_times_in_a_gap_stop_the_load() {
    let text = TAQ.replace("093000123456789", "023000000000000");
    let error = taq("EQY_US_ALL_TRADE_20240310.csv", &text).map(|l| l.rows).unwrap_err().to_string();
    assert!(error.contains("line 2, column Time: the local time was skipped"), "{error}");
}

#[test]
fn absent_quote_sides_are_null() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ibm");
    std::fs::create_dir(&path).unwrap();
    let path = path.join("20131007_quote.zip");
    let text: &[u8] = b"14400152,0,0,494100,300,Q,1,0\n14400547,491800,300,0,0,P,1,0\n";
    std::fs::write(&path, zip(&[("20131007_ibm_Quote_Tick.csv", text)])).unwrap();
    let settings = ImportSettings { recipe: Recipe::builtin("lean-equity-quote"), ..ImportSettings::default() };
    let loaded = load_file(&path, settings).unwrap();
    assert_eq!(floats(&loaded.rows, "bid_price"), [None, Some(49.18)]);
    assert_eq!(floats(&loaded.rows, "ask_price"), [Some(49.41), None]);
    assert_eq!(texts(&loaded.rows, "symbol"), [Some("IBM".to_owned()), Some("IBM".to_owned())]);
    // 04:00:00.152 in New York, four hours behind UTC on that day.
    assert_eq!(times(&loaded.rows, "time")[0], Some(1_381_132_800_152_000_000));
}

const ROWS: &str = "time,sym,price\n2024-01-02T14:30:00Z,IBM,161.25\n2024-01-02T14:30:01Z,AIG,49.1\n";

#[test]
fn compressed_files_are_the_same_rows_and_damage_is_never_a_short_file() {
    let none = ImportSettings::default;
    let plain = load_text(ROWS).unwrap();
    let (head, tail) = ROWS.split_at(40);
    let two_members = [gzip(head.as_bytes()), gzip(tail.as_bytes())].concat();
    let files: [(&str, Vec<u8>); 4] = [
        ("t.csv.gz", gzip(ROWS.as_bytes())),
        ("t.csv.gz", two_members.clone()),
        ("t.csv.zst", zstd::encode_all(ROWS.as_bytes(), 3).unwrap()),
        ("t.zip", zip(&[("t.csv", ROWS.as_bytes())])),
    ];
    for (name, bytes) in &files {
        let loaded = load_bytes(name, bytes, none()).unwrap();
        assert_eq!(loaded.rows, plain.rows, "{name}");
        for len in 0..bytes.len() {
            // Cut between two gzip members, what is left is a sound file.
            let sound = *bytes == two_members && len == gzip(head.as_bytes()).len();
            assert!(sound || load_bytes(name, &bytes[..len], none()).is_err(), "{name} cut to {len} bytes");
        }
        for place in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << (place % 8);
            // Gzip's header holds fields that change nothing, and zstd has no checksum here: rows may come out, never a panic.
            drop(load_bytes(name, &flipped, none()));
        }
    }
}

#[test]
fn zip_members_are_inputs_of_their_own_in_name_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.zip");
    let more = "time,sym,price\n2024-01-01T00:00:00Z,C,1.5\n";
    std::fs::write(&path, zip(&[("b.csv", ROWS.as_bytes()), ("a.csv", more.as_bytes())])).unwrap();
    let files = expand(&[path.display().to_string()]).unwrap();
    assert!(files[0].name.ends_with("t.zip:a.csv") && files[1].name.ends_with("t.zip:b.csv"));
    assert_ne!(digest(&files[0]).unwrap(), digest(&files[1]).unwrap());
    let loaded = load_file(&path, ImportSettings::default()).unwrap();
    assert_eq!(loaded.report.files.iter().map(|f| f.rows).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(loaded.report.files[0].digest, digest(&files[0]).unwrap());
}

#[test]
fn digests_are_the_files_own_blake3() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv.gz");
    let bytes = gzip(ROWS.as_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let loaded = load_file(&path, ImportSettings::default()).unwrap();
    assert_eq!(loaded.report.files[0].digest, blake3::hash(&bytes).to_hex().to_string());
    assert_eq!(loaded.report.bytes, bytes.len() as u64);
}

#[test]
fn a_digest_is_computed_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, ROWS).unwrap();
    let file = expand(&[path.display().to_string()]).unwrap().remove(0);
    let first = digest(&file).unwrap();
    // Neither a copy of the input nor the load reads the file for it again.
    std::fs::write(&path, "other bytes").unwrap();
    assert_eq!(digest(&file.clone()).unwrap(), first);
}

fn parquet(rows: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, rows.schema(), None).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
    bytes
}

fn ipc_file(rows: &RecordBatch) -> Vec<u8> {
    let mut writer = arrow::ipc::writer::FileWriter::try_new(Vec::new(), &rows.schema()).unwrap();
    writer.write(rows).unwrap();
    writer.into_inner().unwrap()
}

fn ipc_stream(rows: &RecordBatch) -> Vec<u8> {
    let mut writer = arrow::ipc::writer::StreamWriter::try_new(Vec::new(), &rows.schema()).unwrap();
    writer.write(rows).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn parquet_and_arrow_files_hold_the_same_rows_and_damage_is_an_error_or_rows() {
    let plain = load_text(ROWS).unwrap().rows;
    let files = [("t.parquet", parquet(&plain)), ("t.arrow", ipc_file(&plain)), ("t.arrows", ipc_stream(&plain))];
    for (name, bytes) in &files {
        let loaded = load_bytes(name, bytes, ImportSettings::default()).unwrap();
        assert_eq!(times(&loaded.rows, "time"), times(&plain, "time"), "{name}");
        assert_eq!(texts(&loaded.rows, "sym"), texts(&plain, "sym"), "{name}");
        assert_eq!(loaded.spec.symbol.as_deref(), Some("sym"));
        for len in (0..bytes.len()).step_by(7) {
            drop(load_bytes(name, &bytes[..len], ImportSettings::default()));
        }
        for place in (0..bytes.len()).step_by(3) {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << (place % 8);
            drop(load_bytes(name, &flipped, ImportSettings::default()));
        }
    }
}

#[test]
fn the_start_of_a_tables_days_is_that_of_the_settings_the_recipe_or_the_table() {
    let settings =
        |start: &str| ImportSettings { day_start: Some(start.parse().unwrap()), ..ImportSettings::default() };
    let loaded = load_bytes("t.csv", b"time,n\n2024-01-02T23:00:00Z,1\n", settings("17:00")).unwrap();
    assert_eq!(loaded.spec.dates_in(), "UTC from 17:00 of the day before");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, "time,n\n2024-01-03T23:00:00Z,1\n").unwrap();
    let again = |settings| load_with(&path, settings, Some(&loaded.spec), 1 << 20).map(|again| again.spec.dates_in());
    assert_eq!(again(ImportSettings::default()).unwrap(), loaded.spec.dates_in());
    assert_eq!(again(settings("17:00")).unwrap(), loaded.spec.dates_in());
    let refused = again(settings("00:00")).unwrap_err().to_string();
    assert!(refused.contains("UTC from 17:00 of the day before, and its days can't start at 00:00"), "{refused}");
    let text = "description = 'x'\nformat = 'csv'\nheader = true\nday_start = '18:00'\ntime_zone = 'America/Chicago'\n\
        columns = [{ name = 'time', type = 'timestamp' }]\n[time]\ncolumn = 'time'\n";
    let with_start = Recipe::from_toml(text, "x").map(|recipe| recipe.day_start.map(|start| start.to_string()));
    assert_eq!(with_start.map_err(|error| error.to_string()), Ok(Some("18:00".to_owned())));
}

/// A zone that differed from the table's was ignored.
#[test]
fn a_table_keeps_its_time_zone() {
    let settings = |zone: &str| ImportSettings { time_zone: Some(zone.to_owned()), ..ImportSettings::default() };
    let loaded = load_bytes("t.csv", b"time,n\n2024-01-02T23:00:00Z,1\n", settings("America/New_York")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [
        ("t.csv", b"time,n\n2024-01-03T23:00:00Z,1\n".to_vec()),
        ("t.jsonl", br#"{"time": "2024-01-03T23:00:00Z", "n": 1}"#.to_vec()),
        ("t.parquet", parquet(&loaded.rows)),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let again =
            |settings| load_with(&path, settings, Some(&loaded.spec), 1 << 20).map(|again| again.spec.time_zone);
        assert_eq!(again(ImportSettings::default()).unwrap(), "America/New_York", "{name}");
        assert_eq!(again(settings("America/New_York")).unwrap(), "America/New_York", "{name}");
        let refused = again(settings("Europe/Zurich")).unwrap_err().to_string();
        assert!(
            refused.contains("time_zone: the table's dates are in America/New_York, not in Europe/Zurich"),
            "{refused}"
        );
    }
}

#[test]
fn a_date_as_time_is_midnight_in_the_tables_zone() {
    let dates: ArrayRef = std::sync::Arc::new(arrow::array::Date32Array::from(vec![19_724, 19_905]));
    let rows = RecordBatch::try_from_iter([("day", dates)]).unwrap();
    let (time, time_zone) = (Some("day".to_owned()), Some("America/New_York".to_owned()));
    let settings = ImportSettings { time, time_zone, ..ImportSettings::default() };
    let loaded = load_bytes("t.parquet", &parquet(&rows), settings.clone()).unwrap();
    // Five hours behind UTC on 2024-01-02, four on 2024-07-01.
    let midnights = [1_704_171_600_000_000_000, 1_719_806_400_000_000_000].map(Some);
    assert_eq!(times(&loaded.rows, "day"), midnights);
    let text = load_bytes("t.csv", b"day\n2024-01-02\n2024-07-01\n", settings).unwrap();
    assert_eq!(times(&text.rows, "day"), midnights);
}

#[test]
fn instants_of_other_units_become_nanoseconds_and_overflow_is_refused() {
    use arrow::array::{LargeStringArray, StringViewArray, TimestampSecondArray};
    use std::sync::Arc;
    let batch = |seconds: i64| {
        let time: ArrayRef = Arc::new(TimestampSecondArray::from(vec![seconds]).with_timezone("America/New_York"));
        let sym: ArrayRef = Arc::new(StringViewArray::from(vec!["IBM"]));
        let note: ArrayRef = Arc::new(LargeStringArray::from(vec!["x"]));
        RecordBatch::try_from_iter([("time", time), ("sym", sym), ("note", note)]).unwrap()
    };
    let loaded = load_bytes("t.parquet", &parquet(&batch(1_700_000_000)), ImportSettings::default()).unwrap();
    assert_eq!(times(&loaded.rows, "time"), [Some(1_700_000_000_000_000_000)]);
    assert_eq!(loaded.spec.columns[1].column_type, ColumnType::Symbol);
    let error = error_of("t.parquet", &parquet(&batch(100_000_000_000)), ImportSettings::default());
    assert!(error.contains("column time"), "{error}");
}

#[test]
fn a_sink_that_fails_ends_the_load() {
    let rows: String = (0..2000).map(|n| format!("2024-01-02,{n}\n")).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, format!("time,n\n{rows}")).unwrap();
    let settings = ImportSettings { threads: 2, ..ImportSettings::default() };
    let mut import = plan("t", expand(&[path.display().to_string()]).unwrap(), settings, None).unwrap();
    import.block_bytes = 256;
    let result = import.run::<Error>(&mut |_| Err(Error::damaged("sink", "no room")));
    assert_eq!(result.unwrap_err().to_string(), "sink: no room");
}

#[test]
fn a_plan_is_described_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, ROWS).unwrap();
    let import =
        plan("trade", expand(&[path.display().to_string()]).unwrap(), ImportSettings::default(), None).unwrap();
    let expected = "table trade from 1 file(s), dates in UTC\n  time   timestamp   time column\n  sym    symbol   symbol column\n  price  float64\n";
    assert_eq!(import.describe(), expected);
    assert_eq!(import.total_bytes(), ROWS.len() as u64);
}
