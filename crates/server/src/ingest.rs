//! The interface to capture: rows in, live updates out.
//!
//! The server uses an [`Ingest`]. A [`Capture`] is one; the tests have another in memory, which can simulate a full
//! disk.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use splay_capture::{Capture, FollowerStatus, Leader, RefusedInput, ReplicationStatus, Status};
use splay_store::TableSpec;

pub use splay_capture::{
    Ack, AckClass, Append, BarRows, Bars, BarsRequest, Clock, Error as IngestError, Pace, Producer, Replay,
    ReplayRequest, ReplaySource, ReplaySpeed, ReplayView, SlowPolicy, StoredBarRows, SubscribeRequest,
    SubscriptionStart, SystemClock, Update, UpdateKind,
};

/// A running subscription.
pub trait Subscription: Send {
    /// The next update; waits for at most `timeout`. None: nothing came.
    ///
    /// # Errors
    /// The error that ends the subscription.
    fn next(&mut self, timeout: Duration) -> Result<Option<Update>, IngestError>;
}

/// A number for `/metrics`.
#[derive(Debug, Clone)]
pub struct IngestFigure {
    /// Name without prefix and suffix: `journal_bytes`.
    pub name: &'static str,
    /// The help text of the metric.
    pub help: &'static str,
    /// Whether it only grows.
    pub is_counter: bool,
    /// The table it is about.
    pub table: Option<String>,
    /// The number.
    pub value: u64,
    /// How the figure of several tables follows from theirs.
    pub of_several: FigureFold,
}

/// How a figure of several tables follows from theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureFold {
    /// Their sum.
    Sum,
    /// The least of them.
    Least,
}

/// The role of a database among its copies, and the state of these.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Replication {
    /// It takes rows, and others follow it.
    Leader(ReplicationStatus),
    /// It follows another one.
    Follower(FollowerStatus),
}

/// Called when an append is done, from any thread.
pub type IngestCallback = Box<dyn FnOnce(Result<Ack, IngestError>) + Send>;

