//! Errors of statements.

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;

use crate::memory::TOTAL;

/// Result of a statement.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Names of error kinds that DataFusion and Arrow write before a message.
const PREFIXES: [&str; 9] = [
    "Arrow error: ",
    "Schema error: ",
    "Execution error: ",
    "Error during planning: ",
    "External error: ",
    "Parser error: ",
    "Cast error: ",
    "Compute error: ",
    "Invalid argument error: ",
];

/// Why a statement of a session isn't accepted where there is none.
pub(crate) fn reason_of_session(statement: &str) -> Option<&'static str> {
    match statement.to_ascii_uppercase().as_str() {
        "SET" | "RESET" => Some(
            "a setting belongs to a session, and there is none here; splay shell and PostgreSQL's wire protocol have sessions",
        ),
        "PREPARE" | "EXECUTE" | "DEALLOCATE" | "DECLARE" | "FETCH" | "CLOSE" => Some(
            "it belongs to a session, and there is none here; splay shell and PostgreSQL's wire protocol have sessions, \
             parameters do without",
        ),
        "BEGIN" | "START" | "START TRANSACTION" | "COMMIT" | "ROLLBACK" | "SAVEPOINT" => {
            Some("each statement that changes rows is a transaction of its own; its commit can be undone")
        }
        _ => None,
    }
}

/// The reason why a kind of statement isn't accepted here, and where it is.
fn not_here(statement: &str) -> &'static str {
    reason_of_session(statement)
        .unwrap_or("SQL only reads here; send statements that write by the command, by Python or by POST /query")
}

/// Error of a statement. The database is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The statement is wrong: unknown words, tables or columns, types that don't fit. The message says where.
    #[error("{message}")]
    Statement {
        /// The fault.
        message: String,
    },

    /// The statement would change something, but the session may only read, or the interface that it was sent to
    /// accepts no changes.
    #[error("{statement} is not allowed: {}", not_here(statement))]
    ReadOnly {
        /// The kind of statement.
        statement: String,
    },

    /// The statement needs more memory than its limit. Ask for less at once, or raise the limit.
    #[error("the statement needs more than its {limit_bytes} bytes of memory: {message}")]
    Memory {
        /// The limit.
        limit_bytes: usize,
        /// The part of the plan that asked for memory.
        message: String,
    },

    /// The running statements together hold all available memory. Try again later.
    #[error("there is not enough memory left for this statement: {message}")]
    TotalMemory {
        /// The total that all statements may hold, the amount requested and the amount left.
        message: String,
    },

    /// The store can't provide the data.
    #[error(transparent)]
    Store(#[from] splay_store::Error),

    /// A value can't be computed: a division of integers by zero, a number out of range, a text that is no timestamp. Change the
    /// statement, or the rows that it reads.
    #[error("{message}")]
    Execution {
        /// The reason.
        message: String,
    },

    /// The statement can't be run through no fault of its own: because of a bug in SplayDB, or because the machine has no threads or file handles
    /// left.
    #[error("{message}")]
    Internal {
        /// The event.
        message: String,
    },

    /// The statement was stopped from outside.
    #[error("the statement was cancelled")]
    Cancelled,
}

/// Passes on only the errors for which `is_final` holds.
pub(crate) fn only<T>(checked: Result<T>, is_final: impl Fn(&Error) -> bool) -> Result<()> {
    match checked {
        Err(error) if is_final(&error) => Err(error),
        _ => Ok(()),
    }
}

impl Error {
    /// Whether a statement names something that isn't there.
    pub(crate) fn is_of_name(&self) -> bool {
        match self {
            Error::Store(splay_store::Error::NoSuchTable { .. } | splay_store::Error::NoSuchColumn { .. }) => true,
            Error::Statement { message } => {
                let has = |part: &str| message.contains(part);
                has("No field named")
                    || has("has no column")
                    || has("Invalid function")
                    || has("is a window function")
                    || has("not found")
            }
            _ => false,
        }
    }

    /// Whether a statement can't be parsed.
    pub(crate) fn is_of_syntax(&self) -> bool {
        matches!(self, Error::Statement { message } if message.contains("sql parser error") || message.contains("expected"))
    }

