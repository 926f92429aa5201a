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
    /// The name of the table, column or function that isn't there: its place is that of the fault.
    pub(super) name: Option<String>,
    /// Whether the connection ends.
    pub(super) is_fatal: bool,
}

impl Refusal {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), place: None, name: None, is_fatal: false }
    }

    pub(super) fn fatal(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { is_fatal: true, ..Refusal::new(code, message) }
    }

    pub(super) fn unsupported(what: impl std::fmt::Display) -> Refusal {
        Refusal::new("0A000", format!("{what} is not supported"))
    }

    /// The place as PostgreSQL gives it: characters from 1.
    pub(super) fn position(&self, text: &str) -> Option<usize> {
        let Some((line, column)) = self.place else { return position_of_name(text, self.name.as_deref()?) };
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
            Code::Rejected => of_value(&message).unwrap_or("22000"),
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
        let (place, name) = (place(&message), missing_name(state, &message).map(str::to_owned));
        Refusal { place, name, ..Refusal::new(state, message) }
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

/// What messages of the planner say about types that don't fit each other.
const MISMATCHES: [&str; 7] = [
    "cannot coerce",
    "failed to coerce then",
    "failed to coerce case",
    "failed to coerce else",
    "non-boolean predicate",
    "incompatible inputs for",
    "cannot infer common argument type",
];

/// The code of a statement that can't be planned, by what its message says.
fn of_statement(message: &str) -> &'static str {
    let has = |part: &str| message.contains(part);
    let lower = message.to_ascii_lowercase();
    if lower.contains("ambiguous reference") || has(" is ambiguous") {
        "42702"
    } else if has("must appear in the GROUP BY clause") {
        "42803"
    } else if MISMATCHES.iter().any(|mismatch| lower.contains(mismatch)) {
        "42804"
    } else if let Some(state) = of_value(message) {
        state
    } else if is_missing_relation(message) {
        "42P01"
    } else if has("sql parser error") || has("ParserError") || lower.contains("expected") {
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
    } else if is_missing_relation(message) {
        "42P01"
    } else if let Some(state) = of_value(message) {
        state
    } else if lower.contains("overflow") || lower.contains("out of range") {
        "22003"
    } else {
        "22000"
    }
}

/// `relation "x" does not exist`, as functions of the catalogue say it.
fn is_missing_relation(message: &str) -> bool {
    message.starts_with("relation \"") && message.ends_with("\" does not exist")
}

/// The code of a value that isn't of the type that it is read as.
fn of_value(message: &str) -> Option<&'static str> {
    let lower = message.to_ascii_lowercase();
    if lower.contains("error parsing timestamp") || lower.contains("error parsing date") {
        return Some("22007");
    }
    if lower.contains("can't cast value ") {
        return Some("22003");
    }
    let cast = ["cannot cast string '", "cannot cast value '"].iter().find_map(|cast| lower.split_once(cast))?.1;
    // The value may be any text.
    let (_, data_type) = cast.rsplit_once("' to value of ")?;
    Some(match ["date", "time", "interval", "duration"].iter().any(|of_time| data_type.starts_with(of_time)) {
        true => "22007",
        false => "22P02",
    })
}

/// The name that a message says is missing, as it is written there.
fn missing_name<'m>(state: &str, message: &'m str) -> Option<&'m str> {
    let between = |before: &str, after: &str| {
        let (_, rest) = message.split_once(before)?;
        rest.split_once(after).map(|(name, _)| name)
    };
    match state {
        "42703" => message
            .split_once("No field named ")
            .map(|(_, rest)| &rest[..end_of_sentence(rest)])
            .or_else(|| between("column \"", "\"")),
        "42P01" => between("relation \"", "\"").or_else(|| between("able \"", "\"")).or_else(|| between("able '", "'")),
        "42883" => between("unction '", "'").or_else(|| between("unction \"", "\"")),
        _ => None,
    }
}

