//! Rewrites statements about the catalogue into forms that the planner accepts.
//!
//! | Form | Becomes |
//! | --- | --- |
//! | `pg_catalog.f(x)` | `f(x)` |
//! | `x OPERATOR(pg_catalog.~) y` | `x ~ y` |
//! | `x COLLATE pg_catalog.default` | `x` |
//! | `'trade'::regclass`, `'int4'::regtype` | the number |
//! | `$1::regclass`, `(a || '.' || b)::regclass` | `to_regclass` of the text |
//! | `relkind = ANY($1)` | `relkind = ANY($1::TEXT[])` |
//! | `$1::oid[]` | `$1::bigint[]` |
//! | `'{a,b}'::text[]` | `ARRAY['a', 'b']::text[]` |
//! | `CASE WHEN typtype = 'c' THEN (SELECT …) END` | null: there are no composite types and domains |
//! | `typreceive != 0` | `typreceive != '-'`: functions are names here |
//! | `x::regtype` | `format_type(x, null)` |
//! | `current_user` and its like | the user's name, where there are users; otherwise as the next ones |
//! | `current_schema`, `current_catalog` | `pg_current_schema()`, which the parser doesn't take for a word of its own |
//! | `x::oid`, `x::name`, `x::pg_catalog.text` and others | the type that it is here |
//! | `c.oid = '16384'` | `c.oid = 16384` |
//! | `c.tableoid`, `c.xmin`, in a statement about the catalogue alone | 0 |
//! | `pg_get_viewdef(x)`, `format('%I', x)` and others | expressions over other functions (`calls.rs`) |
//! | `c.oid, c.*` | the columns (`wildcards.rs`) |
//! | `JOIN pg_proc p ON p.oid = t.typreceive` | a query of names (`type_functions.rs`) |
//! | `'array_in'::regproc` | the text: functions are names here |
//! | `user`, in a statement about the catalogue alone | as `current_user`: it may be a column of other tables |
//! | `FROM string_to_array(x, ',') AS s` | a query of one value (`from_functions.rs`) |
//! | a select from a table that never has rows | one without rows, whatever it computes (`without_rows.rs`) |
//!
//! Only statements that name something of PostgreSQL's catalogue are looked at.

use std::borrow::Cow;
use std::ops::ControlFlow;

use datafusion::catalog::information_schema::INFORMATION_SCHEMA;
use datafusion::sql::sqlparser::ast::{
    Array, ArrayElemTypeDef, BinaryOperator, CaseWhen, CastKind, DataType, Expr, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, Query, SelectItem, SetExpr, Statement, TableFactor, Value, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Tokenizer;

use super::without_rows::{list_of, typed_null, without_rows};
use super::{calls, from_functions, is_in_catalogue, oid_of_class, type_functions, types, wildcards};
use crate::dialect::BoundedDialect;
use crate::limits::TokenLimits;
use crate::walk::{visit, visit_mut};

/// Words by which a statement may need a rewrite.
const MARKS: [&str; 11] = [
    "pg_",
    "current_setting",
    "parse_ident",
    "regclass",
    "regtype",
    "::oid",
    "current_user",
    "session_user",
    "current_role",
    "current_catalog",
    "current_schema",
];

/// Functions that are called without parentheses.
const WITHOUT_PARENTHESES: [&str; 5] =
    ["current_user", "session_user", "current_role", "current_catalog", "current_schema"];

/// Most levels of an expression that is parsed.
pub(super) const DEPTH_MAX: usize = 200;

/// Longest text, in bytes, that is examined. Clients' queries of the catalogue have some thousands.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// A user's statement in forms that the planner knows; unchanged if it needs no rewrite, or can't be parsed.
pub(crate) fn rewritten<'a>(text: &'a str, user: Option<&str>) -> Cow<'a, str> {
    if text.len() > TEXT_BYTES_MAX || !is_marked(&text.to_ascii_lowercase()) || !is_shallow(text) {
        return Cow::Borrowed(text);
    }
    let dialect = BoundedDialect::of_postgres(text);
    let parser = Parser::new(&dialect).with_recursion_limit(DEPTH_MAX).try_with_sql(text);
    let Ok(Ok([statement])) = parser.map(|mut parser| parser.parse_statements()).map(|parsed| {
        parsed.map(<[Statement; 1]>::try_from).map(|one| {
            one.unwrap_or_else(|many| {
                // None or several statements: the session that runs them reports that.
                [many.into_iter().next().unwrap_or(Statement::Commit { chain: false, end: false, modifier: None })]
            })
        })
    }) else {
        return Cow::Borrowed(text);
    };
    let mut statement = statement;
    if !matches!(statement, Statement::Query(_) | Statement::Explain { .. }) {
        return Cow::Borrowed(text);
    }
    let is_of_catalogue = visit(&statement, &mut OtherTables::default()).is_continue();
    let _ = visit_mut(&mut statement, &mut CatalogueRewrite { is_of_catalogue, user, queries: Vec::new() });
    Cow::Owned(statement.to_string())
}