    /// Converts an error that several streams share. It can't be taken apart, so the parts that a caller acts on are copied.
    fn from_shared(shared: &DataFusionError, limit_bytes: usize) -> Error {
        match shared.find_root() {
            DataFusionError::External(source) => match source.downcast_ref::<splay_store::Error>() {
                Some(splay_store::Error::Corrupt { path, offset, expected, found }) => {
                    Error::Store(splay_store::Error::Corrupt {
                        path: path.clone(),
                        offset: *offset,
                        expected: expected.clone(),
                        found: found.clone(),
                    })
                }
                Some(splay_store::Error::Encrypted { path, key, reason }) => {
                    let (path, key, reason) = (path.clone(), key.clone(), reason.clone());
                    Error::Store(splay_store::Error::Encrypted { path, key, reason })
                }
                Some(splay_store::Error::Object { act, object, fault, reason }) => {
                    let (object, reason) = (object.clone(), reason.clone());
                    Error::Store(splay_store::Error::Object { act, object, fault: *fault, reason })
                }
                _ => Error::Execution { message: plain(&source.to_string()) },
            },
            DataFusionError::ResourcesExhausted(message) => Error::of_memory(message, limit_bytes),
            root => Error::while_running(root),
        }
    }

    /// Classifies an error of DataFusion, and unwraps our own errors in it.
    pub(crate) fn from_datafusion(error: DataFusionError, limit_bytes: usize) -> Error {
        match error {
            DataFusionError::External(source) => match source.downcast::<splay_store::Error>() {
                Ok(ours) => Error::Store(*ours),
                Err(source) => match source.downcast::<Error>() {
                    Ok(ours) => *ours,
                    Err(other) => Error::Execution { message: plain(&other.to_string()) },
                },
            },
            DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
                Error::from_datafusion(*inner, limit_bytes)
            }
            DataFusionError::Collection(mut errors) if !errors.is_empty() => {
                Error::from_datafusion(errors.swap_remove(0), limit_bytes)
            }
            DataFusionError::ResourcesExhausted(message) => Error::of_memory(&message, limit_bytes),
            DataFusionError::SQL(error, _) => Error::Statement { message: error.to_string() },
            DataFusionError::NotImplemented(message) if is_of_a_query(&message) => unsupported_query(),
            DataFusionError::Plan(message) if is_of_a_rewritten_query(&message) => unsupported_query(),
            DataFusionError::Plan(message) | DataFusionError::NotImplemented(message) => {
                Error::Statement { message: of_no_signature(&message).unwrap_or_else(|| plain(&message)) }
            }
            error @ DataFusionError::SchemaError(_, _) if is_of_a_rewritten_query(&error.to_string()) => {
                unsupported_query()
            }
            error @ DataFusionError::SchemaError(_, _) => Error::Statement { message: plain(&error.strip_backtrace()) },
            DataFusionError::Shared(shared) => Error::from_shared(&shared, limit_bytes),
            other => Error::while_running(&other),
        }
    }

    /// Adds a hint to an error about a statement, on a line of its own.
    pub(crate) fn with_hint(self, hint: Option<String>) -> Error {
        match (self, hint) {
            (Error::Statement { message }, Some(hint)) => Error::Statement { message: format!("{message}\n{hint}") },
            (error, _) => error,
        }
    }

    /// The error for the limit that was reached, the statement's own or that of all statements.
    fn of_memory(message: &str, limit_bytes: usize) -> Error {
        match message.find(TOTAL) {
            Some(position) => Error::TotalMemory { message: message[position..].to_owned() },
            None => Error::Memory { limit_bytes, message: message.to_owned() },
        }
    }

    /// A refusal of a kernel or a function is about the statement's values; any other error isn't.
    fn while_running(error: &DataFusionError) -> Error {
        let message = error.strip_backtrace();
        if let Some(message) = of_no_signature(&message) {
            return Error::Statement { message };
        }
        let is_of_a_pattern = is_of_a_pattern(&message);
        let message = plain(&message);
        match error {
            DataFusionError::Internal(_)
            | DataFusionError::IoError(_)
            | DataFusionError::ExecutionJoin(_)
            | DataFusionError::ArrowError(..)
                if !is_of_values(error) && !is_of_a_pattern =>
            {
                Error::Internal { message }
            }
            _ => Error::Execution { message },
        }
    }
}

/// A message of DataFusion or Arrow in the words of this database: without the kinds of errors in front, without signatures that say nothing, and
/// without the function that DataFusion proposes (`hints.rs` does).
fn plain(message: &str) -> String {
    let mut rest = message;
    loop {
        if let Some(behind) = PREFIXES.iter().find_map(|prefix| rest.strip_prefix(prefix)) {
            rest = behind;
        } else if let Some((_, behind)) = rest
            .split_once("' user-defined coercion failed with: ")
            .filter(|(before, _)| before.starts_with("Function '"))
        {
            rest = behind;
        } else {
            break;
        }
    }
    if rest == "Divide by zero error" {
        return "division by zero".to_owned();
    }
    if rest.starts_with("Invalid function '") {
        return rest.lines().next().unwrap_or_default().to_owned();
    }
    if let Some(grouped) = rest.strip_prefix("Column in SELECT must be in GROUP BY or an aggregate function: ") {
        let grouped = grouped.strip_prefix("While expanding wildcard, ").unwrap_or(grouped);
        return grouped.split(", currently only ").next().unwrap_or_default().to_owned();
    }
    match rest.split_once(" No function matches the given name and argument types '") {
        Some((reason, signatures)) if signatures.contains("(UserDefined)") => {
            let call = signatures.split("'. You might need").next().unwrap_or_default();
            format!("{}; no function matches {call}", reason.trim_end_matches('.'))
        }
        _ => rest.to_owned(),
    }
}

