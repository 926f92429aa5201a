//! The error of a failed request: a stable code, a text, and whether the client may retry.
//!
//! Codes are part of the interface: docs/reference/http.md lists them, and their meaning never changes.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::ingest::IngestError;

/// Result of a request.
pub(crate) type Outcome<T> = std::result::Result<T, Problem>;

/// Kinds of failure, as a client acts on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Code {
    /// The request can't be understood.
    Request,
    /// The statement is wrong.
    Statement,
    /// The statement would change something, or rows came for a database that another copy leads.
    ReadOnly,
    /// No token, or a wrong one.
    Unauthorized,
    /// The token doesn't allow this.
    Forbidden,
    /// No such path, table or handle.
    NotFound,
    /// The message is larger than a message may be.
    TooLarge,
    /// The client was too slow to send, or to take updates.
    TooSlow,
    /// The statement needs more memory than it may have.
    Memory,
    /// The statement needs more time than it may have.
    Time,
    /// The answer has more rows than it may have.
    Rows,
    /// The client has cancelled it.
    Cancelled,
    /// Rows don't fit their table.
    Rejected,
    /// Rows don't follow on what their producer sent last.
    Conflict,
    /// The place to resume from is no longer kept.
    Gone,
    /// Too much at once.
    Busy,
    /// There is no room for rows now.
    Full,
    /// The server is stopping, or takes no rows.
    Closed,
    /// The provider that signs users in can't be asked.
    Provider,
    /// This server can't do that.
    Unsupported,
    /// Stored data is damaged.
    Corrupt,
    /// The rows are stored here, and no follower has said in time that it has them.
    Unconfirmed,
    /// A value of the statement can't be computed.
    Execution,
    /// Our fault.
    Internal,
}

impl Code {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Code::Request => "bad_request",
            Code::Statement => "statement",
            Code::ReadOnly => "read_only",
            Code::Unauthorized => "unauthorized",
            Code::Forbidden => "forbidden",
            Code::NotFound => "not_found",
            Code::TooLarge => "too_large",
            Code::TooSlow => "too_slow",
            Code::Memory => "memory",
            Code::Time => "time",
            Code::Rows => "rows",
            Code::Cancelled => "cancelled",
            Code::Rejected => "rejected",
            Code::Conflict => "conflict",
            Code::Gone => "gone",
            Code::Busy => "busy",
            Code::Full => "full",
            Code::Closed => "closed",
            Code::Provider => "provider",
            Code::Unsupported => "unsupported",
            Code::Corrupt => "corrupt",
            Code::Unconfirmed => "unconfirmed",
            Code::Execution => "execution",
            Code::Internal => "internal",
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        match self {
            Code::Request | Code::Statement | Code::Rejected => StatusCode::BAD_REQUEST,
            Code::Unauthorized => StatusCode::UNAUTHORIZED,
            Code::ReadOnly | Code::Forbidden => StatusCode::FORBIDDEN,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Code::Memory | Code::Time | Code::Rows | Code::Cancelled | Code::Execution => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Code::Conflict => StatusCode::CONFLICT,
            Code::Gone => StatusCode::GONE,
            Code::Busy | Code::Full | Code::Closed | Code::Provider => StatusCode::SERVICE_UNAVAILABLE,
            Code::Unconfirmed => StatusCode::GATEWAY_TIMEOUT,
            Code::Unsupported => StatusCode::NOT_IMPLEMENTED,
            Code::Corrupt | Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn grpc(self) -> tonic::Code {
        match self {
            Code::Request | Code::Statement | Code::Execution | Code::Rejected => tonic::Code::InvalidArgument,
            Code::Unauthorized => tonic::Code::Unauthenticated,
            Code::ReadOnly | Code::Forbidden => tonic::Code::PermissionDenied,
            Code::NotFound => tonic::Code::NotFound,
            Code::TooLarge | Code::Memory | Code::Rows => tonic::Code::ResourceExhausted,
            Code::TooSlow | Code::Time | Code::Unconfirmed => tonic::Code::DeadlineExceeded,
            Code::Cancelled => tonic::Code::Cancelled,
            Code::Conflict => tonic::Code::Aborted,
            Code::Gone => tonic::Code::OutOfRange,
            Code::Busy | Code::Full | Code::Closed | Code::Provider => tonic::Code::Unavailable,
            Code::Unsupported => tonic::Code::Unimplemented,
            Code::Corrupt => tonic::Code::DataLoss,
            Code::Internal => tonic::Code::Internal,
        }
    }

    /// Whether the same request may succeed later.
    pub(crate) fn is_retryable(self) -> bool {
        matches!(self, Code::Busy | Code::Full | Code::Closed | Code::Provider | Code::TooSlow)
    }
}

/// The error that a client gets.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// When it may be tried again, where that is known.
    pub(crate) after: Option<Duration>,
    /// The quota that refused it, with its role.
    pub(crate) quota: Option<String>,
}

impl Problem {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Problem {
        Problem { code, message: message.into(), after: None, quota: None }
    }

    /// The same, to be tried again after some time.
    pub(crate) fn after(self, after: Duration) -> Problem {
        Problem { after: Some(after), ..self }
    }

