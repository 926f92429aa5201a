//! `splay lab` as its users call it.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder that is empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Whether it went well, and what it said.
fn splay(arguments: &[&str]) -> (bool, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_splay")).args(arguments).output().unwrap();
    (done.status.success(), String::from_utf8([done.stdout, done.stderr].concat()).unwrap())
}

fn good(arguments: &[&str]) -> String {
    let (is_good, stdout) = splay(arguments);
    assert!(is_good, "{arguments:?}: {stdout}");
    stdout
}

/// Trades of four symbols, as CSV.
fn trades(folder: &Path) -> String {
    let line = |n: usize| {
        let (symbol, exchange) = (["IBM", "AIG", "AAPL", "GE"][n % 4], ["N", "P"][n / 4 % 2]);
        let condition = if n.is_multiple_of(50) { "O" } else { "@" };
        let (price, size) = (100.0 + (n % 77) as f64 / 100.0, n % 9 * 100 + 1);
        let time = format!("2024-01-02T14:{:02}:{:02}.{:03}Z", 30 + n / 1_000, n / 20 % 50, n % 20 * 50);
        format!("{time},{symbol},{exchange},{condition},{price},{size}\n")
    };
    let text: String = (0..2_000).map(line).collect();
    let path = folder.join("trades.csv");
    std::fs::write(&path, format!("time,symbol,exchange,condition,price,size\n{text}")).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn generated_lists_are_measured_and_results_gone_on_with() {
    let folder = folder("lab-generated");
    let results = folder.join("results.csv");
    let results = results.to_str().unwrap();
    let lists =
        ["lab", "compression", "--generate", "longs:1000", "--count", "2000", "--times", "1", "--results", results];
    let stdout = good(&[&lists[..], &["--codecs", "snappy,lz"]].concat());
    assert!(stdout.contains("longs:1000 random: 2,000 values, 16.0 kB"), "{stdout}");
    assert!(
        stdout.contains("compFactor") && stdout.contains("Pareto front by compFactor, writeTime, readTime"),
        "{stdout}"
    );
    let text = std::fs::read_to_string(results).unwrap();
    assert!(text.starts_with("data,lbs,alg,lvl,dataType,dataCount,writeTime,readTime,compFactor,testTime,"), "{text}");
    let before: Vec<&str> = text.lines().collect();
    assert!(before[1].starts_with("longs:1000 random,12,1,0,7,2000,"), "{}", before[1]);

    good(&[&lists[..], &["--codecs", "snappy,lz,none", "--schemes", "q"]].concat());
    let after = std::fs::read_to_string(results).unwrap();
    assert!(before.iter().all(|line| after.contains(line)), "results of the first run stay as they are");

    let shown =
        good(&["lab", "compression", "--results", results, "--min-factor", "1", "--order-by", "factor", "--show", "2"]);
    assert!(shown.contains("within the limits: ") && shown.contains("… and "), "{shown}");

    let (is_good, stdout) = splay(&[&lists[..], &["--seed", "2"]].concat());
    assert!(!is_good && stdout.contains("are of other values"), "{stdout}");
    let (is_good, stdout) = splay(&["lab", "compression"]);
    assert!(!is_good && stdout.contains("nothing to measure"), "{stdout}");
    let (is_good, stdout) = splay(&["lab", "compression", "--generate", "longs", "--codecs", "lzma"]);
    assert!(!is_good && stdout.contains("no scheme has these codecs"), "{stdout}");
}

#[test]
fn columns_of_files_and_tables_are_measured_with_a_statement() {
    let folder = folder("lab-columns");
    let (trades, database) = (trades(&folder), folder.join("db"));
    let database = database.to_str().unwrap();
    let few = ["--scheme", "pages of 1024", "--codecs", "zstd", "--times", "1"];
    let stdout = good(&[&["lab", "compression", &trades, "--columns", "price,SIZE"][..], &few].concat());
    assert!(
        stdout.contains("2 columns: 2,000 values, 32.0 kB") && stdout.contains("smallest of each column, "),
        "{stdout}"
    );
    let (is_good, stdout) = splay(&["lab", "compression", &trades, "--columns", "nothing"]);
    assert!(!is_good && stdout.contains("has no column \"nothing\""), "{stdout}");

    good(&["load", database, "trade", &trades]);
    let table = ["lab", "compression", "--database", database, "--table", "trade", "--columns", "price"];
    let statement = ["--statement", "select max(price) from {data}"];
    let stdout = good(&[&table[..], &few, &statement, &["--date", "2024-01-02"]].concat());
    assert!(stdout.contains("best queryTime"), "{stdout}");
    let (is_good, stdout) = splay(&[&table[..], &few, &["--statement", "select nothing from {data}"]].concat());
    assert!(!is_good && stdout.contains("the statement failed"), "{stdout}");
    let (is_good, stdout) = splay(&[&table[..], &few, &["--date", "2024-01-03"]].concat());
    assert!(!is_good && stdout.contains("trade has no rows on 2024-01-03"), "{stdout}");
}

#[test]
fn levels_of_a_book_are_a_column_each() {
    let folder = folder("lab-levels");
    let (books, database) = (folder.join("book.csv"), folder.join("db"));
    let rows = (0..500).map(|row| format!("2024-01-02 10:{:02}:{:02},A,{row},{}\n", row / 60, row % 60, row + 1));
    std::fs::write(&books, format!("time,symbol,bid_0,bid_1\n{}", rows.collect::<String>())).unwrap();
    let (books, database) = (books.to_str().unwrap(), database.to_str().unwrap());
    good(&["load", database, "book", books, "--type", "bid=levels(2)"]);
    let table = ["--database", database, "--table", "book"];
    let stdout = good(&[&["lab", "formats"][..], &table, &["--times", "1"]].concat());
    assert!(stdout.contains("book: 500 rows, 4 columns") && stdout.contains("csv"), "{stdout}");
    let few = ["--scheme", "pages of 1024", "--codecs", "zstd", "--times", "1", "--columns", "bid_1"];
    good(&[&["lab", "compression"][..], &table, &few].concat());
}

#[test]
fn formats_and_tiers_give_the_same_answers() {
    let folder = folder("lab-formats");
    let (trades, output) = (trades(&folder), folder.join("formats.csv"));
    let stdout = good(&["lab", "formats", &trades, "--times", "1", "--output", output.to_str().unwrap()]);
    assert!(stdout.contains("trade: 2000 rows, 6 columns") && stdout.contains("no query spread and range"), "{stdout}");
    let text = std::fs::read_to_string(&output).unwrap();
    let heading =
        "format,bytes,factorToCsv,writeTime,readTime,cold,exact,select,volume by symbol,\"volume by symbol, exchange\"";
    assert_eq!(text.lines().next(), Some(heading));
    let names: Vec<&str> = text.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
    for name in
        ["feather", "feather zstd", "parquet brotli 9", "csv gzip 6", "splay mapped", "splay fast", "splay small"]
    {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(text.lines().skip(1).all(|line| line.split(',').nth(6) == Some("true")), "{text}");

    let own = ["lab", "formats", &trades, "--times", "1", "--statement"];
    let stdout = good(&[&own[..], &["n=select count(*) as n from {trade}"]].concat());
    assert!(stdout.contains("| n "), "{stdout}");
    let (is_good, stdout) = splay(&[&own[..], &["n=select nothing from {trade}"]].concat());
    assert!(!is_good && stdout.contains("feather, n"), "{stdout}");
}