/// Whether a word begins with one of the marks.
fn is_marked(lower: &str) -> bool {
    let is_in_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins = |at: usize| at == 0 || !is_in_word(lower.as_bytes()[at - 1]) || lower[at..].starts_with("::");
    MARKS.iter().any(|mark| lower.match_indices(mark).any(|(at, _)| begins(at)))
}

/// Whether a statement may be parsed: within the bounds of all statements.
fn is_shallow(text: &str) -> bool {
    let Ok(tokens) = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize() else { return false };
    let mut limits = TokenLimits::default();
    tokens.iter().all(|token| limits.take(token).is_ok())
}

struct CatalogueRewrite<'a> {
    /// Whether the statement reads only tables of the catalogue.
    is_of_catalogue: bool,
    /// The user of the session, if there are users.
    user: Option<&'a str>,
    /// Names of queries in `WITH`, in lower case.
    queries: Vec<String>,
}

impl VisitorMut for CatalogueRewrite<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.queries.extend(with.map(|query| query.alias.name.value.to_lowercase()));
        type_functions::join_names(&mut query.body);
        wildcards::write_out(&mut query.body, &self.queries);
        if without_rows(&mut query.body, &self.queries) {
            query.order_by = None;
        }
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.projection.iter_mut().for_each(|item| self.name_column(item));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let Some(query) = from_functions::as_query(factor) {
            *factor = query;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let word = user_word(expr).filter(|word| *word != "user" || self.is_of_catalogue);
        match (word, self.user) {
            (Some(_), Some(user)) => *expr = Expr::Value(Value::SingleQuotedString(user.replace('\'', "''")).into()),
            (Some("user"), None) => *expr = call("pg_current_user", Vec::new()),
            _ if self.is_of_catalogue && system_column(expr).is_some() => *expr = number(0),
            _ => match calls::of_catalogue(expr).filter(|_| self.is_of_catalogue) {
                Some(other) => *expr = other,
                None => change(expr),
            },
        }
        ControlFlow::Continue(())
    }
}

/// Words for the session's user.
const USER_WORDS: [&str; 4] = ["current_user", "session_user", "current_role", "user"];

/// The word for the session's user, if an expression is one. The parser reads some of them as calls.
fn user_word(expr: &Expr) -> Option<&'static str> {
    let name = match expr {
        Expr::Function(function) if matches!(function.args, FunctionArguments::None) => function.name.to_string(),
        Expr::Identifier(name) if name.quote_style.is_none() && !name.value.eq_ignore_ascii_case("user") => {
            name.value.clone()
        }
        _ => return None,
    };
    USER_WORDS.into_iter().find(|word| name.eq_ignore_ascii_case(word))
}

impl CatalogueRewrite<'_> {
    /// Names a column by the original expression instead of its replacement: a word for the user, a hidden column, the definition of a view.
    fn name_column(&self, item: &mut SelectItem) {
        let SelectItem::UnnamedExpr(expr) = item else { return };
        let word = user_word(expr).filter(|word| self.user.is_some() && (*word != "user" || self.is_of_catalogue));
        let hidden = system_column(expr).filter(|_| self.is_of_catalogue);
        let view = calls::is_view_definition(expr).then_some(calls::VIEW_DEFINITION);
        if let Some(name) = word.or(hidden).or(view) {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new(name) };
        }
    }
}

/// Columns that every table of PostgreSQL has in addition to those of `*`.
const SYSTEM_COLUMNS: [&str; 2] = ["tableoid", "xmin"];

fn system_column(expr: &Expr) -> Option<&'static str> {
    let name = column_name(expr).filter(|name| name.quote_style.is_none())?;
    SYSTEM_COLUMNS.into_iter().find(|column| name.value.eq_ignore_ascii_case(column))
}

/// Finds a table outside of the catalogue.
#[derive(Default)]
struct OtherTables {
    /// Names of queries in `WITH`, in lower case.
    queries: Vec<String>,
}

