//! Parameters in `VALUES` as calls that keep their types apart from those of other values (`parameter_calls.rs`).

use datafusion::sql::sqlparser::ast::{Expr, SetExpr, Value};
use splay_functions::PARAMETER;

use crate::function_calls::call;

/// Marks the parameters that are values of a query by themselves.
pub(super) fn mark(body: &mut SetExpr) {
    match body {
        SetExpr::Values(values) => {
            for cell in values.rows.iter_mut().flat_map(|row| &mut row.content) {
                if matches!(cell, Expr::Value(value) if matches!(value.value, Value::Placeholder(_))) {
                    *cell = call(PARAMETER, vec![std::mem::replace(cell, super::nothing())]);
                }
            }
        }
        SetExpr::SetOperation { left, right, .. } => [left, right].into_iter().for_each(|side| mark(side)),
        _ => {}
    }
}
