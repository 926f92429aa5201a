//! The laboratory of compression: every bit comes back, damage is named, results resume, and choices are right.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

use proptest::prelude::*;
use splay_lab::Error;
use splay_lab::compression::{
    Column, Dataset, Kind, Limits, List, Measurement, Metric, Order, Scheme, Schemes, Settings, best, choose, front,
    load, q_grid, run, save, today, totals,
};

use crate::columns;

fn settings(folder: &tempfile::TempDir) -> Settings {
    Settings { folder: folder.path().to_path_buf(), times: 1, ..Settings::default() }
}

fn list(kind: Kind, order: Order) -> List {
    List { kind, count: 10_000, order, seed: 7 }
}

/// A few schemes of each codec and encoding.
fn sample() -> Schemes {
    let is_wanted = |scheme: &dyn Scheme| {
        let id = scheme.id();
        let levels = [None, Some(0), Some(1), Some(3), Some(9), Some(-7), Some(12)];
        match id.family {
            "blocks" => matches!(id.block_bits, Some(0 | 12)) && levels.contains(&id.level),
            "encoding" | "fsst" => true,
            _ => id.block_rows == Some(1_024) && id.level.is_none_or(|level| level <= 8),
        }
    };
    q_grid().into_iter().chain(today()).filter(|scheme| is_wanted(scheme.as_ref())).collect()
}

fn decoded(scheme: &dyn Scheme, file: &[u8], column: &Column) -> Result<Vec<arrow::array::ArrayRef>, Error> {
    scheme.decode(file, column.data_type())
}

#[test]
fn the_grid_has_the_parameters_of_q() {
    let grid = q_grid();
    assert_eq!(grid.len(), 532);
    let all: HashSet<_> =
        grid.iter().map(|scheme| (scheme.id().block_bits, scheme.id().algorithm, scheme.id().level)).collect();
    assert_eq!(all.len(), 532);
    let levels = |algorithm| {
        let of: Vec<_> = grid.iter().map(|scheme| scheme.id()).filter(|id| id.algorithm == Some(algorithm)).collect();
        (of.len(), of.iter().filter_map(|id| id.level).min(), of.iter().filter_map(|id| id.level).max())
    };
    assert_eq!(levels(0), (1, Some(0), Some(0)));
    assert_eq!(levels(1), (9, Some(0), Some(0)));
    assert_eq!(levels(2), (90, Some(0), Some(9)));
    assert_eq!(levels(3), (9, Some(0), Some(0)));
    assert_eq!(levels(4), (153, Some(0), Some(16)));
    assert_eq!(levels(5), (270, Some(-7), Some(22)));
    let names: HashSet<_> = grid.iter().chain(&today()).map(|scheme| scheme.id().name.clone()).collect();
    assert_eq!(names.len(), 532 + today().len(), "names tell schemes apart");
}

#[test]
fn every_bit_comes_back() {
    let schemes = sample();
    for column in columns::all() {
        let mut families = HashSet::new();
        for scheme in &schemes {
            let file = match scheme.encode(&column) {
                Err(Error::Unsupported { .. }) => continue,
                file => file.unwrap(),
            };
            families.insert(scheme.id().family);
            let pieces = decoded(scheme.as_ref(), &file, &column)
                .unwrap_or_else(|error| panic!("{} of {}: {error}", scheme.id().name, column.name()));
            columns::assert_same(&column, &pieces, &scheme.id().name);
        }
        assert!(
            families.is_superset(&HashSet::from(["blocks", "parquet", "arrow"])),
            "{families:?} hold {}",
            column.name()
        );
    }
}

#[test]
fn each_block_is_read_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let column = list(Kind::Longs(1_000), Order::Random).column().unwrap();
    for scheme in sample() {
        let Ok(file) = scheme.encode(&column) else { continue };
        let path = folder.path().join("file");
        std::fs::write(&path, &file).unwrap();
        let opened = std::fs::File::open(&path).unwrap();
        let mut reader = scheme.open(&opened, file.len() as u64, column.data_type()).unwrap();
        let bytes: usize = (0..reader.blocks()).map(|block| reader.read(block).unwrap()).sum();
        assert_eq!(bytes, 80_000, "{}", scheme.id().name);
    }
}

