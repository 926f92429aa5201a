//! Settings of a decoder: plain data, and the units of timestamps.

/// What a [`LineDecoder`](super::LineDecoder) accepts, and how much it buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineSettings {
    /// Name of the time column of tables that don't exist yet. Default `time`; QuestDB's is `timestamp`.
    pub time_column: String,
    /// Unit of timestamps without a suffix. Default nanoseconds, as in both protocols.
    pub precision: Precision,
    /// Longest line in bytes, its line feed included. A longer one is refused. Default 64 KiB.
    pub line_bytes_max: usize,
    /// Most columns of a table, the time column included. A line that would add more is refused. Default 4,096, the
    /// store's own limit.
    pub columns_max: usize,
    /// Most tables of one batch; the decoder is full before the line that names one more. Default 1,024.
    pub tables_max: usize,
    /// Most rows of one batch, over all tables; the decoder is full at that number. Default 65,536.
    pub rows_max: usize,
    /// Most bytes of one batch's columns, nulls counted as values; the decoder is full before the line that would pass it.
    /// Default 64 MiB, at most 1 GiB.
    pub batch_bytes_max: usize,
    /// Most bytes of one batch's rows in all columns of their tables, nulls counted as values: rows of a wide table are many bytes
    /// even if they name few columns. The decoder is full before the line that would pass it. Default 48 MiB.
    pub stored_bytes_max: usize,
    /// Most errors kept between two calls of [`take_errors`](super::LineDecoder::take_errors); more are only counted.
    /// Default 1,000.
    pub errors_max: usize,
}

impl Default for LineSettings {
    fn default() -> LineSettings {
        LineSettings {
            time_column: "time".to_owned(),
            precision: Precision::Nanoseconds,
            line_bytes_max: 64 << 10,
            columns_max: splay_store::COLUMNS_MAX,
            tables_max: 1024,
            rows_max: 65_536,
            batch_bytes_max: 64 << 20,
            stored_bytes_max: 48 << 20,
            errors_max: 1000,
        }
    }
}

/// Most bytes of a batch: offsets of texts are 32 bits wide.
const BATCH_BYTES_CEILING: usize = 1 << 30;

impl LineSettings {
    /// The same settings with limits of zero raised to one, and none above what the store and Arrow can hold.
    pub(super) fn bounded(mut self) -> LineSettings {
        self.line_bytes_max = self.line_bytes_max.clamp(1, BATCH_BYTES_CEILING / 4);
        self.columns_max = self.columns_max.clamp(2, splay_store::COLUMNS_MAX);
        self.tables_max = self.tables_max.max(1);
        self.rows_max = self.rows_max.clamp(1, 1 << 24);
        self.batch_bytes_max = self.batch_bytes_max.clamp(1, BATCH_BYTES_CEILING);
        self.stored_bytes_max = self.stored_bytes_max.clamp(1, BATCH_BYTES_CEILING);
        self
    }
}

/// Unit of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// Billionths of a second.
    #[default]
    Nanoseconds,
    /// Millionths of a second.
    Microseconds,
    /// Thousandths of a second.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Minutes.
    Minutes,
    /// Hours.
    Hours,
}

impl Precision {
    /// The timestamp in nanoseconds, or `None` if 64 bits don't hold it.
    #[must_use]
    pub fn nanoseconds(self, timestamp: i64) -> Option<i64> {
        timestamp.checked_mul(match self {
            Precision::Nanoseconds => 1,
            Precision::Microseconds => 1_000,
            Precision::Milliseconds => 1_000_000,
            Precision::Seconds => 1_000_000_000,
            Precision::Minutes => 60_000_000_000,
            Precision::Hours => 3_600_000_000_000,
        })
    }
}

impl std::str::FromStr for Precision {
    type Err = String;

    /// Reads the values of InfluxDB's parameter `precision`: `ns`, `us`, `ms`, `s`, and version 1's `n`, `u`, `m` and `h`.
    fn from_str(text: &str) -> Result<Precision, String> {
        Ok(match text {
            "ns" | "n" => Precision::Nanoseconds,
            "us" | "u" | "µs" => Precision::Microseconds,
            "ms" => Precision::Milliseconds,
            "s" => Precision::Seconds,
            "m" => Precision::Minutes,
            "h" => Precision::Hours,
            _ => return Err(format!("{text:?} is not a precision; there are ns, us, ms, s, m, h")),
        })
    }
}
