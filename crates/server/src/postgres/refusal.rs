//! Errors for clients: a SQLSTATE code, a text and, if available, the position in the statement.

use crate::problem::{Code, Problem};

/// A failure as PostgreSQL's clients know it.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    /// Five letters and digits, see docs/reference/postgres.md.
    pub(super) code: &'static str,
    pub(super) message: String,
    /// Line and column in the statement, from 1.
    pub(super) place: Option<(usize, usize)>,
    /// Whether the connection ends.
    pub(super) is_fatal: bool,
}

impl Refusal {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), place: None, is_fatal: false }
    }

    pub(super) fn fatal(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { is_fatal: true, ..Refusal::new(code, message) }
    }

    pub(super) fn unsupported(what: impl std::fmt::Display) -> Refusal {
        Refusal::new("0A000", format!("{what} is not supported"))
    }

    /// The place as PostgreSQL gives it: characters from 1.
    pub(super) fn position(&self, text: &str) -> Option<usize> {
        let (line, column) = self.place?;
        let before: usize =
            text.split_inclusive('\n').take(line.checked_sub(1)?).map(|line| line.chars().count()).sum();
        let position = before.checked_add(column)?;
        (position <= text.chars().count() + 1).then_some(position)
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Refusal {
        let Problem { code, message, .. } = problem;
        let state = match code {
            _ if let Some(state) = of_rule(&message) => state,
            Code::Statement => of_statement(&message),
            Code::Request => "22023",
            Code::ReadOnly => "25006",
            Code::Unauthorized => "28P01",
            Code::Forbidden => "42501",
            Code::NotFound => "42P01",
            Code::TooLarge | Code::Rows => "54000",
            Code::TooSlow | Code::Time | Code::Cancelled => "57014",
            Code::Memory => "53200",
            Code::Rejected => "22000",
            Code::Conflict => "40001",
            Code::Busy => "53300",
            Code::Full => "53100",
            Code::Closed => "57P01",
            Code::Provider => "57P03",
            // The code for a transaction whose outcome isn't known.
            Code::Unconfirmed => "08007",
            Code::Unsupported => "0A000",
            Code::Execution => of_execution(&message),
            Code::Corrupt => "XX001",
            Code::Gone | Code::Internal => "XX000",
        };
        let place = place(&message);
        Refusal { place, ..Refusal::new(state, message) }
    }
}

/// The code of a statement that breaks a rule of the database, whichever part of it found out.
fn of_rule(message: &str) -> Option<&'static str> {
    let has = |part: &str| message.contains(part);
    if message.starts_with("duplicate key value violates") {
        Some("23505")
    } else if has("violates not-null constraint") {
        Some("23502")
    } else if message.starts_with("there is a table ") && message.ends_with(" already") {
        Some("42P07")
    } else if has(" is a view: ") {
        Some("42809")
    } else if has("is named by the view") || has("is read by the view") {
        Some("2BP01")
    } else if has("are being captured: ") {
        Some("55006")
    } else {
        None
    }
}

/// The code of a statement that can't be planned, by what its message says.
fn of_statement(message: &str) -> &'static str {
    let has = |part: &str| message.contains(part);
    let lower = message.to_ascii_lowercase();
    if has("sql parser error") || has("ParserError") || lower.contains("expected") {
        "42601"
    } else if has("No field named")
        || lower.contains("no column")
        || lower.contains("column") && lower.contains("not found")
    {
        "42703"
    } else if lower.starts_with("table ") && has("not found") {
        "42P01"
    } else if has("Invalid function")
        || lower.contains("no function matches")
        || lower.contains("function") && lower.contains("not found")
    {
        "42883"
    } else if lower.contains("not supported")
        || lower.contains("n't supported")
        || lower.contains("unsupported")
        || lower.contains("not implemented")
    {
        "0A000"
    } else if lower.contains("has no value") {
        "42P02"
    } else {
        "42000"
    }
}

fn of_execution(message: &str) -> &'static str {
    let lower = message.to_ascii_lowercase();
    if lower.contains("divide by zero") || lower.contains("division by zero") {
        "22012"
    } else if lower.contains("overflow") || lower.contains("out of range") {
        "22003"
    } else {
        "22000"
    }
}

/// Line and column that a message of the parser ends with: `at Line: 1, Column: 8`.
fn place(message: &str) -> Option<(usize, usize)> {
    let (_, rest) = message.rsplit_once("Line: ")?;
    let (line, rest) = rest.split_once(", Column: ")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    Some((line.parse().ok()?, rest[..digits].parse().ok()?))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_characters() {
        let message = "sql parser error: Expected: an expression, found: from at Line: 2, Column: 3";
        let refusal = Refusal::from(Problem::new(Code::Statement, message));
        assert_eq!((refusal.code, refusal.position("sélect\n  from").unwrap()), ("42601", 10));
        assert_eq!(refusal.position("x"), None);
    }

    #[test]
    fn rules_of_the_database_have_their_codes() {
        let state = |problem: Problem| Refusal::from(problem).code;
        let captured = splay_store::Error::Captured { table: "trade".to_owned() };
        assert_eq!(state(Problem::from(captured)), "55006");
        let message = "duplicate key value violates unique constraint \"firm_pkey\": key (sym)=(A) exists already";
        assert_eq!(state(Problem::new(Code::Rejected, message)), "23505");
        assert_eq!(state(Problem::new(Code::Statement, "there is a table \"trade\" already")), "42P07");
        assert_eq!(state(Problem::new(Code::Execution, "a value of text")), "22000");
    }
}
