//! Capture: from feed to journal to real-time table to history, with nothing lost on the way.
//!
//! A [`Capture`] takes batches of rows for the tables of a database. Each is numbered, written to the journal, visible to queries
//! through the database's snapshots, and acknowledged; rows move on to the tables' files in the background, in one instant for
//! every reader. After a crash [`Capture::open`] brings everything back that was acknowledged.
//!
//! ```
//! use std::sync::Arc;
//! use arrow::array::{DictionaryArray, Float64Array, RecordBatch, TimestampNanosecondArray};
//! use arrow::datatypes::Int32Type;
//! use splay_capture::{Append, Capture, CaptureSettings};
//! use splay_store::Database;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let database = Database::create(folder.path())?;
//! let (capture, _) = Capture::open(database.clone(), CaptureSettings::default())?;
//! let rows = RecordBatch::try_from_iter([
//!     ("time", Arc::new(TimestampNanosecondArray::from(vec![1]).with_timezone("UTC")) as _),
//!     ("sym", Arc::new(vec!["IBM"].into_iter().collect::<DictionaryArray<Int32Type>>()) as _),
//!     ("price", Arc::new(Float64Array::from(vec![180.5])) as _),
//! ])?;
//! let ack = capture.append(Append::new("trade", rows))?;
//! assert_eq!((ack.sequence, ack.rows), (1, 1));
//! assert_eq!(database.table("trade")?.snapshot()?.rows(), 1);
//! capture.close()?;
//! # Ok(())
//! # }
//! ```

mod append;
mod backup;
mod bars;
mod calendar;
mod capture;
mod capture_state;
mod captured_rows;
mod clock;
mod codec;
mod conform;
mod dedupe;
mod dedupe_rules;
mod disk;
mod error;
mod follow;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod journal;
mod layer_compaction;
pub mod line;
mod live;
mod maintenance;
mod measure;
mod nulls;
mod queue;
mod receipt;
mod recovery;
mod refusals;
mod replay;
mod replica;
mod report;
mod retransmit_guard;
mod set_aside;
mod settings;
mod settle;
mod signal;
mod size_estimate;
mod status;
mod stored_tables;
mod subscribe;
mod subscribers;
mod subscription_filter;
mod table_options;
pub mod text;
mod tickerplant;
mod write_down;

pub use append::{Ack, AckClass, Append, Producer};
pub use backup::{back_up, back_up_with};
pub use bars::{BARS_MAX, BarRows, Bars, BarsRequest, StoredBarRows};
pub use capture::Capture;
pub use clock::{Clock, SystemClock};
pub use disk::DiskStatus;
pub use error::{Error, Result};
pub use follow::{FOLLOWED_BYTES, FollowSettings, follow};
pub use journal::{
    JournalFileReport, JournalLoss, JournalReport, JournalTableReport, LossKind, MissingNumbers, Position,
    RecoveredBatch,
};
pub use maintenance::RollReport;
pub use measure::{Defects, LATENCY_BOUNDS, Latencies, Latency, Quality, SeriesQuality, latency_bounds};
pub use receipt::ClockStatus;
pub use refusals::RefusedInput;
pub use replay::{Pace, Replay, ReplayRequest, ReplaySource, ReplaySpeed, ReplayView};
pub use replica::{
    EpochEnd, Follower, FollowerIdentity, FollowerSettings, FollowerStatus, FollowerView, JournalEnd, JournalPart,
    Leader, LeaderState, PartKind, Replica, ReplicaState, ReplicationStatus, Role, promote, role,
};
pub use report::{Report, TableReport};
pub use set_aside::{SetAsideReport, SkippedBatch};
pub use settings::{CalendarSettings, CaptureSettings, DedupeSettings, QualitySettings};
pub use settle::settle;
pub use status::{DedupeStatus, ProducerStatus, RecoveryStatus, Status, SubscriberStatus, TableStatus};
pub use subscribe::{SlowPolicy, SubscribeRequest, Subscriber, SubscriptionStart, Update, UpdateKind};
pub use table_options::TableOptions;
pub use write_down::WriteDownReport;
