//! Excludes blocks whose minimum and maximum can't pass a filter.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time64NanosecondType,
    TimeUnit, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use splay_store::{BLOCK_ROWS, ColumnSummaries, TableSnapshot, ValueKind, sortable};

use super::cover::{Cover, Span};
use crate::binary_op::BinaryOp;
use crate::error::Result;
use crate::expr::Expr;
use crate::own_type::{OwnComparison, own_comparison, own_list};

/// Most ranges of a column's values that a block is compared with.
const REACHES_MAX: usize = 64;

/// Ranges of a column's values as [`sortable`] bits; a value must lie in one of them.
#[derive(Debug)]
struct ValueRanges {
    column: usize,
    /// Inclusive bounds of the ranges.
    any: Vec<(u64, u64)>,
}

/// The covers without the blocks in which no row can pass `predicate`.
pub(crate) fn narrow(
    snapshot: &TableSnapshot,
    covers: Vec<Cover>,
    predicate: &Expr,
    constants: &[ArrayRef],
) -> Result<Vec<Cover>> {
    let mut reaches = Vec::new();
    collect(snapshot, predicate, constants, &mut reaches);
    let Some(reaches) = by_column(reaches) else { return Ok(Vec::new()) };
    if reaches.is_empty() {
        return Ok(covers);
    }
    let mut narrowed = Vec::with_capacity(covers.len());
    for cover in covers {
        let index = cover.segment.index()?;
        let mut summarized: Vec<(&ColumnSummaries, &ValueRanges)> = Vec::new();
        for reach in &reaches {
            let column = &snapshot.spec().columns[reach.column];
            let summaries = index.by_block(&column.name)?;
            // A column that was widened later has summaries of another kind.
            let summaries =
                summaries.filter(|summaries| Some(summaries.kind()) == ValueKind::of(&column.column_type.arrow()));
            summarized.extend(summaries.map(|summaries| (summaries, reach)));
        }
        let mut spans = Vec::with_capacity(cover.spans.len());
        for span in &cover.spans {
            cut(span, &summarized, &mut spans);
        }
        if spans == cover.spans {
            narrowed.push(cover);
        } else if let (Some(first), Some(last)) = (spans.first(), spans.last()) {
            narrowed.push(Cover { rows: first.rows.start..last.rows.end, spans, ..cover });
        }
    }
    Ok(narrowed)
}

/// Intersects the ranges of each column; `None` if no value passes, as with above 5 and below 3.
fn by_column(reaches: Vec<ValueRanges>) -> Option<Vec<ValueRanges>> {
    let mut columns: Vec<ValueRanges> = Vec::new();
    for reach in reaches {
        let Some(group) = columns.iter_mut().find(|group| group.column == reach.column) else {
            columns.push(reach);
            continue;
        };
        let pairs = group
            .any
            .iter()
            .flat_map(|one| reach.any.iter().map(move |other| (one.0.max(other.0), one.1.min(other.1))));
        group.any = pairs.filter(|(least, greatest)| least <= greatest).collect();
    }
    columns.iter().all(|reach| !reach.any.is_empty()).then_some(columns)
}

/// Adds the parts of a span that may hold a matching row.
fn cut(span: &Span, summarized: &[(&ColumnSummaries, &ValueRanges)], spans: &mut Vec<Span>) {
    let mut open: Option<Range<usize>> = None;
    let mut start = span.rows.start;
    while start < span.rows.end {
        let block = start / BLOCK_ROWS;
        let end = span.rows.end.min((block + 1) * BLOCK_ROWS);
        if summarized.iter().all(|(summaries, reach)| may_hold(summaries, block, reach)) {
            match &mut open {
                Some(rows) => rows.end = end,
                None => open = Some(start..end),
            }
        } else if let Some(rows) = open.take() {
            spans.push(Span { rows, run: span.run });
        }
        start = end;
    }
    spans.extend(open.map(|rows| Span { rows, run: span.run }));
}

fn may_hold(summaries: &ColumnSummaries, block: usize, reach: &ValueRanges) -> bool {
    if block >= summaries.len() {
        return true;
    }
    let summary = summaries.get(block);
    let (least, greatest) = (sortable(summaries.kind(), summary.min), sortable(summaries.kind(), summary.max));
    summary.count > 0 && reach.any.iter().any(|(min, max)| least <= *max && *min <= greatest)
}

/// Collects the conditions on single columns; all of them must hold.
fn collect(snapshot: &TableSnapshot, predicate: &Expr, constants: &[ArrayRef], reaches: &mut Vec<ValueRanges>) {
    match predicate {
        Expr::Binary(BinaryOp::And, left, right) => {
            collect(snapshot, left, constants, reaches);
            collect(snapshot, right, constants, reaches);
        }
        other => reaches.extend(reach(snapshot, other, constants)),
    }
}

