//! The columns that a call of `COLUMNS`, or a star with options, selects (`stars.rs`).

use arrow::array::{Array, AsArray, StringArray};
use arrow::compute::kernels::regexp::regexp_match;
use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    RenameSelectItem, Value, WildcardAdditionalOptions,
};

use super::relation::{FromColumn, Relation};
use crate::error::{Result, fault};
use crate::function_calls::name_of;
use crate::syntax::STAR;

/// A selected column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SelectedColumn {
    pub expression: Expr,
    /// Its name, folded.
    pub name: String,
    /// The parts of its name that matched a pattern: the whole match first.
    pub parts: Vec<String>,
}

/// The columns that a call of `COLUMNS` selects.
pub(super) fn selected_columns(call: &Function, relation: &Relation) -> Result<Vec<SelectedColumn>> {
    let all = || relation.columns.iter().collect::<Vec<_>>();
    let args = match &call.args {
        FunctionArguments::List(list) if list.clauses.is_empty() => list.args.as_slice(),
        _ => &[],
    };
    let args: Vec<&FunctionArgExpr> = args
        .iter()
        .filter_map(|arg| match arg {
            FunctionArg::Unnamed(arg) => Some(arg),
            _ => None,
        })
        .collect();
    if name_of(call) == STAR
        && let [FunctionArgExpr::Expr(kind), FunctionArgExpr::Expr(pattern)] = args.as_slice()
        && let (Some(kind), Some(pattern)) = (text_of(kind), text_of(pattern))
    {
        return fitting(all(), &pattern_of(&kind, &pattern), kind.starts_with("not "), &pattern);
    }
    match args.as_slice() {
        [FunctionArgExpr::Wildcard] => plain(all(), &WildcardAdditionalOptions::default()),
        [FunctionArgExpr::WildcardWithOptions(options)] => plain(all(), options),
        [FunctionArgExpr::QualifiedWildcard(name)] => {
            plain(of_relation(name, relation)?, &WildcardAdditionalOptions::default())
        }
        [FunctionArgExpr::Expr(Expr::Array(names))] => {
            let named = names.elem.iter().map(|name| column_of_name(name, relation)).collect::<Result<Vec<_>>>()?;
            let is_named = |column: &&FromColumn| named.iter().any(|other| std::ptr::eq(*other, *column));
            Ok(relation.columns.iter().filter(is_named).map(whole).collect())
        }
        [FunctionArgExpr::Expr(expr)] => match text_of(expr) {
            Some(pattern) => fitting(all(), &pattern, false, &pattern),
            None => fault("COLUMNS takes *, a regular expression in quotes, or a list of names in quotes"),
        },
        _ => fault("COLUMNS takes *, a regular expression in quotes, or a list of names in quotes"),
    }
}

/// The text of a text literal.
pub(super) fn text_of(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The regular expression of a `LIKE`, which must match a whole name, or of a `SIMILAR TO`, which may match a part.
fn pattern_of(kind: &str, pattern: &str) -> String {
    if kind.ends_with("similar to") {
        return pattern.to_owned();
    }
    let mut regex = String::from("^");
    for character in pattern.chars() {
        match character {
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            other if other.is_alphanumeric() => regex.push(other),
            other => {
                regex.push('\\');
                regex.push(other);
            }
        }
    }
    regex.push('$');
    regex
}

fn whole(column: &FromColumn) -> SelectedColumn {
    SelectedColumn { expression: column.expression(), parts: vec![column.written.clone()], name: column.name.clone() }
}

fn column_of_name<'a>(name: &Expr, relation: &'a Relation) -> Result<&'a FromColumn> {
    let name = match (text_of(name), name) {
        (Some(text), _) => text,
        (None, Expr::Identifier(name)) => name.value.clone(),
        _ => return fault("COLUMNS takes a list of names in quotes"),
    };
    match relation.columns.iter().find(|column| column.name == name.to_lowercase()) {
        Some(column) => Ok(column),
        None => fault(format!("COLUMNS: there is no column {name}")),
    }
}

