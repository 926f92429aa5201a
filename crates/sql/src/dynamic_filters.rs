//! Dynamic filters: the keys of a join's small side narrow the scan of its large side while the statement runs.
//!
//! A hash join reads its small side first and then publishes a filter on the keys of the other side: each key of a
//! short list, minimum and maximum of a long one. Before a scan reads, and again whenever the filter changes, it
//! excludes the partitions, symbols and blocks without these keys. It doesn't filter single rows: the join does that.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::{Column as ColumnName, Result, ScalarValue};
use datafusion::logical_expr::{BinaryExpr as LogicalBinary, Cast, Expr, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, Literal,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr};
use splay_store::{Segment, SegmentRows, Selection, TableSnapshot};

use crate::error::external;
use crate::pushdown;

/// Most changes of a filter that a stream evaluates. The filter of a join changes once; that of a sort with a limit may change with every batch.
const CHANGES_MAX: usize = 8;

/// Whether a filter's value changes while the statement runs.
pub(crate) fn is_dynamic(filter: &Arc<dyn PhysicalExpr>) -> bool {
    filter.downcast_ref::<DynamicFilterPhysicalExpr>().is_some()
}

/// The dynamic filters of a scan, as one stream has read them.
#[derive(Debug, Default)]
pub(crate) struct DynamicFilters {
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// For each filter, the number of its last change that was evaluated.
    seen: Vec<u64>,
    changes: usize,
}

impl DynamicFilters {
    /// Filters over the columns of a schema, none of which has been evaluated yet.
    pub(crate) fn new(filters: &[Arc<dyn PhysicalExpr>]) -> DynamicFilters {
        DynamicFilters { filters: filters.to_vec(), seen: vec![0; filters.len()], changes: 0 }
    }

    /// Removes the pieces that the filters exclude by now, if the filters have changed since the last call.
    pub(crate) fn narrow(
        &mut self,
        snapshot: &TableSnapshot,
        schema: &Schema,
        pieces: &mut VecDeque<SegmentRows>,
    ) -> Result<()> {
        for (filter, seen) in self.filters.iter().zip(&mut self.seen) {
            let change = snapshot_generation(filter);
            if change == *seen || self.changes == CHANGES_MAX {
                continue;
            }
            *seen = change;
            self.changes += 1;
            let mut narrowing = ScanNarrowing { snapshot, schema, selection: Selection::default(), is_narrow: false };
            if !narrowing.require(&snapshot_physical_expr(Arc::clone(filter))?) {
                pieces.clear();
            } else if narrowing.is_narrow {
                let (selected, _) = snapshot.select(&narrowing.selection).map_err(external)?;
                *pieces = common(std::mem::take(pieces), &selected);
            }
        }
        Ok(())
    }
}

/// The conditions of a filter that a table's indexes can answer.
struct ScanNarrowing<'a> {
    snapshot: &'a TableSnapshot,
    schema: &'a Schema,
    selection: Selection,
    is_narrow: bool,
}

impl ScanNarrowing<'_> {
    /// Adds a condition that must hold; false if none can.
    fn require(&mut self, filter: &Arc<dyn PhysicalExpr>) -> bool {
        if let Some(literal) = filter.downcast_ref::<Literal>() {
            return *literal.value() != ScalarValue::Boolean(Some(false));
        }
        if let Some(binary) = filter.downcast_ref::<BinaryExpr>()
            && *binary.op() == Operator::And
        {
            return self.require(binary.left()) && self.require(binary.right());
        }
        if let Some(condition) = logical(filter, self.schema) {
            self.narrow(&condition);
        } else if let Some(list) = filter.downcast_ref::<InListExpr>() {
            self.each_of(list);
        }
        true
    }

    fn narrow(&mut self, condition: &Expr) {
        pushdown::narrow(&mut self.selection, self.snapshot.spec(), condition);
        self.is_narrow = true;
    }

    /// Narrows by a list of tuples: each column must equal one of its values in the list.
    fn each_of(&mut self, list: &InListExpr) {
        let Some(keys) = list.expr().downcast_ref::<ScalarFunctionExpr>().filter(|call| call.name() == "struct") else {
            return;
        };
        if list.negated() {
            return;
        }
        for (place, key) in keys.args().iter().enumerate() {
            let value = |item: &Arc<dyn PhysicalExpr>| match item.downcast_ref::<Literal>()?.value() {
                ScalarValue::Struct(values) if values.column(place).is_valid(0) => {
                    ScalarValue::try_from_array(values.column(place), 0).ok()
                }
                _ => None,
            };
            let values: Option<Vec<Expr>> =
                list.list().iter().map(|item| value(item).map(|value| Expr::Literal(value, None))).collect();
            if let (Some(key), Some(values)) = (logical(key, self.schema), values) {
                self.narrow(&key.in_list(values, false));
            }
        }
    }
}

/// A physical condition as a logical expression; `None` for forms that aren't supported.
fn logical(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Expr> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return Some(Expr::Column(ColumnName::from_name(schema.fields().get(column.index())?.name())));
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return Some(Expr::Literal(literal.value().clone(), None));
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return Some(Expr::Cast(Cast::new(Box::new(logical(cast.expr(), schema)?), cast.cast_type().clone())));
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        let values = list.list().iter().map(|item| logical(item, schema)).collect::<Option<Vec<_>>>()?;
        return Some(logical(list.expr(), schema)?.in_list(values, list.negated()));
    }
    let binary = expr.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (logical(binary.left(), schema)?, logical(binary.right(), schema)?);
    Some(Expr::BinaryExpr(LogicalBinary::new(Box::new(left), *binary.op(), Box::new(right))))
}

/// The rows that both lists of pieces contain, in the order of the first.
fn common(pieces: VecDeque<SegmentRows>, others: &[SegmentRows]) -> VecDeque<SegmentRows> {
    let address = |piece: &SegmentRows| Arc::as_ptr(&piece.segment);
    let mut of_segment: HashMap<*const Segment, Vec<&Range<u64>>> = HashMap::new();
    for other in others {
        of_segment.entry(address(other)).or_default().push(&other.rows);
    }
    of_segment.values_mut().for_each(|rows| rows.sort_by_key(|rows| rows.start));
    let mut intersection = VecDeque::new();
    for piece in pieces {
        let rows = of_segment.get(&address(&piece)).map(Vec::as_slice).unwrap_or_default();
        let first = rows.partition_point(|rows| rows.end <= piece.rows.start);
        for rows in rows[first..].iter().take_while(|rows| rows.start < piece.rows.end) {
            let rows = rows.start.max(piece.rows.start)..rows.end.min(piece.rows.end);
            intersection.push_back(SegmentRows { rows, ..piece.clone() });
        }
    }
    intersection
}
