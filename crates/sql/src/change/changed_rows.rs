//! Which rows `UPDATE` and `DELETE` change, as text: the table under its name or another, what it is joined with by `FROM` or `USING`, and the
//! condition.

use datafusion::sql::sqlparser::tokenizer::Token;
use splay_store::Table;

use crate::error::{Result, fault};
use crate::statements::quoted;
use crate::token_reader::TokenReader;

/// The rows of a table that a statement changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangedRows {
    pub(crate) table: String,
    /// Its other name in the statement, as it is written.
    pub(super) alias: Option<String>,
    /// What stands behind `FROM` or `USING`.
    pub(super) from: Option<String>,
    pub(super) condition: Option<String>,
}

impl ChangedRows {
    /// All rows of a table, under its name.
    pub(super) fn all(table: &str) -> ChangedRows {
        ChangedRows { table: table.to_owned(), alias: None, from: None, condition: None }
    }

    /// Reads the table after `UPDATE` or `DELETE FROM`, with its alias if it has one: all of its rows, so far without a
    /// condition.
    ///
    /// # Errors
    /// [`Error::Statement`](crate::Error::Statement) for a name that isn't there.
    pub(super) fn of_table(words: &mut TokenReader<'_>, clauses: &[&str]) -> Result<ChangedRows> {
        words.refuse(&["only"])?;
        let table = words.table()?;
        let is_named = words.take(&["as"]);
        let ends = clauses.iter().any(|word| words.peek_word(word));
        let alias = match words.peek() {
            Some(word @ Token::Word(_)) if is_named || !ends => Some(word.to_string()),
            _ if is_named => return fault("AS needs a name"),
            _ => None,
        };
        if alias.is_some() {
            words.step();
        }
        Ok(ChangedRows { table, alias, from: None, condition: None })
    }

    /// Reads the relations after `FROM` or `USING`, and the condition.
    ///
    /// # Errors
    /// [`Error::Statement`](crate::Error::Statement) for what is incomplete or not supported.
    pub(super) fn read(&mut self, words: &mut TokenReader<'_>, join: &str) -> Result<()> {
        if words.take(&[join]) {
            let from = words.up_to(&["where"]);
            if from.is_empty() {
                return fault(format!("{} needs a table", join.to_uppercase()));
            }
            self.from = Some(from);
        }
        words.refuse(&["using", "from"])?;
        self.condition = words.condition()?;
        let current = |condition: &str| {
            let mut words = condition.split_ascii_whitespace();
            words.next().is_some_and(|word| word.eq_ignore_ascii_case("current"))
                && words.next().is_some_and(|word| word.eq_ignore_ascii_case("of"))
        };
        match self.condition.as_deref().is_some_and(current) {
            true => fault("WHERE CURRENT OF is not supported: cursors only read"),
            false => Ok(()),
        }
    }

    /// The same with the table's name as it is stored.
    pub(super) fn of_stored(&self, table: &Table) -> ChangedRows {
        ChangedRows { table: table.name().to_owned(), ..self.clone() }
    }

    /// The table's name in the statement, as it is written there.
    pub(super) fn name(&self) -> String {
        self.alias.clone().unwrap_or_else(|| quoted(&self.table))
    }

    /// Values of all rows, with what they are joined with but without the condition, as a query.
    pub(super) fn select_all(&self, values: &str) -> String {
        let alias = self.alias.as_ref().map(|alias| format!(" AS {alias}")).unwrap_or_default();
        let from = self.from.as_ref().map(|from| format!(", {from}")).unwrap_or_default();
        format!("SELECT {values} FROM {}{alias}{from}", quoted(&self.table))
    }

    /// Values of the rows, as a query.
    pub(super) fn select(&self, values: &str) -> String {
        let all = self.select_all(values);
        self.condition.as_ref().map_or(all.clone(), |condition| format!("{all} WHERE {condition}"))
    }
}
