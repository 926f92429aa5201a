//! The parts of a changing statement, as text.
//!
//! Queries, conditions and values stay as written, for the planner of statements that read.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use splay_store::{ColumnType, View};

use super::changed_rows::ChangedRows;
use super::copy::{Copy, copy};
use super::drop::{self, DropStatement};
use super::materialized::{self, Creation};
use crate::access::AccessStatement;
use crate::error::{Result, fault};
use crate::statements::FIRST_WORDS;
use crate::syntax::{before, is_word, solid};
use crate::table_options::{self, Options};
use crate::token_reader::TokenReader;

/// A statement that changes something.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Statement {
    Insert {
        /// The table, under its name or another.
        into: ChangedRows,
        columns: Option<Vec<String>>,
        query: String,
        conflict: Option<Conflict>,
        /// The items of `RETURNING`.
        returning: Option<String>,
    },
    Delete {
        rows: ChangedRows,
        returning: Option<String>,
    },
    Truncate {
        tables: Vec<String>,
    },
    Update {
        rows: ChangedRows,
        set: Vec<(String, String)>,
        returning: Option<String>,
    },
    Create {
        table: String,
        if_absent: bool,
        columns: Vec<(String, ColumnType)>,
        /// Columns with `NOT NULL`.
        not_null: Vec<String>,
        key: Vec<String>,
        effective: Option<String>,
        query: Option<String>,
        options: Options,
    },
    Drop(DropStatement),
    CreateView {
        view: View,
        replaces: bool,
        if_absent: bool,
    },
    CreateMaterialized(Creation),
    RenameView {
        view: String,
        to: String,
        materialized: bool,
    },
    /// `ALTER MATERIALIZED VIEW … SET (…)` and `RESET (…)`.
    SetView {
        view: String,
        options: Options,
    },
    Refresh {
        view: String,
    },
    Alter {
        table: String,
        if_exists: bool,
        change: Alteration,
    },
    CopyFrom {
        table: String,
        columns: Option<Vec<String>>,
        path: String,
    },
    /// About users and roles, and what they may do.
    Access(AccessStatement),
}

/// What `ON CONFLICT` says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(super) target: Target,
    /// What `DO UPDATE` sets; none for `DO NOTHING`.
    pub(crate) set: Vec<(String, String)>,
    pub(super) condition: Option<String>,
}

/// The key that rows conflict by.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Any,
    Columns(Vec<String>),
    Constraint(String),
}

/// What `ALTER TABLE` changes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Alteration {
    Add {
        column: String,
        column_type: ColumnType,
        if_absent: bool,
    },
    Widen {
        column: String,
        column_type: ColumnType,
    },
    DropColumn {
        column: String,
        if_exists: bool,
    },
    RenameColumn {
        column: String,
        to: String,
    },
    Rename {
        to: String,
    },
    Partition {
        period: String,
    },
    /// `SET (…)` and `RESET (…)`.
    Options {
        options: Options,
    },
    /// `UNDO COMMIT n`.
    Undo {
        commit: u64,
    },
}

/// Whether a text begins as such a statement does.
pub(super) fn begins(text: &str) -> bool {
    // Without a look at the rest of most statements.
    let start = text.trim_start();
    let first = |word: &str| start.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
    if !FIRST_WORDS.iter().copied().chain(["--", "/*"]).any(first) {
        return false;
    }
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, text).with_unescape(false).tokenize() else { return false };
    let first = tokens.iter().find(|token| !matches!(token, Token::Whitespace(_)));
    first.is_some_and(|token| FIRST_WORDS.iter().any(|word| is_word(token, word)))
}

/// Whether a text is such a statement with `RETURNING`. One that can't be read says nothing of it.
pub(super) fn returns_rows(text: &str) -> bool {
    // Without a look at the tokens of most statements.
    let is_named = text.as_bytes().windows(9).any(|word| word.eq_ignore_ascii_case(b"returning"));
    let statement = if is_named { Statement::of(text).ok().flatten() } else { None };
    match statement {
        Some(
            Statement::Insert { returning, .. }
            | Statement::Update { returning, .. }
            | Statement::Delete { returning, .. },
        ) => returning.is_some(),
        _ => false,
    }
}

