//! Statements about the connection: read-only transactions, settings, and the resets that clients send when they
//! return a connection to a pool.

use splay_sql::NamedStatement;
use splay_sql::statements::without_blanks;

use super::cursors::CursorCommand;
use super::parameters::REPEATABLE_READ;
use super::refusal::Refusal;

/// A statement that the server answers itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Begin(Modes),
    /// `SET TRANSACTION`, or `SET SESSION CHARACTERISTICS` for those that follow.
    Modes {
        modes: Modes,
        is_default: bool,
    },
    /// `COMMIT` or `ROLLBACK`: nothing was changed that could be taken back.
    End {
        is_commit: bool,
    },
    /// A place in a transaction, to which a failed one goes back.
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    Set {
        name: String,
        value: Option<String>,
        /// `SET LOCAL`: up to the end of the transaction.
        is_local: bool,
    },
    Show(String),
    ResetAll,
    /// Keeps a statement under a name, by `PREPARE`.
    Prepare(NamedStatement),
    /// Closes prepared statements, all or one.
    Deallocate(Option<String>),
    /// `DISCARD ALL`.
    Discard,
    /// About a cursor.
    Cursor(CursorCommand),
    /// A command without an effect here, with the tag of its answer.
    Nothing(&'static str),
}

/// The modes of a transaction that a statement names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Modes {
    reads: Option<bool>,
    /// The level, as settings have it.
    pub(super) isolation: Option<&'static str>,
}

impl Modes {
    /// The value of the setting that says whether it only reads.
    pub(super) fn read_only(&self) -> Option<&'static str> {
        self.reads.map(|reads| if reads { "on" } else { "off" })
    }
}

/// Bytes of a statement about the connection.
const COMMAND_BYTES_MAX: usize = 16 << 10;

/// Words that such statements begin with.
const FIRST_WORDS: [&str; 20] = [
    "begin",
    "start",
    "commit",
    "end",
    "rollback",
    "abort",
    "set",
    "show",
    "reset",
    "prepare",
    "deallocate",
    "discard",
    "close",
    "unlisten",
    "savepoint",
    "release",
    "declare",
    "fetch",
    "move",
    "listen",
];

