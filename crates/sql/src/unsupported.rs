//! Refuses by name clauses that the parser accepts and no operator executes.
//!
//! The parser accepts the dialects of many systems, and DataFusion ignores parts of a parsed statement that it
//! doesn't support: `select * from t tablesample (10)` would count all rows. Each function here destructures a node
//! of the parsed statement into all its fields, so a field that a later version of the parser adds doesn't compile
//! until somebody has decided about it.

use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Cte, DuplicateTreatment, Expr, Fetch, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, GroupByExpr, Join, JoinConstraint, JoinOperator, LimitClause,
    NullTreatment, Query, Select, SelectFlavor, SelectItem, SetExpr, SetOperator, SetQuantifier, TableAlias,
    TableFactor, TableWithJoins, UnaryOperator, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::error::{Error, Result, fault};
use crate::function_calls::{is_array_query, is_unnest};
use crate::joins;
use crate::syntax::is_word;

/// Window functions that can ignore nulls, besides the aggregates that declare it.
const WINDOW_FUNCTIONS_WITH_NULL_TREATMENT: [&str; 5] = ["first_value", "lag", "last_value", "lead", "nth_value"];

/// Clauses of other systems that the parser can't read, or takes for an alias: their first two words, their name, and
/// what to write instead.
const WORDS: [([&str; 2], &str, &str); 10] = [
    (["latest", "by"], "LATEST BY", "write LATEST ON time PARTITION BY symbol"),
    (["positional", "join"], "POSITIONAL JOIN", "join by row_number() of both sides"),
    (["between", "symmetric"], "BETWEEN SYMMETRIC", "write BETWEEN least(a, b) AND greatest(a, b)"),
    (["using", "sample"], "USING SAMPLE", ""),
    (["lt", "join"], "LT JOIN", "write ASOF JOIN b MATCH_CONDITION (a.time > b.time)"),
    (["splice", "join"], "SPLICE JOIN", "unite ASOF JOINs in both directions by UNION ALL"),
    (["any", "join"], "ANY JOIN", ANY_JOIN),
    (["any", "left"], "ANY LEFT JOIN", ANY_JOIN),
    (["any", "inner"], "ANY INNER JOIN", ANY_JOIN),
    (["array", "join"], "ARRAY JOIN", "write CROSS JOIN unnest(list)"),
];

/// What to write for a join with at most one row of the right side.
const ANY_JOIN: &str =
    "join the rows of the right side that QUALIFY row_number() OVER (PARTITION BY key ORDER BY time) = 1 leaves";

/// Refuses clauses that can't be parsed.
///
/// # Errors
/// [`Error::Statement`], which names the clause.
pub(crate) fn check_words(tokens: &[Token]) -> Result<()> {
    let mut words = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_)));
    let mut before = words.next();
    for token in words {
        if let (Some(first), Token::Word(_)) = (before, token)
            && let Some(([word, _], what, advice)) =
                WORDS.iter().find(|(words, ..)| is_word(first, words[0]) && is_word(token, words[1]))
            && !is_alias(tokens, word)
        {
            return replace(true, what, advice);
        }
        before = Some(token);
    }
    Ok(())
}

/// Whether a word names a relation: it qualifies a column, or follows `AS`.
fn is_alias(tokens: &[Token], word: &str) -> bool {
    let mut words = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).peekable();
    let mut before = None;
    while let Some(token) = words.next() {
        let is_behind_as = before.is_some_and(|before| is_word(before, "as"));
        if is_word(token, word) && (is_behind_as || words.peek() == Some(&&Token::Period)) {
            return true;
        }
        before = Some(token);
    }
    false
}

/// Fails with the name of an unsupported part, if it is present.
fn refuse(is_there: bool, what: &str) -> Result<()> {
    replace(is_there, what, "")
}

