//! Recorded market data through the recipes: row counts and first and last instants against figures computed from the raw
//! files by a separate program (Python's standard library: zipfile, csv, decimal, zoneinfo).
//!
//! The data is no part of the repository. It is looked for in `SPLAY_REAL_DATA`, else in `../shared/data` beside the
//! repository; where it is absent the tests say so and check nothing.

#![allow(clippy::unwrap_used, missing_docs)]

use std::path::PathBuf;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type, TimestampNanosecondType};
use splay_import::{Error, Import, ImportReport, ImportSettings, Recipe, expand, plan};

fn real_data() -> Option<PathBuf> {
    let folder = match std::env::var_os("SPLAY_REAL_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
    };
    if folder.is_dir() {
        return Some(folder);
    }
    println!("recorded market data is absent (looked in {}); nothing was checked", folder.display());
    None
}

fn planned(pattern: &str, recipe: Option<&str>) -> Option<Import> {
    let pattern = real_data()?.join(pattern).display().to_string();
    let recipe = recipe.map(|name| Recipe::builtin(name).unwrap());
    let settings = ImportSettings { recipe, threads: 2, ..ImportSettings::default() };
    Some(plan("t", expand(&[pattern]).unwrap(), settings, None).unwrap())
}

/// Report, first and last instant; `look` sees every batch.
fn load(import: Import, look: &mut dyn FnMut(&RecordBatch)) -> (ImportReport, i64, i64) {
    let time = import.spec().time_position();
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    let total = import.total_bytes();
    let report = import
        .run::<Error>(&mut |block| {
            let times = block.batch.column(time).as_primitive::<TimestampNanosecondType>();
            first = first.min(arrow::compute::min(times).unwrap_or(i64::MAX));
            last = last.max(arrow::compute::max(times).unwrap_or(i64::MIN));
            assert!(block.bytes_read <= total, "{} of {total}", block.bytes_read);
            look(&block.batch);
            Ok(())
        })
        .unwrap();
    (report, first, last)
}

/// Recipe, files, rows, first and last instant in nanoseconds of UTC.
const EXPECTED: &[(Option<&str>, &str, u64, i64, i64)] = &[
    (
        Some("lean-equity-quote"),
        "lean/equity/usa/tick/*/*_quote.zip",
        5_622_356,
        1_381_132_800_054_000_000,
        1_381_536_000_064_000_000,
    ),
    (
        Some("lean-equity-trade"),
        "lean/equity/usa/tick/*/*_trade.zip",
        1_903_269,
        1_381_132_800_464_000_000,
        1_381_535_548_922_000_000,
    ),
    (
        Some("lean-forex-fxcm"),
        "lean/forex/fxcm/tick/*/*.zip",
        2_084_012,
        1_398_920_400_039_000_000,
        1_400_216_399_730_000_000,
    ),
    (
        Some("lean-forex-oanda"),
        "lean/forex/oanda/tick/*/*.zip",
        532_903,
        1_398_902_400_292_000_000,
        1_400_198_396_324_000_000,
    ),
    (
        Some("lean-cfd-oanda"),
        "lean/cfd/oanda/tick/*/*.zip",
        1_327_622,
        1_398_902_400_043_142_000,
        1_399_852_778_616_429_200,
    ),
    (
        Some("lean-future-trade"),
        "lean/future/comex/tick/gc/*_trade.zip",
        92_514,
        1_381_104_000_276_000_000,
        1_381_276_747_794_000_000,
    ),
    (
        Some("lean-future-openinterest"),
        "lean/future/comex/tick/gc/*_openinterest.zip",
        152,
        1_381_126_068_523_000_000,
        1_381_240_390_168_000_000,
    ),
    (
        Some("lean-option-quote"),
        "lean/option/usa/minute/goog/*_quote_*.zip",
        304_484,
        1_450_881_000_000_000_000,
        1_450_980_000_000_000_000,
    ),
    (
        Some("lean-option-trade"),
        "lean/option/usa/minute/goog/*_trade_*.zip",
        958,
        1_450_967_400_000_000_000,
        1_450_979_940_000_000_000,
    ),
    (
        Some("lean-option-openinterest"),
        "lean/option/usa/minute/goog/*_openinterest_*.zip",
        2_058,
        1_450_956_600_000_000_000,
        1_450_956_780_000_000_000,
    ),
    (
        Some("coinbase-trades"),
        "questdb_samples/btc_trades.csv",
        5_882,
        1_693_929_601_281_719_000,
        1_693_933_198_761_737_000,
    ),
    (None, "questdb_samples/btc_trades.csv", 5_882, 1_693_929_601_281_719_000, 1_693_933_198_761_737_000),
    (
        Some("nasdaq-daily"),
        "questdb_samples/nasdaq_open_close.csv",
        13_590,
        1_504_569_600_000_000_000,
        1_693_872_000_000_000_000,
    ),
    (None, "questdb_samples/nasdaq_open_close.csv", 13_590, 1_504_569_600_000_000_000, 1_693_872_000_000_000_000),
    (
        Some("ohlcv"),
        "questdb_samples/nasdaq_open_close.csv",
        13_590,
        1_504_569_600_000_000_000,
        1_693_872_000_000_000_000,
    ),
    (
        Some("nasdaq-polls"),
        "questdb_samples/nasdaq_trades.csv",
        14_842,
        1_693_929_600_000_000_000,
        1_693_933_199_000_000_000,
    ),
    (None, "questdb_samples/nasdaq_trades.csv", 14_842, 1_693_929_600_000_000_000, 1_693_933_199_000_000_000),
    (Some("wondertrader-tick"), "wondertrader/*.csv.gz", 56_209, 1_609_723_740_400_000_000, 1_609_832_175_700_000_000),
];

