//! `PIVOT source ON key [IN (…)] [USING agg(x) [[AS] name], …] [GROUP BY …]` as a statement of its own, as in DuckDB.
//!
//! It becomes a select:
//!
//! | Given | The select |
//! | --- | --- |
//! | `GROUP BY g` | `SELECT g, agg(x) FILTER (WHERE key = 'a') AS "a", … FROM source GROUP BY g` |
//! | no `GROUP BY` | `SELECT * FROM source PIVOT (agg(x) FOR key IN ('a' AS "a", …))`, which `pivot.rs` plans |
//! | several keys | as with `GROUP BY`, by all columns that no key and no aggregate reads: `SELECT * EXCLUDE (…), … GROUP BY ALL` |
//!
//! - Without `IN` a statement of its own reads the values of the key first. The select may see a later commit of a
//!   table; values that came in between have no column.
//! - With several keys each combination of values has a column.
//! - A column is named by its value; values of several keys are joined by `_`. With an alias or several aggregates the
//!   name of the aggregate follows.
//! - Without `USING` rows are counted. `ORDER BY` and `LIMIT` may follow.
//!
//! Source: <https://duckdb.org/docs/stable/sql/statements/pivot>.

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::dialect::BoundedDialect;
use crate::error::{Error, Result, fault};
use crate::statements::quoted;
use crate::syntax::is_word;
use crate::walk::each_expression;

/// Most values that become columns.
const VALUES_MAX: usize = 10_000;

/// A `PIVOT` statement, split into its texts.
#[derive(Debug)]
pub(crate) struct PivotStatement {
    /// `EXPLAIN` with its options.
    explain: String,
    source: String,
    keys: Vec<Key>,
    aggregates: Vec<String>,
    groups: Option<String>,
    /// `ORDER BY` and everything behind it.
    rest: String,
}

/// A column whose values become columns.
#[derive(Debug)]
struct Key {
    text: String,
    /// The listed values.
    values: Option<Vec<String>>,
}

fn text(tokens: &[Token]) -> String {
    tokens.iter().map(ToString::to_string).collect::<String>().trim().to_owned()
}

/// Splits tokens at commas outside of brackets.
fn split(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0usize;
    let parts = tokens.split(|token| {
        match token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && *token == Token::Comma
    });
    parts.filter(|part| !text(part).is_empty()).collect()
}

