//! Reads the tokens of a statement one by one.

use datafusion::sql::sqlparser::tokenizer::Token;
use splay_store::ColumnType;

use crate::error::{Result, fault};
use crate::syntax::{is_word, solid};

/// The tokens of a statement, read from the first to the last.
pub(crate) struct TokenReader<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl<'a> TokenReader<'a> {
    /// The words of a statement, without a semicolon at its end.
    pub(crate) fn of(tokens: &'a [Token]) -> TokenReader<'a> {
        let end = tokens.iter().rposition(|token| !matches!(token, Token::Whitespace(_) | Token::SemiColon));
        TokenReader { tokens: &tokens[..end.map_or(0, |end| end + 1)], at: 0 }
    }
}

impl TokenReader<'_> {
    /// How many tokens were read.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The text from a token up to the current one.
    pub(crate) fn text_from(&self, begin: usize) -> String {
        text(&self.tokens[begin..self.at])
    }

    /// Reads the text between a bracket, which is next, and the one that closes it.
    pub(crate) fn within_brackets(&mut self) -> Result<String> {
        self.expect(&Token::LParen, "(")?;
        let (begin, mut depth) = (self.at, 1usize);
        while let Some(token) = self.tokens.get(self.at) {
            match token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let within = self.text_from(begin);
                self.step();
                return Ok(within);
            }
            self.at += 1;
        }
        fault("a bracket is not closed")
    }

    /// Reads the items between a bracket, which is next, and the one that closes it, separated by commas; none for `()`.
    pub(crate) fn items(&mut self) -> Result<Vec<String>> {
        self.items_by(|inner| inner.until(&[]))
    }

    fn items_by(&mut self, read: impl Fn(&mut TokenReader<'_>) -> String) -> Result<Vec<String>> {
        let (begin, mut items) = (self.at, Vec::new());
        self.within_brackets()?;
        let end = self.at - 1;
        let mut inner = TokenReader { tokens: &self.tokens[..end], at: begin };
        inner.step_over_bracket();
        while inner.peek().is_some() {
            items.push(read(&mut inner));
            inner.step();
        }
        Ok(items)
    }

    /// As [`TokenReader::items`], of values as [`TokenReader::value`] reads them.
    pub(crate) fn values(&mut self) -> Result<Vec<String>> {
        self.items_by(|inner| inner.value(&[]))
    }

    /// Reads a value up to a comma or one of some words; `NULL` for `DEFAULT`, which no column has another one of.
    pub(crate) fn value(&mut self, ends: &[&str]) -> String {
        let begin = self.at;
        if self.take(&["default"])
            && self.peek().is_none_or(|token| *token == Token::Comma || ends.iter().any(|word| is_word(token, word)))
        {
            return "NULL".to_owned();
        }
        self.at = begin;
        self.until(ends)
    }

    fn step_over_bracket(&mut self) {
        if self.peek_bracket() {
            self.step();
        }
    }

    /// Whether no token is left.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// The next token that isn't white space.
    pub(crate) fn peek(&mut self) -> Option<&Token> {
        self.at = solid(self.tokens, self.at);
        self.tokens.get(self.at)
    }

    pub(crate) fn step(&mut self) {
        self.at += 1;
    }

    /// Whether a bracket opens next.
    pub(crate) fn peek_bracket(&mut self) -> bool {
        self.peek() == Some(&Token::LParen)
    }

    /// Reads all the rest as text.
    pub(crate) fn take_rest(&mut self) -> String {
        let rest = self.rest();
        self.at = self.tokens.len();
        rest
    }

    /// Removes some words from the end, if they are there.
    pub(crate) fn without_end(&mut self, words: &[&str]) -> Option<()> {
        let mut end = self.tokens.len();
        for word in words.iter().rev() {
            let last = self.tokens[self.at..end].iter().rposition(|token| !matches!(token, Token::Whitespace(_)))?;
            end = self.at + last;
            is_word(&self.tokens[end], word).then_some(())?;
        }
        self.tokens = &self.tokens[..end];
        Some(())
    }

    /// Removes the clause that a word outside of brackets begins from the end, and returns the text behind the word.
    pub(crate) fn take_last_clause(&mut self, word: &str) -> Option<String> {
        let (begin, behind) = self.find(&[word])?;
        let clause = text(&self.tokens[behind..]);
        self.tokens = &self.tokens[..begin];
        Some(clause)
    }

    /// Reads some words, if they come next.
    pub(crate) fn take(&mut self, words: &[&str]) -> bool {
        let mut at = self.at;
        for word in words {
            at = solid(self.tokens, at);
            if !self.tokens.get(at).is_some_and(|token| is_word(token, word)) {
                return false;
            }
            at += 1;
        }
        self.at = at;
        true
    }

    pub(crate) fn refuse(&mut self, words: &[&str]) -> Result<()> {
        let unsupported = words.iter().find(|word| self.peek().is_some_and(|token| is_word(token, word)));
        match unsupported {
            Some(word) => fault(format!("{} is not supported here", word.to_uppercase())),
            None => Ok(()),
        }
    }

    pub(crate) fn expect(&mut self, token: &Token, what: &str) -> Result<()> {
        if self.peek() == Some(token) {
            self.step();
            return Ok(());
        }
        let found = self.peek().map_or_else(|| "the end".to_owned(), ToString::to_string);
        fault(format!("expected {what}, found {found}"))
    }

    pub(crate) fn name(&mut self, what: &str) -> Result<String> {
        let name = match self.peek() {
            Some(Token::Word(word)) => word.value.clone(),
            Some(Token::SingleQuotedString(text)) if what == "a value" => text.replace("''", "'"),
            Some(Token::Number(number, _)) if what == "a value" => number.clone(),
            found => {
                let found = found.map_or_else(|| "the end".to_owned(), ToString::to_string);
                return fault(format!("expected {what}, found {found}"));
            }
        };
        self.step();
        Ok(name.replace("\"\"", "\""))
    }

    /// Reads things that commas separate, at least one.
    pub(crate) fn list<T>(&mut self, read: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut all = vec![read(self)?];
        while self.peek() == Some(&Token::Comma) {
            self.step();
            all.push(read(self)?);
        }
        Ok(all)
    }

    /// Reads the name of a table, with an optional schema `public` and catalog before it.
    pub(crate) fn table(&mut self) -> Result<String> {
        let mut names = vec![self.name("a table")?];
        while self.peek() == Some(&Token::Period) {
            self.step();
            names.push(self.name("a table")?);
        }
        let is_ours = match names.as_slice() {
            [_] => true,
            [schema, _] => schema.eq_ignore_ascii_case("public"),
            [catalog, schema, _] => catalog.eq_ignore_ascii_case("splay") && schema.eq_ignore_ascii_case("public"),
            _ => false,
        };
        match names.pop() {
            Some(table) if is_ours => Ok(table),
            _ => fault(format!("tables are in the schema public of the catalog splay, not in {}", names.join("."))),
        }
    }

    /// Reads a new name of a table, in the same schema.
    pub(crate) fn new_table(&mut self) -> Result<String> {
        let table = self.name("a table")?;
        match self.peek() {
            Some(Token::Period) => fault(format!("{table}: RENAME TO takes a name without a schema")),
            _ => Ok(table),
        }
    }

    /// Reads names in brackets.
    pub(crate) fn names(&mut self) -> Result<Vec<String>> {
        self.expect(&Token::LParen, "(")?;
        let names = self.bare_names()?;
        self.expect(&Token::RParen, ") behind the columns")?;
        Ok(names)
    }

    /// Reads names separated by commas.
    pub(crate) fn bare_names(&mut self) -> Result<Vec<String>> {
        let mut names = vec![self.name("a column")?];
        while self.peek() == Some(&Token::Comma) {
            self.step();
            names.push(self.name("a column")?);
        }
        Ok(names)
    }

    /// Whether a bracket that opens next begins a query.
    pub(crate) fn begins_query(&self) -> bool {
        let next = solid(self.tokens, self.at + 1);
        let begins = |word: &&str| self.tokens.get(next).is_some_and(|token| is_word(token, word));
        ["select", "with", "values", "from"].iter().any(begins) || self.tokens.get(next) == Some(&Token::LParen)
    }

    /// Reads a type, by our names or by those of SQL.
    pub(crate) fn column_type(&mut self) -> Result<ColumnType> {
        let mut text = self.name("a type")?.to_lowercase();
        for more in ["precision", "varying"] {
            self.take(&[more]);
        }
        if self.peek() == Some(&Token::LParen) {
            let end = self.tokens[self.at..].iter().position(|token| *token == Token::RParen);
            let end = self.at + end.map_or(self.tokens.len() - self.at, |end| end + 1);
            text.extend(self.tokens[self.at..end].iter().map(ToString::to_string));
            self.at = end;
        }
        if text == "timestamp" && (self.take(&["with"]) || self.take(&["without"])) {
            self.take(&["time", "zone"]);
        }
        type_of(&text)
    }

    /// Reads up to one of some words, or a comma outside of brackets.
    pub(crate) fn until(&mut self, words: &[&str]) -> String {
        let (begin, mut depth) = (self.at, 0usize);
        while let Some(token) = self.tokens.get(self.at) {
            match token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
                Token::Comma if depth == 0 => break,
                token if depth == 0 && words.iter().any(|word| is_word(token, word)) && !self.is_of_distinct(begin) => {
                    break;
                }
                _ => {}
            }
            self.at += 1;
        }
        text(&self.tokens[begin..self.at])
    }

    /// Whether the next token is the `FROM` of `IS DISTINCT FROM`.
    fn is_of_distinct(&self, begin: usize) -> bool {
        let before = self.tokens[begin..self.at].iter().rfind(|token| !matches!(token, Token::Whitespace(_)));
        is_word(&self.tokens[self.at], "from") && before.is_some_and(|token| is_word(token, "distinct"))
    }

    /// Reads the text up to the first of some words outside of brackets, which stays next, or to the end.
    pub(crate) fn up_to(&mut self, words: &[&str]) -> String {
        let end = words.iter().filter_map(|word| Some(self.find(&[word])?.0)).min().unwrap_or(self.tokens.len());
        let begin = std::mem::replace(&mut self.at, end);
        text(&self.tokens[begin..end])
    }

    /// Whether a word is next.
    pub(crate) fn peek_word(&mut self, word: &str) -> bool {
        self.peek().is_some_and(|token| is_word(token, word))
    }

    /// Reads all text behind `WHERE`, if that is next.
    pub(crate) fn condition(&mut self) -> Result<Option<String>> {
        if !self.take(&["where"]) {
            return Ok(None);
        }
        let condition = self.take_rest();
        if condition.is_empty() { fault("WHERE needs a condition") } else { Ok(Some(condition)) }
    }

    fn rest(&self) -> String {
        text(&self.tokens[self.at..])
    }

    /// Whether there is a semicolon other than at the end.
    pub(crate) fn has_semicolon(&self) -> bool {
        self.tokens.contains(&Token::SemiColon)
    }

    /// The first words of the statement, wherever the reader is.
    pub(crate) fn first_words(&self, count: usize) -> String {
        let words = self.tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_)));
        words.take(count).map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    /// Reads up to and including some words outside of brackets, or to the end. Returns the text before them, and whether they were found.
    pub(crate) fn take_up_to(&mut self, words: &[&str]) -> (String, bool) {
        let (begin, place) = (self.at, self.find(words));
        let (end, behind) = place.unwrap_or((self.tokens.len(), self.tokens.len()));
        self.at = behind;
        (text(&self.tokens[begin..end]), place.is_some())
    }

    /// Finds words in the rest of the tokens, outside of brackets. Returns their place, and the place after them.
    pub(crate) fn find(&self, words: &[&str]) -> Option<(usize, usize)> {
        let (mut depth, mut inner) = (0usize, TokenReader { tokens: self.tokens, at: self.at });
        while let Some(token) = self.tokens.get(inner.at) {
            match token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ => {}
            }
            let begin = inner.at;
            if depth == 0 && inner.take(words) {
                return Some((begin, inner.at));
            }
            inner.at += 1;
        }
        None
    }

    pub(crate) fn end(&mut self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(token) => fault(format!("{token} is not expected here")),
        }
    }
}