/// Whether a scheme's files have checksums of our own.
fn has_checksums(scheme: &dyn Scheme) -> bool {
    !matches!(scheme.id().family, "parquet" | "arrow")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damage_is_named(which in any::<prop::sample::Index>(), of in any::<prop::sample::Index>(), place in any::<prop::sample::Index>(),
                       bit in 0_u8..8, is_cut in any::<bool>()) {
        let schemes = sample();
        let (all, scheme) = (columns::small(), &schemes[which.index(schemes.len())]);
        let column = &all[of.index(all.len())];
        let Ok(mut file) = scheme.encode(column) else { return Ok(()) };
        let place = place.index(file.len());
        if is_cut { file.truncate(place) } else { file[place] ^= 1 << bit }
        match decoded(scheme.as_ref(), &file, column) {
            Err(Error::Damaged { .. }) => {}
            Err(error) => prop_assert!(!has_checksums(scheme.as_ref()), "{}: {error:?}", scheme.id().name),
            Ok(_) => prop_assert!(!has_checksums(scheme.as_ref()), "{} doesn't notice", scheme.id().name),
        }
    }
}

#[test]
fn results_are_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["results.parquet", "results.csv"] {
        let settings = Settings { results: Some(folder.path().join(name)), ..settings(&folder) };
        let data = [Dataset::from(list(Kind::Longs(1_000), Order::Random).column().unwrap())];
        let schemes: Schemes = q_grid().into_iter().take(25).collect();
        let mut stop_at_ten = |progress: splay_lab::compression::Progress<'_>| {
            if progress.done == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let stopped = run(&data, &schemes, &settings, None, &mut stop_at_ten);
        assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
        let before = load(settings.results.as_ref().unwrap()).unwrap();
        assert_eq!(before.len(), 10);

        let mut tests = Vec::new();
        let outcome = run(&data, &schemes, &settings, None, &mut |progress| {
            tests.push((progress.done, progress.total));
            ControlFlow::Continue(())
        });
        let outcome = outcome.unwrap();
        assert_eq!(tests, (11..=25).map(|done| (done, 25)).collect::<Vec<_>>());
        assert_eq!(outcome.rows[..10], before[..]);
        assert_eq!(load(settings.results.as_ref().unwrap()).unwrap(), outcome.rows);

        let same_name = List { seed: 8, ..list(Kind::Longs(1_000), Order::Random) };
        let other = [Dataset::from(same_name.column().unwrap())];
        let refused = run(&other, &schemes, &settings, None, &mut |_| ControlFlow::Continue(()));
        assert!(
            matches!(&refused, Err(Error::Results { reason, .. }) if reason.contains("other values")),
            "{refused:?}"
        );
    }
}

#[test]
fn results_of_other_data_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { results: Some(folder.path().join("r.parquet")), ..settings(&folder) };
    let schemes: Schemes = q_grid().into_iter().take(3).collect();
    for order in [Order::Random, Order::Sorted] {
        let data = [Dataset::from(list(Kind::Booleans, order).column().unwrap())];
        run(&data, &schemes, &settings, None, &mut |_| ControlFlow::Continue(())).unwrap();
    }
    let all = load(settings.results.as_ref().unwrap()).unwrap();
    assert_eq!(all.len(), 6);
    assert_eq!(totals(&all).len(), 3);
}

#[test]
fn a_file_that_is_no_table_of_results_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.parquet");
    std::fs::write(&path, "nothing of the kind").unwrap();
    let settings = Settings { results: Some(path), ..settings(&folder) };
    let data = [Dataset::from(list(Kind::Booleans, Order::Random).column().unwrap())];
    let refused = run(&data, &q_grid(), &settings, None, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(refused, Err(Error::Results { .. })), "{refused:?}");
}