/// If an unsupported part is present, fails with its name and with what to write instead.
fn replace(is_there: bool, what: &str, advice: &str) -> Result<()> {
    match (is_there, advice) {
        (false, _) => Ok(()),
        (true, "") => fault(format!("{what} isn't supported")),
        (true, advice) => fault(format!("{what} isn't supported: {advice}")),
    }
}

/// Fails with the necessary change, if something is wrong.
fn needs(is_wrong: bool, what: &str) -> Result<()> {
    if is_wrong { fault(what) } else { Ok(()) }
}

/// Checks the clauses of a query around its select.
///
/// # Errors
/// [`Error::Statement`], which names the clause.
pub(crate) fn check_query(query: &Query) -> Result<()> {
    // The planner itself refuses unknown pipe operators.
    let Query {
        with,
        body,
        order_by: _,
        limit_clause,
        fetch,
        locks,
        for_clause,
        settings,
        format_clause,
        pipe_operators: _,
    } = query;
    for expression in with.iter().flat_map(|with| &with.cte_tables) {
        // The hint doesn't change the rows.
        let Cte { alias, query: _, from, materialized: _, closing_paren_token: _ } = expression;
        check_alias(alias)?;
        refuse(from.is_some(), "FROM behind a common table expression")?;
    }
    check_body(body)?;
    if let Some(Fetch { with_ties, percent, quantity: _ }) = fetch {
        replace(*with_ties, "FETCH … WITH TIES", "write QUALIFY rank() OVER (ORDER BY …) <= n")?;
        refuse(*percent, "FETCH … PERCENT")?;
        let limits = match limit_clause {
            Some(LimitClause::LimitOffset { limit, limit_by, .. }) => limit.is_some() || !limit_by.is_empty(),
            Some(LimitClause::OffsetCommaLimit { .. }) => true,
            None => false,
        };
        refuse(limits, "FETCH beside LIMIT")?;
    }
    let limit = match limit_clause {
        Some(LimitClause::LimitOffset { limit, .. }) => limit.as_ref(),
        Some(LimitClause::OffsetCommaLimit { limit, .. }) => Some(limit),
        None => None,
    };
    let is_negative = matches!(limit, Some(Expr::UnaryOp { op: UnaryOperator::Minus, .. }));
    needs(is_negative, "LIMIT can't be negative: for the last n rows write ORDER BY time DESC LIMIT n")?;
    refuse(!locks.is_empty(), "FOR UPDATE and FOR SHARE")?;
    refuse(for_clause.is_some(), "FOR XML, FOR JSON and FOR BROWSE")?;
    refuse(settings.is_some(), "SETTINGS")?;
    refuse(format_clause.is_some(), "FORMAT")
}

/// Checks set operations.
fn check_body(body: &SetExpr) -> Result<()> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return Ok(()) };
    // DataFusion 55.2 would ignore the counts of the right side.
    let counts = matches!(set_quantifier, SetQuantifier::All | SetQuantifier::AllByName);
    replace(
        counts && *op != SetOperator::Union,
        &format!("{op} ALL"),
        &format!("number equal rows by row_number() in both queries, and write {op}"),
    )?;
    check_body(left)?;
    check_body(right)
}

