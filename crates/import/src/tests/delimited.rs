//! Delimited text as people write it: other delimiters, lines before the header, blanks, words among numbers.

use super::*;

const ROWS: &str = "time,sym,price\n2024-01-02,A,1.5\n2024-01-03,B,2.5\n";

fn settings() -> ImportSettings {
    ImportSettings::default()
}

fn types(spec: &TableSpec) -> String {
    spec.columns.iter().map(|c| format!("{} {}", c.name, c.column_type)).collect::<Vec<_>>().join(", ")
}

fn described(text: &str, settings: ImportSettings) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, text).unwrap();
    plan("t", expand(&[path.display().to_string()]).unwrap(), settings, None).unwrap().describe()
}

/// Loads a text in blocks of one record and in one block.
fn loaded(text: &str, settings: &ImportSettings) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, text).unwrap();
    let whole = load_with(&path, settings.clone(), None, 4 << 20).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(load_with(&path, settings.clone(), None, 1).unwrap().rows, whole.rows, "{text}");
    whole
}

fn same_rows(text: &str, settings: &ImportSettings) {
    let (plain, found) = (load_text(ROWS).unwrap(), loaded(text, settings));
    assert_eq!((types(&found.spec), found.rows), (types(&plain.spec), plain.rows), "{text}");
}

#[test]
fn a_delimiter_is_found_or_named() {
    let named = |delimiter: &str| ImportSettings { delimiter: Some(delimiter.parse().unwrap()), ..settings() };
    for (delimiter, text) in [(";", ";"), ("^", "^"), ("tab", "\t"), ("\\t", "\t"), ("|", "|"), (",", ",")] {
        same_rows(&ROWS.replace(',', text), &named(delimiter));
    }
    let forced = ImportSettings { format: Some(Format::Csv), ..named(";") };
    same_rows(&ROWS.replace(',', ";"), &forced);
    // Titles and decimal commas don't hide it.
    for before in ["", "Trades\n", "Trades, all of them\n", "# a, b, c\n# d, e, f\n\n"] {
        let german = format!("{before}time;sym;price\n2024-01-02;A;1,5\n2024-01-03;B;2,5\n");
        same_rows(&german, &ImportSettings { numbers: Some("1234,5".parse().unwrap()), ..settings() });
    }
    // It goes before that of the recipe.
    let settings_of_taq = ImportSettings { recipe: Recipe::builtin("nyse-taq-trade"), ..named(";") };
    let (name, end) = ("EQY_US_ALL_TRADE_20240702.csv", "END|20240702|2|||\n");
    let by_recipe = load_bytes(name, format!("{}{end}", TAQ.replace('|', ";")).as_bytes(), settings_of_taq).unwrap();
    assert_eq!(by_recipe.rows, taq(name, &format!("{TAQ}{end}")).unwrap().rows);
    let json = error_of("t.json", b"{\"time\":\"2024-01-02\"}\n", named(";"));
    assert!(json.contains("t.json is not delimited text; --format csv reads it as such"), "{json}");
    let json = error_of("t.json", b"{\"time\":\"2024-01-02\"}\n", ImportSettings { skip_lines: Some(1), ..settings() });
    assert!(json.contains("is not delimited text"), "{json}");
}

