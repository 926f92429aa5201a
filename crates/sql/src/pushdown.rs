//! Translates filter expressions to a [`Selection`], so that whole partitions, symbols and blocks are skipped.
//!
//! A filter that the selection expresses exactly (dates, symbols) needs no evaluation; all others are evaluated on
//! the remaining rows. A filter that isn't understood narrows nothing.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use splay_engine::{BinaryOp, OwnComparison};
use splay_store::{Bounds, ColumnBounds, ColumnType, Selection, TableSpec, ValueKind, sortable};

/// Comparisons that bound a column, and the engine's operator for each.
const COMPARISONS: [(Operator, BinaryOp); 5] = [
    (Operator::Eq, BinaryOp::Equal),
    (Operator::Lt, BinaryOp::Less),
    (Operator::LtEq, BinaryOp::LessOrEqual),
    (Operator::Gt, BinaryOp::Greater),
    (Operator::GtEq, BinaryOp::GreaterOrEqual),
];

/// Narrows `selection` by a filter, and returns whether the selection now covers the whole filter.
pub(crate) fn narrow(selection: &mut Selection, spec: &TableSpec, filter: &Expr) -> bool {
    if let Some(symbols) = symbols_of(spec, filter) {
        match &mut selection.symbols {
            Some(allowed) => allowed.retain(|symbol| symbols.contains(symbol)),
            None => selection.symbols = Some(symbols),
        }
        return true;
    }
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            let left = narrow(selection, spec, left);
            narrow(selection, spec, right) && left
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (left.as_ref(), right.as_ref()) {
            (Expr::Column(column), Expr::Literal(value, _)) => compare(selection, spec, &column.name, *op, value),
            (Expr::Literal(value, _), Expr::Column(column)) => {
                op.swap().is_some_and(|op| compare(selection, spec, &column.name, op, value))
            }
            (Expr::Cast(cast), Expr::Literal(value, _)) => compare_own(selection, spec, &cast.expr, *op, value),
            (Expr::Literal(value, _), Expr::Cast(cast)) => {
                op.swap().is_some_and(|op| compare_own(selection, spec, &cast.expr, op, value))
            }
            _ => false,
        },
        Expr::Between(between) if !between.negated => {
            match (between.expr.as_ref(), between.low.as_ref(), between.high.as_ref()) {
                (Expr::Column(column), Expr::Literal(low, _), Expr::Literal(high, _)) => {
                    let low = compare(selection, spec, &column.name, Operator::GtEq, low);
                    compare(selection, spec, &column.name, Operator::LtEq, high) && low
                }
                _ => false,
            }
        }
        _ => false,
    }
}

/// Narrows the selection by a comparison of a column that was widened for a literal, restated for the column's own type.
fn compare_own(selection: &mut Selection, spec: &TableSpec, column: &Expr, op: Operator, value: &ScalarValue) -> bool {
    let comparison = COMPARISONS.iter().find(|(comparison, _)| *comparison == op);
    let (Expr::Column(column), Some((_, op))) = (column, comparison) else { return false };
    let Some(position) = spec.position(&column.name) else { return false };
    let own = spec.columns[position].column_type.arrow();
    let Some(OwnComparison::With(op, value)) =
        value.to_array().ok().and_then(|value| splay_engine::own_comparison(*op, &own, &value))
    else {
        return false;
    };
    let Some((op, _)) = COMPARISONS.iter().find(|(_, comparison)| *comparison == op) else { return false };
    ScalarValue::try_from_array(&value, 0).is_ok_and(|value| compare(selection, spec, &column.name, *op, &value))
}

/// The symbols that pass a filter, if it depends only on the symbol.
fn symbols_of(spec: &TableSpec, filter: &Expr) -> Option<Vec<String>> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            let pair = |column: &Expr, value: &Expr| is_symbol(spec, column).then(|| text(value)).flatten();
            pair(left, right).or_else(|| pair(right, left)).map(|symbol| vec![symbol])
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let mut symbols = symbols_of(spec, left)?;
            symbols.extend(symbols_of(spec, right)?);
            Some(symbols)
        }
        Expr::InList(list) if !list.negated && is_symbol(spec, &list.expr) => list.list.iter().map(text).collect(),
        _ => None,
    }
}

/// Whether an expression is the symbol column, possibly as text.
fn is_symbol(spec: &TableSpec, expr: &Expr) -> bool {
    match expr {
        Expr::Column(column) => spec.symbol.as_ref().is_some_and(|symbol| symbol.eq_ignore_ascii_case(&column.name)),
        Expr::Cast(cast) if is_text(cast.field.data_type()) => is_symbol(spec, &cast.expr),
        _ => false,
    }
}

/// Whether values are texts, by themselves or as codes of a dictionary.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

fn text(expr: &Expr) -> Option<String> {
    let Expr::Literal(value, _) = expr else { return None };
    let mut value = value;
    while let ScalarValue::Dictionary(_, inner) = value {
        value = inner;
    }
    value.try_as_str().flatten().map(str::to_owned)
}