/// The interface of capture that the server needs. Calls block; the server makes them on threads that may block.
pub trait Ingest: Send + Sync + std::fmt::Debug + 'static {
    /// Takes rows for one or several tables, all of them or none. Returns once they are accepted; blocks only as back-pressure. `done`
    /// is called with the ack, once.
    ///
    /// # Errors
    /// The refusal, if capture refuses them at once; `done` is then not called.
    fn submit(&self, appends: Vec<Append>, done: IngestCallback) -> Result<(), IngestError>;

    /// The schema of the table; `None` if there is no such table.
    ///
    /// # Errors
    /// [`IngestError::Store`].
    fn spec(&self, table: &str) -> Result<Option<TableSpec>, IngestError>;

    /// Starts a subscription.
    ///
    /// # Errors
    /// [`IngestError::NoSuchTable`], [`IngestError::Gone`], [`IngestError::Rejected`] for columns there aren't.
    fn subscribe(&self, request: SubscribeRequest) -> Result<Box<dyn Subscription>, IngestError>;

    /// Notes a message that was refused before it became rows.
    fn reject(&self, way: &'static str, reason: String, sample: &[u8]);

    /// Notes that so many more were refused of which nothing is known.
    fn reject_more(&self, _way: &'static str, _count: u64) {}

    /// Whether it takes rows.
    fn is_ready(&self) -> bool;

    /// Whether rows were refused for lack of room when they last came.
    fn is_full(&self) -> bool {
        false
    }

    /// Losses of the journal that the operator hasn't accepted.
    fn journal_losses(&self) -> usize {
        0
    }

    /// Why rows are refused for lack of room, if they are.
    fn full_reason(&self) -> Option<String> {
        self.is_full().then(|| "there is no room for rows".to_owned())
    }

    /// The time of rows that bring none, in nanoseconds since the epoch.
    fn row_time(&self) -> i64 {
        SystemClock::default().now()
    }

    /// Counters and state of capture, with the measurements of each table.
    fn status(&self) -> Status {
        Status::default()
    }

    /// The number of the last message of a producer that was taken; none if it isn't known.
    ///
    /// # Errors
    /// [`IngestError::Failed`].
    fn last_of(&self, producer: &str) -> Result<Option<u64>, IngestError>;

    /// Whether a sender may have to wait, for a look that costs nothing.
    fn may_pause(&self) -> bool {
        false
    }

    /// How long a sender who can wait is to do so before he hands over more rows.
    fn pause(&self) -> Duration {
        Duration::ZERO
    }

    /// Notes that a message of a producer was turned away before it came here, and comes again: later ones wait for it.
    fn turn_away(&self, _producer: &Producer) {}

    /// A producer gives up its messages up to a number that found no room. Whether any were waited for.
    fn give_up(&self, _producer: &str, _through: u64) -> bool {
        false
    }

    /// The newest refusals, oldest first.
    fn rejected(&self) -> Vec<RefusedInput> {
        Vec::new()
    }

    /// Numbers for `/metrics`.
    fn figures(&self) -> Vec<IngestFigure>;

    /// The database's role among its copies; `None` if it has none.
    fn replication(&self) -> Option<Replication> {
        None
    }

    /// The part that answers followers; `None` if there is nothing to follow.
    fn leader(&self) -> Option<Arc<dyn Leader>> {
        None
    }

    /// Refuses statements that change something, where another copy of the database is the one to change.
    ///
    /// # Errors
    /// [`IngestError::Following`], [`IngestError::Fenced`].
    fn check_changes(&self) -> Result<(), IngestError> {
        Ok(())
    }

    /// Makes a follower the leader, and gives its epoch; none for what isn't a follower.
    fn promote(&self) -> Option<Result<u64, IngestError>> {
        None
    }

    /// Stops taking rows, and syncs. Called once, when the server stops.
    ///
    /// # Errors
    /// The errors of a sync.
    fn close(&self) -> Result<(), IngestError>;
}

/// A figure of no table.
pub(crate) fn figure(is_counter: bool, name: &'static str, help: &'static str, value: u64) -> IngestFigure {
    IngestFigure { name, help, is_counter, table: None, value, of_several: FigureFold::Sum }
}

/// Whole seconds in nanoseconds.
fn seconds(nanoseconds: u64) -> u64 {
    nanoseconds / 1_000_000_000
}

impl Subscription for splay_capture::Subscriber {
    fn next(&mut self, timeout: Duration) -> Result<Option<Update>, IngestError> {
        splay_capture::Subscriber::next(self, timeout)
    }
}

impl Subscription for Replay {
    fn next(&mut self, timeout: Duration) -> Result<Option<Update>, IngestError> {
        Replay::next(self, timeout)
    }
}

impl Ingest for Capture {
    fn submit(&self, appends: Vec<Append>, done: IngestCallback) -> Result<(), IngestError> {
        Capture::submit_together(self, appends, done)
    }

    fn spec(&self, table: &str) -> Result<Option<TableSpec>, IngestError> {
        Ok(Capture::spec(self, table)?.map(|spec| TableSpec::clone(&spec)))
    }

    fn subscribe(&self, request: SubscribeRequest) -> Result<Box<dyn Subscription>, IngestError> {
        Ok(Box::new(Capture::subscribe(self, request)?))
    }

    fn reject(&self, way: &'static str, reason: String, sample: &[u8]) {
        Capture::reject(self, way, reason, sample);
    }

    fn reject_more(&self, way: &'static str, count: u64) {
        Capture::reject_more(self, way, count);
    }

    fn is_ready(&self) -> bool {
        !self.is_failed()
    }

    fn is_full(&self) -> bool {
        Capture::is_full(self)
    }

    fn journal_losses(&self) -> usize {
        Capture::journal_losses(self).len()
    }

    fn full_reason(&self) -> Option<String> {
        Capture::full_reason(self)
    }

    fn row_time(&self) -> i64 {
        Capture::row_time(self)
    }

    fn status(&self) -> Status {
        Capture::status(self)
    }

    fn last_of(&self, producer: &str) -> Result<Option<u64>, IngestError> {
        Capture::last_of(self, producer)
    }

    fn turn_away(&self, producer: &Producer) {
        Capture::turn_away(self, producer);
    }

    fn give_up(&self, producer: &str, through: u64) -> bool {
        Capture::give_up(self, producer, through)
    }

    fn rejected(&self) -> Vec<RefusedInput> {
        Capture::rejected(self)
    }

    fn figures(&self) -> Vec<IngestFigure> {
        let status = Capture::status(self);
        let counter = |name, help, value| figure(true, name, help, value);
        let gauge = |name, help, value| figure(false, name, help, value);
        let losses = status.journal_losses.len() as u64;
        let lost_batches =
            status.journal_losses.iter().map(splay_capture::JournalLoss::batches).fold(0, u64::saturating_add);
        let dedupe = || status.tables.iter().filter_map(|table| table.dedupe.as_ref());
        let dedupe_keys = dedupe().map(|dedupe| dedupe.keys).sum();
        let dedupe_limited = dedupe().filter(|dedupe| dedupe.is_limited).count() as u64;
        let mut figures = vec![
            gauge("capture_sequence", "Number of the last batch", status.sequence),
            counter("capture_batches", "Batches accepted", status.batches),
            counter("capture_rows", "Rows accepted", status.rows),
            counter("capture_duplicates", "Repeated batches, acknowledged and not stored again", status.duplicates),
            counter("capture_duplicate_rows", "Rows left out as duplicates of others", status.duplicate_rows),
            counter(
                "capture_uncompared_rows",
                "Rows stored without a comparison, because they were older than what is compared",
                status.uncompared_rows,
            ),
            gauge("capture_dedupe_keys", "Keys held to find duplicates by", dedupe_keys),
            gauge("capture_dedupe_limited", "Tables with more keys in their window than they may hold", dedupe_limited),
            counter("capture_quarantined", "Rows in quarantine", status.quarantined),
            counter("capture_rejected", "Batches and messages refused", status.rejected),
            gauge("capture_journal_bytes", "Bytes of the journal", status.journal_bytes),
            counter("capture_groups", "Groups written to the journal", status.groups),
            counter("capture_syncs", "Syncs of the journal", status.syncs),
            gauge("capture_queue_bytes", "Bytes that wait for the journal", status.queue_bytes),
            counter("capture_write_downs", "Write-downs done", status.write_downs),
            counter("capture_write_downs_failed", "Write-downs that failed", status.write_downs_failed),
            gauge("capture_journal_losses", "Losses of the journal that nobody has accepted", losses),
            gauge("capture_journal_lost_batches", "Batches lost with these losses, as far as known", lost_batches),
            gauge("capture_full", "Whether rows are refused for lack of disk space", u64::from(status.full)),
            gauge("capture_disk_reserve_bytes", "Size of the file that reserves disk space", status.disk.reserve_bytes),
            gauge("capture_disk_free_bytes_min", "Free bytes below which rows are refused", status.disk.free_bytes_min),
            counter("capture_disk_refused", "Batches refused for lack of disk space", status.disk.refused),
            counter(
                "capture_clock_steps_back",
                "Steps of the clock backward, of more than a second",
                status.clock.steps_back,
            ),
            counter(
                "capture_clock_steps_ahead",
                "Steps of the clock forward, of more than a second",
                status.clock.steps_ahead,
            ),
            gauge(
                "capture_clock_ahead_seconds",
                "Lead of receive times over the clock",
                seconds(status.clock.ahead_ns),
            ),
            counter(
                "capture_clock_behind_seconds",
                "Time during which the clock was behind receive times",
                seconds(status.clock.ahead_total_ns),
            ),
            gauge("capture_failed", "Whether capture has failed", u64::from(status.failed.is_some())),
        ];
        figures.extend(replication_figures(&Capture::replication(self)));
        figures.extend(
            status.disk.free_bytes.map(|free| gauge("capture_disk_free_bytes", "Free bytes of the disk", free)),
        );
        for table in status.tables {
            let of_table =
                |name, help, value| IngestFigure { table: Some(table.table.clone()), ..gauge(name, help, value) };
            figures.push(of_table("capture_live_rows", "Rows in memory", table.live_rows));
            figures.push(of_table("capture_live_bytes", "Bytes of rows in memory", table.live_bytes));
            let help = "Number of the last batch of which rows were written down";
            let written = of_table("capture_written_sequence", help, table.written_sequence);
            figures.push(IngestFigure { of_several: FigureFold::Least, ..written });
        }
        figures
    }

    fn replication(&self) -> Option<Replication> {
        let status = Capture::replication(self);
        (status.epoch > 0).then_some(Replication::Leader(status))
    }

    fn leader(&self) -> Option<Arc<dyn Leader>> {
        Some(Arc::new(self.clone()))
    }

    fn check_changes(&self) -> Result<(), IngestError> {
        Capture::check_changes(self)
    }

    fn close(&self) -> Result<(), IngestError> {
        Capture::close(self)
    }
}

/// The metrics of followers.
fn replication_figures(status: &ReplicationStatus) -> [IngestFigure; 6] {
    let connected = status.followers.iter().filter(|follower| follower.is_connected).count() as u64;
    [
        figure(false, "replication_epoch", "Epoch of the database; 0 if nobody ever followed it", status.epoch),
        figure(
            false,
            "replication_fenced",
            "Whether another copy was promoted, so that no rows are accepted",
            u64::from(status.fenced.is_some()),
        ),
        figure(false, "replication_followers", "Followers that are connected", connected),
        figure(false, "replication_waiting", "Batches that wait for followers", status.waiting),
        figure(true, "replication_acknowledged", "Batches acknowledged as replica", status.acknowledged),
        figure(true, "replication_unconfirmed", "Batches that no follower confirmed in time", status.unconfirmed),
    ]
}