#[test]
fn every_recipe_loads_its_recorded_files_whole() {
    for &(recipe, pattern, rows, first, last) in EXPECTED {
        let Some(import) = planned(pattern, recipe) else { return };
        let (report, first_time, last_time) = load(import, &mut |_| {});
        assert_eq!((report.rows, first_time, last_time), (rows, first, last), "{recipe:?} {pattern}");
        assert_eq!(report.files.iter().map(|f| f.rows).sum::<u64>(), rows);
    }
}

#[test]
fn equity_quotes_have_null_prices_where_a_side_is_absent() {
    let Some(import) = planned("lean/equity/usa/tick/ibm/20131007_quote.zip", Some("lean-equity-quote")) else {
        return;
    };
    let mut nulls = (0, 0);
    load(import, &mut |batch| {
        let column = |name: &str| batch.column_by_name(name).unwrap();
        let prices = column("bid_price").as_primitive::<Float64Type>();
        assert!(prices.iter().flatten().all(|p| p > 0.0));
        assert_eq!(column("bid_price").null_count(), column("bid_size").null_count());
        nulls.0 += column("bid_price").null_count();
        nulls.1 += column("ask_price").null_count();
    });
    assert_eq!(nulls, (54_534, 54_533));
}

#[test]
fn option_contracts_are_told_by_their_zip_members() {
    let pattern = "lean/option/usa/minute/goog/20151224_quote_american.zip";
    let Some(import) = planned(pattern, Some("lean-option-quote")) else { return };
    let mut symbols = std::collections::HashSet::new();
    let (report, _, _) = load(import, &mut |batch| {
        let column = batch.column_by_name("symbol").unwrap().as_dictionary::<arrow::datatypes::Int32Type>();
        symbols.extend(column.values().as_string::<i32>().iter().flatten().map(str::to_owned));
    });
    assert_eq!((report.files.len(), symbols.len()), (2192, 2192));
    assert!(symbols.contains("GOOG_20160108_CALL_10000000"));
}

#[test]
fn dbn_files_of_every_version_and_schema_load_with_symbols() {
    let Some(folder) = real_data() else { return };
    let mut loaded = 0;
    for entry in std::fs::read_dir(folder.join("databento_dbn/data")).unwrap() {
        let path = entry.unwrap().path().display().to_string();
        let files = expand(std::slice::from_ref(&path)).unwrap();
        let planned = plan("t", files, ImportSettings::default(), None);
        if path.contains(".frag") || path.contains(".dbz") {
            let error = planned.map(|i| i.describe()).unwrap_err().to_string();
            assert!(error.contains("fragment") || error.contains("legacy DBZ"), "{error}");
            continue;
        }
        let import = planned.unwrap_or_else(|e| panic!("{e}"));
        let spec = import.spec().clone();
        assert_eq!(spec.symbol.as_deref(), Some("symbol"), "{path}");
        let (report, first, _) = load(import, &mut |batch| {
            let symbols = batch.column(spec.symbol_position().unwrap());
            assert_eq!(symbols.null_count(), 0, "{path}");
        });
        // Some files hold metadata alone.
        assert!(report.rows == 0 || first > 1_400_000_000_000_000_000, "{path}: {report:?} {first}");
        loaded += u32::from(report.rows > 0);
    }
    assert!(loaded > 50, "{loaded}");
}

#[test]
fn an_itch_file_has_its_messages_about_orders_and_trades() {
    let Some(import) = planned("ritch_itch50/ex20101224.TEST_ITCH_50.gz", None) else { return };
    let (mut shares, mut prices) = (0, 0.0);
    let (report, first, last) = load(import, &mut |batch| {
        let column = |name: &str| batch.column_by_name(name).unwrap();
        shares += arrow::compute::sum(column("shares").as_primitive::<Int64Type>()).unwrap_or(0);
        prices += arrow::compute::sum(column("price").as_primitive::<Float64Type>()).unwrap_or(0.0);
    });
    assert_eq!((report.rows, first, last), (12_000, 1_293_197_939_052_372_053, 1_293_224_397_526_823_001));
    assert_eq!(shares, 1_464_119);
    assert!((prices - 160_886.358_7).abs() < 1e-6, "{prices}");
}

#[test]
fn damaged_dbn_files_are_errors_or_rows_and_never_a_panic() {
    let Some(folder) = real_data() else { return };
    for name in [
        "test_data.mbo.v1.dbn.zst",
        "test_data.mbp-1.dbn",
        "test_data.definition.v2.dbn.zst",
        "test_data.trades.v3.dbn.zst",
    ] {
        let bytes = std::fs::read(folder.join("databento_dbn/data").join(name)).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join(name);
        let attempt = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let import = plan("t", expand(&[path.display().to_string()])?, ImportSettings::default(), None)?;
            import.run::<Error>(&mut |_| Ok(())).map(|report| report.rows)
        };
        let whole = attempt(&bytes).unwrap();
        for len in 0..bytes.len() {
            assert!(attempt(&bytes[..len]).map_or(true, |rows| rows < whole), "{name} cut to {len} bytes");
        }
        for place in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << (place % 8);
            drop(attempt(&flipped));
        }
    }
}
