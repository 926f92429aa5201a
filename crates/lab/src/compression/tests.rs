//! Decoders under bytes whose checksums are right and whose content is not.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, StringArray};
use proptest::prelude::*;

use super::frame::{self, BlockFile, Bytes};
use super::summary::{Metric, extremes};
use super::{Column, Measurement, Scheme, Schemes, q_grid, today};

fn columns() -> Vec<Column> {
    let arrays: [(&str, ArrayRef); 3] = [
        ("numbers", Arc::new((0..600).map(|n| (n % 5 != 0).then_some(n * 37 % 101)).collect::<Int32Array>())),
        ("prices", Arc::new(Float64Array::from_iter_values((0..600).map(|n| f64::from(n / 7) / 100.0)))),
        ("texts", Arc::new(StringArray::from_iter_values((0..600).map(|n| format!("venue {} of {}", n % 7, n % 31))))),
    ];
    arrays.map(|(name, values)| Column::new(name, &values).unwrap()).to_vec()
}

fn schemes() -> Schemes {
    let is_wanted = |scheme: &dyn Scheme| {
        let id = scheme.id();
        match id.family {
            "blocks" => id.block_bits == Some(12) && matches!(id.level, Some(0 | 5)),
            family => !matches!(family, "parquet" | "arrow"),
        }
    };
    q_grid().into_iter().chain(today()).filter(|scheme| is_wanted(scheme.as_ref())).collect()
}

/// A file whose blocks were changed before their checksums were made.
fn forged(file: &[u8], change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let original = BlockFile::open(Bytes::Memory(file)).unwrap();
    let mut blocks: Vec<Vec<u8>> =
        (0..original.len()).map(|block| original.block(block).unwrap().into_owned()).collect();
    let mut head = original.head;
    blocks.iter_mut().for_each(&change);
    change(&mut head.shared);
    frame::write(&head, &blocks).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn forged_blocks_make_no_decoder_panic(
        which in any::<prop::sample::Index>(), of in 0_usize..3, place in any::<prop::sample::Index>(), mask in 1_u8..=255, is_cut in any::<bool>(),
    ) {
        let (schemes, columns) = (schemes(), columns());
        let (scheme, column) = (&schemes[which.index(schemes.len())], &columns[of]);
        let Ok(file) = scheme.encode(column) else { return Ok(()) };
        let file = forged(&file, |bytes| {
            if !bytes.is_empty() {
                let place = place.index(bytes.len());
                if is_cut { bytes.truncate(place) } else { bytes[place] ^= mask }
            }
        });
        if let Ok(pieces) = scheme.decode(&file, column.data_type()) {
            prop_assert_eq!(pieces.iter().map(|piece| piece.len()).sum::<usize>(), column.rows());
        }
    }
}

#[test]
fn extremes_leave_out_what_was_not_measured() {
    let row = |factor, memory| Measurement { comp_factor: factor, memory, ..Measurement::default() };
    let bounds = extremes(&[row(2.0, Some(10)), row(4.0, None)]);
    let of = |metric| bounds.iter().find(|extremes| extremes.metric == metric).copied();
    let factor = of(Metric::Factor).unwrap();
    assert_eq!((factor.maximum, factor.minimum, factor.average), (4.0, 2.0, 3.0));
    assert_eq!(of(Metric::Memory).unwrap().average, 10.0);
    assert_eq!(of(Metric::Query), None);
}