impl Statement {
    /// The statement; `None` if it only reads, or the tokens can't be told apart.
    ///
    /// # Errors
    /// [`Error::Statement`](crate::Error::Statement) for what is incomplete or not supported.
    pub(crate) fn of(text: &str) -> Result<Option<Statement>> {
        if !begins(text) {
            return Ok(None);
        }
        let Ok(mut tokens) = Tokenizer::new(&GenericDialect {}, text).with_unescape(false).tokenize() else {
            return Ok(None);
        };
        put_defaults(&mut tokens);
        let mut words = TokenReader::of(&tokens);
        if words.has_semicolon() {
            return fault("one statement at a time: there is a semicolon within");
        }
        if let Some(statement) = AccessStatement::of(&mut words)? {
            return Ok(Some(Statement::Access(statement)));
        }
        if let Some(statement) = drop::read(&mut words)? {
            words.end()?;
            return Ok(Some(Statement::Drop(statement)));
        }
        let statement = if words.take(&["insert", "into"]) {
            insert(&mut words)?
        } else if words.take(&["delete", "from"]) {
            let returning = returning(&mut words)?;
            let mut rows = ChangedRows::of_table(&mut words, &["using", "where"])?;
            rows.read(&mut words, "using")?;
            Statement::Delete { rows, returning }
        } else if words.take(&["truncate"]) {
            words.take(&["table"]);
            let tables = words.list(TokenReader::table)?;
            words.refuse(&["restart", "continue", "cascade"])?;
            words.take(&["restrict"]);
            Statement::Truncate { tables }
        } else if words.take(&["update"]) {
            update(&mut words)?
        } else if words.take(&["create", "table"]) {
            create(&mut words)?
        } else if words.take(&["create", "view"]) {
            create_view(&mut words, false)?
        } else if words.take(&["create", "or", "replace", "view"]) {
            create_view(&mut words, true)?
        } else if words.take(&["create", "materialized", "view"]) {
            materialized::creation(&mut words)?
        } else if words.take(&["refresh", "materialized", "view"]) {
            // No reader waits for a refresh in any case.
            words.take(&["concurrently"]);
            Statement::Refresh { view: words.table()? }
        } else if words.take(&["alter", "table"]) {
            let if_exists = words.take(&["if", "exists"]);
            let table = words.table()?;
            let change = alteration(&mut words)?;
            if words.peek() == Some(&Token::Comma) {
                return fault("ALTER TABLE changes one thing, by one commit: write a statement for each");
            }
            Statement::Alter { table, if_exists, change }
        } else if words.take(&["alter", "view"]) {
            alter_view(&mut words, false)?
        } else if words.take(&["alter", "materialized", "view"]) {
            alter_view(&mut words, true)?
        } else if words.take(&["copy"]) {
            match copy(&mut words)? {
                Copy::From { table, columns, path } => Statement::CopyFrom { table, columns, path },
                Copy::To(_) => {
                    return fault(
                        "COPY … TO writes a file where `splay sql` and `splay shell` run. Elsewhere write the answer to a file, in Python by \
                         to_parquet",
                    );
                }
            }
        } else {
            return fault(unsupported(&words));
        };
        words.end()?;
        Ok(Some(statement))
    }
}

/// Puts `NULL` in the place of `DEFAULT` in the rows of an `INSERT … VALUES`: columns have no other default.
fn put_defaults(tokens: &mut [Token]) {
    // Before a sub-query's: behind the table and its columns, within no other bracket than those of the rows themselves.
    let mut depth = 0;
    let values = tokens.iter().enumerate().position(|(at, token)| {
        depth += nesting(token);
        is_word(token, "values") && open_brackets_before(tokens, at) == depth
    });
    let Some(values) = values.filter(|_| is_word(&tokens[solid(tokens, 0)], "insert")) else { return };
    let mut at = solid(tokens, values + 1);
    let mut depth = 0;
    while let Some(token) = tokens.get(at) {
        depth += nesting(token);
        if depth == 1 && is_word(token, "default") {
            let begins = matches!(before(tokens, at), Some(Token::LParen | Token::Comma));
            if begins && matches!(tokens.get(solid(tokens, at + 1)), Some(Token::RParen | Token::Comma)) {
                tokens[at] = Token::make_keyword("NULL");
            }
        } else if depth == 0 && !matches!(token, Token::RParen | Token::Comma) {
            return;
        }
        at = solid(tokens, at + 1);
    }
}