/// Where the full stop of a sentence stands, which a blank or nothing follows.
fn end_of_sentence(text: &str) -> usize {
    let stops = text.match_indices('.').map(|(at, _)| at);
    let ends = |at: &usize| text[at + 1..].chars().next().is_none_or(char::is_whitespace);
    stops.into_iter().find(ends).unwrap_or(text.len())
}

/// The position of a name in a statement, in characters from 1: as it stands, or else its last part, without regard to case.
fn position_of_name(text: &str, name: &str) -> Option<usize> {
    let name = name.replace('"', "").to_lowercase();
    let last = name.rsplit('.').next().unwrap_or_default();
    let found =
        [name.as_str(), last].into_iter().filter(|name| !name.is_empty()).find_map(|name| find_name(text, name));
    Some(text[..found?].chars().count() + 1)
}

/// Where a name stands in a statement, outside of texts and comments. Names in double quotes count, too.
fn find_name(text: &str, name: &str) -> Option<usize> {
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$');
    let lower = text.to_lowercase();
    // Some letters have another length in lower case: places would be others.
    if lower.len() != text.len() {
        return None;
    }
    let shown = splay_sql::statements::without_texts(&lower);
    let starts = shown.match_indices(name).map(|(at, _)| at);
    let is_whole = |at: &usize| {
        let (before, behind) = (shown[..*at].chars().next_back(), shown[*at + name.len()..].chars().next());
        !before.is_some_and(is_part) && !behind.is_some_and(is_part)
    };
    starts.into_iter().find(is_whole)
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
    fn faults_of_names_types_and_values_have_their_codes() {
        for (code, message, expected) in [
            (Code::Statement, "Ambiguous reference to unqualified field sym", "42702"),
            (Code::Statement, "column \"t.sym\" must appear in the GROUP BY clause or must be part of …", "42803"),
            (Code::Statement, "Cannot coerce arithmetic expression Utf8 + Int64 to valid types", "42804"),
            (Code::Statement, "Cannot create filter with non-boolean predicate 't.sym' returning Utf8", "42804"),
            (Code::Execution, "Cannot cast string 'a' to value of Int32 type", "22P02"),
            (Code::Execution, "Cannot cast string 'it's to value of' to value of Date32 type", "22007"),
            (Code::Rejected, "column \"price\": Cast error: Cannot cast string 'x' to value of Float64 type", "22P02"),
            (Code::Execution, "Error parsing timestamp from 'x': error parsing date", "22007"),
            (Code::Execution, "Can't cast value 1e20 to type Int32", "22003"),
            (Code::Execution, "relation \"nope\" does not exist", "42P01"),
        ] {
            assert_eq!(Refusal::from(Problem::new(code, message)).code, expected, "{message}");
        }
    }

    #[test]
    fn names_that_are_missing_have_their_place() {
        let position = |code, message: &str, text: &str| Refusal::from(Problem::new(code, message)).position(text);
        let column = |message: &str, text: &str| position(Code::Statement, message, text);
        assert_eq!(column("No field named nope.", "select nope from trade"), Some(8));
        assert_eq!(column("No field named nope.", "select 'nope', é, nopes /* nope */ , Nope from trade"), Some(38));
        assert_eq!(column("No field named nope.\nValid fields are trade.sym.", "select nope from trade"), Some(8));
        assert_eq!(column("No field named t.nope. Did you mean 't.time'?", "select t.nope from trade t"), Some(8));
        assert_eq!(column("No field named trade.nope.", "select nope from trade"), Some(8));
        assert_eq!(column("No field named \"No pe\".", "select \"No pe\" from trade"), Some(9));
        assert_eq!(column("Invalid function 'nofun'. Did you mean 'now'?", "select nofun(1)"), Some(8));
        assert_eq!(column("No field named nope.", "execute s"), None);
        let table = "no table \"nope\"; this database has trade";
        assert_eq!(position(Code::NotFound, table, "select * from nope"), Some(15));
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
