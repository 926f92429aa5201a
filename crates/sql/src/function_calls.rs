//! Calls of functions in parsed statements: what a call is by its name, and how one is written.

use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
};

use crate::syntax::{STAR, UNPACKED};

/// Functions that return a value of the row with the least key, and with the greatest.
pub(crate) const LEAST: [&str; 3] = ["arg_min", "argmin", "min_by"];
pub(crate) const GREATEST: [&str; 3] = ["arg_max", "argmax", "max_by"];

/// Aggregates of other systems, which `resolve/names_of_calls.rs` writes by other functions.
const AGGREGATES: [&str; 17] = [
    "approx_count_distinct",
    "approx_quantile",
    "arbitrary",
    "count_if",
    "count_star",
    "countif",
    "favg",
    "fsum",
    "group_concat",
    "kahan_sum",
    "listagg",
    "percentile_disc",
    "sem",
    "sum_no_overflow",
    "sumkahan",
    "variance",
    "weighted_avg",
];

/// The name of a call, in lower case.
pub(crate) fn name_of(call: &Function) -> String {
    call.name.to_string().to_lowercase()
}

/// Whether a call, by its name and without `OVER`, aggregates rows.
pub(crate) fn is_aggregate(call: &Function, state: &SessionState) -> bool {
    let name = name_of(call);
    state.aggregate_functions().contains_key(&name)
        || [&LEAST[..], &GREATEST, &AGGREGATES].iter().any(|names| names.contains(&name.as_str()))
}

/// Whether a function in `FROM` is `unnest`.
pub(crate) fn is_unnest(name: &ObjectName) -> bool {
    name.to_string().eq_ignore_ascii_case("unnest")
}

/// Whether a call is `ARRAY(SELECT …)`.
pub(crate) fn is_array_query(call: &Function) -> bool {
    matches!(call.args, FunctionArguments::Subquery(_)) && call.name.to_string().eq_ignore_ascii_case("array")
}

/// Whether a call names several columns, as `COLUMNS(…)` does.
pub(crate) fn is_list_of_columns(call: &Function) -> bool {
    is_columns(call) || is_unpacked(call)
}

/// Whether a call is `COLUMNS(…)`, or a `*` of the columns whose names match a pattern.
pub(crate) fn is_columns(call: &Function) -> bool {
    let name = name_of(call);
    name == "columns" || name == STAR
}

/// Whether a call is that of `*COLUMNS(…)`, whose columns are arguments of the call around it.
pub(crate) fn is_unpacked(call: &Function) -> bool {
    name_of(call) == UNPACKED
}

/// A call of a function by its name.
pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
    Expr::Function(call_of(name, one_list(args.into_iter().map(argument).collect())))
}

/// A call of a function without further clauses.
pub(crate) fn call_of(name: &str, args: FunctionArguments) -> Function {
    Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args,
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }
}

/// Arguments without further clauses.
pub(crate) fn one_list(args: Vec<FunctionArg>) -> FunctionArguments {
    FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() })
}

/// An argument without a name.
pub(crate) fn argument(expression: Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(expression))
}
