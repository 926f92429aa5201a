//! Names without regard to case.
//!
//! SQL folds unquoted names to lower case; tables here keep names as written. So inside a statement every table shows its
//! columns in lower case, quoted names are folded too, and the answer gets the names back: an alias as the statement wrote
//! it (`column_spelling.rs`), a column as its table has it.

mod column_spelling;
mod quoted;
mod table_columns;
mod titles;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use self::column_spelling::Spelling;
pub(crate) use self::column_spelling::{QueryColumns, last_part};
pub(crate) use self::quoted::text_in_double_quotes;
pub(crate) use self::table_columns::learn_columns;
pub(crate) use self::titles::{is_title, title, titled};
use crate::error::Result;
use crate::limits::TokenLimits;
use crate::{syntax, unsupported};

/// Calls with a type behind their `AS`.
const CASTS: [&str; 3] = ["cast", "try_cast", "safe_cast"];

/// Separates a name from the number that distinguishes it from equal names. The number isn't part of the answer.
pub(crate) const SAME_NAME: char = '\u{1}';

/// The prefix of names for relations that have none in the statement; a number follows. Answers don't show it.
pub(crate) const UNNAMED: &str = "__query_";

/// Spellings by folded name.
#[derive(Debug, Default, Clone)]
pub(crate) struct Spellings {
    /// Aliases with capitals behind `AS`.
    aliases: HashMap<String, String>,
    columns: HashMap<String, String>,
    tables: Vec<String>,
    written: QueryColumns,
}

impl Spellings {
    /// The statement with quoted names folded, and its aliases with capitals.
    ///
    /// # Errors
    /// [`Error::Statement`](crate::Error::Statement) for a statement whose tokens make it too large to be parsed.
    pub(crate) fn fold(text: &str) -> Result<(String, Spellings)> {
        let mut spellings = Spellings::default();
        let Ok(mut tokens) = Tokenizer::new(&GenericDialect {}, text).with_unescape(false).tokenize() else {
            // The parser reports the fault.
            return Ok((text.to_owned(), spellings));
        };
        let mut limits = TokenLimits::default();
        let mut after_as = false;
        let mut folded_any = false;
        // For each open bracket whether it is that of a cast, and whether the next one is.
        let (mut casts, mut is_cast) = (Vec::new(), false);
        for token in &mut tokens {
            limits.take(token)?;
            let after_cast = is_cast;
            if !matches!(token, Token::Whitespace(_)) {
                is_cast = matches!(token, Token::Word(word) if CASTS.contains(&word.value.to_lowercase().as_str()));
            }
            match token {
                Token::Whitespace(_) => {}
                Token::LParen => {
                    casts.push(after_cast);
                    after_as = false;
                }
                Token::RParen => {
                    casts.pop();
                    after_as = false;
                }
                Token::Word(word) if after_as => {
                    let folded = word.value.to_lowercase();
                    if folded != word.value {
                        spellings.aliases.insert(folded.clone(), word.value.clone());
                        if word.quote_style == Some('"') {
                            folded_any = true;
                            word.value = folded;
                        }
                    }
                    after_as = false;
                }
                Token::Word(word) => {
                    let is_as = word.quote_style.is_none() && word.value.eq_ignore_ascii_case("as");
                    after_as = is_as && casts.last() != Some(&true);
                    let folded = word.value.to_lowercase();
                    if word.quote_style == Some('"') && folded != word.value {
                        folded_any = true;
                        word.value = folded;
                    }
                }
                _ => after_as = false,
            }
        }
        unsupported::check_words(&tokens)?;
        folded_any |= syntax::rewrite(&mut tokens)?;
        let folded = if folded_any { tokens.iter().map(ToString::to_string).collect() } else { text.to_owned() };
        Ok((folded, spellings))
    }

    /// Records how the parsed statement spells its columns.
    pub(crate) fn add_statement(&mut self, written: QueryColumns) {
        self.written = written;
    }