/// How many brackets open directly before a token.
fn open_brackets_before(tokens: &[Token], at: usize) -> i32 {
    let before = tokens[..at].iter().rev().filter(|token| !matches!(token, Token::Whitespace(_)));
    before.take_while(|token| **token == Token::LParen).map(nesting).sum()
}

/// How much deeper in brackets what follows a token is.
fn nesting(token: &Token) -> i32 {
    match token {
        Token::LParen | Token::LBracket | Token::LBrace => 1,
        Token::RParen | Token::RBracket | Token::RBrace => -1,
        _ => 0,
    }
}

/// The message for a statement that begins as a change and isn't one: its words, and what the first word may be followed by.
fn unsupported(words: &TokenReader<'_>) -> String {
    let first = words.first_words(1).to_uppercase();
    let others = match first.as_str() {
        "CREATE" => "TABLE, VIEW, OR REPLACE VIEW, MATERIALIZED VIEW, USER, ROLE, TOKEN and POLICY",
        "DROP" => "TABLE, VIEW, MATERIALIZED VIEW, USER, ROLE, TOKEN and POLICY",
        "ALTER" => "TABLE, VIEW, MATERIALIZED VIEW, USER, ROLE and TOKEN",
        "INSERT" => "INTO",
        "DELETE" => "FROM",
        _ => "MATERIALIZED VIEW",
    };
    // `CREATE OR REPLACE TABLE` needs more words than `CREATE INDEX`.
    let count = if words.first_words(2).eq_ignore_ascii_case("create or") { 4 } else { 2 };
    format!("{} is not supported; behind {first} there may be {others}", words.first_words(count).to_uppercase())
}

/// The items of `RETURNING`, which is taken from the end.
fn returning(words: &mut TokenReader<'_>) -> Result<Option<String>> {
    match words.take_last_clause("returning") {
        Some(items) if items.is_empty() => fault("RETURNING needs *, columns or expressions"),
        items => Ok(items),
    }
}

fn insert(words: &mut TokenReader<'_>) -> Result<Statement> {
    let returning = returning(words)?;
    let mut into = ChangedRows::all(&words.table()?);
    if words.take(&["as"]) {
        into.alias = words.peek().map(ToString::to_string);
        words.name("a name behind AS")?;
    }
    let columns = if words.peek_bracket() && !words.begins_query() { Some(words.names()?) } else { None };
    words.refuse(&["default", "overriding"])?;
    if words.find(&["on", "duplicate"]).is_some() {
        return fault("INSERT with ON DUPLICATE is not supported");
    }
    let (query, has_conflict) = words.take_up_to(&["on", "conflict"]);
    if query.is_empty() || begins(&query) {
        return fault("INSERT needs VALUES or a query");
    }
    let conflict = has_conflict.then(|| conflict(words)).transpose()?;
    Ok(Statement::Insert { into, columns, query, conflict, returning })
}

/// Reads the clause from the word after `ON CONFLICT`.
fn conflict(words: &mut TokenReader<'_>) -> Result<Conflict> {
    let target = if words.take(&["on", "constraint"]) {
        Target::Constraint(words.name("a constraint")?)
    } else if words.peek_bracket() {
        Target::Columns(words.names()?)
    } else {
        Target::Any
    };
    words.refuse(&["where"])?;
    if words.take(&["do", "nothing"]) {
        return Ok(Conflict { target, set: Vec::new(), condition: None });
    }
    if !words.take(&["do", "update", "set"]) {
        return fault("ON CONFLICT needs DO NOTHING or DO UPDATE SET");
    }
    if target == Target::Any {
        return fault("ON CONFLICT DO UPDATE requires inference specification or constraint name");
    }
    Ok(Conflict { target, set: assignments(words)?, condition: words.condition()? })
}

fn update(words: &mut TokenReader<'_>) -> Result<Statement> {
    let returning = returning(words)?;
    let mut rows = ChangedRows::of_table(words, &["set"])?;
    if !words.take(&["set"]) {
        return fault("UPDATE needs SET behind the table's name");
    }
    let set = assignments(words)?;
    rows.read(words, "from")?;
    Ok(Statement::Update { rows, set, returning })
}