/// Checks the clauses of a select.
///
/// # Errors
/// [`Error::Statement`], which names the clause.
pub(crate) fn check_select(select: &Select) -> Result<()> {
    // `read_only.rs` refuses INTO.
    let Select {
        select_token: _,
        optimizer_hints: _,
        distinct: _,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection,
        exclude,
        into: _,
        from,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window: _,
        qualify: _,
        window_before_qualify: _,
        value_table_mode,
        flavor,
    } = select;
    let is_empty = projection.is_empty() && *flavor != SelectFlavor::FromFirstNoSelect;
    needs(is_empty, "SELECT names no column: write * for all")?;
    refuse(select_modifiers.is_some(), "a modifier behind SELECT such as STRAIGHT_JOIN or SQL_NO_CACHE")?;
    replace(top.is_some(), "TOP", "write LIMIT at the end")?;
    replace(exclude.is_some(), "EXCLUDE behind the select list", "write it behind *")?;
    replace(!lateral_views.is_empty(), "LATERAL VIEW", "write CROSS JOIN unnest(list)")?;
    replace(prewhere.is_some(), "PREWHERE", "write WHERE")?;
    replace(!connect_by.is_empty(), "CONNECT BY", "write WITH RECURSIVE")?;
    refuse(!cluster_by.is_empty(), "CLUSTER BY")?;
    refuse(!distribute_by.is_empty(), "DISTRIBUTE BY")?;
    replace(!sort_by.is_empty(), "SORT BY", "write ORDER BY")?;
    refuse(value_table_mode.is_some(), "SELECT AS VALUE and SELECT AS STRUCT")?;
    let (GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers)) = group_by;
    if let Some(modifier) = modifiers.first() {
        let what = format!("GROUP BY … {modifier}");
        replace(true, &what, "write GROUP BY ROLLUP (…), CUBE (…) or GROUPING SETS (…)")?;
    }
    for item in projection {
        if let SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) = item {
            check_wildcard(options)?;
        }
    }
    from.iter().try_for_each(check_joins)
}

fn check_wildcard(options: &WildcardAdditionalOptions) -> Result<()> {
    // The planner takes EXCLUDE, EXCEPT and REPLACE; `expand/stars.rs` writes ILIKE and RENAME out.
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike: _,
        opt_exclude: _,
        opt_except: _,
        opt_replace: _,
        opt_rename: _,
        opt_alias,
    } = options;
    refuse(opt_alias.is_some(), "* with an alias")
}

fn check_alias(alias: &TableAlias) -> Result<()> {
    let TableAlias { explicit: _, name: _, columns, at } = alias;
    refuse(columns.iter().any(|column| column.data_type.is_some()), "a type in a list of column aliases")?;
    refuse(at.is_some(), "AT in the alias of a table")
}

fn check_joins(from: &TableWithJoins) -> Result<()> {
    let TableWithJoins { relation: _, joins } = from;
    // The condition of a join by time is in the marker behind it.
    let is_by_time = joins::is_by_time(from);
    joins.iter().try_for_each(|Join { relation: _, global, join_operator }| {
        refuse(*global, "GLOBAL JOIN")?;
        let is_outer_without_condition = matches!(
            join_operator,
            JoinOperator::Left(JoinConstraint::None)
                | JoinOperator::LeftOuter(JoinConstraint::None)
                | JoinOperator::Right(JoinConstraint::None)
                | JoinOperator::RightOuter(JoinConstraint::None)
                | JoinOperator::FullOuter(JoinConstraint::None)
        );
        needs(is_outer_without_condition && !is_by_time, "an outer join needs ON or USING")
    })
}

/// Checks a relation in FROM.
///
/// # Errors
/// [`Error::Statement`], which names the clause.
pub(crate) fn check_relation(relation: &TableFactor) -> Result<()> {
    match relation {
        TableFactor::Table {
            name: _,
            alias,
            args: _,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
        } => {
            refuse(!with_hints.is_empty() || !index_hints.is_empty(), "a hint behind a table's name")?;
            refuse(version.is_some(), "a table as of a time or version")?;
            refuse(*with_ordinality, "WITH ORDINALITY")?;
            refuse(!partitions.is_empty(), "PARTITION behind a table's name")?;
            refuse(json_path.is_some(), "a JSON path behind a table's name")?;
            refuse(sample.is_some(), "TABLESAMPLE")?;
            alias.iter().try_for_each(check_alias)
        }
        TableFactor::Derived { lateral: _, subquery: _, alias, sample } => {
            refuse(sample.is_some(), "TABLESAMPLE")?;
            alias.iter().try_for_each(check_alias)
        }
        TableFactor::Function { lateral: _, name, args: _, with_ordinality, alias } => {
            refuse(*with_ordinality && !is_unnest(name), "WITH ORDINALITY")?;
            alias.iter().try_for_each(check_alias)
        }
        TableFactor::NestedJoin { table_with_joins, alias } => {
            alias.iter().try_for_each(check_alias)?;
            check_joins(table_with_joins)
        }
        // The planner refuses the other kinds, and unknown parts of these.
        _ => Ok(()),
    }
}