impl Visitor for OtherTables {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.queries.extend(with.map(|query| query.alias.name.value.to_lowercase()));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, args: None, .. } = factor else { return ControlFlow::Continue(()) };
        let is_of_catalogue = match parts(name).as_slice() {
            [table] => is_in_catalogue(table) || self.queries.contains(&table.to_lowercase()),
            [schema, _] => [INFORMATION_SCHEMA, "pg_catalog"]
                .iter()
                .any(|catalog_schema| schema.eq_ignore_ascii_case(catalog_schema)),
            _ => false,
        };
        if is_of_catalogue { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// The parts of a table's name.
pub(super) fn parts(name: &ObjectName) -> Vec<&str> {
    name.0.iter().filter_map(|part| part.as_ident().map(|name| name.value.as_str())).collect()
}

fn change(expr: &mut Expr) {
    let changed = match expr {
        Expr::Function(_) if calls::is_view_definition(expr) => calls::view_definition(expr),
        Expr::Function(function) => {
            strip(&mut function.name);
            let name = function.name.to_string().to_ascii_lowercase();
            WITHOUT_PARENTHESES.contains(&name.as_str()).then(|| call(&format!("pg_{name}"), Vec::new()))
        }
        Expr::Identifier(name) if name.quote_style.is_none() => {
            let name = name.value.to_ascii_lowercase();
            WITHOUT_PARENTHESES.contains(&name.as_str()).then(|| call(&format!("pg_{name}"), Vec::new()))
        }
        Expr::Collate { expr, collation } if is_by_bytes(collation) => Some(take_expr(expr)),
        Expr::BinaryOp { left, op, right } => {
            if let BinaryOperator::PGCustomBinaryOperator(parts) = op {
                let rewritten_name = match parts.last().map(String::as_str) {
                    Some("~") => Some(BinaryOperator::PGRegexMatch),
                    Some("!~") => Some(BinaryOperator::PGRegexNotMatch),
                    Some("~*") => Some(BinaryOperator::PGRegexIMatch),
                    Some("!~*") => Some(BinaryOperator::PGRegexNotIMatch),
                    Some("=") => Some(BinaryOperator::Eq),
                    Some("<>") => Some(BinaryOperator::NotEq),
                    Some("<") => Some(BinaryOperator::Lt),
                    Some(">") => Some(BinaryOperator::Gt),
                    _ => None,
                };
                if let Some(rewritten_name) = rewritten_name {
                    *op = rewritten_name;
                }
            }
            if matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq) {
                unquote(left, right);
                unquote(right, left);
                name_no_function(left, right);
            }
            None
        }
        Expr::AnyOp { left, right, .. } => {
            type_list(left, right);
            None
        }
        Expr::Cast { expr, data_type, .. } => cast(expr, data_type),
        Expr::Case { operand: None, conditions, else_result, .. } => {
            of_plain_types(conditions, else_result.as_deref_mut())
        }
        _ => None,
    };
    if let Some(changed) = changed {
        *expr = changed;
    }
}

/// Removes the branches of a `CASE` that look up domains and composite types by a query, because there are none. Returns the remaining value if no
/// branch is left.
fn of_plain_types(conditions: &mut Vec<CaseWhen>, otherwise: Option<&mut Expr>) -> Option<Expr> {
    let is_of_none = |when: &CaseWhen| {
        let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = &when.condition else { return false };
        let is_kind = column_name(left).is_some_and(|name| name.value.eq_ignore_ascii_case("typtype"));
        is_kind && matches!(literal(right), Some("c" | "d")) && matches!(when.result, Expr::Subquery(_))
    };
    let query = conditions.iter().find(|when| is_of_none(when))?.result.to_string().to_ascii_lowercase();
    conditions.retain(|when| !is_of_none(when));
    if !conditions.is_empty() {
        return None;
    }
    let (number, text) = (DataType::BigInt(None), DataType::Varchar(None));
    let null = match (query.contains("array_agg"), query.contains("typid")) {
        (true, true) => list_of(number),
        (true, false) => list_of(text),
        _ => number,
    };
    match otherwise {
        Some(Expr::Value(value)) if value.value == Value::Null => Some(typed_null(null)),
        Some(other) => Some(take_expr(other)),
        None => Some(typed_null(null)),
    }
}

fn take_expr(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, number(0))
}

/// Whether a collation orders texts by their bytes, as here.
fn is_by_bytes(collation: &ObjectName) -> bool {
    let name = collation.0.last().and_then(ObjectNamePart::as_ident);
    name.is_some_and(|name| {
        ["default", "c", "posix"].iter().any(|collation_name| name.value.eq_ignore_ascii_case(collation_name))
    })
}

