//! Minima and maxima of numbers, booleans and texts.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{ArrowNativeType, DataType};
use splay_store::{Summary, ValueKind};

use super::accumulate::{Accumulator, RowGroups, present, same};
use super::text_extremes::TextExtreme;
use crate::error::Result;
use crate::natives::{array_of, natives, with_native};
use crate::total_order::{self, TotalOrder};

/// The accumulator of the least or the greatest value of a type; `None` for types without one.
pub(super) fn extreme(data_type: &DataType, greatest: bool) -> Option<Box<dyn Accumulator>> {
    Some(match data_type {
        DataType::Boolean => Box::new(TruthExtreme { values: Vec::new(), greatest }),
        DataType::Utf8 => Box::new(TextExtreme::new(greatest)),
        DataType::Dictionary(codes, texts) if **codes == DataType::Int32 && **texts == DataType::Utf8 => {
            Box::new(TextExtreme::new(greatest))
        }
        data_type => {
            with_native!(data_type, N => Box::new(NumberExtreme::<N>::new(greatest, data_type.clone())), _ => return None)
        }
    })
}

/// Least or greatest number.
#[derive(Debug)]
struct NumberExtreme<N> {
    values: Vec<N>,
    counts: Vec<u64>,
    greatest: bool,
    data_type: DataType,
}

impl<N: TotalOrder> NumberExtreme<N> {
    fn new(greatest: bool, data_type: DataType) -> Self {
        NumberExtreme { values: Vec::new(), counts: Vec::new(), greatest, data_type }
    }

    #[inline]
    fn take(&mut self, group: usize, value: N, count: u64) {
        let (new, old) = (value.key(), self.values[group].key());
        if self.counts[group] == 0 || (if self.greatest { new > old } else { new < old }) {
            self.values[group] = value;
        }
        self.counts[group] += count;
    }
}

impl<N: ArrowNativeType + TotalOrder + FromSummary> Accumulator for NumberExtreme<N> {
    fn grow(&mut self, groups: usize) {
        self.values.resize(groups, N::default());
        self.counts.resize(groups, 0);
    }

    fn update(&mut self, arguments: &[ArrayRef], assigned: RowGroups<'_>) -> Result<()> {
        let values = natives::<N>(&arguments[0]);
        let nulls = arguments[0].nulls().filter(|nulls| nulls.null_count() > 0);
        match (assigned, nulls) {
            (RowGroups::Runs(runs), None) => {
                for run in runs {
                    if let Some(value) = total_order::extreme(&values[run.start..run.end], self.greatest) {
                        self.take(run.group as usize, value, (run.end - run.start) as u64);
                    }
                }
            }
            _ => assigned.each(nulls, |group, row| self.take(group, values[row], 1)),
        }
        Ok(())
    }

    fn update_summary(&mut self, group: u32, kind: ValueKind, summary: &Summary) -> bool {
        // The values may have been cast: then the summary's bits are of another kind.
        if ValueKind::of(&self.data_type) != Some(kind) {
            return summary.count == 0;
        }
        if summary.count > 0 {
            let bits = if self.greatest { summary.max } else { summary.min };
            self.take(group as usize, N::from_summary(bits), summary.count);
        }
        true
    }

    fn takes_summaries(&self) -> bool {
        ValueKind::of(&self.data_type).is_some()
    }