    /// Records how a table spells its columns. The first table wins.
    pub(crate) fn add_table<'a>(&mut self, table: &str, columns: impl Iterator<Item = &'a str>) {
        self.tables.push(table.to_lowercase());
        for column in columns {
            self.columns.entry(column.to_lowercase()).or_insert_with(|| column.to_owned());
        }
    }

    /// The schema with names in their original spelling.
    pub(crate) fn restore(&self, schema: &Schema) -> SchemaRef {
        let spelled = schema.fields().iter().enumerate().map(|(place, field)| self.spell(place, field.name()));
        let spelled: Vec<String> = spelled.collect();
        let fields = schema.fields().iter().zip(&spelled).map(|(field, name)| {
            if field.name().contains(SAME_NAME) {
                return Arc::new(field.as_ref().clone().with_name(name));
            }
            // Columns that would have the same spelling keep their folded names.
            let others = schema.fields().iter().zip(&spelled).filter(|(field, _)| !field.name().contains(SAME_NAME));
            let is_unique = others.filter(|(_, other)| *other == name).count() == 1;
            if is_unique && name != field.name() {
                Arc::new(field.as_ref().clone().with_name(name))
            } else {
                Arc::<Field>::clone(field)
            }
        });
        Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
    }

    fn spell(&self, place: usize, name: &str) -> String {
        let name = name.split_once(SAME_NAME).map_or(name, |(name, _)| name);
        let written = match self.written.spelling(place, name) {
            Some(Spelling::Alias(written)) => return written.clone(),
            Some(Spelling::Quoted) => return self.aliases.get(name).map_or_else(|| name.to_owned(), Clone::clone),
            Some(Spelling::Title) => return self.spell_expression(name),
            Some(Spelling::Table) => self.columns.get(name).or_else(|| self.aliases.get(name)),
            None => self.aliases.get(name).or_else(|| self.columns.get(name)),
        };
        match written {
            Some(written) => written.clone(),
            None if name.contains('.') => self.spell_expression(name),
            None => name.to_owned(),
        }
    }

    /// `sum(trade.trade_volume)` and `sum(trade_volume)` as `sum(Trade_Volume)`.
    fn spell_expression(&self, name: &str) -> String {
        let mut spelled = String::with_capacity(name.len());
        let (mut rest, mut in_text) = (name, false);
        while !rest.is_empty() {
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
            let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            let column = self.tables.iter().find_map(|table| word.strip_prefix(table.as_str())?.strip_prefix('.'));
            let of_unnamed = word.strip_prefix(UNNAMED).and_then(|rest| rest.split_once('.')).map(|(_, column)| column);
            let word = of_unnamed.unwrap_or(word);
            let is_call = behind.starts_with('(');
            match self.columns.get(column.unwrap_or(word)).filter(|_| !is_call && !in_text) {
                Some(written) => spelled.push_str(written),
                None => spelled.push_str(word),
            }
            in_text ^= behind.starts_with('\'');
            let mut others = behind.chars();
            spelled.extend(others.next());
            rest = others.as_str();
        }
        spelled
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;

    fn names(statement: &str, columns: &[&str], answer: &[&str]) -> Vec<String> {
        let (folded, mut spellings) = Spellings::fold(statement).unwrap();
        let parsed = datafusion::sql::parser::DFParser::parse_sql(&folded).unwrap();
        spellings.add_statement(QueryColumns::of(&parsed[0]));
        spellings.add_table("t", columns.iter().copied());
        let fields: Vec<Field> = answer.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect();
        spellings.restore(&Schema::new(fields)).fields().iter().map(|field| field.name().clone()).collect()
    }

    #[test]
    fn quoted_names_are_folded_and_texts_are_not() {
        let (folded, _) = Spellings::fold("select \"Symbol\", 'It''s \"X\"' from \"Trade\"").unwrap();
        assert_eq!(folded, "select \"symbol\", 'It''s \"X\"' from \"trade\"");
    }

    #[test]
    fn answers_spell_columns_as_the_table_and_aliases_as_the_statement() {
        assert_eq!(names("select SYMBOL from t", &["Symbol"], &["symbol"]), ["Symbol"]);
        assert_eq!(names("select max(p) as Top from t", &["P"], &["top"]), ["Top"]);
        assert_eq!(names("select max(p) AS \"Top Price\" from t", &["P"], &["top price"]), ["Top Price"]);
        assert_eq!(names("select cast(p as Double) from t", &["P"], &["p"]), ["P"]);
        assert_eq!(names("select sum(p) from t", &["P"], &["sum(t.p)"]), ["sum(P)"]);
        assert_eq!(names("select 1.5", &["P"], &["float64(1.5)", "x.p"]), ["float64(1.5)", "x.p"]);
    }

    #[test]
    fn expressions_are_titled_by_their_text() {
        for (statement, title, answer) in [
            (
                "select SUM(p * 2) FILTER (WHERE P > 1) from t",
                "sum(p * 2) filter (where p > 1)",
                "sum(P * 2) filter (where P > 1)",
            ),
            ("select 'P is ' || P from t", "'P is ' || p", "'P is ' || P"),
            ("select p(P), t.p + 1 from t", "p(p)", "p(P)"),
            ("select ARRAY(SELECT p FROM t)", "array", "array"),
        ] {
            assert_eq!(names(statement, &["P"], &[title]), [answer], "{statement}");
        }
    }

    #[test]
    fn aliases_keep_their_case() {
        assert_eq!(names("select P as p from t", &["P"], &["p"]), ["p"]);
        assert_eq!(names("select P as \"p\" from t", &["P"], &["p"]), ["p"]);
        assert_eq!(names("select p AS P, q from t", &["p", "Q"], &["p", "q"]), ["P", "Q"]);
        assert_eq!(names("select * from (select P as p from t)", &["P"], &["p"]), ["p"]);
        assert_eq!(
            names("with w as (select P as p from t) select w.p, w.p as X from w", &["P"], &["p", "x"]),
            ["p", "X"]
        );
        assert_eq!(names("select a from (select P from t) as u(A)", &["P"], &["a"]), ["A"]);
        assert_eq!(names("select P, P as p from t", &["P"], &["p", "p\u{1}1"]), ["P", "p"]);
        // Names within queries that aren't those of columns of the answer.
        assert_eq!(names("select P from t where P > (select avg(P) as p from t)", &["P"], &["p"]), ["P"]);
        assert_eq!(names("select P from t where P > (select avg(P) as pRICE from t)", &["P"], &["p"]), ["P"]);
    }

    #[test]
    fn types_of_casts_are_no_names() {
        let answer = ["time", "x"];
        let columns = ["Time", "x"];
        for cast in ["cast(x as TIME)", "try_cast(x + (1) as TIME)", "CAST (x AS TIME)"] {
            assert_eq!(names(&format!("select *, {cast} from t"), &columns, &answer), columns, "{cast}");
        }
    }
}