impl PivotStatement {
    /// Parses such a statement; `None` for any other.
    ///
    /// # Errors
    /// [`Error::Statement`] for parts that are missing or not supported.
    pub(crate) fn of(text_of_all: &str) -> Result<Option<PivotStatement>> {
        // Most statements end here, after their first word.
        let start = text_of_all.trim_start();
        let begins = |word: &str| start.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
        if !["pivot", "explain", "--", "/*"].into_iter().any(begins) {
            return Ok(None);
        }
        let Ok(tokens) = Tokenizer::new(&GenericDialect {}, text_of_all).with_unescape(false).tokenize() else {
            // The parser reports the fault.
            return Ok(None);
        };
        let is_before = |token: &Token| {
            matches!(token, Token::Whitespace(_)) || ["explain", "analyze"].iter().any(|word| is_word(token, word))
        };
        let begin = tokens.iter().position(|token| !is_before(token)).unwrap_or(tokens.len());
        if !tokens.get(begin).is_some_and(|token| is_word(token, "pivot")) {
            return Ok(None);
        }
        let clauses = ["on", "using", "group", "order", "limit"];
        let mut places = [None; 5];
        let mut depth = 0usize;
        for (place, token) in tokens.iter().enumerate().skip(begin + 1) {
            match token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                token if depth == 0 => {
                    if let Some(clause) = clauses.iter().position(|word| is_word(token, word)) {
                        places[clause] = places[clause].or(Some(place));
                    }
                }
                _ => {}
            }
        }
        let end = tokens.iter().rposition(|token| !matches!(token, Token::Whitespace(_) | Token::SemiColon));
        let end = end.map_or(0, |end| end + 1);
        let [Some(on), using, group, order, limit] = places else { return fault("PIVOT needs ON and a key") };
        let behind = |place: usize| places.iter().flatten().copied().filter(|next| *next > place).min().unwrap_or(end);
        let within = |place: usize| &tokens[place + 1..behind(place)];
        let keys = split(within(on)).into_iter().map(key_of).collect::<Result<Vec<_>>>()?;
        if keys.is_empty() {
            return fault("PIVOT needs ON and a key");
        }
        let aggregates = match using {
            Some(using) if within(using).iter().any(|token| is_word(token, "filter")) => {
                return fault(
                    "PIVOT … USING an aggregate with FILTER isn't supported: put the condition into the source",
                );
            }
            Some(using) => split(within(using)).into_iter().map(text).collect(),
            None => vec!["count(*)".to_owned()],
        };
        let groups = group.map(|group| {
            let keys = within(group).iter().skip_while(|token| matches!(token, Token::Whitespace(_))).skip(1);
            text(&keys.cloned().collect::<Vec<_>>())
        });
        let rest = order.into_iter().chain(limit).min().map_or_else(String::new, |rest| text(&tokens[rest..end]));
        let (explain, source) = (text(&tokens[..begin]), text(&tokens[begin + 1..on]));
        Ok(Some(PivotStatement { explain, source, keys, aggregates, groups, rest }))
    }

    /// For each key without listed values, the statement that reads its values.
    pub(crate) fn queries_of_values(&self) -> Vec<Option<String>> {
        let (source, most) = (&self.source, VALUES_MAX + 1);
        let query = |Key { text: key, values }: &Key| {
            values.is_none().then(|| {
                format!(
                    "SELECT DISTINCT {key} AS value FROM {source} WHERE ({key}) IS NOT NULL ORDER BY value LIMIT {most}"
                )
            })
        };
        self.keys.iter().map(query).collect()
    }

    /// The equivalent select, given the values of each key as SQL literals.
    ///
    /// # Errors
    /// [`Error::Statement`] for a key without values, and for too many combinations of them.
    pub(crate) fn select(&self, read: &[Vec<String>]) -> Result<String> {
        let none = Vec::new();
        let of_keys = self
            .keys
            .iter()
            .enumerate()
            .map(|(place, key)| (&key.text, key.values.as_ref().or_else(|| read.get(place)).unwrap_or(&none)));
        let of_keys: Vec<(&String, &Vec<String>)> = of_keys.collect();
        if of_keys.iter().any(|(_, values)| values.is_empty()) {
            return fault("PIVOT: the key has no value, so that there is no column to make");
        }
        let PivotStatement { explain, source, aggregates, groups, rest, .. } = self;
        if let (None, [(key, values)]) = (groups, of_keys.as_slice()) {
            let listed: Vec<String> =
                values.iter().map(|value| format!("{value} AS {}", quoted(&plain(value)))).collect();
            let (calls, listed) = (aggregates.join(", "), listed.join(", "));
            return Ok(format!("{explain} SELECT * FROM {source} PIVOT ({calls} FOR {key} IN ({listed})) {rest}"));
        }
        let mut columns = vec![match groups {
            Some(groups) => groups.clone(),
            None => self.remaining_columns()?,
        }];
        for (condition, value) in combinations(&of_keys)? {
            for aggregate in aggregates {
                let (call, name) = split_alias(aggregate);
                let name = match (name, aggregates.len()) {
                    (None, 1) => value.clone(),
                    (None, _) => format!("{value}_{call}"),
                    (Some(name), _) => format!("{value}_{name}"),
                };
                columns.push(format!("{call} FILTER (WHERE {condition}) AS {}", quoted(&name)));
            }
        }
        let by = groups.as_deref().unwrap_or("ALL");
        Ok(format!("{explain} SELECT {} FROM {source} GROUP BY {by} {rest}", columns.join(", ")))
    }

    /// All columns but those that keys and aggregates read.
    fn remaining_columns(&self) -> Result<String> {
        let mut read: Vec<String> = Vec::new();
        for text in self.keys.iter().map(|key| &key.text).chain(&self.aggregates) {
            let dialect = BoundedDialect::of_statement(text);
            let parsed = Parser::new(&dialect).try_with_sql(split_alias(text).0);
            let expression = parsed.and_then(|mut parser| parser.parse_expr());
            let Ok(expression) = expression else { return fault(format!("PIVOT: {text} isn't an expression")) };
            each_expression(&expression, |inner| {
                let name = match inner {
                    Expr::Identifier(name) => Some(name),
                    Expr::CompoundIdentifier(parts) => parts.last(),
                    _ => None,
                };
                if let Some(name) = name.map(|name| quoted(&name.value.to_lowercase()))
                    && !read.contains(&name)
                {
                    read.push(name);
                }
            });
        }
        Ok(if read.is_empty() { "*".to_owned() } else { format!("* EXCLUDE ({})", read.join(", ")) })
    }
}

/// The condition of each combination of values, and its name.
fn combinations(keys: &[(&String, &Vec<String>)]) -> Result<Vec<(String, String)>> {
    let number = keys.iter().try_fold(1usize, |number, (_, values)| number.checked_mul(values.len()));
    if number.is_none_or(|number| number > VALUES_MAX) {
        return fault(format!("PIVOT makes columns of at most {VALUES_MAX} combinations of values"));
    }
    let mut all = vec![(String::new(), String::new())];
    for (key, values) in keys {
        let with = |(condition, name): &(String, String), value: &String| {
            let (and, mark) = if condition.is_empty() { ("", "") } else { (" AND ", "_") };
            (format!("{condition}{and}({key}) = {value}"), format!("{name}{mark}{}", plain(value)))
        };
        all = all.iter().flat_map(|before| values.iter().map(move |value| with(before, value))).collect();
    }
    Ok(all)
}

