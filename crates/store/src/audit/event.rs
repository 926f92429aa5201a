//! The content of a record.

use serde::Serialize;

/// Bytes of a statement's text in a record. What is longer is cut, which `…` at its end says.
pub const STATEMENT_BYTES_MAX: usize = 16 << 10;

/// Bytes of any other text.
const TEXT_BYTES_MAX: usize = 1024;

/// Bytes that an event takes in the queue besides its texts.
const EVENT_BYTES: usize = 256;

/// Something that happened. What isn't known is left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct AuditEvent {
    /// When, in nanoseconds since the epoch.
    #[serde(skip)]
    pub time: i64,
    /// What: `sign_in`, `statement`, `change`, …
    pub kind: &'static str,
    /// The actor: the name of a user, or of a token of the settings.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// The role with which the client was let in.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub role: &'static str,
    /// The protocol or command.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub wire: &'static str,
    /// From which address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// The table, view or role that it is about.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// The statement's text without secrets.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub statement: String,
    /// Messages of rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// How many messages were refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    /// Rows that were given, changed or taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub milliseconds: Option<f64>,
    /// `begun`, `ok`, or the code of an error.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub outcome: &'static str,
    /// Number of the record that says how it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// Further details.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub about: String,
}

impl AuditEvent {
    /// Something at a time.
    #[must_use]
    pub fn new(kind: &'static str, time: i64) -> AuditEvent {
        AuditEvent { kind, time, ..AuditEvent::default() }
    }

    /// The event with its texts cut to their limits.
    pub(super) fn truncated(mut self) -> AuditEvent {
        truncate(&mut self.statement, STATEMENT_BYTES_MAX);
        for text in [&mut self.user, &mut self.from, &mut self.object, &mut self.about] {
            truncate(text, TEXT_BYTES_MAX);
        }
        self
    }

    /// Bytes that it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        let texts = [&self.user, &self.from, &self.object, &self.statement, &self.about];
        texts.iter().fold(EVENT_BYTES, |sum, text| sum + text.len())
    }
}

fn truncate(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push('…');
    }
    // A long text was cut: its memory is released, so that it counts with the length that remains.
    if text.capacity() > bytes_max * 2 {
        text.shrink_to_fit();
    }
}