    /// The same, refused by a quota.
    pub(crate) fn of_quota(self, quota: String) -> Problem {
        Problem { quota: Some(quota), ..self }
    }

    /// Whole seconds after which it may be tried again.
    pub(crate) fn retry_seconds(&self) -> u64 {
        let rounded_up = |after: Duration| after.as_secs().saturating_add(u64::from(after.subsec_nanos() > 0));
        self.after.map_or(1, rounded_up).max(1)
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let retryable = self.code.is_retryable();
        let mut body_json = json!({ "error": self.message, "code": self.code.as_str(), "retryable": retryable });
        if let Some(quota) = &self.quota {
            body_json["quota"] = json!(quota);
        }
        if self.after.is_some() {
            body_json["retry_after"] = json!(self.retry_seconds());
        }
        body_json
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.code.status(), Json(self.json())).into_response();
        let headers = response.headers_mut();
        if self.code.is_retryable() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(self.retry_seconds()));
        }
        if self.code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Problem> for tonic::Status {
    fn from(problem: Problem) -> tonic::Status {
        let details = problem.json().to_string();
        tonic::Status::with_details(problem.code.grpc(), problem.message, details.into())
    }
}

impl From<splay_store::Error> for Problem {
    fn from(error: splay_store::Error) -> Problem {
        Problem::from(&error)
    }
}

impl From<&splay_store::Error> for Problem {
    fn from(error: &splay_store::Error) -> Problem {
        use splay_store::Error as E;
        use splay_store::object::ObjectFault;
        let code = match error {
            E::NoSuchTable { .. } => Code::NotFound,
            E::NoSuchColumn { .. } => Code::Statement,
            E::Denied { .. } => Code::Forbidden,
            E::Name { .. } | E::Schema { .. } | E::Row { .. } | E::DuplicateKey { .. } => Code::Rejected,
            E::Corrupt { .. } | E::FormatVersion { .. } => Code::Corrupt,
            E::Locked { .. } | E::RowsElsewhere { .. } => Code::Busy,
            E::NoSuchCommit { .. } | E::CannotUndo { .. } | E::Captured { .. } => Code::Statement,
            E::Refused { .. } => Code::Execution,
            E::Object { fault: ObjectFault::Passing, .. } => Code::Busy,
            _ => Code::Internal,
        };
        // Only the operator may learn where files are.
        let message = match error {
            E::Corrupt { .. } | E::FormatVersion { .. } | E::NotADatabase { .. } => {
                tracing::error!(%error, "the store can't give data");
                "stored data can't be read; the server's log says which file".to_owned()
            }
            E::Io { .. } => {
                tracing::error!(%error, "a file can't be read or written");
                "a file can't be read or written; the server's log says which".to_owned()
            }
            E::Encrypted { key, .. } => {
                tracing::error!(%error, "a file can't be decrypted");
                format!("stored data is encrypted under key {key:?}, which the server can't use; its log says why")
            }
            E::Object { .. } => {
                tracing::error!(%error, "an object can't be read or written");
                "an object can't be read or written; the server's log says which".to_owned()
            }
            other => other.to_string(),
        };
        Problem::new(code, message)
    }
}

impl From<splay_sql::Error> for Problem {
    fn from(error: splay_sql::Error) -> Problem {
        use splay_sql::Error as E;
        let code = match &error {
            E::Statement { .. } => Code::Statement,
            E::ReadOnly { .. } => Code::ReadOnly,
            E::Memory { .. } => Code::Memory,
            E::TotalMemory { .. } => Code::Busy,
            E::Store(store) => return Problem::from(store),
            E::Cancelled => Code::Time,
            E::Execution { .. } => Code::Execution,
            _ => Code::Internal,
        };
        Problem::new(code, error.to_string())
    }
}

impl From<IngestError> for Problem {
    fn from(error: IngestError) -> Problem {
        let code = match &error {
            IngestError::Full { .. } => Code::Full,
            IngestError::Unreplicated { .. } | IngestError::TooFast { .. } => Code::Busy,
            IngestError::Unconfirmed => Code::Unconfirmed,
            IngestError::Fenced { .. } | IngestError::Following { .. } => Code::ReadOnly,
            IngestError::Closed => Code::Closed,
            IngestError::Rejected { .. } | IngestError::NotPromoted { .. } => Code::Rejected,
            IngestError::OutOfTurn { .. } => Code::Conflict,
            IngestError::NoSuchTable { .. } => Code::NotFound,
            IngestError::Gone { .. } => Code::Gone,
            IngestError::Slow { .. } => Code::TooSlow,
            IngestError::Store(store) => return Problem::from(store.as_ref()),
            IngestError::Damaged { .. } => Code::Corrupt,
            _ => Code::Internal,
        };
        if let IngestError::TooFast { after, .. } = &error {
            return Problem::new(code, error.to_string()).after(*after);
        }
        if matches!(code, Code::Corrupt | Code::Internal) {
            tracing::error!(%error, "capture can't go on");
            return Problem::new(code, "capture can't go on; the server's log says why");
        }
        Problem::new(code, error.to_string())
    }
}

/// An answer of more rows than a limit lets pass.
pub(crate) fn too_many_rows(rows_max: u64) -> Problem {
    Problem::new(Code::Rows, format!("the answer has more than {rows_max} rows"))
}
