//! The window join as a node of the logical plan.
//!
//! - Output: the left's columns, the number of the left row, the right's columns but for the hidden ones, whether a right
//!   row is there, and a number that rises in the order of the right's rows.
//! - Rows: one for each right row in the window of each left row; one for a left row whose window is empty. Rows of one
//!   left row follow each other.
//! - The number of the left row decides all columns of the left. So a select that is grouped by it may name them.

use std::cmp::Ordering;
use std::fmt::{self, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{
    Column, DFSchema, DFSchemaRef, FunctionalDependence, FunctionalDependencies, Result, TableReference, internal_err,
};
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr, UserDefinedLogicalNodeCore};

use super::statement::LEFT_ROW;

/// Whether a row of the output has a right row.
pub(super) const IN_WINDOW: &str = "__in_window";

/// A number that rises in the order of the right's rows.
pub(super) const WINDOW_ROW: &str = "__window_row";

/// A window join.
#[derive(Debug, Clone)]
pub(super) struct WindowNode {
    pub(super) left: LogicalPlan,
    pub(super) right: LogicalPlan,
    pub(super) keys: Vec<(Expr, Expr)>,
    pub(super) right_time: Expr,
    /// The first and last time of the window, over the left; and whether each lies in it.
    pub(super) begin: (Expr, bool),
    pub(super) end: (Expr, bool),
    pub(super) prevailing: bool,
    /// How right rows of equal keys and times are ordered.
    pub(super) order: Vec<SortExpr>,
    pub(super) is_order_complete: bool,
    /// Columns of the right that are for `order` alone.
    pub(super) hidden: Vec<Column>,
    pub(super) schema: DFSchemaRef,
}

impl WindowNode {
    /// Computes the node's schema from its inputs.
    pub(super) fn with_schema(mut self) -> Result<WindowNode> {
        type Qualified = (Option<TableReference>, FieldRef);
        let of = |plan: &LogicalPlan, position: usize| -> Qualified {
            let (qualifier, field) = plan.schema().qualified_field(position);
            (qualifier.cloned(), Arc::clone(field))
        };
        let own = |name: &str, data_type, nullable| (None, Arc::new(Field::new(name, data_type, nullable)));
        let left_columns = self.left.schema().fields().len();
        let mut fields: Vec<Qualified> = (0..left_columns).map(|position| of(&self.left, position)).collect();
        fields.push(own(LEFT_ROW, DataType::Int64, false));
        for position in self.visible() {
            let (qualifier, field) = of(&self.right, position);
            fields.push((qualifier, Arc::new(field.as_ref().clone().with_nullable(true))));
        }
        fields.push(own(IN_WINDOW, DataType::Boolean, false));
        fields.push(own(WINDOW_ROW, DataType::Int64, true));
        let depends = FunctionalDependence::new(vec![left_columns], (0..=left_columns).collect(), false);
        let schema = DFSchema::new_with_metadata(fields, self.left.schema().metadata().clone())?
            .with_functional_dependencies(FunctionalDependencies::new(vec![depends]))?;
        self.schema = Arc::new(schema);
        Ok(self)
    }

    /// The right's columns that aren't hidden, by position.
    pub(super) fn visible(&self) -> Vec<usize> {
        let columns = self.right.schema().columns();
        (0..columns.len()).filter(|position| !self.hidden.contains(&columns[*position])).collect()
    }
}

// The schema follows from the rest.
impl PartialEq for WindowNode {
    fn eq(&self, other: &WindowNode) -> bool {
        self.keys == other.keys
            && self.right_time == other.right_time
            && self.begin == other.begin
            && self.end == other.end
            && self.prevailing == other.prevailing
            && self.order == other.order
            && self.is_order_complete == other.is_order_complete
            && self.hidden == other.hidden
            && self.left == other.left
            && self.right == other.right
    }
}

impl Eq for WindowNode {}

impl Hash for WindowNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.keys, &self.right_time, &self.begin, &self.end, self.prevailing).hash(state);
        (&self.order, self.is_order_complete, &self.hidden, &self.left, &self.right).hash(state);
    }
}

impl PartialOrd for WindowNode {
    fn partial_cmp(&self, other: &WindowNode) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for WindowNode {
    fn name(&self) -> &str {
        "WindowJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let mut expressions = vec![self.right_time.clone(), self.begin.0.clone(), self.end.0.clone()];
        expressions.extend(self.keys.iter().flat_map(|(left, right)| [left.clone(), right.clone()]));
        expressions.extend(self.order.iter().map(|key| key.expr.clone()));
        expressions
    }

    fn fmt_for_explain(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(|(left, right)| format!("{left} = {right}")).collect();
        let window = Window { begin: &self.begin, end: &self.end, time: &self.right_time, prevailing: self.prevailing };
        write!(f, "WindowJoin: {window}, on=[{}]", keys.join(", "))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<WindowNode> {
        let (mut exprs, mut inputs) = (exprs.into_iter(), inputs.into_iter());
        let (Some(left), Some(right), Some(right_time), Some(begin), Some(end)) =
            (inputs.next(), inputs.next(), exprs.next(), exprs.next(), exprs.next())
        else {
            return internal_err!("a window join has two inputs, a time and two bounds");
        };
        let mut keys = Vec::with_capacity(self.keys.len());
        for _ in &self.keys {
            let (Some(left), Some(right)) = (exprs.next(), exprs.next()) else {
                return internal_err!("keys of a window join come in pairs");
            };
            keys.push((left, right));
        }
        let order = self.order.iter().zip(exprs).map(|(key, expr)| SortExpr { expr, ..key.clone() }).collect();
        let (begin, end) = ((begin, self.begin.1), (end, self.end.1));
        WindowNode { left, right, right_time, begin, end, keys, order, ..self.clone() }.with_schema()
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let left_columns = self.left.schema().fields().len();
        let visible = self.visible();
        let left = output_columns.iter().copied().filter(|column| *column < left_columns).collect();
        let right = output_columns.iter().filter_map(|column| visible.get(column.checked_sub(left_columns + 1)?));
        Some(vec![left, right.copied().collect()])
    }
}

/// A window as `EXPLAIN` shows it.
pub(super) struct Window<'a, T> {
    pub(super) begin: &'a (T, bool),
    pub(super) end: &'a (T, bool),
    pub(super) time: &'a T,
    pub(super) prevailing: bool,
}

impl<T: fmt::Display> fmt::Display for Window<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let op = |inclusive: bool| if inclusive { "<=" } else { "<" };
        let (begin, end) = (self.begin, self.end);
        write!(f, "window=[{} {} {} {} {}]", begin.0, op(begin.1), self.time, op(end.1), end.0)?;
        write!(f, ", prevailing={}", if self.prevailing { "included" } else { "excluded" })
    }
}