/// Columns with their values, behind `SET`.
fn assignments(words: &mut TokenReader<'_>) -> Result<Vec<(String, String)>> {
    let mut set = Vec::new();
    loop {
        if words.peek_bracket() {
            set.extend(row_assignment(words)?);
        } else {
            let column = words.name("a column")?;
            words.expect(&Token::Eq, "= behind the column")?;
            set.push((column, words.value(&["where", "from"])));
        }
        if let Some((column, _)) = set.iter().find(|(_, value)| value.is_empty()) {
            return fault(format!("SET: {column} has no value"));
        }
        if words.peek() == Some(&Token::Comma) {
            words.step();
        } else {
            return Ok(set);
        }
    }
}

/// `(column, …) = [ROW] (value, …)`.
fn row_assignment(words: &mut TokenReader<'_>) -> Result<Vec<(String, String)>> {
    let columns = words.names()?;
    words.expect(&Token::Eq, "= behind the columns")?;
    words.take(&["row"]);
    let values = if words.peek_bracket() { words.values()? } else { Vec::new() };
    let first = values.first().and_then(|value| value.split_ascii_whitespace().next()).unwrap_or_default();
    if values.is_empty() || ["select", "with", "values"].iter().any(|word| first.eq_ignore_ascii_case(word)) {
        return fault("SET (column, …) = takes as many values in brackets; write a query for each column");
    }
    if values.len() != columns.len() {
        return fault(format!("SET: {} columns and {} values", columns.len(), values.len()));
    }
    Ok(columns.into_iter().zip(values).collect())
}

fn create(words: &mut TokenReader<'_>) -> Result<Statement> {
    let if_absent = words.take(&["if", "not", "exists"]);
    let table = words.table()?;
    let TableElements { columns, mut key, not_null } = table_elements(words)?;
    let mut effective = None;
    if words.take(&["effective"]) {
        if !words.take(&["from"]) {
            return fault("EFFECTIVE needs FROM and a column");
        }
        effective = Some(words.name("a column")?);
    }
    let mut options = table_options::of_creation(words)?;
    // The only form where a query gives the columns.
    let mut of_option = |name: &str| {
        let place = options.iter().position(|(option, _)| option == name);
        place.map(|place| options.remove(place).1)
    };
    for (given, is_given, clause) in [
        (of_option("key"), !key.is_empty(), "PRIMARY KEY"),
        (of_option("effective"), effective.is_some(), "EFFECTIVE FROM"),
    ] {
        match given {
            Some(_) if is_given => return fault(format!("{clause} and an option say the same: leave one out")),
            Some(names) if clause == "PRIMARY KEY" => {
                key = names.split(',').map(|name| name.trim().to_owned()).collect();
            }
            Some(name) => effective = Some(name),
            None => {}
        }
    }
    if words.take(&["timestamp"]) {
        return fault(
            "TIMESTAMP (…) isn't supported: write WITH (time = 'ts'), or leave it out if ts is the first timestamp",
        );
    }
    let query = words.take(&["as"]).then(|| words.take_rest());
    match (columns.is_empty(), &query) {
        (true, None) => fault("CREATE TABLE needs columns, or AS and a query"),
        (false, Some(_)) => fault("CREATE TABLE AS takes its columns from the query: leave the list out"),
        _ => Ok(Statement::Create { table, if_absent, columns, not_null, key, effective, query, options }),
    }
}

fn create_view(words: &mut TokenReader<'_>, replaces: bool) -> Result<Statement> {
    let if_absent = words.take(&["if", "not", "exists"]);
    if if_absent && replaces {
        return fault("CREATE OR REPLACE VIEW has no IF NOT EXISTS");
    }
    let name = words.table()?;
    let columns = if words.peek_bracket() { words.names()? } else { Vec::new() };
    words.refuse(&["with", "using"])?;
    if !words.take(&["as"]) {
        return fault("CREATE VIEW needs AS and a query");
    }
    let query = words.take_rest();
    if query.is_empty() || begins(&query) {
        return fault("CREATE VIEW needs a query behind AS");
    }
    Ok(Statement::CreateView { view: View::new(name, columns, query), replaces, if_absent })
}

