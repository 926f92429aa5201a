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
    let (is_good, said) = splay(arguments);
    assert!(is_good, "{arguments:?}: {said}");
    said
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
    let said = good(&[&lists[..], &["--codecs", "snappy,lz"]].concat());
    assert!(said.contains("longs:1000 random: 2,000 values, 16.0 kB"), "{said}");
    assert!(said.contains("compFactor") && said.contains("Pareto front by compFactor, writeTime, readTime"), "{said}");
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

    let (is_good, said) = splay(&[&lists[..], &["--seed", "2"]].concat());
    assert!(!is_good && said.contains("are of other values"), "{said}");
    let (is_good, said) = splay(&["lab", "compression"]);
    assert!(!is_good && said.contains("nothing to measure"), "{said}");
    let (is_good, said) = splay(&["lab", "compression", "--generate", "longs", "--codecs", "lzma"]);
    assert!(!is_good && said.contains("no scheme has these codecs"), "{said}");
}

#[test]
fn columns_of_files_and_tables_are_measured_with_a_statement() {
    let folder = folder("lab-columns");
    let (trades, database) = (trades(&folder), folder.join("db"));
    let database = database.to_str().unwrap();
    let few = ["--scheme", "pages of 1024", "--codecs", "zstd", "--times", "1"];
    let said = good(&[&["lab", "compression", &trades, "--columns", "price,SIZE"][..], &few].concat());
    assert!(said.contains("2 columns: 2,000 values, 32.0 kB") && said.contains("smallest of each column, "), "{said}");
    let (is_good, said) = splay(&["lab", "compression", &trades, "--columns", "nothing"]);
    assert!(!is_good && said.contains("has no column \"nothing\""), "{said}");

    good(&["load", database, "trade", &trades]);
    let table = ["lab", "compression", "--database", database, "--table", "trade", "--columns", "price"];
    let statement = ["--statement", "select max(price) from {data}"];
    let said = good(&[&table[..], &few, &statement, &["--date", "2024-01-02"]].concat());
    assert!(said.contains("best queryTime"), "{said}");
    let (is_good, said) = splay(&[&table[..], &few, &["--statement", "select nothing from {data}"]].concat());
    assert!(!is_good && said.contains("the statement failed"), "{said}");
    let (is_good, said) = splay(&[&table[..], &few, &["--date", "2024-01-03"]].concat());
    assert!(!is_good && said.contains("trade has no rows on 2024-01-03"), "{said}");
}

#[test]
fn formats_and_tiers_give_the_same_answers() {
    let folder = folder("lab-formats");
    let (trades, output) = (trades(&folder), folder.join("formats.csv"));
    let said = good(&["lab", "formats", &trades, "--times", "1", "--output", output.to_str().unwrap()]);
    assert!(said.contains("trade: 2000 rows, 6 columns") && said.contains("no query spread and range"), "{said}");
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
    let said = good(&[&own[..], &["n=select count(*) as n from {trade}"]].concat());
    assert!(said.contains("| n "), "{said}");
    let (is_good, said) = splay(&[&own[..], &["n=select nothing from {trade}"]].concat());
    assert!(!is_good && said.contains("feather, n"), "{said}");
}