impl Command {
    /// The command that a statement is; `None` if it is for SQL.
    ///
    /// # Errors
    /// A refusal that names what isn't supported.
    pub(super) fn of(text: &str) -> Result<Option<Command>, Refusal> {
        let start = without_blanks(text);
        let first_length = start.bytes().take_while(u8::is_ascii_alphabetic).count();
        if !FIRST_WORDS.iter().any(|word| word.eq_ignore_ascii_case(&start[..first_length])) {
            return Ok(None);
        }
        if start[..first_length].eq_ignore_ascii_case("prepare") {
            return prepare(start);
        }
        if start[..first_length].eq_ignore_ascii_case("declare") {
            return CursorCommand::declare(start).map(|cursor| Some(Command::Cursor(cursor)));
        }
        if start.len() > COMMAND_BYTES_MAX {
            let what = start[..first_length].to_uppercase();
            return Err(Refusal::new("54000", format!("{what} has at most {COMMAND_BYTES_MAX} bytes of text")));
        }
        let text = start;
        let words = words(text);
        let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
        let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
        let rest = |from: usize| lower[from..].iter().copied().filter(|word| !matches!(*word, "transaction" | "work"));
        let command = match lower.as_slice() {
            ["begin", ..] | ["start", "transaction", ..] => Command::Begin(modes(&rest(1).collect::<Vec<_>>())?),
            ["commit" | "end", ..] => {
                no_more("COMMIT", rest(1))?;
                Command::End { is_commit: true }
            }
            ["rollback", "to", "savepoint", _] | ["rollback", "to", _] => Command::RollbackTo(last(&words)),
            ["rollback", "transaction" | "work", "to", ..] => Command::RollbackTo(last(&words)),
            ["savepoint", _] => Command::Savepoint(last(&words)),
            ["release", "savepoint", _] | ["release", _] => Command::Release(last(&words)),
            ["rollback" | "abort", ..] => {
                no_more("ROLLBACK", rest(1))?;
                Command::End { is_commit: false }
            }
            ["set", "local", ..] => set(&words[2..], true)?,
            ["set", "constraints", ..] => return Err(Refusal::unsupported("SET CONSTRAINTS")),
            ["set", "transaction", of @ ..] => Command::Modes { modes: modes(of)?, is_default: false },
            ["set", "session", "characteristics", "as", "transaction", of @ ..] => {
                Command::Modes { modes: modes(of)?, is_default: true }
            }
            ["set", "session", "authorization", ..] => return Err(Refusal::unsupported("SET SESSION AUTHORIZATION")),
            ["set", "session", ..] => set(&words[2..], false)?,
            ["set", ..] => set(&words[1..], false)?,
            ["show", "transaction", "isolation", "level"] => Command::Show("transaction_isolation".to_owned()),
            ["show", "time", "zone"] => Command::Show("timezone".to_owned()),
            ["show", "tables" | "columns" | "functions" | "create" | "databases" | "all", ..]
            | ["show", "users" | "roles" | "grants" | "policies" | "tokens", ..] => return Ok(None),
            ["show", name] => Command::Show((*name).to_owned()),
            ["reset", "all"] => Command::ResetAll,
            ["reset", "time", "zone"] => Command::Set { name: "timezone".to_owned(), value: None, is_local: false },
            ["reset", name] => Command::Set { name: (*name).to_owned(), value: None, is_local: false },
            ["deallocate", "all"] | ["deallocate", "prepare", "all"] => Command::Deallocate(None),
            ["deallocate", "prepare", _] | ["deallocate", _] => {
                Command::Deallocate(words.last().map(|name| unquote(name)))
            }
            ["discard", "all"] => Command::Discard,
            ["discard", "plans"] => Command::Nothing("DISCARD PLANS"),
            ["discard", "temp" | "temporary"] => Command::Nothing("DISCARD TEMP"),
            ["unlisten", _] => Command::Nothing("UNLISTEN"),
            ["fetch" | "move" | "close", ..] => Command::Cursor(CursorCommand::of(&words)?),
            ["listen", ..] => return Err(Refusal::unsupported("LISTEN; live rows come by WebSocket and Flight:")),
            _ => return Ok(None),
        };
        Ok(Some(command))
    }

    /// The tag of its completion message.
    pub(super) fn tag(&self) -> &'static str {
        match self {
            Command::Begin(_) => "BEGIN",
            Command::End { is_commit: true } => "COMMIT",
            Command::End { is_commit: false } => "ROLLBACK",
            Command::Savepoint(_) => "SAVEPOINT",
            Command::Release(_) => "RELEASE",
            Command::RollbackTo(_) => "ROLLBACK",
            Command::Set { value: Some(_), .. } | Command::Set { is_local: true, .. } | Command::Modes { .. } => "SET",
            Command::Set { value: None, .. } | Command::ResetAll => "RESET",
            Command::Show(_) => "SHOW",
            Command::Prepare(_) => "PREPARE",
            Command::Deallocate(None) => "DEALLOCATE ALL",
            Command::Deallocate(Some(_)) => "DEALLOCATE",
            Command::Discard => "DISCARD ALL",
            Command::Cursor(cursor) => cursor.tag(),
            Command::Nothing(tag) => tag,
        }
    }
}

fn prepare(text: &str) -> Result<Option<Command>, Refusal> {
    match NamedStatement::of(text) {
        Ok(statement) => Ok(statement.map(Command::Prepare)),
        Err(error) => Err(Refusal::new("42601", error.to_string())),
    }
}

