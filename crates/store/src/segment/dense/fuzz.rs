//! Fuzz target: any bytes as input of pco, the codec's tables and a page, behind the checksums that would refuse changed bytes.

use splay_mutate::{Bytes, Memory};

use super::format::{ChunkHead, PAGE_ROWS, PageContent};
use super::numbers::{self, DecoderTables};

/// Memory that an input may take: tables, a page's numbers, and the values before them that a page may look back to.
pub const MEMORY: Memory = Memory { fixed: 32 << 20, each: 1 << 10 };

/// Most values that are compressed.
const VALUES_MAX: usize = 2_000;

/// Decodes any bytes as tables and a page, or numbers that were compressed and then changed here and there. They are refused, or are as many
/// numbers as were asked for; without a change they are the same numbers.
///
/// # Panics
/// A decoder that doesn't hold to that.
pub fn dense(bytes: &[u8]) {
    let mut bytes = Bytes::new(bytes);
    let kind = *bytes.pick(&[PageContent::Whole, PageContent::Float]);
    if bytes.one_in(4) {
        let tables_bytes = bytes.below(200);
        let tables = bytes.take(tables_bytes);
        let values = bytes.below(PAGE_ROWS + 2);
        let rest = bytes.rest();
        let _ = ChunkHead::decode(rest, values);
        decode(kind, tables, rest, values);
        return;
    }
    let changes: Vec<(bool, u16, u8)> =
        (0..bytes.below(4)).map(|_| (bytes.one_in(2), bytes.short(), bytes.byte())).collect();
    let numbers = any_numbers(&mut bytes);
    let Ok(mut compressed) = numbers::compress(kind, &numbers, &[numbers.len()]) else {
        panic!("{} numbers are refused", numbers.len());
    };
    for (in_tables, at, change) in &changes {
        let part = if *in_tables { &mut compressed.tables } else { &mut compressed.pages[0] };
        if !part.is_empty() {
            let at = usize::from(*at) % part.len();
            part[at] ^= change;
        }
    }
    let decoded = decode(kind, &compressed.tables, &compressed.pages[0], numbers.len());
    if changes.iter().all(|(.., change)| *change == 0) {
        assert_eq!(decoded.as_deref(), Some(&numbers[..]), "the numbers that were compressed");
    }
}

fn decode(kind: PageContent, tables: &[u8], page: &[u8], values: usize) -> Option<Vec<i64>> {
    let tables = DecoderTables::read(kind, tables).ok()?;
    let mut numbers = Vec::new();
    tables.decode(page, values, &mut numbers).ok()?;
    assert_eq!(numbers.len(), values);
    Some(numbers)
}

/// Numbers of the shapes that encodings look for: steps, few values, multiples, all bits.
fn any_numbers(bytes: &mut Bytes<'_>) -> Vec<i64> {
    let shape = bytes.below(5);
    let (step, repeats) = (i64::from(bytes.short()), bytes.below(7) + 1);
    let mut numbers = Vec::new();
    let mut last = bytes.number().cast_signed();
    while !bytes.is_empty() && numbers.len() < VALUES_MAX {
        let value = i64::from(bytes.byte());
        last = match shape {
            0 => last.wrapping_add(step + value),
            1 => value * step,
            2 => value,
            3 => (value as f64 / 4.0).to_bits().cast_signed(),
            _ => last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(value),
        };
        numbers.extend(std::iter::repeat_n(last, repeats));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use splay_mutate::{Random, Run};

    /// pco made room for the 33 million values that four bytes announce.
    #[test]
    fn a_long_dictionary_is_refused() {
        let mut tables = Vec::new();
        pco::wrapped::FileCompressor::default().write_header(&mut tables).unwrap();
        tables.extend([0xf4, 0xff, 0xff, 0x1f, 0, 0]);
        for kind in [super::PageContent::Whole, super::PageContent::Float] {
            let refusal = super::DecoderTables::read(kind, &tables).err().unwrap_or_default();
            assert_eq!(refusal, "a dictionary of 33554431 values in 6 bytes");
        }
    }

    #[test]
    fn any_bytes_are_refused_or_are_numbers() {
        let mut random = Random::new(3);
        let samples: Vec<Vec<u8>> = (0..40).map(|_| (0..400).map(|_| random.byte()).collect()).collect();
        Run { inputs: 5_000, bytes_max: 1 << 10, memory: super::MEMORY, ..Run::default() }.feed(&samples, super::dense);
    }
}
