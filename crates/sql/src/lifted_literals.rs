//! Literals of a statement that its shape leaves open: parameters of the tick plan that all statements of the shape share.

use datafusion::logical_expr::Expr;

/// Prefix of the parameters that replace lifted literals.
pub(crate) const LIFTED: &str = "splay_lifted_";

/// Whether an expression is a lifted literal, whose value the plan must not depend on.
pub(crate) fn is_parameter(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(_, Some(metadata)) if metadata.inner().contains_key(LIFTED))
}

/// The number of the parameter for which a literal stands.
pub(crate) fn parameter_number(expr: &Expr) -> Option<usize> {
    let Expr::Literal(_, Some(metadata)) = expr else { return None };
    metadata.inner().get(LIFTED)?.parse().ok()
}