/// What `ALTER VIEW` says.
fn alter_view(words: &mut TokenReader<'_>, materialized: bool) -> Result<Statement> {
    let view = words.table()?;
    if materialized && let Some(options) = table_options::of_change(words)? {
        return Ok(Statement::SetView { view, options });
    }
    if !words.take(&["rename", "to"]) {
        return fault(match materialized {
            false => "ALTER VIEW has RENAME TO; CREATE OR REPLACE VIEW gives a view another query",
            true => "ALTER MATERIALIZED VIEW has SET (…) and RESET (…)",
        });
    }
    Ok(Statement::RenameView { view, to: words.new_table()?, materialized })
}

/// What stands in the brackets of `CREATE TABLE`.
#[derive(Default)]
struct TableElements {
    columns: Vec<(String, ColumnType)>,
    /// Columns with `NOT NULL`.
    not_null: Vec<String>,
    key: Vec<String>,
}

fn table_elements(words: &mut TokenReader<'_>) -> Result<TableElements> {
    let mut elements = TableElements::default();
    if !words.peek_bracket() {
        return Ok(elements);
    }
    words.step();
    loop {
        if words.take(&["like"]) {
            return fault(
                "LIKE is not supported here: CREATE TABLE … AS SELECT * FROM … WHERE false has the columns of another table",
            );
        }
        words.refuse(&["unique", "constraint", "check", "foreign"])?;
        let mut of_key = Vec::new();
        if words.take(&["primary", "key"]) {
            of_key = words.names()?;
        } else {
            let column = words.name("a column")?;
            let column_type = words.column_type()?;
            let mut is_not_null = words.take(&["not", "null"]);
            if words.take(&["primary", "key"]) {
                of_key = vec![column.clone()];
            }
            is_not_null |= words.take(&["not", "null"]);
            elements.not_null.extend(is_not_null.then(|| column.clone()));
            elements.columns.push((column, column_type));
        }
        words.refuse(&["default", "unique", "references", "check", "generated", "null"])?;
        if !of_key.is_empty() && !elements.key.is_empty() {
            return fault("a table has one primary key: name all its columns in it");
        }
        elements.key.extend(of_key);
        match words.peek() {
            Some(Token::Comma) => words.step(),
            _ => break,
        }
    }
    words.expect(&Token::RParen, ") behind the columns")?;
    Ok(elements)
}