fn text(tokens: &[Token]) -> String {
    tokens.iter().map(ToString::to_string).collect::<String>().trim().to_owned()
}

/// A column type by its name here or in SQL. Where the two differ ours counts: `int8` has eight bits, as in ClickHouse, not eight bytes.
fn type_of(text: &str) -> Result<ColumnType> {
    use ColumnType as C;
    let (name, arguments) = text.split_once('(').unwrap_or((text, ""));
    Ok(match name.trim() {
        "boolean" => C::Bool,
        "tinyint" => C::Int8,
        "smallint" | "int2" | "short" => C::Int16,
        "int" | "integer" | "int4" => C::Int32,
        "bigint" | "long" => C::Int64,
        "utinyint" => C::UInt8,
        "usmallint" => C::UInt16,
        "uinteger" => C::UInt32,
        "ubigint" => C::UInt64,
        "real" | "float4" => C::Float32,
        "double" | "float" | "float8" => C::Float64,
        "numeric" | "decimal" if arguments.is_empty() => C::Decimal { precision: 18, scale: 3 },
        "numeric" => return parse_type(&format!("decimal({arguments}")),
        "timestamptz" | "timestamp_ns" | "datetime" => C::Timestamp,
        "varchar" | "string" | "char" | "character" => C::Text,
        _ => return parse_type(text),
    })
}

fn parse_type(text: &str) -> Result<ColumnType> {
    match text.parse() {
        Ok(column_type) => Ok(column_type),
        Err(message) => fault(message),
    }
}