/// Checks the parts of a call besides its arguments.
///
/// # Errors
/// [`Error::Statement`], which names the clause.
pub(crate) fn check_call(call: &Function, state: &SessionState) -> Result<()> {
    let Function { name, uses_odbc_syntax: _, parameters, args, filter, null_treatment, over, within_group } = call;
    refuse(*parameters != FunctionArguments::None, "a second list of arguments, as in quantile(0.5)(x),")?;
    let is_query = matches!(args, FunctionArguments::Subquery(_)) && !is_array_query(call);
    refuse(is_query, "a query as the argument of a function")?;
    let (is_distinct, clauses) = match args {
        FunctionArguments::List(FunctionArgumentList { duplicate_treatment, args: _, clauses }) => {
            (*duplicate_treatment == Some(DuplicateTreatment::Distinct), clauses.as_slice())
        }
        _ => (false, [].as_slice()),
    };
    let name = name.to_string().to_lowercase();
    let says_nulls = clauses.iter().find_map(|clause| match clause {
        FunctionArgumentClause::IgnoreOrRespectNulls(treatment) => Some(treatment),
        _ => None,
    });
    let has_aggregate = state.aggregate_functions().get(&name);
    let is_by_row = state.scalar_functions().contains_key(&name)
        && has_aggregate.is_none()
        && !state.window_functions().contains_key(&name);
    if is_by_row {
        let of_rows = [
            (over.is_some(), "OVER"),
            (filter.is_some(), "FILTER"),
            (is_distinct, "DISTINCT"),
            (!within_group.is_empty(), "WITHIN GROUP"),
            (!clauses.is_empty() || null_treatment.is_some(), "ORDER BY or IGNORE NULLS"),
        ];
        if let Some((_, clause)) = of_rows.iter().find(|(is_there, _)| *is_there) {
            let message = format!("{name} is computed from one row: it takes no {clause}");
            return Err(Error::Statement { message });
        }
    }
    let knows_nulls = has_aggregate.is_some_and(|function| function.supports_null_handling_clause())
        || state
            .window_functions()
            .get(&name)
            .is_some_and(|function| WINDOW_FUNCTIONS_WITH_NULL_TREATMENT.contains(&function.name()));
    let ignores_nulls = null_treatment.as_ref().or(says_nulls) == Some(&NullTreatment::IgnoreNulls);
    needs(ignores_nulls && !knows_nulls, &format!("{name} has no IGNORE NULLS"))?;
    check_offset(&name, args)
}

/// Checks the second argument of functions that look at another row.
fn check_offset(name: &str, args: &FunctionArguments) -> Result<()> {
    let FunctionArguments::List(FunctionArgumentList { args, .. }) = args else { return Ok(()) };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(offset))) = args.get(1) else { return Ok(()) };
    let written = offset.to_string();
    let is_before_the_first = written.starts_with('-') || written == "0";
    needs(name == "nth_value" && is_before_the_first, "nth_value counts rows from 1")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::views::tokens;

    #[test]
    fn words_of_clauses_may_be_aliases() {
        let refused = |text: &str| check_words(&tokens(text).unwrap()).is_err();
        assert!(refused("select * from a lt join b") && refused("select * from a x Splice Join b"));
        assert!(refused("select * from a any left join b using (sym)"));
        assert!(!refused("select lt.x from a lt join b on lt.x = b.x"));
        assert!(!refused("select * from a as lt join b using (x)"));
        assert!(!refused("select 'lt join' from a left join b using (x)"));
    }
}