/// The last word, a name, which is folded unless it is quoted.
fn last(words: &[String]) -> String {
    let name = words.last().map(String::as_str).unwrap_or_default();
    if name.starts_with('"') { unquote(name) } else { name.to_lowercase() }
}

fn no_more<'a>(what: &str, mut rest: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
    match rest.next() {
        None => Ok(()),
        Some("and") => Err(Refusal::unsupported(format!("{what} AND CHAIN"))),
        Some(word) => Err(Refusal::unsupported(format!("{what} {}", word.to_uppercase()))),
    }
}

/// The modes of a transaction. Each statement sees the newest commit, which is `READ COMMITTED`, unless all see what the first one does.
fn modes(mut words: &[&str]) -> Result<Modes, Refusal> {
    let mut modes = Modes::default();
    loop {
        words = match words {
            [] => return Ok(modes),
            [",", rest @ ..] => rest,
            ["isolation", "level", "read", "committed" | "uncommitted", rest @ ..] => {
                modes.isolation = Some("read committed");
                rest
            }
            ["isolation", "level", "repeatable", "read", rest @ ..] => {
                modes.isolation = Some(REPEATABLE_READ);
                rest
            }
            // Below SERIALIZABLE, DEFERRABLE has no effect, as in PostgreSQL.
            ["deferrable", rest @ ..] | ["not", "deferrable", rest @ ..] => rest,
            ["read", "only", rest @ ..] => {
                modes.reads.get_or_insert(true);
                rest
            }
            ["read", "write", rest @ ..] => {
                modes.reads.get_or_insert(false);
                rest
            }
            other => {
                return Err(Refusal::unsupported(format!(
                    "a transaction {}; there are READ COMMITTED and REPEATABLE READ: that",
                    other.join(" ").to_uppercase()
                )));
            }
        };
    }
}

/// `name = value`, `name TO value`, `TIME ZONE value`, `NAMES value`.
fn set(words: &[String], is_local: bool) -> Result<Command, Refusal> {
    let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    let wrong = || Refusal::new("42601", "SET takes a name and a value: SET name = value");
    let (name, values) = match lower.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["time", "zone", ..] => ("timezone", &words[2..]),
        ["names", ..] => ("client_encoding", &words[1..]),
        [name, "=" | "to", ..] => (*name, &words[2..]),
        _ => return Err(wrong()),
    };
    if values.is_empty() {
        return Err(wrong());
    }
    let value = values.iter().filter(|word| *word != ",").map(|word| unquote(word)).collect::<Vec<_>>().join(", ");
    let is_default = matches!(values, [word] if word.eq_ignore_ascii_case("default"));
    Ok(Command::Set { name: unquote(name), value: (!is_default).then_some(value), is_local })
}

/// A word without its quotes.
pub(super) fn unquote(word: &str) -> String {
    for quote in ['\'', '"'] {
        if let Some(inner) = word.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner.replace(&format!("{quote}{quote}"), &quote.to_string());
        }
    }
    word.to_owned()
}