#[test]
fn a_budget_samples_all_codecs() {
    let folder = tempfile::tempdir().unwrap();
    let data = [Dataset::from(list(Kind::Longs(10), Order::Sorted).column().unwrap())];
    let nothing = Settings { budget: Some(Duration::ZERO), ..settings(&folder) };
    let outcome = run(&data, &q_grid(), &nothing, None, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((outcome.rows.len(), outcome.remaining), (0, 532));

    let mut codecs = Vec::new();
    let long = Settings { budget: Some(Duration::from_secs(3_600)), ..settings(&folder) };
    let stopped = run(&data, &q_grid(), &long, None, &mut |progress| {
        codecs.push(progress.scheme.split([' ', ',']).next().unwrap().to_owned());
        if codecs.len() == 6 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(stopped, Err(Error::Stopped)));
    codecs.sort_unstable();
    assert_eq!(codecs, ["gzip", "lz", "lz4hc", "none", "snappy", "zstd"]);
}

#[test]
fn a_statement_is_run_on_what_was_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let data = [Dataset::from(list(Kind::Longs(5), Order::Random).column().unwrap())];
    let schemes: Schemes = sample().into_iter().take(4).collect();
    let mut rows = Vec::new();
    let mut runner = |batch: &arrow::array::RecordBatch| {
        rows.push(batch.num_rows());
        Ok(Duration::from_secs(5))
    };
    let outcome =
        run(&data, &schemes, &settings(&folder), Some(&mut runner), &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(rows, [10_000; 4]);
    assert!(outcome.rows.iter().all(|row| row.query_time.unwrap() > 5_000.0));

    let mut failing = |_: &arrow::array::RecordBatch| Err("no such column".to_owned());
    let failed = run(&data, &schemes, &settings(&folder), Some(&mut failing), &mut |_| ControlFlow::Continue(()));
    assert!(matches!(failed, Err(Error::Statement { .. })), "{failed:?}");
}

/// Average and greatest factor of cells of the grid.
fn factors(kind: Kind, order: Order) -> (f64, f64) {
    let column = list(kind, order).column().unwrap();
    let plain = column.plain_bytes().unwrap() as f64;
    let is_wanted = |scheme: &dyn Scheme| {
        let (level, bits) = (scheme.id().level, scheme.id().block_bits);
        matches!(level, Some(9 | 12 | 18)) && matches!(bits, Some(15 | 17 | 20))
    };
    let schemes = q_grid().into_iter().filter(|scheme| is_wanted(scheme.as_ref()));
    let factors: Vec<f64> = schemes.map(|scheme| plain / scheme.encode(&column).unwrap().len() as f64).collect();
    (factors.iter().sum::<f64>() / factors.len() as f64, factors.iter().copied().fold(0.0, f64::max))
}

#[test]
fn sorted_lists_are_smaller_than_contiguous_ones_and_these_than_random_ones() {
    for kind in [Kind::Longs(1_000), Kind::Booleans, Kind::Symbols(3), Kind::Prices] {
        let (random, random_most) = factors(kind, Order::Random);
        let (contiguous, contiguous_most) = factors(kind, Order::Contiguous);
        let (sorted, sorted_most) = factors(kind, Order::Sorted);
        assert!(sorted >= contiguous * 0.999 && contiguous > random * 1.3, "{kind}: {sorted} {contiguous} {random}");
        assert!(sorted_most >= contiguous_most * 0.999 && contiguous_most > random_most * 1.3, "{kind}");
    }
}

#[test]
fn random_longs_are_as_small_as_in_q() {
    let column = list(Kind::Longs(1_000), Order::Random).column().unwrap();
    let grid = q_grid();
    let factor = |algorithm: i64, level: i64, bits: i64| {
        let is_it = |scheme: &dyn Scheme| {
            let id = scheme.id();
            (id.algorithm, id.level, id.block_bits) == (Some(algorithm), Some(level), Some(bits))
        };
        80_000.0 / grid.iter().find(|scheme| is_it(scheme.as_ref())).unwrap().encode(&column).unwrap().len() as f64
    };
    // Published for q: zstd 1 at 2^17 4.957, zstd 18 from 3.42 at 2^12 to 4.16 at 2^17, gzip 0 at least 0.997. Its zstd is older: this one
    // makes of levels above 2 what 1 and 2 do.
    assert!((4.7..5.2).contains(&factor(5, 1, 17)), "{}", factor(5, 1, 17));
    assert!((0.99..1.0).contains(&factor(2, 0, 12)), "{}", factor(2, 0, 12));
    let curve: Vec<f64> = (12..=20).map(|bits| factor(5, 18, bits)).collect();
    assert!(curve.windows(2).all(|pair| pair[1] > pair[0] * 0.99), "{curve:?}");
    assert!(curve[5] > curve[0] * 1.05 && (curve[8] / curve[5] - 1.0).abs() < 0.01, "{curve:?}");
    assert!(factor(5, 22, 17) >= factor(5, -7, 17) * 0.999);
    assert!(factor(5, 1, 17) > factor(4, 12, 17) && factor(4, 12, 17) > factor(3, 0, 17));
    assert!(factor(2, 9, 17) >= factor(2, 1, 17));
}

#[test]
fn our_encodings_are_smaller_than_all_of_the_grid() {
    let column = list(Kind::Longs(1_000), Order::Random).column().unwrap();
    let bytes = |schemes: Schemes| {
        schemes.iter().filter_map(|scheme| scheme.encode(&column).ok()).map(|file| file.len()).min().unwrap()
    };
    // 10 bits a value are 12,500 bytes.
    let packed = bytes(today().into_iter().filter(|scheme| scheme.id().name == "bit packing").collect());
    assert!((12_500..12_700).contains(&packed), "{packed}");
    assert!(packed < bytes(sample().into_iter().filter(|scheme| scheme.id().family == "blocks").collect()));
}

fn measurement((factor, write, read, block): (u8, u8, u8, Option<u8>)) -> Measurement {
    Measurement {
        comp_factor: f64::from(factor),
        write_time: f64::from(write),
        read_time: f64::from(read),
        block_time: block.map(f64::from),
        ..Measurement::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn choices_are_those_of_a_naive_search(
        rows in prop::collection::vec((0_u8..6, 0_u8..6, 0_u8..6, prop::option::of(0_u8..6)), 0..40),
        min_factor in prop::option::of(0_u8..6), max_write in prop::option::of(0_u8..6), max_block in prop::option::of(0_u8..6),
    ) {
        let rows: Vec<Measurement> = rows.into_iter().map(measurement).collect();
        let limits = Limits {
            min_factor: min_factor.map(f64::from), max_write_ms: max_write.map(f64::from), max_block_us: max_block.map(f64::from),
            ..Limits::default()
        };
        let choice = choose(&rows, &limits, Metric::Write);
        let allowed: Vec<&Measurement> = rows.iter().filter(|row| {
            min_factor.is_none_or(|least| row.comp_factor >= f64::from(least))
                && max_write.is_none_or(|most| row.write_time <= f64::from(most))
                && max_block.is_none_or(|most| row.block_time.is_some_and(|time| time <= f64::from(most)))
        }).collect();
        prop_assert_eq!(choice.len(), allowed.len());
        prop_assert!(allowed.iter().all(|row| choice.contains(row)));
        prop_assert!(choice.windows(2).all(|pair| pair[0].write_time <= pair[1].write_time));

        let greatest = rows.iter().map(|row| row.comp_factor).fold(0.0, f64::max);
        let expected: Vec<&Measurement> = rows.iter().filter(|row| row.comp_factor == greatest).collect();
        prop_assert_eq!(best(&rows, Metric::Factor), expected);

        let metrics = [Metric::Factor, Metric::Write, Metric::Read];
        let beats = |one: &Measurement, other: &Measurement| {
            let pairs = [(-one.comp_factor, -other.comp_factor), (one.write_time, other.write_time), (one.read_time, other.read_time)];
            pairs.iter().all(|(a, b)| a <= b) && pairs.iter().any(|(a, b)| a < b)
        };
        let expected: Vec<&Measurement> = rows.iter().filter(|row| !rows.iter().any(|other| beats(other, row))).collect();
        let choice = front(&rows, &metrics);
        prop_assert_eq!(choice.len(), expected.len());
        prop_assert!(expected.iter().all(|row| choice.contains(row)));
    }
}

#[test]
fn totals_are_sums_over_columns_that_have_the_scheme() {
    let row = |data: &str, scheme: &str, bytes: i64| Measurement {
        data: data.to_owned(),
        scheme: scheme.to_owned(),
        bytes,
        plain_bytes: 100,
        write_time: 2.0,
        ..Measurement::default()
    };
    let rows = [row("a", "one", 10), row("b", "one", 40), row("a", "two", 5)];
    let sums = totals(&rows);
    assert_eq!(sums.len(), 1);
    assert_eq!((sums[0].bytes, sums[0].comp_factor, sums[0].write_time), (50, 4.0, 4.0));
    assert_eq!(sums[0].data, "2 columns");
}

#[test]
fn results_are_saved_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let row = Measurement {
        data: "a, \"b\"".to_owned(),
        scheme: "zstd 3, blocks of 2^12 bytes".to_owned(),
        family: "blocks".to_owned(),
        codec: "zstd".to_owned(),
        encoding: "none".to_owned(),
        lvl: Some(-7),
        write_time: 0.1 + 0.2,
        memory: None,
        ..Measurement::default()
    };
    for name in ["a.parquet", "a.csv", "a.CSV"] {
        let path = folder.path().join(name);
        save(&path, std::slice::from_ref(&row)).unwrap();
        assert_eq!(load(&path).unwrap(), std::slice::from_ref(&row));
    }
}