/// Removes `pg_catalog.` from a name.
fn strip(name: &mut ObjectName) {
    let is_catalogue = |part: &ObjectNamePart| matches!(part, ObjectNamePart::Identifier(name) if name.value.eq_ignore_ascii_case("pg_catalog"));
    if name.0.len() == 2 && name.0.first().is_some_and(is_catalogue) {
        name.0.remove(0);
    }
}

fn number(number: i64) -> Expr {
    Expr::Value(Value::Number(number.to_string(), false).into())
}

/// The text of a literal.
pub(super) fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// The name of a column, without its table and schema.
fn column_name(column: &Expr) -> Option<&Ident> {
    match column {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) => names.last(),
        _ => None,
    }
}

/// Replaces a text of digits by a number if it is compared with a number of the catalogue.
fn unquote(column: &Expr, value: &mut Expr) {
    let Some(name) = column_name(column) else { return };
    let is_number = |text: &str| {
        !text.is_empty()
            && text.len() < 19
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && (text == "0" || !text.starts_with('0'))
    };
    let column = name.value.to_ascii_lowercase();
    let is_of_catalogue =
        column == "oid" || ["relid", "typid", "objid", "classid"].iter().any(|end| column.ends_with(end));
    if is_of_catalogue
        && let Some(digits) = literal(value).filter(|text| is_number(text)).and_then(|text| text.parse().ok())
    {
        *value = number(digits);
    }
}

/// Gives a placeholder without a type the type of a list of texts, where a name or a kind of the catalogue is compared with its items.
fn type_list(column: &Expr, list: &mut Expr) {
    let Some(name) = column_name(column) else { return };
    let name = name.value.to_ascii_lowercase();
    let is_text = ["name", "kind"].iter().any(|end| name.ends_with(end));
    if is_text && matches!(list, Expr::Value(value) if matches!(value.value, Value::Placeholder(_))) {
        let data_type = DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(DataType::Text), None));
        let expr = Box::new(take_expr(list));
        *list = Expr::Cast { kind: CastKind::DoubleColon, expr, data_type, array: false, format: None };
    }
}

/// Replaces the number 0, which stands for no function, by an empty name if it is compared with a function of a type.
fn name_no_function(column: &Expr, value: &mut Expr) {
    let Some(name) = column_name(column) else { return };
    let is_function = ["typinput", "typoutput", "typreceive", "typsend"]
        .iter()
        .any(|name_of_column| name.value.eq_ignore_ascii_case(name_of_column));
    let is_none =
        matches!(value, Expr::Value(value) if matches!(&value.value, Value::Number(digits, _) if *digits == "0"));
    if is_function && is_none {
        *value = Expr::Value(Value::SingleQuotedString("-".to_owned()).into());
    }
}

/// The items of an array as PostgreSQL writes it, `{a,"b c",NULL}`; `None` for another text, and for arrays of arrays.
fn items_of_array(text: &str) -> Option<Vec<Option<String>>> {
    let mut letters = text.trim().strip_prefix('{')?.strip_suffix('}')?.chars();
    let (mut items, mut item, mut is_quoted) = (Vec::new(), String::new(), false);
    let finished = |item: &mut String, is_quoted: &mut bool| {
        let was_quoted = std::mem::take(is_quoted);
        let text = std::mem::take(item);
        let text = if was_quoted { text } else { text.trim().to_owned() };
        (was_quoted || !text.eq_ignore_ascii_case("null")).then_some(text)
    };
    if letters.as_str().trim().is_empty() {
        return Some(items);
    }
    while let Some(letter) = letters.next() {
        match letter {
            ',' => items.push(finished(&mut item, &mut is_quoted)),
            '{' | '}' => return None,
            '\\' => item.push(letters.next()?),
            '"' => {
                is_quoted = true;
                loop {
                    match letters.next()? {
                        '"' => break,
                        '\\' => item.push(letters.next()?),
                        other => item.push(other),
                    }
                }
            }
            other => item.push(other),
        }
    }
    items.push(finished(&mut item, &mut is_quoted));
    Some(items)
}

/// `'{a,b}'::text[]` as a list of texts.
fn list_of_texts(expr: &Expr) -> Option<Expr> {
    let item = |item: Option<String>| {
        Expr::Value(item.map_or(Value::Null, |text| Value::SingleQuotedString(text.replace('\'', "''"))).into())
    };
    let elem = items_of_array(literal(expr)?)?.into_iter().map(item).collect();
    Some(Expr::Array(Array { elem, named: true }))
}