fn compare(selection: &mut Selection, spec: &TableSpec, column: &str, op: Operator, value: &ScalarValue) -> bool {
    if spec.has_virtual_date() && column.eq_ignore_ascii_case(splay_store::DATE_COLUMN) {
        let ScalarValue::Date32(Some(day)) = value else { return false };
        let Some(bounds) = bounds(op, *day, i32::MIN, i32::MAX, day.checked_sub(1), day.checked_add(1)) else {
            return false;
        };
        selection.date.intersect(bounds);
        return true;
    }
    let Some(position) = spec.position(column) else { return false };
    if position == spec.time_position() {
        let Some(instant) = nanoseconds(value) else { return false };
        let (below, above) = (instant.checked_sub(1), instant.checked_add(1));
        if let Some(bounds) = bounds(op, instant, i64::MIN, i64::MAX, below, above) {
            selection.time.intersect(bounds);
        }
        // Blocks are selected as a whole, so the filter is still needed.
        return false;
    }
    if let Some((kind, least, greatest)) = bits(&spec.columns[position].column_type, value) {
        // Strict bounds are used as inclusive ones, which selects too much, never too little.
        let bounds = match op {
            Operator::Eq => Some((least, greatest)),
            Operator::Lt | Operator::LtEq => Some((0, greatest)),
            Operator::Gt | Operator::GtEq => Some((least, u64::MAX)),
            _ => None,
        };
        if let Some(bounds) = bounds {
            selection.columns.push(ColumnBounds { column: column.to_owned(), kind, bounds });
        }
    }
    false
}

/// Inclusive bounds for a comparison with `value`; `below` and `above` are its neighbours, if it has them.
fn bounds<T: Ord + Copy>(
    op: Operator,
    value: T,
    min: T,
    max: T,
    below: Option<T>,
    above: Option<T>,
) -> Option<Bounds<T>> {
    let nothing = Bounds { min: max, max: min };
    Some(match op {
        Operator::Eq => Bounds { min: value, max: value },
        Operator::LtEq => Bounds { min, max: value },
        Operator::GtEq => Bounds { min: value, max },
        Operator::Lt => below.map_or(nothing, |below| Bounds { min, max: below }),
        Operator::Gt => above.map_or(nothing, |above| Bounds { min: above, max }),
        _ => return None,
    })
}

/// A timestamp literal in nanoseconds, if that is exact.
fn nanoseconds(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::TimestampNanosecond(value, _) => *value,
        ScalarValue::TimestampMicrosecond(value, _) => value.and_then(|value| value.checked_mul(1_000)),
        ScalarValue::TimestampMillisecond(value, _) => value.and_then(|value| value.checked_mul(1_000_000)),
        ScalarValue::TimestampSecond(value, _) => value.and_then(|value| value.checked_mul(1_000_000_000)),
        _ => None,
    }
}

/// A literal of the column's own type as sortable bits: the least and the greatest value that may compare as equal.
fn bits(column_type: &ColumnType, value: &ScalarValue) -> Option<(ValueKind, u64, u64)> {
    let signed = |value: i64| (ValueKind::Signed, value.cast_unsigned());
    let (kind, bits) = match (column_type, value) {
        (ColumnType::Int8, ScalarValue::Int8(Some(value))) => signed(i64::from(*value)),
        (ColumnType::Int16, ScalarValue::Int16(Some(value))) => signed(i64::from(*value)),
        (ColumnType::Int32, ScalarValue::Int32(Some(value))) => signed(i64::from(*value)),
        (ColumnType::Int64, ScalarValue::Int64(Some(value))) => signed(*value),
        (ColumnType::UInt8, ScalarValue::UInt8(Some(value))) => (ValueKind::Unsigned, u64::from(*value)),
        (ColumnType::UInt16, ScalarValue::UInt16(Some(value))) => (ValueKind::Unsigned, u64::from(*value)),
        (ColumnType::UInt32, ScalarValue::UInt32(Some(value))) => (ValueKind::Unsigned, u64::from(*value)),
        (ColumnType::UInt64, ScalarValue::UInt64(Some(value))) => (ValueKind::Unsigned, *value),
        (ColumnType::Float32, ScalarValue::Float32(Some(value))) => return float(f64::from(*value)),
        (ColumnType::Float64, ScalarValue::Float64(Some(value))) => return float(*value),
        _ => return None,
    };
    let sorted = sortable(kind, bits);
    Some((kind, sorted, sorted))
}

/// Both zeros are treated as one, and a NaN gives no bound.
fn float(value: f64) -> Option<(ValueKind, u64, u64)> {
    if value.is_nan() {
        return None;
    }
    let sorted = |value: f64| sortable(ValueKind::Float, value.to_bits());
    Some(if value == 0.0 {
        (ValueKind::Float, sorted(-0.0), sorted(0.0))
    } else {
        (ValueKind::Float, sorted(value), sorted(value))
    })
}