    fn merge(&mut self, other: Box<dyn Accumulator>, groups: &[u32]) -> Result<()> {
        let other = same::<NumberExtreme<N>>(other)?;
        for (from, group) in groups.iter().enumerate() {
            if other.counts[from] > 0 {
                self.take(*group as usize, other.values[from], other.counts[from]);
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef> {
        array_of(self.values, present(&self.counts), &self.data_type)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// A number from the 8 bytes of a summary.
pub(super) trait FromSummary {
    fn from_summary(bits: u64) -> Self;
}

macro_rules! from_summary {
    ($($native:ty: $value:expr),*) => {$(
        impl FromSummary for $native {
            #[allow(clippy::cast_possible_truncation)] // The summary was made of values of this type.
            fn from_summary(bits: u64) -> $native {
                let value: fn(u64) -> $native = $value;
                value(bits)
            }
        }
    )*};
}

from_summary!(
    i8: |bits| bits as i8,
    i16: |bits| bits as i16,
    i32: |bits| bits as i32,
    i64: u64::cast_signed,
    // Decimals have no summaries.
    i128: |bits| i128::from(bits.cast_signed()),
    u8: |bits| bits as u8,
    u16: |bits| bits as u16,
    u32: |bits| bits as u32,
    u64: |bits| bits,
    f32: |bits| f64::from_bits(bits) as f32,
    f64: f64::from_bits
);

/// Least or greatest truth value: false is the least.
#[derive(Debug)]
struct TruthExtreme {
    values: Vec<Option<bool>>,
    greatest: bool,
}

impl TruthExtreme {
    fn take(&mut self, group: usize, value: bool) {
        let current = &mut self.values[group];
        *current = Some(current.map_or(value, |current| if self.greatest { current | value } else { current & value }));
    }
}

impl Accumulator for TruthExtreme {
    fn grow(&mut self, groups: usize) {
        self.values.resize(groups, None);
    }

    fn update(&mut self, arguments: &[ArrayRef], assigned: RowGroups<'_>) -> Result<()> {
        let values = arguments[0].as_boolean();
        match (assigned, values.nulls().filter(|nulls| nulls.null_count() > 0)) {
            (RowGroups::Runs(runs), None) => {
                for run in runs.iter().filter(|run| run.end > run.start) {
                    let rows = run.end - run.start;
                    let trues = values.values().slice(run.start, rows).count_set_bits();
                    self.take(run.group as usize, if self.greatest { trues > 0 } else { trues == rows });
                }
            }
            (assigned, nulls) => {
                let truths: Vec<bool> = values.values().iter().collect();
                assigned.each(nulls, |group, row| self.take(group, truths[row]));
            }
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>, groups: &[u32]) -> Result<()> {
        let other = same::<TruthExtreme>(other)?;
        for (group, value) in groups.iter().zip(other.values) {
            if let Some(value) = value {
                self.take(*group as usize, value);
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef> {
        Ok(Arc::new(BooleanArray::from(self.values)))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, DurationMillisecondArray, StringArray};

    use super::*;
    use crate::aggregate::GroupRun;

    /// The results of two groups, of which a part comes from elsewhere.
    fn of_groups(array: &ArrayRef, greatest: bool) -> ArrayRef {
        let [mut one, mut other] = [(); 2].map(|()| extreme(array.data_type(), greatest).unwrap());
        one.grow(2);
        other.grow(1);
        one.update(std::slice::from_ref(array), RowGroups::Rows(&[0, 1, 0, u32::MAX, u32::MAX])).unwrap();
        let rest = GroupRun { group: 0, start: 3, end: 5 };
        other.update(std::slice::from_ref(array), RowGroups::Runs(&[rest])).unwrap();
        one.merge(other, &[0]).unwrap();
        one.finish().unwrap()
    }

    #[test]
    fn every_type_with_an_order_has_extremes() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), None, Some("ba"), Some("a"), None]));
        assert_eq!(&of_groups(&texts, true), &(Arc::new(StringArray::from(vec![Some("ba"), None])) as ArrayRef));
        assert_eq!(&of_groups(&texts, false), &(Arc::new(StringArray::from(vec![Some("a"), None])) as ArrayRef));
        let truths: ArrayRef =
            Arc::new(BooleanArray::from(vec![Some(false), Some(false), None, Some(true), Some(false)]));
        assert_eq!(of_groups(&truths, true).as_boolean(), &BooleanArray::from(vec![true, false]));
        let dates: ArrayRef = Arc::new(Date32Array::from(vec![Some(4), None, Some(2), None, Some(9)]));
        assert_eq!(&of_groups(&dates, true), &(Arc::new(Date32Array::from(vec![Some(9), None])) as ArrayRef));
        let durations: ArrayRef = Arc::new(DurationMillisecondArray::from(vec![4, -5, 2, 3, 9]));
        assert_eq!(&of_groups(&durations, false), &(Arc::new(DurationMillisecondArray::from(vec![2, -5])) as ArrayRef));
    }
}
