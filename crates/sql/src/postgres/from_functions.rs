//! Functions of one value in `FROM`, as PostgreSQL has them.
//!
//! | Form | Becomes |
//! | --- | --- |
//! | `FROM string_to_array(x, ',') AS s` | `FROM (SELECT string_to_array(x, ',') AS s) AS s` |
//! | `FROM current_schema()` | `FROM (SELECT current_schema() AS current_schema) AS current_schema` |
//! | `FROM generate_series(1, 3) AS i` | `FROM (SELECT value AS i FROM generate_series(1, 3)) AS i`: its alias names its column, too |

use datafusion::sql::sqlparser::ast::{Ident, ObjectNamePart, TableAlias, TableFactor};
use datafusion::sql::sqlparser::parser::Parser;

use crate::dialect::BoundedDialect;
use crate::statements::reserved_words;

/// Functions that return rows; the others return one value.
const OF_ROWS: [&str; 2] = ["generate_series", "range"];

/// The function that lists keywords, of which drivers show those that aren't the standard's. Here it returns the words that a name has to be quoted for.
const KEYWORDS: &str = "pg_get_keywords";

/// Most levels of an expression that is parsed.
const DEPTH_MAX: usize = 200;

/// The query that replaces a function in `FROM`; `None` for anything else, and for functions that exist here.
pub(super) fn as_query(factor: &TableFactor) -> Option<TableFactor> {
    let TableFactor::Table { name, args: Some(args), alias, .. } = factor else { return None };
    let function = name.0.last().and_then(ObjectNamePart::as_ident)?;
    if args.settings.is_some() {
        return None;
    }
    if function.value.eq_ignore_ascii_case(KEYWORDS) {
        let (name, columns) = names(&Ident::new(KEYWORDS), alias.as_ref());
        let words: Vec<String> = reserved_words().iter().map(|word| format!("('{word}')")).collect();
        return parse_table(&format!(
            "(SELECT column1 AS word, 'R' AS catcode, 'reserved' AS catdesc FROM (VALUES {}) AS words) AS {name}{columns}",
            words.join(", ")
        ));
    }
    let arguments: Vec<String> = args.args.iter().map(ToString::to_string).collect();
    let call = format!("{name}({})", arguments.join(", "));
    let text = if OF_ROWS.iter().any(|function_name| function.value.eq_ignore_ascii_case(function_name)) {
        let alias = alias.as_ref().filter(|alias| alias.columns.is_empty())?;
        format!("(SELECT value AS {0} FROM {call}) AS {0}", alias.name)
    } else {
        let (name, columns) = names(function, alias.as_ref());
        format!("(SELECT {call} AS {name}) AS {name}{columns}")
    };
    parse_table(&text)
}

fn parse_table(text: &str) -> Option<TableFactor> {
    let dialect = BoundedDialect::of_postgres(text);
    let parser = Parser::new(&dialect).with_recursion_limit(DEPTH_MAX);
    parser.try_with_sql(text).and_then(|mut parser| parser.parse_table_factor()).ok()
}

/// The name that a function's value has, and the names of its columns.
fn names(function: &Ident, alias: Option<&TableAlias>) -> (Ident, String) {
    let Some(alias) = alias else { return (function.clone(), String::new()) };
    let columns: Vec<String> = alias.columns.iter().map(ToString::to_string).collect();
    let columns = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
    (alias.name.clone(), columns)
}