/// The key, and the values that are listed behind it.
fn key_of(tokens: &[Token]) -> Result<Key> {
    let list = tokens.iter().rposition(|token| is_word(token, "in"));
    let Some(list) = list else { return Ok(Key { text: text(tokens), values: None }) };
    let inner = text(&tokens[list + 1..]);
    let (Some(inner), false) = (inner.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')), inner.is_empty())
    else {
        return fault("PIVOT … ON key IN takes a list of values in brackets");
    };
    let Ok(inner) = Tokenizer::new(&GenericDialect {}, inner).with_unescape(false).tokenize() else {
        return fault("PIVOT … ON key IN takes a list of values in brackets");
    };
    Ok(Key { text: text(&tokens[..list]), values: Some(split(&inner).into_iter().map(text).collect()) })
}

/// An aggregate and its alias, which follows the closing bracket, with or without `AS`.
fn split_alias(aggregate: &str) -> (&str, Option<&str>) {
    let Some(end) = aggregate.rfind(')') else { return (aggregate, None) };
    let (call, rest) = aggregate.split_at(end + 1);
    let rest = rest.trim();
    let alias = match rest.split_once(char::is_whitespace) {
        Some((word, alias)) if word.eq_ignore_ascii_case("as") => alias.trim(),
        _ => rest,
    };
    let is_name = !alias.is_empty() && !alias.trim_matches('"').contains(|c: char| !c.is_alphanumeric() && c != '_');
    if is_name || alias.starts_with('"') { (call, Some(alias.trim_matches('"'))) } else { (aggregate, None) }
}

/// A value as a name: a text without its quotes.
fn plain(value: &str) -> String {
    let text = value.strip_prefix("DATE ").or_else(|| value.strip_prefix("TIMESTAMP ")).unwrap_or(value);
    match text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        Some(text) => text.replace("''", "'"),
        None => text.to_owned(),
    }
}

/// The values of a column as SQL literals.
///
/// # Errors
/// [`Error::Statement`] for more values than a pivot makes columns of, and for types that have no literals.
pub(crate) fn values(batches: &[RecordBatch]) -> Result<Vec<String>> {
    let mut values = Vec::new();
    for column in batches.iter().flat_map(|batch| batch.columns().first()) {
        let of = match column.data_type() {
            DataType::Dictionary(_, of) => of.as_ref().clone(),
            of => of.clone(),
        };
        let texts = cast(column, &DataType::Utf8).map_err(|error| Error::Internal { message: error.to_string() })?;
        for value in texts.as_string::<i32>().iter().flatten() {
            values.push(match &of {
                of if of.is_string() => format!("'{}'", value.replace('\'', "''")),
                DataType::Date32 => format!("DATE '{value}'"),
                DataType::Timestamp(_, _) => format!("TIMESTAMP '{value}'"),
                of if of.is_integer() || *of == DataType::Boolean => value.to_owned(),
                of => return fault(format!("PIVOT … ON a {of}: list its values by IN")),
            });
        }
    }
    if values.len() > VALUES_MAX {
        return fault(format!("PIVOT makes columns of at most {VALUES_MAX} values"));
    }
    Ok(values)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_pivot_is_a_select_over_filters() {
        let pivot =
            PivotStatement::of("pivot t on side using sum(size) as s, count(*) group by sym, day order by sym;");
        let pivot = pivot.unwrap().unwrap();
        let query = pivot.queries_of_values().remove(0).unwrap();
        assert_eq!(query, "SELECT DISTINCT side AS value FROM t WHERE (side) IS NOT NULL ORDER BY value LIMIT 10001");
        assert_eq!(
            pivot.select(&[vec!["'B'".to_owned()]]).unwrap().trim(),
            "SELECT sym, day, sum(size) FILTER (WHERE (side) = 'B') AS \"B_s\", \
             count(*) FILTER (WHERE (side) = 'B') AS \"B_count(*)\" FROM t GROUP BY sym, day order by sym"
        );
        let listed =
            PivotStatement::of("explain PIVOT (select * from t) ON x in (1, 2) USING max(y)").unwrap().unwrap();
        assert_eq!(listed.queries_of_values(), [None]);
        assert_eq!(
            listed.select(&[]).unwrap().trim(),
            "explain SELECT * FROM (select * from t) PIVOT (max(y) FOR x IN (1 AS \"1\", 2 AS \"2\"))"
        );
        let several = PivotStatement::of("pivot t on a in (1), b % 2 using sum(x + y) as s").unwrap().unwrap();
        assert_eq!(
            several.select(&[Vec::new(), vec!["0".to_owned(), "1".to_owned()]]).unwrap().trim(),
            "SELECT * EXCLUDE (\"a\", \"b\", \"x\", \"y\"), sum(x + y) FILTER (WHERE (a) = 1 AND (b % 2) = 0) AS \"1_0_s\", \
             sum(x + y) FILTER (WHERE (a) = 1 AND (b % 2) = 1) AS \"1_1_s\" FROM t GROUP BY ALL"
        );
        assert!(PivotStatement::of("select pivot from t").unwrap().is_none());
    }
}