/// The words of a statement, quoted ones with their quotes; `=` and `,` are words. Comments are left out.
pub(super) fn words(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let (mut words, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'-' if bytes.get(at + 1) == Some(&b'-') => {
                at = text[at..].find('\n').map_or(bytes.len(), |end| at + end);
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                at = text[at..].find("*/").map_or(bytes.len(), |end| at + end + 2);
                continue;
            }
            byte if byte.is_ascii_whitespace() || byte == b';' => {
                at += 1;
                continue;
            }
            b'=' | b',' => at += 1,
            quote @ (b'\'' | b'"') => {
                at += 1;
                while at < bytes.len() {
                    at += 1;
                    if bytes[at - 1] == quote {
                        if bytes.get(at) != Some(&quote) {
                            break;
                        }
                        at += 1;
                    }
                }
            }
            _ => {
                let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'=' | b',' | b';' | b'\'' | b'"');
                at += bytes[at..].iter().position(ends).unwrap_or(bytes.len() - at);
            }
        }
        words.push(text[start..at].to_owned());
    }
    words
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn modes(reads: Option<bool>, isolation: Option<&'static str>) -> Modes {
        Modes { reads, isolation }
    }

    fn set(name: &str, value: &str) -> Command {
        Command::Set { name: name.to_owned(), value: Some(value.to_owned()), is_local: false }
    }

    #[test]
    fn what_clients_send_is_understood() {
        for (text, expected) in [
            ("BEGIN", Command::Begin(modes(None, None))),
            (
                "begin transaction isolation level read committed, read only",
                Command::Begin(modes(Some(true), Some("read committed"))),
            ),
            ("START TRANSACTION READ ONLY", Command::Begin(modes(Some(true), None))),
            (
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY DEFERRABLE;",
                Command::Begin(modes(Some(true), Some("repeatable read"))),
            ),
            (
                "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
                Command::Modes { modes: modes(Some(true), Some("repeatable read")), is_default: false },
            ),
            ("SAVEPOINT Sp_1", Command::Savepoint("sp_1".to_owned())),
            ("/* x */ COMMIT WORK;", Command::End { is_commit: true }),
            ("ROLLBACK", Command::End { is_commit: false }),
            ("SAVEPOINT \"a b\"", Command::Savepoint("a b".to_owned())),
            ("release savepoint a", Command::Release("a".to_owned())),
            ("rollback to a", Command::RollbackTo("a".to_owned())),
            ("set extra_float_digits = 3", set("extra_float_digits", "3")),
            ("SET application_name='it''s'", set("application_name", "it's")),
            ("SET datestyle TO ISO, MDY", set("datestyle", "ISO, MDY")),
            ("SET SESSION timezone = 'UTC'", set("timezone", "UTC")),
            ("SET TIME ZONE 'UTC'", set("timezone", "UTC")),
            ("set names 'utf8'", set("client_encoding", "utf8")),
            (
                "set client_encoding to default",
                Command::Set { name: "client_encoding".to_owned(), value: None, is_local: false },
            ),
            (
                "SET LOCAL statement_timeout = '5s'",
                Command::Set { name: "statement_timeout".to_owned(), value: Some("5s".to_owned()), is_local: true },
            ),
            (
                "PREPARE p (int) AS select $1",
                Command::Prepare(NamedStatement::Prepare {
                    name: "p".to_owned(),
                    types: vec!["int".to_owned()],
                    text: "select $1".to_owned(),
                }),
            ),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
                Command::Modes { modes: modes(Some(true), None), is_default: true },
            ),
            ("show transaction isolation level", Command::Show("transaction_isolation".to_owned())),
            ("SHOW search_path", Command::Show("search_path".to_owned())),
            ("RESET ALL", Command::ResetAll),
            ("DEALLOCATE \"_pg3_0\"", Command::Deallocate(Some("_pg3_0".to_owned()))),
            ("DEALLOCATE ALL", Command::Deallocate(None)),
            ("DISCARD ALL", Command::Discard),
            ("UNLISTEN *", Command::Nothing("UNLISTEN")),
        ] {
            assert_eq!(Command::of(text).unwrap(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_supported_is_named_and_the_rest_is_for_sql() {
        for (text, named) in [
            ("begin isolation level serializable", "SERIALIZABLE"),
            ("commit and chain", "AND CHAIN"),
            ("listen x", "LISTEN"),
        ] {
            let refusal = Command::of(text).unwrap_err();
            assert!(refusal.code == "0A000" && refusal.message.contains(named), "{text}: {}", refusal.message);
        }
        assert_eq!(Command::of("set x").unwrap_err().code, "42601");
        for text in ["select 1", "show tables", "", "-- begin\nselect 1", "settle", "é", "insert into t values (1)"] {
            assert_eq!(Command::of(text).unwrap(), None, "{text}");
        }
    }
}