/// Recognises DataFusion's message for arguments of types that a function doesn't take. The message lists all signatures that were tried, and is
/// reported as an internal error.
fn of_no_signature(message: &str) -> Option<String> {
    let (before, tried) = message.split_once("' failed to match any signature")?;
    let function = before.rsplit('\'').next()?;
    let type_text = tried.split_once("(DataType: ").and_then(|(_, rest)| rest.split_once(")."));
    Some(match type_text {
        Some((type_text @ "Boolean", _)) => {
            format!("{function} doesn't take a {type_text}: cast it, {function}(x::int)")
        }
        Some((type_text, _)) => format!("{function} doesn't take a {type_text}"),
        None => format!("{function} doesn't take arguments of these types"),
    })
}

/// Whether Arrow refused values, as opposed to memory, files or streams.
fn is_of_values(error: &DataFusionError) -> bool {
    let DataFusionError::ArrowError(error, _) = error else { return false };
    !matches!(
        **error,
        ArrowError::IoError(..)
            | ArrowError::IpcError(_)
            | ArrowError::MemoryError(_)
            | ArrowError::CDataInterface(_)
            | ArrowError::ParquetError(_)
            | ArrowError::SchemaError(_)
    )
}

/// Whether a sub-query in an expression remained that no rule plans.
fn is_of_a_query(message: &str) -> bool {
    message.contains("OuterReferenceColumn") || message.contains("logical expression ScalarSubquery")
}

/// Whether a name is one that DataFusion gives to a sub-query's rows while it makes a join of it: the sub-query reads columns of rows two levels around it.
fn is_of_a_rewritten_query(message: &str) -> bool {
    ["__correlated_sq_", "__scalar_sq_", "__outer_", "__around_"].iter().any(|name| message.contains(name))
}

fn unsupported_query() -> Error {
    let message = "a sub-query that reads columns from around it isn't supported in this form: write it as a join, as an aggregate, or with LIMIT 1";
    Error::Statement { message: message.to_owned() }
}

/// Whether a regular expression was refused, which DataFusion reports as an internal error.
fn is_of_a_pattern(message: &str) -> bool {
    message.contains("Regular expression did not compile")
}

/// A statement's own fault.
pub(crate) fn fault<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::Statement { message: message.into() })
}

/// Carries a store error through DataFusion.
pub(crate) fn external(error: splay_store::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// What a condition or a value said, without the store around it.
pub(crate) fn of_store(error: splay_store::Error) -> Error {
    match error {
        splay_store::Error::Refused { reason } => Error::Execution { message: reason },
        other => Error::Store(other),
    }
}

/// A refusal for lack of a right.
pub(crate) fn denied(about: impl Into<String>) -> Error {
    Error::Store(splay_store::Error::Denied { about: about.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_no_names_of_other_layers() {
        let coercion = "Execution error: Function 'vwap' user-defined coercion failed with: Error during planning: vwap takes two numbers, got 1 \
                        arguments. No function matches the given name and argument types 'vwap(Float64)'. You might need to add explicit type \
                        casts.\n\tCandidate functions:\n\tvwap(UserDefined)";
        let grouping = "Column in SELECT must be in GROUP BY or an aggregate function: While expanding wildcard, column \"t.price\" must appear in \
                        the GROUP BY clause or must be part of an aggregate function, currently only \"sum(t.size)\" appears in the SELECT clause \
                        satisfies this requirement";
        for (message, expected) in [
            ("Arrow error: Divide by zero error", "division by zero"),
            ("Arrow error: Parser error: Error parsing timestamp from 'a'", "Error parsing timestamp from 'a'"),
            ("Schema error: No field named b.", "No field named b."),
            ("Execution error: Schema of x", "Schema of x"),
            ("Invalid function 'to_str'.\nDid you mean 'to_hex'?", "Invalid function 'to_str'."),
            (coercion, "vwap takes two numbers, got 1 arguments; no function matches vwap(Float64)"),
            (
                grouping,
                "column \"t.price\" must appear in the GROUP BY clause or must be part of an aggregate function",
            ),
            ("sql parser error: Expected: (, found: x", "sql parser error: Expected: (, found: x"),
            ("Arithmetic overflow: Overflow happened on: 1 + 1", "Arithmetic overflow: Overflow happened on: 1 + 1"),
        ] {
            assert_eq!(plain(message), expected);
        }
    }
}