fn alteration(words: &mut TokenReader<'_>) -> Result<Alteration> {
    for switch in ["enable", "disable", "force"] {
        if words.take(&[switch, "row"]) {
            return fault(
                "row security has no switch: CREATE POLICY hides all rows of a table that its policies don't show",
            );
        }
    }
    if words.take(&["owner"]) {
        return fault("tables have no owner: superusers alter and drop them");
    }
    if words.take(&["add"]) {
        words.take(&["column"]);
        let if_absent = words.take(&["if", "not", "exists"]);
        let column = words.name("a column")?;
        return Ok(Alteration::Add { column, column_type: words.column_type()?, if_absent });
    }
    if let Some(options) = table_options::of_change(words)? {
        return Ok(Alteration::Options { options });
    }
    if words.take(&["undo"]) {
        words.take(&["commit"]);
        let number = words.peek().and_then(|number| number.to_string().parse().ok());
        let Some(commit) = number else { return fault("UNDO COMMIT needs the number of a commit") };
        words.step();
        return Ok(Alteration::Undo { commit });
    }
    if words.take(&["partition", "by"]) {
        return Ok(Alteration::Partition { period: words.name("a period")? });
    }
    if words.take(&["rename", "to"]) {
        return Ok(Alteration::Rename { to: words.new_table()? });
    }
    if words.take(&["rename"]) {
        words.take(&["column"]);
        let column = words.name("a column")?;
        if !words.take(&["to"]) {
            return fault("RENAME COLUMN needs TO and the new name");
        }
        return Ok(Alteration::RenameColumn { column, to: words.name("a column")? });
    }
    if words.take(&["drop"]) {
        words.take(&["column"]);
        let if_exists = words.take(&["if", "exists"]);
        return Ok(Alteration::DropColumn { column: words.name("a column")?, if_exists });
    }
    if words.take(&["alter"]) {
        words.take(&["column"]);
        let column = words.name("a column")?;
        words.take(&["set", "data"]);
        if !words.take(&["type"]) {
            return fault("ALTER COLUMN changes the TYPE of a column and nothing else");
        }
        return Ok(Alteration::Widen { column, column_type: words.column_type()? });
    }
    fault(
        "ALTER TABLE has ADD COLUMN, ALTER COLUMN … TYPE, RENAME COLUMN … TO, DROP COLUMN, PARTITION BY, RENAME TO, SET (…), \
         RESET (…) and UNDO COMMIT",
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::drop::Kind;
    use super::*;

    fn of(text: &str) -> Statement {
        Statement::of(text).unwrap().unwrap()
    }

    fn rows(table: &str, alias: Option<&str>, from: Option<&str>, condition: Option<String>) -> ChangedRows {
        let (alias, from) = (alias.map(str::to_owned), from.map(str::to_owned));
        ChangedRows { table: table.to_owned(), alias, from, condition }
    }

    #[test]
    fn joined_statements_are_taken_apart() {
        let condition = Some("t.a = u.a".to_owned());
        let set = vec![("x".to_owned(), "u.x is distinct from 1".to_owned()), ("y".to_owned(), "2".to_owned())];
        assert_eq!(
            of("update trade as t set x = u.x is distinct from 1, y = 2 from u join v on u.a = v.a, w where t.a = u.a"),
            Statement::Update {
                rows: rows("trade", Some("t"), Some("u join v on u.a = v.a, w"), condition.clone()),
                set,
                returning: None,
            }
        );
        assert_eq!(
            of("delete from trade \"T\" using u where t.a = u.a"),
            Statement::Delete { rows: rows("trade", Some("\"T\""), Some("u"), condition), returning: None }
        );
        let Statement::Update { set, .. } = of("update t set (a, b) = (f(1, 2), 'x'), c = 3 where a > 1") else {
            panic!()
        };
        let pairs: Vec<(&str, &str)> = set.iter().map(|(column, value)| (column.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("a", "f(1, 2)"), ("b", "'x'"), ("c", "3")]);
    }

    #[test]
    fn statements_are_taken_apart() {
        let condition = Some("sym = 'a;b' AND size IN (1, 2)".to_owned());
        assert_eq!(
            of("-- why\nDELETE FROM Trade WHERE sym = 'a;b' AND size IN (1, 2);"),
            Statement::Delete { rows: rows("Trade", None, None, condition.clone()), returning: None }
        );
        assert_eq!(
            of("update \"my table\" set price = round(price, 2), note='x' where sym = 'a;b' AND size IN (1, 2)"),
            Statement::Update {
                rows: rows("my table", None, None, condition),
                set: vec![("price".to_owned(), "round(price, 2)".to_owned()), ("note".to_owned(), "'x'".to_owned())],
                returning: None,
            }
        );
        assert_eq!(
            of("insert into t (a, b) values (1, 'on conflict')"),
            Statement::Insert {
                into: ChangedRows::all("t"),
                columns: Some(vec!["a".to_owned(), "b".to_owned()]),
                query: "values (1, 'on conflict')".to_owned(),
                conflict: None,
                returning: None,
            }
        );
        assert!(matches!(of("insert into t (select 1)"), Statement::Insert { columns: None, .. }));
        assert_eq!(
            of(
                "create table if not exists t (time timestamp not null, sym symbol, p double precision, q numeric(9,2)) \
                with (symbol = 'sym', time_zone = 'Asia/Tokyo')"
            ),
            Statement::Create {
                table: "t".to_owned(),
                if_absent: true,
                columns: vec![
                    ("time".to_owned(), ColumnType::Timestamp),
                    ("sym".to_owned(), ColumnType::Symbol),
                    ("p".to_owned(), ColumnType::Float64),
                    ("q".to_owned(), ColumnType::Decimal { precision: 9, scale: 2 }),
                ],
                not_null: vec!["time".to_owned()],
                key: Vec::new(),
                effective: None,
                query: None,
                options: vec![
                    ("symbol".to_owned(), "sym".to_owned()),
                    ("time_zone".to_owned(), "Asia/Tokyo".to_owned())
                ],
            }
        );
        assert!(matches!(of("create table t as select 1"), Statement::Create { query: Some(_), .. }));
        assert!(matches!(
            of("alter table t rename column a to b"),
            Statement::Alter { change: Alteration::RenameColumn { .. }, .. }
        ));
        let (table, to) = ("t".to_owned(), "my table".to_owned());
        assert_eq!(
            of("alter table t undo commit 7"),
            Statement::Alter { table: table.clone(), if_exists: false, change: Alteration::Undo { commit: 7 } }
        );
        for text in ["alter table t undo commit", "alter table t undo commit -1", "alter table t undo commit 7 8"] {
            assert!(Statement::of(text).is_err(), "{text}");
        }
        assert_eq!(
            of("alter table t rename to \"my table\";"),
            Statement::Alter { table: table.clone(), if_exists: false, change: Alteration::Rename { to: to.clone() } }
        );
        assert_eq!(
            of("alter view t rename to \"my table\""),
            Statement::RenameView { view: table, to, materialized: false }
        );
        let dropped = |kind, if_exists, cascades| {
            Statement::Drop(DropStatement { kind, names: vec!["t".to_owned()], if_exists, cascades })
        };
        assert_eq!(of("drop table if exists t cascade"), dropped(Kind::Table, true, true));
        let names = vec!["t".to_owned(), "my view".to_owned(), "v".to_owned()];
        assert_eq!(
            of("drop view t, \"my view\" , public.v cascade"),
            Statement::Drop(DropStatement { kind: Kind::View, names, if_exists: false, cascades: true })
        );
        assert!(Statement::of("drop table a,").is_err() && Statement::of("drop table a b").is_err());
        assert_eq!(of("drop view t restrict;"), dropped(Kind::View, false, false));
        assert_eq!(of("drop materialized view t cascade"), dropped(Kind::Materialized, false, true));
        let options = vec![("retain_days".to_owned(), String::new()), ("tier".to_owned(), String::new())];
        assert_eq!(
            of("alter table t reset (Retain_Days, tier)"),
            Statement::Alter {
                table: "t".to_owned(),
                if_exists: false,
                change: Alteration::Options { options: options.clone() }
            }
        );
        assert_eq!(
            of("alter materialized view t reset (retain_days, tier)"),
            Statement::SetView { view: "t".to_owned(), options }
        );
        assert_eq!(Statement::of("select 1").unwrap(), None);
        assert!(!begins("\"delete\"") && begins("/* c */ DELETE"));
    }

    #[test]
    fn returned_items_are_taken_from_the_end() {
        let Statement::Insert { query, conflict: Some(conflict), returning, .. } = of(
            "insert into t (a) select b from u where c = 'returning' on conflict (a) do update set a = 1 where t.a < 2 returning *, a + 1 as n",
        ) else {
            panic!("an insertion")
        };
        assert_eq!(
            (query.as_str(), conflict.condition.as_deref()),
            ("select b from u where c = 'returning'", Some("t.a < 2"))
        );
        assert_eq!(returning.as_deref(), Some("*, a + 1 as n"));
        let Statement::Update { rows, set, returning } =
            of("update t as x set a = b + 1 from u where x.a = u.a returning x.a, (select 1) as \"returning\"")
        else {
            panic!("an update")
        };
        assert_eq!((rows.alias.as_deref(), rows.from.as_deref()), (Some("x"), Some("u")));
        assert_eq!((rows.condition.as_deref(), set[0].1.as_str()), (Some("x.a = u.a"), "b + 1"));
        assert_eq!(returning.as_deref(), Some("x.a, (select 1) as \"returning\""));
        let Statement::Delete { rows, returning } = of("delete from t returning a;") else { panic!("a deletion") };
        assert_eq!((rows.alias, rows.condition, returning.as_deref()), (None, None, Some("a")));
    }

    #[test]
    fn keys_and_conflicts_are_taken_apart() {
        let created = "create table split (sym symbol, day date not null, ratio double, primary key (sym, day)) effective from day";
        let in_words = of(created);
        assert!(matches!(&in_words, Statement::Create { key, effective, .. }
            if key == &["sym", "day"] && effective.as_deref() == Some("day")));
        assert!(
            matches!(of("create table t (a int primary key, b text)"), Statement::Create { key, .. } if key == ["a"])
        );
        assert!(matches!(of("create table t with (key = 'a, b', effective = 'b') as select 1"),
            Statement::Create { key, effective, .. } if key == ["a", "b"] && effective.as_deref() == Some("b")));
        let Statement::Insert { query, conflict, .. } =
            of("insert into t values (1, 2) on conflict (a) do update set b = t.b + excluded.b, c = 1 where t.b < 9")
        else {
            panic!("an insertion")
        };
        assert_eq!(query, "values (1, 2)");
        let set = [("b", "t.b + excluded.b"), ("c", "1")].map(|(column, value)| (column.to_owned(), value.to_owned()));
        assert_eq!(
            conflict,
            Some(Conflict {
                target: Target::Columns(vec!["a".to_owned()]),
                set: set.to_vec(),
                condition: Some("t.b < 9".to_owned()),
            })
        );
        let nothing = of("insert into t select * from u on conflict do nothing");
        assert!(matches!(nothing, Statement::Insert { conflict: Some(Conflict { target: Target::Any, set, .. }), .. }
            if set.is_empty()));
        let named = of("insert into t select 1 on conflict on constraint t_pkey do nothing");
        assert!(
            matches!(named, Statement::Insert { conflict: Some(Conflict { target: Target::Constraint(name), .. }), .. }
            if name == "t_pkey")
        );
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let refused = |text: &str| Statement::of(text).unwrap_err().to_string();
        for (text, part) in [
            ("insert into t values (1) on conflict do update set a = 1", "requires inference specification"),
            ("insert into t values (1) on conflict (a) do delete", "DO NOTHING or DO UPDATE SET"),
            ("insert into t values (1) on conflict (a) where a > 1 do nothing", "WHERE"),
            ("create table t (a int primary key, b int primary key)", "one primary key"),
            ("create table t (a int primary key) with (key = 'a')", "say the same"),
            ("create table t (a int, constraint k primary key (a))", "CONSTRAINT"),
            ("create table t (a date) effective a", "FROM"),
            ("insert into t values (1) returning", "RETURNING needs"),
            ("truncate t returning a", "returning is not expected"),
            ("delete from t using", "needs a table"),
            ("update t set a = 1 from where a = b", "needs a table"),
            ("update t set a = 1 where a = 2 returning", "RETURNING needs"),
            ("delete from t using u returning;", "RETURNING needs"),
            ("update t set (a, b) = (1)", "2 columns and 1 values"),
            ("update t set (a, b) = (select 1, 2)", "a query for each column"),
            ("delete from only t", "ONLY"),
            ("delete from t where current of c", "CURRENT OF"),
            ("create table t (a int) as select 1", "leave the list out"),
            ("create or replace materialized view v as select 1", "CREATE OR REPLACE MATERIALIZED is not supported"),
            ("create materialized view v", "needs AS"),
            ("create materialized view v as delete from t", "needs a query"),
            ("create view v", "needs AS"),
            ("create view v as delete from t", "needs a query"),
            ("create view v as", "needs a query"),
            ("create or replace view if not exists v as select 1", "no IF NOT EXISTS"),
            ("drop view v restrict cascade", "cascade is not expected"),
            ("drop materialized view v cascade restrict", "restrict is not expected"),
            ("alter view v rename", "RENAME TO"),
            ("alter view v rename to w cascade", "cascade is not expected"),
            ("alter table t rename to", "expected a table"),
            ("alter table t rename to a.b", "without a schema"),
            ("alter table t set (tier = small, tier = fast)", "the option tier is given twice"),
            ("alter table t set retain_days = 1", "expected ( behind SET"),
            ("create table t (a int) with (symbol = '', symbol = '')", "the option symbol is given twice"),
            ("create table t (a int) partition by day with (partition = month)", "the option partition is given twice"),
            (
                "create materialized view v with (tier = small, tier = fast) as select 1",
                "the option tier is given twice",
            ),
            ("delete from t where", "needs a condition"),
            ("delete from t; delete from u", "semicolon"),
            ("drop table t restrict cascade", "cascade is not expected"),
            ("delete from a.t", "in the schema public"),
            ("create table t (a nonsense)", "not a column type"),
            ("update t set a", "expected ="),
            ("insert into t", "VALUES"),
        ] {
            assert!(refused(text).contains(part), "{text}: {}", refused(text));
        }
    }
}
