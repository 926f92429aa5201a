//! Describes the result of a statement without running it.

use std::collections::HashMap;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{Cast, Placeholder, TryCast};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use splay_engine::Stop;
use splay_functions::PARAMETER;

use super::{Description, Session};
use crate::bounds::StatementBounds;
use crate::coercion;
use crate::error::{Error, Result};
use crate::joins;
use crate::names::learn_columns;
use crate::row_order::TickRowOrder;

impl Session {
    /// Describes a statement whose views are written out, without running it.
    ///
    /// # Errors
    /// [`Error::Statement`] for text that can't be planned.
    pub(crate) fn describe_expanded(&self, text: String, stop: Stop<'_>) -> Result<Description> {
        let session = self.clone();
        let described = async move { session.plan_to_describe(&text).await };
        self.wait_for(&StatementBounds::new(self.pool().0), stop, described)?
    }

    async fn plan_to_describe(&self, text: &str) -> Result<Description> {
        let limit = self.settings.memory_bytes;
        let wrap = |error: DataFusionError| Error::from_datafusion(error, limit);
        let (plan, mut spellings, has_joins) = self.plan_logically(&self.states.shared(), text).await?;
        let mut parameters = plan.get_parameter_types().map_err(wrap)?;
        learn_lists(&plan, &mut parameters).map_err(wrap)?;
        if self.has_catalogue {
            learn_casts(&plan, &mut parameters).map_err(wrap)?;
        }
        let mut parameters: Vec<_> = parameters.into_iter().collect();
        // `$10` comes behind `$9`.
        parameters.sort_by_key(|(name, _)| (name.len(), name.clone()));
        learn_columns(&plan, &mut spellings).map_err(wrap)?;
        let plan = if has_joins { joins::convert(plan, &TickRowOrder).map_err(wrap)? } else { plan };
        // Preparation may give columns other types. It fails where only values of parameters would tell types.
        let plan = coercion::prepare(plan.clone()).unwrap_or(plan);
        let schema = spellings.restore(plan.schema().as_arrow());
        Ok(Description { schema, parameters })
    }
}

/// Infers the types of placeholders from casts, if nothing else gives them one, as PostgreSQL does: for types whose values clients send.
fn learn_casts(plan: &LogicalPlan, types: &mut HashMap<String, Option<DataType>>) -> Result<(), DataFusionError> {
    let is_sent = |data_type: &DataType| {
        use DataType as D;
        let is_simple =
            matches!(data_type, D::Boolean | D::Float32 | D::Float64 | D::Utf8 | D::Date32 | D::Decimal128(..));
        is_simple || data_type.is_integer() || matches!(data_type, D::Timestamp(..) | D::Time64(_))
    };
    let is_sent = |data_type: &DataType| match data_type {
        DataType::List(item) => is_sent(item.data_type()),
        data_type => is_sent(data_type),
    };
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) = expr
                    && let Some(placeholder) = placeholder_of(expr)
                    && let Some(data_type @ None) = types.get_mut(&placeholder.id)
                    && is_sent(field.data_type())
                {
                    *data_type = Some(field.data_type().clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .map(drop)
}

/// A placeholder, also one in `VALUES` (`parameter_calls.rs`).
fn placeholder_of(expr: &Expr) -> Option<&Placeholder> {
    match expr {
        Expr::Placeholder(placeholder) => Some(placeholder),
        Expr::ScalarFunction(call) if call.func.name() == PARAMETER => call.args.first().and_then(placeholder_of),
        _ => None,
    }
}

/// Infers list types of placeholders from the values that their items are compared with, if nothing else gives them a type: `sym = ANY($1)`, `price >
/// ALL($2)`.
fn learn_lists(plan: &LogicalPlan, types: &mut HashMap<String, Option<DataType>>) -> Result<(), DataFusionError> {
    if types.values().all(Option::is_some) {
        return Ok(());
    }
    plan.apply_with_subqueries(|node| {
        let schema = match node {
            LogicalPlan::TableScan(_) => node.schema().as_ref().clone(),
            node => merge_schema(&node.inputs()),
        };
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Some((name, item)) = compared_list(expr)
                    && let Some(data_type @ None) = types.get_mut(name)
                    && let Ok(item) = item.get_type(&schema)
                    && !matches!(item, DataType::Null)
                {
                    let item = if let DataType::Dictionary(_, value) = item { *value } else { item };
                    *data_type = Some(DataType::new_list(item, true));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .map(drop)
}

fn compares(op: Operator) -> bool {
    matches!(op, Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

/// The placeholder whose items are compared with a value, and the value, in the forms that `ANY` and `ALL` are planned as.
fn compared_list(expr: &Expr) -> Option<(&str, &Expr)> {
    fn placeholder_id(expr: &Expr) -> Option<&str> {
        if let Expr::Placeholder(list) = expr { Some(list.id.as_str()) } else { None }
    }
    fn extreme(expr: &Expr) -> Option<&str> {
        match expr {
            Expr::ScalarFunction(call) if matches!(call.func.name(), "array_min" | "array_max") => {
                placeholder_id(call.args.first()?)
            }
            _ => None,
        }
    }
    match expr {
        Expr::ScalarFunction(call) if call.func.name() == "array_has" => match call.args.as_slice() {
            [list, item] => Some((placeholder_id(list)?, item)),
            _ => None,
        },
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => match (extreme(left), extreme(right)) {
            (Some(list), None) => Some((list, right)),
            (None, Some(list)) => Some((list, left)),
            _ => None,
        },
        _ => None,
    }
}