/// The columns whose name matches a pattern, or doesn't.
fn fitting(columns: Vec<&FromColumn>, regex: &str, is_not: bool, written: &str) -> Result<Vec<SelectedColumn>> {
    let names = StringArray::from_iter_values(columns.iter().map(|column| column.written.as_str()));
    let regex = StringArray::new_scalar(regex);
    let flags = StringArray::new_scalar("i");
    let matches = match regexp_match(&names, &regex, Some(&flags)) {
        Ok(matches) => matches,
        Err(error) => return fault(format!("COLUMNS('{written}'): {error}")),
    };
    let matches = matches.as_list::<i32>();
    let mut fitting = Vec::new();
    for (place, column) in columns.into_iter().enumerate() {
        if matches.is_null(place) != is_not {
            continue;
        }
        let mut chosen = whole(column);
        if !is_not {
            let groups = matches.value(place);
            let groups: Vec<String> =
                groups.as_string::<i32>().iter().map(|group| group.unwrap_or_default().to_owned()).collect();
            chosen.parts.extend(groups);
        }
        fitting.push(chosen);
    }
    match fitting.is_empty() {
        true => fault(format!("no column has a name that fits '{written}'")),
        false => Ok(fitting),
    }
}

pub(super) fn of_relation<'a>(name: &ObjectName, relation: &'a Relation) -> Result<Vec<&'a FromColumn>> {
    let last = name.0.last().and_then(|part| part.as_ident()).map(|part| part.value.to_lowercase());
    let last = last.unwrap_or_default();
    let columns: Vec<&FromColumn> = relation.columns.iter().filter(|column| column.is_of(&last)).collect();
    match columns.is_empty() {
        true => fault(format!("FROM has no {name}, so that {name}.* has no column")),
        false => Ok(columns),
    }
}

/// The columns that options keep, under the names that they give.
pub(super) fn plain(mut columns: Vec<&FromColumn>, options: &WildcardAdditionalOptions) -> Result<Vec<SelectedColumn>> {
    let mut parts: Vec<(String, Vec<String>)> = Vec::new();
    if let Some(ilike) = &options.opt_ilike {
        let fitting = fitting(columns.clone(), &pattern_of("ilike", &ilike.pattern), false, &ilike.pattern)?;
        columns.retain(|column| fitting.iter().any(|chosen| chosen.expression == column.expression()));
        parts.extend(fitting.into_iter().map(|chosen| (chosen.name, chosen.parts)));
    }
    for name in excluded_names(options) {
        let before = columns.len();
        let (relation, name) = match name.as_slice() {
            [.., relation, name] => (Some(relation), name),
            [name] => (None, name),
            [] => continue,
        };
        columns.retain(|column| column.name != *name || relation.is_some_and(|relation| !column.is_of(relation)));
        if columns.len() == before {
            return fault(format!("* EXCLUDE: there is no column {name}"));
        }
    }
    let mut chosen: Vec<SelectedColumn> = columns.iter().map(|column| whole(column)).collect();
    let place = |name: &Ident| columns.iter().position(|column| column.name == name.value.to_lowercase());
    for item in options.opt_replace.iter().flat_map(|replace| &replace.items) {
        match place(&item.column_name) {
            Some(place) => chosen[place].expression = Expr::Nested(Box::new(item.expr.clone())),
            None => return fault(format!("* REPLACE: there is no column {}", item.column_name)),
        }
    }
    let renamed = match &options.opt_rename {
        Some(RenameSelectItem::Single(renamed)) => std::slice::from_ref(renamed),
        Some(RenameSelectItem::Multiple(renamed)) => renamed.as_slice(),
        None => &[],
    };
    for item in renamed {
        match place(&item.ident) {
            Some(place) => chosen[place].name = item.alias.value.to_lowercase(),
            None => return fault(format!("* RENAME: there is no column {}", item.ident)),
        }
    }
    Ok(chosen)
}

/// The folded names that `*` leaves out.
fn excluded_names(options: &WildcardAdditionalOptions) -> Vec<Vec<String>> {
    let of = |name: &ObjectName| {
        name.0.iter().filter_map(|part| part.as_ident()).map(|part| part.value.to_lowercase()).collect()
    };
    let mut names = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => vec![of(name)],
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().map(of).collect(),
        None => Vec::new(),
    };
    if let Some(except) = &options.opt_except {
        let all = std::iter::once(&except.first_element).chain(&except.additional_elements);
        names.extend(all.map(|name| vec![name.value.to_lowercase()]));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_like_are_regular_expressions() {
        assert_eq!(pattern_of("like", "a_%.b"), "^a..*\\.b$");
        assert_eq!(pattern_of("not similar to", "a|b"), "a|b");
    }
}
