//! The as-of join as a node of the logical plan.
//!
//! - Output: the left's columns, then the right's but for the hidden ones; nullable where rows may lack a match.
//! - Rows: each left row once, or, of the inner form, each left row with a match once.
//! - The hidden columns of the right say which of its rows came first (`order`); they end here.

use std::cmp::Ordering;
use std::fmt::{self, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::{Column, DFSchema, DFSchemaRef, JoinType, Result, internal_err};
use datafusion::logical_expr::builder::build_join_schema;
use datafusion::logical_expr::logical_plan::Extension;
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr, UserDefinedLogicalNodeCore};
use splay_engine::asof::MatchRule;

/// An as-of join.
#[derive(Debug, Clone)]
pub(super) struct AsofNode {
    pub(super) left: LogicalPlan,
    pub(super) right: LogicalPlan,
    /// `Left` or `Inner`.
    pub(super) join_type: JoinType,
    /// The tolerance is in the unit of the times.
    pub(super) rule: MatchRule,
    pub(super) left_time: Expr,
    pub(super) right_time: Expr,
    pub(super) keys: Vec<(Expr, Expr)>,
    /// How right rows of equal keys and times are ordered.
    pub(super) order: Vec<SortExpr>,
    /// Whether no two right rows tie in `order`. If they may, a match among such rows is an error.
    pub(super) is_order_complete: bool,
    /// Columns of the right that are for `order` alone.
    pub(super) hidden: Vec<Column>,
    pub(super) schema: DFSchemaRef,
}

/// The left of a plan that is an as-of join.
pub(crate) fn left_of_asof(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    asof_of(plan).map(|node| &node.left)
}

/// An as-of join over another left, which has the columns of the one before and may have more.
///
/// # Errors
/// If the plan isn't an as-of join.
pub(crate) fn asof_with_left(plan: &LogicalPlan, left: LogicalPlan) -> Result<LogicalPlan> {
    let Some(node) = asof_of(plan) else { return internal_err!("an as-of join is expected") };
    let node = AsofNode { left, ..node.clone() }.with_schema()?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

fn asof_of(plan: &LogicalPlan) -> Option<&AsofNode> {
    match plan {
        LogicalPlan::Extension(Extension { node }) => node.as_any().downcast_ref::<AsofNode>(),
        _ => None,
    }
}

impl AsofNode {
    /// Computes the node's schema from its inputs.
    pub(super) fn with_schema(mut self) -> Result<AsofNode> {
        let visible = self.visible();
        let fields = visible.iter().map(|position| {
            let (qualifier, field) = self.right.schema().qualified_field(*position);
            (qualifier.cloned(), Arc::clone(field))
        });
        let right = DFSchema::new_with_metadata(fields.collect(), self.right.schema().metadata().clone())?;
        self.schema = Arc::new(build_join_schema(self.left.schema(), &right, &self.join_type)?);
        Ok(self)
    }

    /// The right's columns that aren't hidden, by position.
    pub(super) fn visible(&self) -> Vec<usize> {
        let columns = self.right.schema().columns();
        (0..columns.len()).filter(|position| !self.hidden.contains(&columns[*position])).collect()
    }
}

// The schema follows from the rest.
impl PartialEq for AsofNode {
    fn eq(&self, other: &AsofNode) -> bool {
        self.rule == other.rule
            && self.join_type == other.join_type
            && self.left_time == other.left_time
            && self.right_time == other.right_time
            && self.keys == other.keys
            && self.order == other.order
            && self.is_order_complete == other.is_order_complete
            && self.hidden == other.hidden
            && self.left == other.left
            && self.right == other.right
    }
}

impl Eq for AsofNode {}

impl Hash for AsofNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.rule, self.join_type, &self.left_time, &self.right_time, &self.keys).hash(state);
        (&self.order, self.is_order_complete, &self.hidden, &self.left, &self.right).hash(state);
    }
}

impl PartialOrd for AsofNode {
    fn partial_cmp(&self, other: &AsofNode) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for AsofNode {
    fn name(&self) -> &str {
        "AsofJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let mut expressions = vec![self.left_time.clone(), self.right_time.clone()];
        expressions.extend(self.keys.iter().flat_map(|(left, right)| [left.clone(), right.clone()]));
        expressions.extend(self.order.iter().map(|key| key.expr.clone()));
        expressions
    }

    fn fmt_for_explain(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(|(left, right)| format!("{left} = {right}")).collect();
        write!(f, "AsofJoin: {}, {}", self.join_type, super::describe(self.rule, &self.left_time, &self.right_time))?;
        write!(f, ", on=[{}]", keys.join(", "))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<AsofNode> {
        let (mut exprs, mut inputs) = (exprs.into_iter(), inputs.into_iter());
        let (Some(left), Some(right), Some(left_time), Some(right_time)) =
            (inputs.next(), inputs.next(), exprs.next(), exprs.next())
        else {
            return internal_err!("an as-of join has two inputs and two times");
        };
        let mut keys = Vec::with_capacity(self.keys.len());
        for _ in &self.keys {
            let (Some(left), Some(right)) = (exprs.next(), exprs.next()) else {
                return internal_err!("keys of an as-of join come in pairs");
            };
            keys.push((left, right));
        }
        let order = self.order.iter().zip(exprs).map(|(key, expr)| SortExpr { expr, ..key.clone() }).collect();
        AsofNode { left, right, left_time, right_time, keys, order, ..self.clone() }.with_schema()
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let left_columns = self.left.schema().fields().len();
        let visible = self.visible();
        let left = output_columns.iter().copied().filter(|column| *column < left_columns).collect();
        let right = output_columns.iter().filter_map(|column| visible.get(column.checked_sub(left_columns)?));
        Some(vec![left, right.copied().collect()])
    }
}
