//! A selection never leaves out a row that matches, and counts what it keeps.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimestampNanosecondType, UInt64Type};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use splay_store::storage::fault::FaultStorage;
use splay_store::{
    BLOCK_ROWS, Bounds, ColumnBounds, Database, LoadOptions, Selection, Settings, TableSnapshot, Tier, ValueKind,
    sortable,
};

use crate::model::rng;
use crate::random::{self, in_order};

/// The value of a row as sortable bits, or `None` if it is null.
fn bits(rows: &RecordBatch, column: usize, row: usize, kind: ValueKind) -> Option<u64> {
    let array = rows.column(column);
    let bits = match kind {
        ValueKind::Signed => {
            let wide = cast(&array.slice(row, 1), &DataType::Int64).unwrap();
            wide.as_primitive::<Int64Type>().value(0).cast_unsigned()
        }
        ValueKind::Unsigned => {
            cast(&array.slice(row, 1), &DataType::UInt64).unwrap().as_primitive::<UInt64Type>().value(0)
        }
        ValueKind::Float => {
            cast(&array.slice(row, 1), &DataType::Float64).unwrap().as_primitive::<Float64Type>().value(0).to_bits()
        }
    };
    array.is_valid(row).then(|| sortable(kind, bits))
}

fn random_selection(
    rng: &mut ChaCha8Rng,
    rows: &RecordBatch,
    dates: &[i32],
    time: usize,
    symbol: Option<usize>,
) -> Selection {
    let mut selection = Selection::default();
    let any = |rng: &mut ChaCha8Rng| rng.random_range(0..rows.num_rows());
    if rng.random_bool(0.3) {
        selection.date = Bounds { min: dates[any(rng)], max: dates[any(rng)] };
    }
    if rng.random_bool(0.6) {
        let times = rows.column(time).as_primitive::<TimestampNanosecondType>();
        let mut one = || times.value(any(rng)).saturating_add(rng.random_range(-1..=1));
        let (min, max) = (one(), one());
        // Bounds that nothing passes are asked for now and then too.
        selection.time =
            if rng.random_bool(0.9) { Bounds { min: min.min(max), max: max.max(min) } } else { Bounds { min, max } };
    }
    if let (Some(symbol), true) = (symbol, rng.random_bool(0.6)) {
        let texts = rows.column(symbol).as_string::<i32>();
        let some = (0..rng.random_range(0..4)).map(|_| any(rng)).filter(|row| texts.is_valid(*row));
        let mut symbols: Vec<String> =
            some.collect::<Vec<_>>().into_iter().map(|row| texts.value(row).to_owned()).collect();
        symbols.extend(["", "nowhere", "~"].choose(rng).map(|text| (*text).to_owned()));
        selection.symbols = Some(symbols);
    }
    for column in 0..rows.num_columns() {
        let field = rows.schema_ref().field(column).clone();
        let Some(kind) = ValueKind::of(field.data_type()).filter(|_| rng.random_bool(0.25)) else { continue };
        let (a, b) = (bits(rows, column, any(rng), kind), bits(rows, column, any(rng), kind));
        let bounds = match (a, b) {
            (Some(a), Some(b)) => (a.min(b), a.max(b)),
            (Some(a), None) => (a, a),
            (None, Some(b)) => (0, b),
            (None, None) => (0, u64::MAX),
        };
        selection.columns.push(ColumnBounds { column: field.name().to_uppercase(), kind, bounds });
    }
    selection
}

/// Compares the pieces of a selection with every row that matches it, and its counts with the pieces.
fn assert_selects(snapshot: &TableSnapshot, selection: &Selection, rows: &RecordBatch, dates: &[i32], what: &str) {
    let spec = snapshot.spec();
    let times = rows.column(spec.time_position()).as_primitive::<TimestampNanosecondType>();
    let symbols = spec.symbol_position().map(|position| rows.column(position).as_string::<i32>());
    let matches = |row: usize| {
        let symbol = symbols.filter(|symbols| symbols.is_valid(row)).map(|symbols| symbols.value(row));
        selection.date.contains(dates[row])
            && selection.time.contains(times.value(row))
            && selection.symbols.as_ref().is_none_or(|symbols| symbol.is_some_and(|s| symbols.iter().any(|w| w == s)))
            && selection.columns.iter().all(|filter| {
                let value = bits(rows, spec.position(&filter.column).unwrap(), row, filter.kind);
                value.is_some_and(|value| filter.bounds.0 <= value && value <= filter.bounds.1)
            })
    };
    let (pieces, stats) = snapshot.select(selection).unwrap();
    let mut is_selected = vec![false; rows.num_rows()];
    let (mut start, mut blocks, mut blocks_kept) = (0, 0, std::collections::HashSet::new());
    let mut pieces = pieces.iter().peekable();
    let mut partitions_kept = 0;
    for partition in snapshot.partitions() {
        let before = is_selected.iter().filter(|is_selected| **is_selected).count();
        for segment in partition.segments.iter() {
            let mut end = 0;
            while let Some(piece) = pieces.next_if(|piece| Arc::ptr_eq(&piece.segment, segment)) {
                assert!(piece.rows.start >= end && piece.rows.start < piece.rows.end, "{what}: {:?}", piece.rows);
                assert!(piece.rows.end <= segment.rows() && piece.date == partition.date, "{what}: {:?}", piece.rows);
                end = piece.rows.end;
                for row in piece.rows.clone() {
                    blocks_kept.insert((Arc::as_ptr(segment), row / BLOCK_ROWS as u64));
                    is_selected[start + usize::try_from(row).unwrap()] = true;
                }
            }
            blocks += segment.rows().div_ceil(BLOCK_ROWS as u64);
            start += usize::try_from(segment.rows()).unwrap();
        }
        partitions_kept += u64::from(is_selected.iter().filter(|is_selected| **is_selected).count() > before);
    }
    assert!(pieces.next().is_none(), "{what}: pieces out of order");
    if let Some(lost) = (0..rows.num_rows()).find(|row| matches(*row) && !is_selected[*row]) {
        panic!("{what}: row {lost} of {} matches {selection:?} and was left out", rows.num_rows());
    }
    let rows_kept = is_selected.iter().filter(|is_selected| **is_selected).count() as u64;
    assert_eq!((stats.rows.selected, stats.rows.total), (rows_kept, rows.num_rows() as u64), "{what}: rows");
    assert_eq!((stats.blocks.selected, stats.blocks.total), (blocks_kept.len() as u64, blocks), "{what}: blocks");
    let partitions = snapshot.partitions().len() as u64;
    assert_eq!(
        (stats.partitions.selected, stats.partitions.total),
        (partitions_kept, partitions),
        "{what}: partitions"
    );
    assert!(stats.symbols.selected <= stats.symbols.total, "{what}: symbols");
}