/// The values that a comparison, a list, or a choice of such allows for one column.
fn reach(snapshot: &TableSnapshot, condition: &Expr, constants: &[ArrayRef]) -> Option<ValueRanges> {
    let list = match condition {
        Expr::In(value, list) => Some((value, list.values(constants))),
        Expr::Lookup(table, None, key) => table.keys(constants).map(|keys| (key, keys)),
        _ => None,
    };
    if let Some((value, list)) = list {
        let column = stored_column(value)?;
        let stored = snapshot.spec().columns.get(column)?.column_type.arrow();
        let own = if *list.data_type() == stored { None } else { own_list(&stored, list).ok()? };
        return reach_of_list(column, &stored, own.as_ref().unwrap_or(list));
    }
    let Expr::Binary(op, left, right) = condition else { return None };
    if *op == BinaryOp::Or {
        let (mut one, other) = (reach(snapshot, left, constants)?, reach(snapshot, right, constants)?);
        one.any.extend(other.any);
        return (one.column == other.column).then_some(one);
    }
    let (value, op, constant) = match (left.as_ref(), right.as_ref()) {
        (value, Expr::Constant(constant)) => (value, *op, &constants[*constant]),
        (Expr::Constant(constant), value) => (value, op.swapped(), &constants[*constant]),
        _ => return None,
    };
    let column = stored_column(value)?;
    let stored = snapshot.spec().columns.get(column)?.column_type.arrow();
    let (op, constant) = match own_comparison(op, &stored, constant) {
        Some(OwnComparison::With(op, constant)) => (op, constant),
        Some(OwnComparison::Always(false)) => return Some(ValueRanges { column, any: Vec::new() }),
        Some(OwnComparison::Always(true)) => return None,
        None => (op, Arc::clone(constant)),
    };
    let (least, greatest) = bits(&constant, 0, &stored)?;
    let any = match op {
        BinaryOp::Equal => Some((least, greatest)),
        BinaryOp::Less => least.checked_sub(1).map(|below| (0, below)),
        BinaryOp::LessOrEqual => Some((0, greatest)),
        BinaryOp::Greater => greatest.checked_add(1).map(|above| (above, u64::MAX)),
        BinaryOp::GreaterOrEqual => Some((least, u64::MAX)),
        _ => return None,
    };
    Some(ValueRanges { column, any: any.into_iter().collect() })
}

/// The compared column, possibly widened.
fn stored_column(value: &Expr) -> Option<usize> {
    match value {
        Expr::Column(column) => Some(*column),
        Expr::Cast(value, _) => match value.as_ref() {
            Expr::Column(column) => Some(*column),
            _ => None,
        },
        _ => None,
    }
}

/// Values of a list up to which blocks are compared with several ranges of them. Of longer lists only the least and the greatest are used.
const PARTED_MAX: usize = 20_000;

/// The values that a list of the column's own type allows: each item of a short list, the least and the greatest of a long one.
fn reach_of_list(column: usize, stored: &DataType, list: &ArrayRef) -> Option<ValueRanges> {
    let valid = (0..list.len()).filter(|row| list.is_valid(*row));
    let mut any = valid.map(|row| bits(list, row, stored)).collect::<Option<Vec<_>>>()?;
    if any.len() > PARTED_MAX {
        let (least, greatest) = any.iter().fold((u64::MAX, 0), |all, one| (all.0.min(one.0), all.1.max(one.1)));
        any = vec![(least, greatest)];
    }
    if any.len() > REACHES_MAX {
        any.sort_unstable();
        let per_reach = any.len().div_ceil(REACHES_MAX);
        any = any.chunks(per_reach).map(|some| (some[0].0, some[some.len() - 1].1)).collect();
    }
    Some(ValueRanges { column, any })
}

/// The range of bits that equal a constant of the column's own type; `None` for null, which equals nothing, and for other types.
fn bits(constant: &ArrayRef, row: usize, stored: &DataType) -> Option<(u64, u64)> {
    if constant.data_type() != stored || constant.len() <= row || constant.is_null(row) {
        return None;
    }
    macro_rules! signed {
        ($type:ty) => {
            i64::from(constant.as_primitive::<$type>().value(row)).cast_unsigned()
        };
    }
    macro_rules! unsigned {
        ($type:ty) => {
            u64::from(constant.as_primitive::<$type>().value(row))
        };
    }
    let bits = match stored {
        DataType::Int8 => signed!(Int8Type),
        DataType::Int16 => signed!(Int16Type),
        DataType::Int32 => signed!(Int32Type),
        DataType::Int64 => signed!(Int64Type),
        DataType::Date32 => signed!(Date32Type),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => signed!(TimestampNanosecondType),
        DataType::Time64(TimeUnit::Nanosecond) => signed!(Time64NanosecondType),
        DataType::UInt8 => unsigned!(UInt8Type),
        DataType::UInt16 => unsigned!(UInt16Type),
        DataType::UInt32 => unsigned!(UInt32Type),
        DataType::UInt64 => unsigned!(UInt64Type),
        DataType::Float32 => return Some(float(f64::from(constant.as_primitive::<Float32Type>().value(row)))),
        DataType::Float64 => return Some(float(constant.as_primitive::<Float64Type>().value(row))),
        _ => return None,
    };
    let bits = sortable(ValueKind::of(stored)?, bits);
    Some((bits, bits))
}

/// Zeros are equal, and every NaN is the stored one, as for the filter itself.
fn float(value: f64) -> (u64, u64) {
    let bits = |value: f64| sortable(ValueKind::Float, value.to_bits());
    let value = if value.is_nan() { f64::NAN } else { value };
    if value == 0.0 { (bits(-0.0), bits(0.0)) } else { (bits(value), bits(value)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_column_must_hold_together() {
        let reach = |column, any: &[(u64, u64)]| ValueRanges { column, any: any.to_vec() };
        let both = |one, other| by_column(vec![one, reach(9, &[(0, 1)]), other]).map(|all| all[0].any.clone());
        assert_eq!(both(reach(1, &[(0, 5)]), reach(1, &[(3, u64::MAX)])), Some(vec![(3, 5)]));
        assert_eq!(both(reach(1, &[(0, 2)]), reach(1, &[(3, u64::MAX)])), None);
        assert_eq!(both(reach(1, &[(0, 2)]), reach(2, &[(3, u64::MAX)])), Some(vec![(0, 2)]), "two columns");
        assert_eq!(both(reach(1, &[(1, 1), (7, 7)]), reach(1, &[(5, 6), (7, 9)])), Some(vec![(7, 7)]));
    }
}
