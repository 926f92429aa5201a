//! `DECLARE`, `FETCH`, `MOVE` and `CLOSE`: portals under names that statements give them.

use super::commands::{Command, unquote, words};
use super::connection::{Connection, Transaction};
use super::extended::Portal;
use super::refusal::Refusal;
use super::statement::StatementResult;

/// A statement about a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CursorCommand {
    /// `DECLARE name CURSOR FOR query`.
    Declare { name: String, query: String },
    /// `FETCH` and `MOVE`: the next rows, all that are left if there is no number; `MOVE` shows none.
    Fetch { name: String, rows: Option<u64>, shows: bool },
    /// `CLOSE`, of all cursors if it names none.
    Close { name: Option<String> },
}

impl CursorCommand {
    /// Parses a statement that begins with `DECLARE`. Its query may be long.
    ///
    /// # Errors
    /// A refusal that names what isn't supported.
    pub(super) fn declare(text: &str) -> Result<CursorCommand, Refusal> {
        let (head, query) = split_query(text)?;
        let words = words(head);
        let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
        let [_, _, options @ ..] = lower.as_slice() else { return Err(no_declaration()) };
        check_options(options)?;
        Ok(CursorCommand::Declare { name: unquote(&words[1]), query: query.to_owned() })
    }

    /// Parses another statement of cursors from its words.
    ///
    /// # Errors
    /// A refusal that names what isn't supported.
    pub(super) fn of(words: &[String]) -> Result<CursorCommand, Refusal> {
        let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
        let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
        match lower.as_slice() {
            ["close", "all"] => Ok(CursorCommand::Close { name: None }),
            ["close", _] => Ok(CursorCommand::Close { name: Some(unquote(&words[1])) }),
            [verb @ ("fetch" | "move"), direction @ .., _] => Ok(CursorCommand::Fetch {
                name: unquote(&words[words.len() - 1]),
                rows: rows(verb, direction)?,
                shows: *verb == "fetch",
            }),
            _ => Err(Refusal::new("42601", "FETCH, MOVE and CLOSE need the name of a cursor")),
        }
    }

    /// The tag of its completion message, without the number of rows.
    pub(super) fn tag(&self) -> &'static str {
        match self {
            CursorCommand::Declare { .. } => "DECLARE CURSOR",
            CursorCommand::Fetch { shows: true, .. } => "FETCH",
            CursorCommand::Fetch { shows: false, .. } => "MOVE",
            CursorCommand::Close { name: Some(_) } => "CLOSE CURSOR",
            CursorCommand::Close { name: None } => "CLOSE CURSOR ALL",
        }
    }
}

/// Checks the options between the name of a cursor and its query.
fn check_options(options: &[String]) -> Result<(), Refusal> {
    let mut before = options.iter().map(String::as_str).peekable();
    while let Some(word) = before.next() {
        match word {
            "cursor" | "insensitive" | "asensitive" | "without" => {}
            "hold" => {}
            "no" if before.peek() == Some(&"scroll") => drop(before.next()),
            "with" => return Err(Refusal::unsupported("DECLARE CURSOR WITH HOLD")),
            other => return Err(Refusal::unsupported(format!("DECLARE {} CURSOR", other.to_uppercase()))),
        }
    }
    if options.iter().any(|word| word == "cursor") { Ok(()) } else { Err(no_declaration()) }
}

fn no_declaration() -> Refusal {
    Refusal::new("42601", "a cursor is declared by DECLARE name CURSOR FOR query")
}

/// The text before the first `FOR` outside of quotes, and the query after it.
fn split_query(text: &str) -> Result<(&str, &str), Refusal> {
    let (mut is_quoted, bytes) = (false, text.as_bytes());
    let is_edge = |at: usize| bytes.get(at).is_none_or(u8::is_ascii_whitespace);
    for (at, byte) in bytes.iter().enumerate() {
        is_quoted ^= *byte == b'"';
        let is_for = !is_quoted && bytes.get(at..at + 3).is_some_and(|word| word.eq_ignore_ascii_case(b"for"));
        if is_for && at > 0 && is_edge(at - 1) && is_edge(at + 3) {
            return Ok((&text[..at], text[at + 3..].trim()));
        }
    }
    Err(no_declaration())
}

/// How many rows a direction asks for.
fn rows(verb: &str, direction: &[&str]) -> Result<Option<u64>, Refusal> {
    let direction = match direction {
        [direction @ .., "from" | "in"] => direction,
        direction => direction,
    };
    match direction {
        [] | ["next" | "forward"] => Ok(Some(1)),
        ["all"] | ["forward", "all"] => Ok(None),
        [number] | ["forward", number] if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            let number = number.parse().map_err(|_| Refusal::new("22003", format!("{number} rows are too many")))?;
            match number {
                // The row where the cursor stands, again.
                0 => Err(Refusal::unsupported(format!("{} 0", verb.to_uppercase()))),
                number => Ok(Some(number)),
            }
        }
        other => Err(Refusal::unsupported(format!(
            "{} {}; a cursor only goes forward: that",
            verb.to_uppercase(),
            other.join(" ").to_uppercase()
        ))),
    }
}

