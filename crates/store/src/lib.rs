//! Tables on disk: ordered, date-partitioned, memory-mapped, safe against crashes.
//!
//! A [`Database`] is a folder of tables. Rows come in by a [`Load`], which orders them by (symbol, time, arrival) and makes
//! them visible by one commit. A reader takes a [`TableSnapshot`], narrows it by a [`Selection`] to the pieces that may hold
//! what it wants, and reads those as Arrow record batches, without a copy where the segment is an Arrow file.
//!
//! ```
//! use std::sync::Arc;
//! use arrow::array::{DictionaryArray, Float64Array, RecordBatch, TimestampNanosecondArray};
//! use arrow::datatypes::Int32Type;
//! use splay_store::{ColumnSpec, ColumnType, Database, LoadOptions, Selection, TableSpec};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let database = Database::create(folder.path())?;
//! let spec = TableSpec::new(
//!     "trade",
//!     vec![
//!         ColumnSpec::new("time", ColumnType::Timestamp),
//!         ColumnSpec::new("sym", ColumnType::Symbol),
//!         ColumnSpec::new("price", ColumnType::Float64),
//!     ],
//!     "time",
//!     Some("sym"),
//! );
//! let rows = RecordBatch::try_new(
//!     spec.arrow(),
//!     vec![
//!         Arc::new(TimestampNanosecondArray::from(vec![2, 1, 1]).with_timezone("UTC")),
//!         Arc::new(vec!["IBM", "IBM", "AIG"].into_iter().collect::<DictionaryArray<Int32Type>>()),
//!         Arc::new(Float64Array::from(vec![180.5, 180.4, 49.1])),
//!     ],
//! )?;
//! let mut load = database.load(&spec, LoadOptions::default())?;
//! load.append(&rows)?;
//! load.commit()?;
//!
//! let snapshot = database.table("trade")?.snapshot()?;
//! let selection = Selection { symbols: Some(vec!["IBM".to_owned()]), ..Selection::default() };
//! let (pieces, stats) = snapshot.select(&selection)?;
//! assert_eq!(stats.rows.selected, 2);
//! let ibm = pieces[0].segment.read(snapshot.spec(), &[0, 2], pieces[0].rows.clone())?;
//! assert_eq!(ibm.num_rows(), 2);
//! # Ok(())
//! # }
//! ```

mod access;
mod advise;
pub mod audit;
pub mod background;
mod backup;
mod byte_size;
mod change;
mod civil;
mod counted;
mod csv_rows;
mod database;
mod dates;
mod delta;
mod encryption;
mod error;
mod files_in_place;
mod floats;
mod folder_layout;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod index;
mod little_endian;
mod load;
mod maintain;
mod manifest;
mod near_names;
mod newest_date;
pub mod object;
mod observer;
mod partition;
pub mod priority;
mod publish;
mod rename;
mod replica;
mod retype;
mod row_key;
mod row_order;
mod schema;
mod segment;
mod select;
mod settings;
mod slice;
pub mod storage;
mod tier;
mod transaction_snapshots;
mod undo;
mod view_rows;
mod views;
mod virtual_date;
mod write;
mod write_down;
mod write_down_position;

pub use access::{
    Access, AccessToken, Grant, MONITOR, PUBLIC, Password, Permission, Policy, Privilege, Quota, READ_ALL, Rights,
    Role, RoleChange, RoleLimit, RowCondition, SCRAM_SHA_256, ScramVerifier, Secret, USER_WORDS, WRITE_ALL,
};
pub use advise::{Advice, AdviseSettings, ColumnAdvice, ColumnInTier, Goal, PartAdvice, TierAdvice};
pub use backup::{Backup, BackupFile, BackupReport, BackupWriter, RESTORE, TableCommit};
pub use byte_size::ByteSize;
pub use change::{CommitReport, ExpireReport, of_dates};
pub use chrono_tz::{TZ_VARIANTS, Tz};
pub use civil::CivilDate;
pub use counted::{Counted, Thousands};
pub use csv_rows::{csv_batch, csv_schema, write_csv_names, write_csv_rows};
pub use database::{CapturedRows, Database, FollowedRows, LiveRows, Partition, ReleasedName, Table, TableSnapshot};
pub use dates::{Dates, start_of_date};
pub use delta::PublishReport;
pub use encryption::EncryptionSettings;
pub use error::{Error, Result};
pub use files_in_place::{FileError, FileSlice, FileState, FileTarget, FilesInPlace, GroupStatistics, OpenFiles};
pub use floats::{canonical, in_form, one_nan};
pub use index::{BLOCK_ROWS, ColumnSummaries, SegmentIndex, Summary, ValueKind, sortable};
pub use load::{Load, LoadOptions, LoadReport, ObserveRows, OnConflict, Removal, Replace, ResolveConflicts};
pub use maintain::{CompactOptions, CompactReport, Problem};
pub use manifest::{FileEntry, Source};
pub use near_names::{did_you_mean, names_instead, nearest_name};
pub use object::ObjectSettings;
pub use observer::Observer;
pub use partition::{DayStart, Period, date, days};
pub use publish::Publish;
pub use replica::{HeadCache, NewCommit, NewSegment, ReplicaWriter, TableHead};
pub use row_key::{Dedupe, RowDigest, RowDigests};
pub use schema::{
    COLUMNS_MAX, ColumnSpec, ColumnType, DATE_COLUMN, Lifecycle, NAME_BYTES_MAX, QUARANTINE, REFERENCE_ROWS_MAX,
    Reference, Retention, SYMBOL_NAMES, TableSpec, TierRule, refuse_quarantine_name, validate_name,
};
pub use segment::{ColumnReader, ColumnStorage, FileFormat, RowList, Segment, SegmentBatches, chain, follows};
pub use select::{BlocksRead, Bounds, ColumnBounds, SegmentRows, SelectedCount, Selection, SelectionStats, blocks_of};
pub use settings::{Settings, TierSettings};
pub use slice::{CommitPin, PinnedCommits, Slice, SymbolRange};
pub use tier::Tier;
pub use transaction_snapshots::TransactionSnapshots;
pub use view_rows::{ViewPart, ViewPartitions};
pub use views::{View, refuse_drop_of_read};
pub use write_down_position::WriteDownPosition;