/// A cast to a type that only PostgreSQL has.
fn cast(expr: &mut Expr, data_type: &mut DataType) -> Option<Expr> {
    if matches!(data_type, DataType::Array(_))
        && let Some(list) = list_of_texts(expr)
    {
        *expr = list;
    }
    if let DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) = data_type
        && matches!(item.to_string().to_ascii_lowercase().as_str(), "oid" | "pg_catalog.oid")
    {
        *data_type = list_of(DataType::BigInt(None));
        return None;
    }
    let name = match data_type {
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            strip(name);
            name.to_string().trim_matches('"').to_ascii_lowercase()
        }
        DataType::Regclass => "regclass".to_owned(),
        _ => return None,
    };
    match name.as_str() {
        "regclass" if matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_))) => {
            Some(call("to_regclass", vec![take_expr(expr)]))
        }
        "regclass" => match literal(expr) {
            Some(text) => Some(number(oid_of_class(text))),
            None if is_text(expr) => Some(call("to_regclass", vec![take_expr(expr)])),
            // A number stays a number.
            None => {
                *data_type = DataType::BigInt(None);
                None
            }
        },
        "regtype" => Some(match literal(expr) {
            Some(text) => number(types::named(text).map_or(0, i64::from)),
            None => call("format_type", vec![take_expr(expr), Expr::Value(Value::Null.into())]),
        }),
        "regproc" | "regprocedure" => match literal(expr) {
            Some(_) => Some(take_expr(expr)),
            None => {
                *data_type = DataType::Varchar(None);
                None
            }
        },
        "oid" | "xid" | "int8" | "int4" | "int2" => {
            *data_type = DataType::BigInt(None);
            None
        }
        "name" | "text" | "char" | "varchar" | "bpchar" | "regnamespace" | "regrole" => {
            *data_type = DataType::Varchar(None);
            None
        }
        "bool" => {
            *data_type = DataType::Boolean;
            None
        }
        _ => None,
    }
}

/// Whether an expression consists of texts.
fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_text(inner),
        Expr::BinaryOp { op: BinaryOperator::StringConcat, .. } => true,
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::Text | DataType::Varchar(_)),
        Expr::Function(function) => ["concat", "quote_ident"].contains(&function.name.to_string().as_str()),
        _ => false,
    }
}

fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    use datafusion::sql::sqlparser::ast::{
        Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
    };
    let args = arguments.into_iter().map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).collect();
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each `case (` that isn't one is read as a call, too, and each argument as one with a name.
    #[test]
    fn nested_errors_and_calls_are_given_up() {
        for text in [
            format!("select pg_catalog.version(), sum({}1 1", "case (".repeat(45)),
            format!("select pg_catalog.version(), {}1{}", "abs(".repeat(60), ")".repeat(60)),
        ] {
            assert!(matches!(rewritten(&text, None), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn forms_of_postgresql_become_known_ones() {
        for (text, expected) in [
            ("select price from trade where regime = 1", "select price from trade where regime = 1"),
            ("select pg_catalog.version(), 'pg_x'", "SELECT version(), 'pg_x'"),
            (
                "select c.oid from pg_catalog.pg_class c where c.relname OPERATOR(pg_catalog.~) '^(t)$' COLLATE pg_catalog.default",
                "SELECT c.oid FROM pg_catalog.pg_class c WHERE c.relname ~ '^(t)$'",
            ),
            (
                "select oid::regtype::text from pg_type where oid = '20'",
                "SELECT format_type(oid, NULL)::TEXT FROM pg_type WHERE oid = 20",
            ),
            ("select 'int8'::regtype, 'bool'::pg_catalog.regtype::oid", "SELECT 20, 16::BIGINT"),
            (
                "select a, x.b as c, f(d) from pg_catalog.pg_policy x where polrelid = '1' order by 1",
                "SELECT CAST(NULL AS VARCHAR) AS \"a\", CAST(NULL AS VARCHAR) AS c, CAST(NULL AS VARCHAR) AS \"f\" WHERE false",
            ),
            ("select count(*) from pg_index", "SELECT count(*) FROM pg_index"),
            (
                "select typname from pg_type where (typreceive != 0 or typsend <> 0) and typlen <> 0",
                "SELECT typname FROM pg_type WHERE (typreceive <> '-' OR typsend <> '-') AND typlen <> 0",
            ),
            (
                "select attname from pg_attribute where attrelid = $1::regclass::oid",
                "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1)::BIGINT",
            ),
            (
                "select relname from pg_class c where c.relkind = any($2) and relnamespace = any($3)",
                "SELECT relname FROM pg_class c WHERE c.relkind = ANY($2::TEXT[]) AND relnamespace = ANY($3)",
            ),
            ("select mpg_city from cars where vin_id = '007'", "select mpg_city from cars where vin_id = '007'"),
            (
                "select oid from pg_class where oid = '007' and vin_id = '7'",
                "SELECT oid FROM pg_class WHERE oid = '007' AND vin_id = '7'",
            ),
            (
                "select case when t.typtype = 'd' then (select 1) else null end, relname::regclass from pg_type t where oid = any($1::oid[])",
                "SELECT CAST(NULL AS BIGINT), relname::BIGINT FROM pg_type t WHERE oid = ANY($1::BIGINT[])",
            ),
            (
                "with pg_locks as (select 1 as x) select x from pg_locks",
                "WITH pg_locks AS (SELECT 1 AS x) SELECT x FROM pg_locks",
            ),
            (
                "select CURRENT_USER, current_schema(), current_schema",
                "SELECT pg_current_user(), pg_current_schema(), pg_current_schema()",
            ),
            (
                "select user, \"user\" from pg_catalog.pg_user, information_schema.tables",
                "SELECT pg_current_user(), \"user\" FROM pg_catalog.pg_user, information_schema.tables",
            ),
            (
                "select c.tableoid, c.xmin, pg_catalog.pg_get_viewdef(c.oid, true) from pg_class c where pg_get_viewdef('v') <> ''",
                "SELECT 0 AS tableoid, 0 AS xmin, (SELECT __views.definition FROM pg_catalog.pg_views AS __views WHERE \
                 to_regclass(quote_ident(__views.viewname)) = c.oid) AS pg_get_viewdef FROM pg_class c WHERE (SELECT \
                 __views.definition FROM pg_catalog.pg_views AS __views WHERE to_regclass(quote_ident(__views.viewname)) = 1019433010) <> ''",
            ),
            (
                "select c.oid, c.* from pg_catalog.pg_am c",
                "SELECT c.oid, c.oid, c.amname, c.amhandler, c.amtype FROM pg_catalog.pg_am c",
            ),
            (
                "select p.proname from pg_type t left join pg_proc as p on p.oid = t.typreceive where t.typinput = 'array_in'::regproc",
                "SELECT p.proname FROM pg_type t LEFT JOIN (SELECT DISTINCT typreceive AS oid, typreceive AS proname FROM \
                 pg_catalog.pg_type) AS p ON p.oid = t.typreceive WHERE t.typinput = 'array_in'",
            ),
            ("select user, 'pg_' from orders", "SELECT user, 'pg_' FROM orders"),
            (
                "select s[i] from generate_series(1, 2) as i, string_to_array(current_setting('search_path'), ',') s",
                "SELECT s[i] FROM (SELECT value AS i FROM generate_series(1, 2)) AS i, \
                 (SELECT string_to_array(current_setting('search_path'), ',') AS s) AS s",
            ),
            (
                "select * from pg_catalog.current_setting('TimeZone') as t(zone), current_setting('a'), generate_series(1, 2) as g(i)",
                "SELECT * FROM (SELECT current_setting('TimeZone') AS t) AS t (zone), \
                 (SELECT current_setting('a') AS current_setting) AS current_setting, generate_series(1, 2) AS g (i)",
            ),
        ] {
            assert_eq!(rewritten(text, None), expected);
        }
        let before_join = "SELECT c.relname FROM pg_class AS c LEFT JOIN pg_index AS i ON i.indrelid = c.oid";
        assert_eq!(rewritten(before_join, None), before_join);
        let long = format!("select 'pg_', 1{}", "+1".repeat(7_000));
        assert_eq!(rewritten(&long, None), long);
        assert_eq!(
            rewritten("select current_user, lower(session_user), user from t where x = current_role", Some("o'neil")),
            "SELECT 'o''neil' AS current_user, lower('o''neil'), user FROM t WHERE x = 'o''neil'"
        );
        assert_eq!(rewritten("select user from pg_user", Some("ann")), "SELECT 'ann' AS user FROM pg_user");
        for text in ["select pg_", "select 1; select pg_x", "insert into t select 'pg_'", "pg_ '"] {
            let _ = rewritten(text, None);
        }
    }
}