#[test]
fn lines_before_the_header_are_recognised_or_counted() {
    for before in [
        "# exported\n",
        "# exported, by, a program\r\n#\r\n\r\n",
        "Trades of A\n\n",
        "Trades,,\n,,\n",
        "\u{feff}# exported\n",
    ] {
        same_rows(&format!("{before}{ROWS}"), &settings());
        let columns = vec![
            ColumnSpec::new("time", ColumnType::Timestamp),
            ColumnSpec::new("sym", ColumnType::Symbol),
            ColumnSpec::new("price", ColumnType::Float64),
        ];
        let table = TableSpec::new("t", columns, "time", Some("sym"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, format!("{before}{ROWS}")).unwrap();
        assert_eq!(load_with(&path, settings(), Some(&table), 1).unwrap().rows.num_rows(), 2, "{before}");
    }
    let counted = |lines| ImportSettings { skip_lines: Some(lines), ..settings() };
    same_rows(&format!("A,B,C\n1,2,3\n{ROWS}"), &counted(2));
    let headless = ImportSettings { header: Some(false), ..counted(1) };
    assert_eq!(
        types(&loaded("any, thing\n2024-01-02 10:00:00,1\n", &headless).spec),
        "column_1 timestamp, column_2 int64"
    );
    let commented = ImportSettings { header: Some(false), ..settings() };
    assert_eq!(loaded("# any\n2024-01-02 10:00:00,1\n", &commented).rows.num_rows(), 1);
    // A header may begin with the sign of a comment.
    assert_eq!(
        types(&loaded("#RIC,Date,Price\nA,2024-01-02,1\n", &settings()).spec),
        "#RIC symbol, Date timestamp, Price float64"
    );
    let notes = described(&format!("# exported\n\n{ROWS}"), settings());
    assert!(
        notes.contains("note: passed over 2 lines before the table (# exported); --skip-lines 0 would read all lines"),
        "{notes}"
    );
    assert!(!described(ROWS, settings()).contains("note"));
    let error = error_of("t.csv", format!("# exported\n{ROWS}").as_bytes(), counted(0));
    assert!(error.contains("line 2: expected 1 fields, found 3"), "{error}");
    assert!(error_of("t.csv", ROWS.as_bytes(), counted(9)).contains("it has no rows and no names of columns"));
}

#[test]
fn faults_after_a_preamble_name_their_line() {
    let typed = ImportSettings { types: vec![("price".to_owned(), ColumnType::Float64)], ..settings() };
    let text = format!("# one\n# two\n\n{ROWS}2024-01-04,C,oops\n");
    let error = error_of("t.csv", text.as_bytes(), typed.clone());
    let expected = "t.csv line 7, column price: \"oops\" is not a float64; --type price=text would take it; --null oops would make it null";
    assert!(error.starts_with(expected), "{error}");
    let counted = ImportSettings { skip_lines: Some(3), ..typed };
    assert!(error_of("t.csv", text.as_bytes(), counted).starts_with(expected));
}

#[test]
fn words_that_mean_null_are_named() {
    let null = |texts: &[&str]| ImportSettings {
        null_texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        ..settings()
    };
    let usual: String = ["NA", "N/A", "null", "-", ""].map(|text| format!("2024-01-02,A,{text}\n")).concat();
    assert_eq!(floats(&load_text(&format!("{ROWS}{usual}")).unwrap().rows, "price")[2..], [None; 5]);
    let text = format!("{ROWS}2024-01-04,n.a.,n.a.\n2024-01-05,C,--\n");
    let found = loaded(&text, &null(&["n.a.", "--"]));
    assert_eq!(floats(&found.rows, "price"), [Some(1.5), Some(2.5), None, None]);
    assert_eq!(texts(&found.rows, "sym")[2], None, "texts, too");
    let many: String = (0..20).map(|n| format!("2024-01-02,A,{n}.5\n")).collect();
    let notes = described(&format!("{ROWS}{many}2024-01-04,C,oops\n"), settings());
    assert!(
        notes.contains("note: price holds oops among numbers and is therefore a symbol: --null oops would make it null, --type price=float64"),
        "{notes}"
    );
    for (word, option) in [("--", "--null=--"), ("#N/A", "--null '#N/A'"), ("not known", "--null 'not known'")] {
        let notes = described(&format!("{ROWS}{many}2024-01-04,C,{word}\n"), settings());
        assert!(notes.contains(option), "{notes}");
    }
    let table = load_text(ROWS).unwrap().spec;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, "time,sym,price\n2024-01-02,A,oops\n").unwrap();
    let error = load_with(&path, settings(), Some(&table), 1).unwrap_err().to_string();
    assert!(
        error.contains("\"oops\" is not a float64, as the table has price; --null oops would make it null"),
        "{error}"
    );
    let time = error_of(
        "t.csv",
        format!("{ROWS}oops,A,1\n").as_bytes(),
        ImportSettings { time: Some("time".to_owned()), ..settings() },
    );
    assert!(!time.contains("--null"), "{time}");
    let json = "{\"time\":\"2024-01-02\",\"price\":1.5}\n{\"time\":\"2024-01-02\",\"price\":\"n.a.\"}\n";
    let json = load_bytes("t.json", json.as_bytes(), null(&["n.a."])).unwrap();
    assert_eq!(floats(&json.rows, "price"), [Some(1.5), None]);
    let parquet = error_of("t.parquet", &parquet(&load_text(ROWS).unwrap().rows), null(&["n.a."]));
    assert!(parquet.contains("needs none: its values have types"), "{parquet}");
}

#[test]
fn blanks_belong_to_texts_alone() {
    let spaced = "time, sym, price\n2024-01-02, A, 1.5\n2024-01-03, B, 2.5\n";
    same_rows(spaced, &settings());
    same_rows(&spaced.replace(", ", " , "), &settings());
    let nulls = loaded(&format!("{spaced}2024-01-04, C, N/A\n2024-01-04, D,  \n2024-01-04, E,\" \"\n"), &settings());
    assert_eq!(floats(&nulls.rows, "price"), [Some(1.5), Some(2.5), None, None, None]);
    // Without blanks around its name a text is what is written.
    let written = loaded("time,sym,price\n2024-01-02, A, 1.5\n2024-01-03,\" B\", 2.5\n", &settings());
    assert_eq!(texts(&written.rows, "sym"), [Some(" A".to_owned()), Some(" B".to_owned())]);
    assert_eq!(floats(&written.rows, "price"), [Some(1.5), Some(2.5)]);
    assert_eq!(
        types(&loaded("2024-01-02 10:00:00, 1, A\n2024-01-03 10:00:00, 2, B\n", &settings()).spec),
        "column_1 timestamp, column_2 int64, column_3 symbol"
    );
}

#[test]
fn numbers_are_advised_where_they_help() {
    for (what, values) in [
        ("leading zeros", ["007", "0123"]),
        ("more than 64 bits", ["123456789012345678901234", "223456789012345678901234"]),
        ("64 bits without a sign", ["18446744073709551615", "1"]),
        ("times of day", ["09:30:00", "09:30:01"]),
    ] {
        let text = format!("time;id\n2024-01-02;{}\n2024-01-03;{}\n", values[0], values[1]);
        let notes = described(&text, settings());
        assert!(!notes.contains("--numbers"), "{what}: {notes}");
    }
    let grouped = "time;code;id\n2024-01-02;1,234;1,234\n2024-01-02;2,345;2,345\n";
    let notes = described(grouped, settings());
    assert!(notes.contains("id holds 1,234, which stays text: --numbers 1,234.5 would read it"), "{notes}");
    assert!(!notes.contains("code holds"), "a code is a symbol: {notes}");
    let typed = ImportSettings { types: vec![("id".to_owned(), ColumnType::Text)], ..settings() };
    assert!(!described(grouped, typed).contains("--numbers"));
    let german = described("time;menge\n2024-01-02;1.000\n2024-01-02;2.000.000\n", settings());
    assert!(german.contains("menge holds 1.000, which stays text: --numbers 1.234,5 would read it"), "{german}");
}