fn compare(seed: u64) {
    let mut rng = rng(seed);
    let with_symbol = rng.random_bool(0.7);
    let spec = random::spec(&mut rng, with_symbol);
    let database = Database::create_on(Arc::new(FaultStorage::new()), &Settings::default()).unwrap();
    let mut arrived = Vec::new();
    for _ in 0..rng.random_range(1..3) {
        let (count, extremes) = (rng.random_range(1..9000), rng.random_bool(0.3));
        arrived.push(random::batch(&mut rng, &spec, count, extremes));
        let mut load = database.load(&spec, LoadOptions::default()).unwrap();
        load.append(arrived.last().unwrap()).unwrap();
        load.commit().unwrap();
    }
    let (rows, dates) = in_order(&spec, &arrived);
    let snapshot = database.table("t").unwrap().snapshot().unwrap();
    for number in 0..12 {
        let selection = random_selection(&mut rng, &rows, &dates, spec.time_position(), spec.symbol_position());
        assert_selects(&snapshot, &selection, &rows, &dates, &format!("seed {seed}, selection {number}"));
    }
}

/// Pieces of every column, in any order and twice, are what reading each gives; from files and from rows in memory.
fn compare_pieces(seed: u64) {
    let mut rng = rng(seed);
    let spec = random::spec(&mut rng, seed % 2 == 0);
    let database = Database::create_on(Arc::new(FaultStorage::new()), &Settings::default()).unwrap();
    let format = [Tier::Small, Tier::Fast, Tier::Mapped, Tier::Dense, Tier::Mapped][(seed % 5) as usize];
    let mut load = database.load(&spec, LoadOptions { tier: Some(format), ..LoadOptions::default() }).unwrap();
    load.append(&random::batch(&mut rng, &spec, 20_000, false)).unwrap();
    load.commit().unwrap();
    let snapshot = database.table("t").unwrap().snapshot().unwrap();
    for segment in snapshot.partitions().iter().flat_map(|partition| partition.segments.iter()) {
        let rows = usize::try_from(segment.rows()).unwrap();
        let mut pieces: Vec<Range<usize>> = Vec::new();
        // Short ones near each other are read together.
        let (first_rows, piece_rows) = if seed % 3 == 0 { (rows.min(400), 90) } else { (rows, 3000) };
        for _ in 0..rng.random_range(0..12) {
            let start = rng.random_range(0..=first_rows);
            pieces.push(start..rng.random_range(start..=rows.min(start + piece_rows)));
        }
        for position in 0..spec.columns.len() {
            let column = segment.column(&spec, position).unwrap();
            let actual = column.read_pieces(&pieces).unwrap();
            let mut start = 0;
            for piece in &pieces {
                let expected = column.read(piece.clone()).unwrap();
                let part = actual.slice(start, piece.len());
                assert_eq!(&part, &expected, "seed {seed}, {:?} of {:?}", piece, spec.columns[position]);
                start += piece.len();
            }
            assert_eq!(actual.len(), start);
            assert_eq!(actual.data_type(), &spec.columns[position].column_type.arrow());
        }
    }
}

#[test]
fn pieces_of_a_column_are_what_reading_each_gives() {
    (0..25).for_each(compare_pieces);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60, rng_seed: RngSeed::Fixed(0x5E1), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn no_matching_row_is_left_out(seed in any::<u64>()) {
        compare(seed);
    }
}

#[test]
fn an_index_reads_its_sections_once() {
    let storage = FaultStorage::new();
    let database = crate::model::open(&storage).unwrap();
    crate::model::load(&database, &crate::model::rows(1, 3000, 0..1, 4), LoadOptions::default()).unwrap();
    let snapshot = database.table("trade").unwrap().snapshot().unwrap();
    let index = snapshot.partitions()[0].segments[0].index().unwrap();
    for name in ["time", "price", "size"] {
        let by_block = index.by_block(name).unwrap().unwrap();
        assert_eq!(by_block.len(), 3);
        assert!(std::ptr::eq(by_block, index.by_block(&name.to_uppercase()).unwrap().unwrap()));
    }
    assert!(index.by_block("note").unwrap().is_none() && index.by_block("nothing").unwrap().is_none());
}
