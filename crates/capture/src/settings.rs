//! Settings of capture.

mod calendar;
mod dedupe;
mod quality;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use splay_store::DayStart;

use crate::append::AckClass;

pub use calendar::CalendarSettings;
pub use dedupe::DedupeSettings;
pub use quality::QualitySettings;

/// Settings of capture. Sizes are in bytes, times in seconds unless the name says otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CaptureSettings {
    /// Acknowledgement class for senders that name none. Default `disk`.
    pub default_ack: AckClass,
    /// Whether rows for an unknown table create it. Default true.
    pub create_tables: bool,
    /// Size at which the next journal file begins. Default 64 MiB.
    pub journal_segment_bytes: u64,
    /// Bytes of the journal that are kept for reconnecting subscribers although their rows are in the tables' files.
    /// Default 256 MiB.
    pub journal_keep_bytes: u64,
    /// Most columns that a table may get by incoming rows, its time column included. At most 4,096, which is the
    /// default.
    pub columns_max: usize,
    /// Most tables that one message may create, quarantine tables included. Each takes several syncs of the disk.
    /// Default 128.
    pub new_tables_max: usize,
    /// Most columns that one message may add to existing tables. Default 1,024.
    pub new_columns_max: usize,
    /// Bytes of rows that may wait for the journal before senders block. Default 64 MiB.
    pub queue_bytes_max: usize,
    /// Most bytes of one batch of rows. Default 64 MiB.
    pub batch_bytes_max: usize,
    /// Longest time until rows acknowledged as `process` or `memory` are synced, in milliseconds. Default 1,000.
    pub sync_interval_ms: u64,
    /// Number of followers that must have rows on their disks before these rows are acknowledged as `replica`. Default
    /// 1.
    pub replicas: usize,
    /// Milliseconds that a batch waits for these followers. A follower that is silent for this long counts as
    /// disconnected. Default 10,000.
    pub replica_timeout_ms: u64,
    /// Rows of a table in memory at which the table is written down. Default 4 million.
    pub live_rows_max: u64,
    /// Bytes of all tables' rows in memory at which the largest table is written down. At twice as many, rows are
    /// refused until memory is free again. Default 1 GiB.
    pub live_bytes_max: u64,
    /// Free bytes of the disk below which rows are refused, with an error that says to retry. At most a twentieth of
    /// the file system. Default 256 MiB.
    pub disk_free_bytes_min: u64,
    /// Size of the reserve: a file that is removed when the disk is full, to make room for write-downs and a clean
    /// stop. At most a twentieth of the file system. Default 64 MiB.
    pub disk_reserve_bytes: u64,
    /// Age of the oldest row in memory at which its table is written down. Default 3,600.
    pub write_down_age_s: u64,
    /// How long rows stay in memory after their own time, so that rows that arrive late are merged in memory and not in
    /// files. Default 10.
    pub late_s: u64,
    /// How far ahead of the clock the time of a row may be. Rows further ahead go to the table's quarantine. Default
    /// 300.
    pub future_s: u64,
    /// Time from the end of a date to its roll, at least `late_s`. If late rows arrive for an ended date, it is rolled
    /// again once none have arrived for this long. Default 60.
    pub roll_delay_s: u64,
    /// How long a silent producer is remembered, so that its repeats are recognised. Applies once there are 65,536
    /// producers. Default 86,400.
    pub producer_memory_s: u64,
    /// Whether rows are written down and dates rolled automatically. If false, only on request. Default true.
    pub automatic: bool,
    /// Time zone of the dates of tables that rows create, if their sender names none or UTC. Default UTC.
    pub time_zone: Option<String>,
    /// Start of these dates by the clock of that zone: `17:00` means 17:00 of the day before. Default midnight.
    pub day_start: Option<DayStart>,
    /// Zones and delays of single tables.
    pub calendars: BTreeMap<String, CalendarSettings>,
    /// Which rows are left out as duplicates, by table. Default: none.
    pub dedupe: BTreeMap<String, DedupeSettings>,
    /// Columns by which the quality of feeds is watched, by table. Default: columns with the usual names.
    pub quality: BTreeMap<String, QualitySettings>,
}

impl Default for CaptureSettings {
    fn default() -> CaptureSettings {
        CaptureSettings {
            default_ack: AckClass::Disk,
            create_tables: true,
            journal_segment_bytes: 64 << 20,
            journal_keep_bytes: 256 << 20,
            columns_max: splay_store::COLUMNS_MAX,
            new_tables_max: 128,
            new_columns_max: 1_024,
            queue_bytes_max: 64 << 20,
            batch_bytes_max: 64 << 20,
            sync_interval_ms: 1_000,
            replicas: 1,
            replica_timeout_ms: 10_000,
            live_rows_max: 4_000_000,
            live_bytes_max: 1 << 30,
            disk_free_bytes_min: 256 << 20,
            disk_reserve_bytes: 64 << 20,
            write_down_age_s: 3_600,
            late_s: 10,
            future_s: 300,
            roll_delay_s: 60,
            producer_memory_s: 86_400,
            automatic: true,
            time_zone: None,
            day_start: None,
            calendars: BTreeMap::new(),
            dedupe: BTreeMap::new(),
            quality: BTreeMap::new(),
        }
    }
}

impl CaptureSettings {
    /// Settings from a JSON object by their names. Settings that it lacks have their defaults.
    ///
    /// # Errors
    /// What is wrong with a name or a value.
    pub fn from_json(text: &str) -> Result<CaptureSettings, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_taken_by_name_and_others_refused() {
        let text =
            r#"{"late_s": 3, "default_ack": "process", "quality": {"quote": {"sequence": "number", "venue": ""}}}"#;
        let settings = CaptureSettings::from_json(text).unwrap();
        assert_eq!((settings.late_s, settings.default_ack), (3, AckClass::Process));
        assert_eq!(settings.quality["quote"].sequence.as_deref(), Some("number"));
        assert_eq!(settings.future_s, CaptureSettings::default().future_s);
        let settings = CaptureSettings::from_json(r#"{"dedupe": {"trade": {"key": "seq,venue"}}}"#).unwrap();
        assert_eq!((settings.dedupe["trade"].key.as_str(), settings.dedupe["trade"].window_s), ("seq,venue", 60));
        for (text, why) in [
            (r#"{"lates": 3}"#, "unknown field `lates`"),
            (r#"{"late_s": -3}"#, "invalid value"),
            (r#"{"quality": {"quote": {"seq": "n"}}}"#, "unknown field `seq`"),
            (r#"{"dedupe": {"quote": {"window": 5}}}"#, "unknown field `window`"),
            (r#"{"default_ack": "often"}"#, "unknown variant `often`"),
        ] {
            let refused = CaptureSettings::from_json(text).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
