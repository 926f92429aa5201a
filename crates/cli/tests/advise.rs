//! `splay advise` as its users call it.
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

/// Whether it went well, what it said, and what it complained of.
fn splay(arguments: &[&str]) -> (bool, String, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_splay")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (done.status.success(), text(done.stdout), text(done.stderr))
}

fn good(arguments: &[&str]) -> String {
    let (is_good, stdout, complaint) = splay(arguments);
    assert!(is_good, "{arguments:?}: {stdout}{complaint}");
    stdout
}

fn refused(arguments: &[&str]) -> String {
    let (is_good, stdout, complaint) = splay(arguments);
    assert!(!is_good, "{arguments:?}: {stdout}");
    complaint
}

/// A database with 20 days of trades.
fn market(name: &str) -> String {
    let folder = folder(name);
    let line = |n: usize| {
        let (symbol, price, size) = (["IBM", "AIG", "GE"][n % 3], 100.0 + (n % 77) as f64 / 100.0, n % 9 * 100 + 1);
        let (day, second) = (1 + n / 500, n % 500 / 9);
        format!("2024-01-{day:02}T14:30:{second:02}Z,{symbol},{price},{size}\n")
    };
    let rows: String = (0..10_000).map(line).collect();
    let path = folder.join("trades.csv");
    std::fs::write(&path, format!("time,symbol,price,size\n{rows}")).unwrap();
    let database = folder.join("db").to_str().unwrap().to_owned();
    good(&[
        "load",
        &database,
        "trade",
        path.to_str().unwrap(),
        "--time",
        "time",
        "--symbol",
        "symbol",
        "--partition",
        "day",
    ]);
    database
}

/// The tiers that dates are in, and the rules: what `describe` says of both.
fn tiers(database: &str) -> Vec<String> {
    let stdout = good(&["describe", database, "trade"]);
    let is_of_tier = |line: &&str| line.starts_with("tier ") || line.starts_with("           ");
    stdout.lines().filter(is_of_tier).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn columns_and_tiers_are_shown_with_reasons_and_nothing_changes() {
    let database = market("advise-shown");
    let before = tiers(&database);
    let stdout = good(&["advise", &database, "trade", "--goal", "size"]);
    assert!(stdout.starts_with("trade: 10,000 rows in 20 segments, "), "{stdout}");
    for name in ["time", "symbol", "price", "size", "(beside columns)", "(indexes)", "(table)"] {
        assert_eq!(
            stdout.lines().filter(|line| line.starts_with(&format!("{name} "))).count(),
            if name.starts_with('(') { 1 } else { 2 },
            "{name}: {stdout}"
        );
    }
    assert!(stdout.contains("decimals of 2 digits, kept as whole numbers, bit for bit"), "{stdout}");
    assert!(
        ["dense", "small", "fast"].iter().any(|tier| stdout.contains(&format!("advice for size: {tier}: "))),
        "{stdout}"
    );
    assert!(stdout.contains(&format!("set it by: splay advise {database} trade --goal size --apply")), "{stdout}");
    assert_eq!(tiers(&database), before);
}

#[test]
fn what_is_predicted_is_what_comes_of_it() {
    let database = market("advise-predicted");
    let json = good(&["advise", &database, "trade", "--goal", "size", "--format", "json"]);
    let advice: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((advice["rows"].as_u64(), advice["goal"].as_str()), (Some(10_000), Some("size")));
    assert_eq!(advice["segments_sampled"], 8);
    for tier in ["fast", "small"] {
        let predicted = advice["tiers"].as_array().unwrap().iter().find(|one| one["tier"] == tier).unwrap()["bytes"]
            .as_f64()
            .unwrap();
        good(&["compact", &database, "--tier", tier]);
        let now: serde_json::Value =
            serde_json::from_str(&good(&["advise", &database, "trade", "--format", "json"])).unwrap();
        let measured = now["bytes"].as_f64().unwrap();
        assert!((predicted / measured - 1.0).abs() < 0.02, "{tier}: {predicted} told, {measured} found");
    }
}

#[test]
fn rules_are_set_and_dates_follow_them_later() {
    let database = market("advise-applied");
    let stdout = good(&["advise", &database, "trade", "--memory", "1T", "--apply"]);
    assert!(stdout.contains("advice for balanced: mapped, ") && stdout.contains(" from 7 days on"), "{stdout}");
    assert!(stdout.contains(&format!("set; dates move by: splay maintain {database}")), "{stdout}");
    let set = tiers(&database);
    assert!(set.iter().any(|line| line == "tier mapped from 0 days on"), "{set:?}");
    assert!(set.iter().any(|line| line.starts_with("tier ") && line.ends_with(" from 7 days on")), "{set:?}");
    assert!(!set.iter().any(|line| line.contains("13 dates")), "no file has moved: {set:?}");
    good(&["maintain", &database]);
    assert!(tiers(&database).iter().any(|line| line.contains("in 13 dates")), "{:?}", tiers(&database));
    // Another goal takes their place.
    good(&["advise", &database, "trade", "--goal", "speed", "--memory", "1T", "--apply"]);
    let set: Vec<String> = tiers(&database).into_iter().filter(|line| line.starts_with("tier ")).collect();
    assert_eq!(set, ["tier mapped from 0 days on"]);
    // Half of a memory of nothing holds no date.
    let stdout = good(&["advise", &database, "trade", "--goal", "speed", "--memory", "1K"]);
    assert!(stdout.contains("advice for speed: fast: "), "{stdout}");
}

#[test]
fn csv_has_a_line_a_column_and_no_others() {
    let database = market("advise-csv");
    let stdout = good(&["advise", &database, "trade", "--format", "csv", "--budget", "0s"]);
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(
        lines[0],
        "column,type,now,mapped,fast,small,dense,mapped_gb_per_second,fast_gb_per_second,small_gb_per_second,dense_gb_per_second,fast_kept,small_kept,dense_kept,reason"
    );
    let names: Vec<&str> = lines[1..].iter().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(names, ["time", "symbol", "price", "size", "(beside columns)", "(indexes)", "(table)"]);
    let size: f64 = lines[4].split(',').nth(3).unwrap().parse().unwrap();
    assert!((size - 8.0).abs() < 0.1, "{}", lines[4]);
}

#[test]
fn tables_that_nothing_can_be_said_of_are_refused_by_name() {
    let database = market("advise-refused");
    let stdout = refused(&["advise", &database, "nothing"]);
    assert!(stdout.contains("no table \"nothing\"; this database has trade"), "{stdout}");
    good(&["sql", &database, "create view recent as select * from trade"]);
    let stdout = refused(&["advise", &database, "recent"]);
    assert!(stdout.contains("recent is a view, which keeps no rows"), "{stdout}");
    good(&["sql", &database, "create table later (time timestamp, sym symbol, x float64)"]);
    let stdout = good(&["advise", &database, "later"]);
    assert!(stdout.contains("it has no rows in files, so that nothing can be measured"), "{stdout}");
    let stdout = refused(&["advise", &database, "later", "--apply"]);
    assert!(stdout.contains("table \"later\": it has no rows in files"), "{stdout}");
    let stdout = refused(&["advise", &database, "trade", "--goal", "cheap"]);
    assert!(stdout.contains("there are size, speed, balanced"), "{stdout}");
    let stdout = refused(&["advise", &database, "trade", "--budget", "soon"]);
    assert!(stdout.contains("is not a time such as 60s, 5m or 1h"), "{stdout}");
}
