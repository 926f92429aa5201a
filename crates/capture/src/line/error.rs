//! Why a line was refused.

/// Longest piece of a refused line that an error keeps, in bytes.
pub(super) const SAMPLE_BYTES_MAX: usize = 120;

/// A line that was refused. The lines around it are not touched by it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, byte {offset}: {reason}: {}", readable(sample))]
pub struct LineError {
    /// Number of the line in its stream, from 1. A line with line feeds inside quotes counts once.
    pub line: u64,
    /// Bytes of the stream before the fault.
    pub offset: u64,
    /// Why the line is refused.
    pub reason: Reason,
    /// The beginning of the line, at most 120 bytes of what had arrived.
    pub sample: Vec<u8>,
}

/// A piece of a line, with control characters escaped: it is shown, logged, and quoted by JSON.
fn readable(sample: &[u8]) -> String {
    let mut text = String::with_capacity(sample.len());
    for letter in String::from_utf8_lossy(sample).chars() {
        match letter.is_control() {
            true => text.extend(letter.escape_default()),
            false => text.push(letter),
        }
    }
    text
}

/// Why a line is refused. The sender has to change what it sends; sending the line again doesn't help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The line doesn't have the shape of the protocol.
    #[error("expected {expected}")]
    Syntax {
        /// What was expected at the position.
        expected: &'static str,
    },
    /// A quote is opened and not closed before the longest line ends.
    #[error("a quote is opened and never closed")]
    UnclosedQuote,
    /// The line is longer than [`line_bytes_max`](super::LineSettings::line_bytes_max).
    #[error("longer than {line_bytes_max} bytes")]
    TooLong {
        /// The limit.
        line_bytes_max: usize,
    },
    /// The table would have more than [`columns_max`](super::LineSettings::columns_max) columns.
    #[error("more than {columns_max} columns")]
    TooManyColumns {
        /// The limit.
        columns_max: usize,
    },
    /// A table's or column's name that can't be stored.
    #[error("{name:?} can't be the name of a {what}: {reason}")]
    Name {
        /// `table` or `column`.
        what: &'static str,
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An unquoted value that means nothing.
    #[error("{text:?} is not a value; text goes into double quotes")]
    NotAValue {
        /// The value's beginning.
        text: String,
    },
    /// A number that its type doesn't hold.
    #[error("{text:?} is out of range")]
    OutOfRange {
        /// The number.
        text: String,
    },
    /// A kind of value that tables can't hold.
    #[error("{what} can't be stored; {instead}")]
    Unsupported {
        /// The kind.
        what: &'static str,
        /// What to send instead.
        instead: &'static str,
    },
    /// The column holds values of another type.
    #[error("column {column:?} holds {holds}, not {value_kind}")]
    Conflict {
        /// The column.
        column: String,
        /// The kind of values that the column holds.
        holds: &'static str,
        /// The kind of the line's value.
        value_kind: &'static str,
    },
    /// Text that isn't UTF-8.
    #[error("text is not UTF-8")]
    NotUtf8,
}

/// Why the scanner stopped within a line.
#[derive(Debug)]
pub(super) enum ScanStop {
    /// The line continues after the available bytes.
    More(MissingInput),
    /// The line is bad. Boxed, since it is rare and results are passed around for every value.
    Refused(Box<LineRefusal>),
    /// The line is not looked at before the batch is taken.
    Full,
}

impl ScanStop {
    /// This stop; a refusal gets the end of its value.
    #[cold]
    pub fn behind(mut self, end: usize) -> ScanStop {
        if let ScanStop::Refused(refusal) = &mut self {
            refusal.resume = end;
            refusal.whole = true;
        }
        self
    }
}

/// The input that must arrive before it is worth reading the line again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingInput {
    /// A line feed.
    LineFeed,
    /// A quote, for the string that begins at this byte of the line.
    Quote(usize),
    /// The line has to have bytes up to the second position, for what lies from the first on.
    Bytes(usize, usize),
}

/// A reason, and the byte of the line where it is.
#[derive(Debug)]
pub(super) struct LineRefusal {
    pub reason: Reason,
    pub at: usize,
    /// The line's end is looked for from here on.
    pub resume: usize,
    /// `resume` is behind a value, so that the rest of the line can be read for its end alone.
    pub whole: bool,
    /// Whether quotes inside quoted text may be the cause.
    pub quotes: bool,
}

pub(super) type ScanResult<T> = Result<T, ScanStop>;

#[cold]
pub(super) fn refused(reason: Reason, at: usize) -> ScanStop {
    ScanStop::Refused(Box::new(LineRefusal { reason, at, resume: at, whole: false, quotes: false }))
}

/// A refusal whose cause ends at `end`, behind a value.
#[cold]
pub(super) fn refused_value(reason: Reason, at: usize, end: usize) -> ScanStop {
    ScanStop::Refused(Box::new(LineRefusal { reason, at, resume: end, whole: true, quotes: false }))
}

#[cold]
pub(super) fn expected(expected: &'static str, at: usize) -> ScanStop {
    refused(Reason::Syntax { expected }, at)
}

/// The beginning of a text for an error.
pub(super) fn excerpt(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(SAMPLE_BYTES_MAX)]).into_owned()
}
