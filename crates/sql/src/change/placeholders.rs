//! Types of placeholders in changing statements: those of the columns that their values are stored in or compared
//! with.

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use splay_engine::Stop;
use splay_store::TableSpec;

use super::statement::Statement;
use super::{returning, rights, table_to_change};
use crate::error::Result;
use crate::session::Session;
use crate::syntax::is_word;

/// Placeholders with their types.
type PlaceholderTypes = Vec<(String, DataType)>;

/// What a statement that changes something takes and gives.
#[derive(Debug, Clone, Default)]
pub struct ChangeDescription {
    /// The columns of `RETURNING`; `None` without it.
    pub schema: Option<SchemaRef>,
    /// Placeholders whose types are known.
    pub parameters: Vec<(String, DataType)>,
}

impl Session {
    /// The columns that a statement that changes something answers with by `RETURNING`, and types of its placeholders: of values of
    /// `INSERT … VALUES` and `UPDATE … SET` that are a placeholder alone, and of those in conditions and in `RETURNING`. The others have none.
    ///
    /// # Errors
    /// Those of [`Session::change`] for a statement that can't be read or whose table isn't there.
    pub fn describe_change(&self, text: &str, stop: Stop<'_>) -> Result<ChangeDescription> {
        crate::limits::check_text(text)?;
        let text = &*crate::placeholders::number_placeholders(text)?;
        let statement = Statement::of(text)?;
        statement.as_ref().map_or(Ok(()), |statement| rights::check(self, statement))?;
        let (rows, mut typed, items) = match statement {
            Some(Statement::Insert { into, columns, query, returning, .. }) => {
                let table = table_to_change(self.database(), &into.table)?;
                let spec = table.snapshot()?.spec().clone();
                (into.of_stored(&table), of_values(&spec, columns.as_deref(), &query), returning)
            }
            Some(Statement::Update { rows, set, returning }) => {
                let spec = table_to_change(self.database(), &rows.table)?.snapshot()?.spec().clone();
                let of_one = |(column, value): &(String, String)| Some((lone(value)?, column_type(&spec, column)?));
                (rows, set.iter().filter_map(of_one).collect(), returning)
            }
            Some(Statement::Delete { rows, returning }) => (rows, PlaceholderTypes::new(), returning),
            _ => return Ok(ChangeDescription::default()),
        };
        let mut learn = |described: Vec<(String, Option<DataType>)>| {
            let is_new = |name: &String, typed: &PlaceholderTypes| !typed.iter().any(|(other, _)| other == name);
            for (name, data_type) in described {
                if let Some(data_type) = data_type.filter(|_| is_new(&name, &typed)) {
                    typed.push((name, data_type));
                }
            }
        };
        if rows.condition.iter().chain(&rows.from).any(|text| text.contains('$')) {
            learn(self.describe_until(&rows.select("1"), stop)?.parameters);
        }
        let mut schema = None;
        if let Some(items) = items {
            let described = self.describe_until(&returning::select(&rows, &items), stop)?;
            learn(described.parameters);
            schema = Some(described.schema);
        }
        Ok(ChangeDescription { schema, parameters: typed })
    }
}

fn column_type(spec: &TableSpec, column: &str) -> Option<DataType> {
    let found = spec.columns.iter().find(|candidate| candidate.name.eq_ignore_ascii_case(column));
    found.map(|column| column.column_type.arrow())
}

/// A value that is a placeholder and nothing else.
fn lone(value: &str) -> Option<String> {
    let number = value.trim().strip_prefix('$')?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then(|| format!("${number}"))
}

/// Placeholders in the rows of `VALUES`.
fn of_values(spec: &TableSpec, columns: Option<&[String]>, query: &str) -> PlaceholderTypes {
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, query).with_unescape(false).tokenize() else {
        return PlaceholderTypes::new();
    };
    let tokens: Vec<&Token> = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    if !tokens.first().is_some_and(|token| is_word(token, "values")) {
        return PlaceholderTypes::new();
    }
    let column = |at: usize| match columns {
        Some(columns) => columns.get(at).and_then(|column| column_type(spec, column)),
        None => spec.columns.get(at).map(|column| column.column_type.arrow()),
    };
    let (mut typed, mut depth, mut at) = (PlaceholderTypes::new(), 0, 0);
    for (place, token) in tokens.iter().enumerate() {
        match token {
            Token::LParen => (depth, at) = (depth + 1, if depth == 0 { 0 } else { at }),
            Token::RParen => depth -= 1,
            Token::Comma if depth == 1 => at += 1,
            Token::Placeholder(name) if depth == 1 => {
                let ends = |token: Option<&&Token>| matches!(token, Some(Token::LParen | Token::RParen | Token::Comma));
                let is_alone = ends(tokens.get(place.wrapping_sub(1))) && ends(tokens.get(place + 1));
                typed.extend(column(at).filter(|_| is_alone).map(|data_type| (name.clone(), data_type)));
            }
            _ => {}
        }
    }
    typed
}

#[cfg(test)]
mod tests {
    use splay_store::{ColumnSpec, ColumnType};

    use super::*;

    #[test]
    fn values_have_the_types_of_their_columns() {
        let columns = [("time", ColumnType::Timestamp), ("sym", ColumnType::Symbol), ("price", ColumnType::Float64)];
        let columns = columns.map(|(name, data_type)| ColumnSpec::new(name, data_type)).to_vec();
        let spec = TableSpec::new("t", columns, "time", Some("sym"));
        let (float, instant) = (DataType::Float64, ColumnType::Timestamp.arrow());
        let typed = of_values(&spec, None, "values ($1, upper($2), $3), (now(), 'a', $4 + 1)");
        assert_eq!(typed, [("$1".to_owned(), instant), ("$3".to_owned(), float.clone())]);
        let names = ["Price".to_owned(), "other".to_owned()];
        assert_eq!(of_values(&spec, Some(&names), "VALUES ($1, $2)"), [("$1".to_owned(), float)]);
        assert_eq!(of_values(&spec, None, "select $1"), []);
        assert_eq!((lone(" $12 "), lone("$1 + 1"), lone("$x")), (Some("$12".to_owned()), None, None));
    }
}