impl Connection {
    /// Carries out a statement about a cursor. `formats` are those of the rows, and `with_columns` tells their columns first.
    pub(super) async fn cursor(
        &mut self,
        command: &CursorCommand,
        (values, formats): (Vec<splay_sql::ScalarValue>, &[i16]),
        with_columns: bool,
    ) -> StatementResult<()> {
        match command {
            CursorCommand::Declare { name, query } => Ok(self.declare(name, query, values)),
            CursorCommand::Close { name: None } => {
                self.portals.clear();
                self.replies.complete(command.tag());
                Ok(Ok(()))
            }
            CursorCommand::Close { name: Some(name) } => Ok(match self.portals.remove(name) {
                Some(_) => {
                    self.replies.complete(command.tag());
                    Ok(())
                }
                None => Err(no_cursor(name)),
            }),
            CursorCommand::Fetch { name, rows, shows } => {
                let Some(mut portal) = self.portals.remove(name) else { return Ok(Err(no_cursor(name))) };
                let fetched = self.fetch(&mut portal, (*rows, *shows), formats, with_columns).await?;
                // One that failed is gone, as its transaction is.
                Ok(fetched.map(|count| {
                    self.portals.insert(name.clone(), portal);
                    self.replies.complete(&format!("{} {count}", command.tag()));
                }))
            }
        }
    }

    fn declare(&mut self, name: &str, query: &str, values: Vec<splay_sql::ScalarValue>) -> Result<(), Refusal> {
        super::check_name(name)?;
        if self.transaction == Transaction::None {
            return Err(Refusal::new("25P01", "DECLARE CURSOR can only be used in transaction blocks"));
        }
        if Command::of(query)?.is_some() || splay_sql::is_change(query) {
            return Err(Refusal::new("42P11", "cannot open a cursor for a statement that isn't a query"));
        }
        self.check_portal(name)?;
        self.portals.insert(name.to_owned(), Portal::cursor(query, values));
        self.replies.complete("DECLARE CURSOR");
        Ok(())
    }

    /// Sends the next rows of a cursor; how many there were.
    async fn fetch(
        &mut self,
        portal: &mut Portal,
        (rows, shows): (Option<u64>, bool),
        formats: &[i16],
        with_columns: bool,
    ) -> StatementResult<u64> {
        if let Err(refusal) = self.begin_with_formats(portal, formats).await? {
            return Ok(Err(refusal));
        }
        if with_columns && shows {
            self.replies.columns(portal.columns(), portal.formats());
        }
        let rows_max = rows.unwrap_or(u64::MAX);
        Ok(self.read_rows(portal, rows_max, shows).await?.map(|(count, _)| count))
    }
}

fn no_cursor(name: &str) -> Refusal {
    Refusal::new("34000", format!("cursor \"{name}\" does not exist"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Option<Command>, Refusal> {
        Command::of(text)
    }

    #[test]
    fn statements_about_cursors_are_understood() {
        let fetch = |rows, shows| CursorCommand::Fetch { name: "c".to_owned(), rows, shows };
        let declare =
            |name: &str, query: &str| CursorCommand::Declare { name: name.to_owned(), query: query.to_owned() };
        for (text, expected) in [
            ("declare c cursor for select 1", declare("c", "select 1")),
            (
                "DECLARE \"my for c\" NO SCROLL CURSOR WITHOUT HOLD FOR\nselect 'for' for",
                declare("my for c", "select 'for' for"),
            ),
            ("fetch c", fetch(Some(1), true)),
            ("FETCH NEXT FROM c", fetch(Some(1), true)),
            ("fetch forward 100 from \"c\"", fetch(Some(100), true)),
            ("fetch 5 in c", fetch(Some(5), true)),
            ("fetch all c", fetch(None, true)),
            ("move forward all from c", fetch(None, false)),
            ("close c", CursorCommand::Close { name: Some("c".to_owned()) }),
            ("close all", CursorCommand::Close { name: None }),
        ] {
            assert_eq!(of(text).unwrap(), Some(Command::Cursor(expected)), "{text}");
        }
        for (text, code) in [
            ("declare c scroll cursor for select 1", "0A000"),
            ("declare c cursor with hold for select 1", "0A000"),
            ("declare c binary cursor for select 1", "0A000"),
            ("declare c cursor", "42601"),
            ("declare", "42601"),
            ("fetch backward 5 from c", "0A000"),
            ("fetch 0 from c", "0A000"),
            ("fetch -1 from c", "0A000"),
            ("fetch 99999999999999999999 from c", "22003"),
        ] {
            assert_eq!(of(text).unwrap_err().code, code, "{text}");
        }
    }
}
