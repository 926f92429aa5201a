//! Maintenance: bounds the rows in memory by write-downs, rolls dates that have ended, and moves and removes old ones.
//!
//! A roll writes an ended date's rows down and merges its segments. It may be interrupted anywhere and repeated. If
//! later rows arrive for such a date, it is rolled once more when none have arrived for a while.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde::Serialize;
use splay_store::{CompactOptions, Table, Tier, background};

use crate::capture_state::CaptureState;
use crate::clock::seconds;
use crate::error::{Error, Result};
use crate::live::LiveTable;
use crate::refusals::RefusalLog;
use crate::signal::Signal;
use crate::write_down::{WriteDownScope, write_down};

/// How often the thread looks.
const INTERVAL: Duration = Duration::from_millis(50);

/// The pause after a failed write-down, and between checks of the calendar.
const PAUSE: Duration = Duration::from_secs(1);

/// Interval of the upkeep: dates beyond a retention or due for another tier, and retired files that are old enough to be removed.
const MAINTENANCE: Duration = Duration::from_secs(600);

/// The longest time that one round moves dates to other tiers, except for finishing a date: meanwhile no rows are written down.
const MOVING_MAX: Duration = Duration::from_secs(10);

/// Memory of a compaction.
const COMPACT_BYTES: usize = 1 << 30;

/// The outcome of a roll.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RollReport {
    /// Rows written to files.
    pub rows: u64,
    /// Partitions whose segments were joined.
    pub partitions: usize,
}

/// How far a table has been rolled.
#[derive(Debug, Clone, Copy)]
struct RollState {
    /// The newest date.
    date: i32,
    /// Rows that had come in by then for dates that had ended.
    late_rows: u64,
    /// Until then it isn't done once more for such rows.
    rest_until: Instant,
}

impl RollState {
    /// How many times as long as it took a roll isn't done once more: one late row makes a whole date be written anew.
    const REST: u32 = 20;
}

/// The maintenance thread.
#[derive(Debug)]
pub(crate) struct Maintenance {
    shared: Weak<CaptureState>,
    /// How far tables have been rolled, by table.
    rolled: HashMap<String, RollState>,
    paused_until: Option<Instant>,
    calendar_due: Instant,
    maintenance_due: Instant,
    log: RefusalLog,
}

impl Maintenance {
    pub(crate) fn new(shared: Weak<CaptureState>) -> Maintenance {
        Maintenance {
            shared,
            rolled: HashMap::new(),
            paused_until: None,
            calendar_due: Instant::now(),
            maintenance_due: Instant::now() + PAUSE,
            log: RefusalLog::default(),
        }
    }

    pub(crate) fn run(mut self, signal: &Signal) {
        background::enter();
        loop {
            // The strong reference isn't kept while waiting: when the last clone of a capture is dropped, the thread ends.
            let Some(shared) = self.shared.upgrade() else { return };
            shared.disk.tend();
            let is_paused = self.paused_until.is_some_and(|until| Instant::now() < until);
            if shared.settings.automatic
                && !is_paused
                && let Err(error) = self.look(&shared)
            {
                tracing::warn!(%error, "rows stay in memory for now");
                shared.counters.write_downs_failed.add(1);
                self.paused_until = Some(Instant::now() + PAUSE);
            }
            self.log.write(shared.database.raw_storage().as_ref(), &shared.refusals);
            drop(shared);
            if !signal.wait(INTERVAL) {
                if let Some(shared) = self.shared.upgrade() {
                    self.log.write(shared.database.raw_storage().as_ref(), &shared.refusals);
                }
                return;
            }
        }
    }

    /// Does what is due. An error of one table doesn't stop the work on the others; the first error is returned.
    fn look(&mut self, shared: &Arc<CaptureState>) -> Result<()> {
        let settings = &shared.settings;
        let all = shared.all_live();
        let mut done = Ok(());
        for live in &all {
            // In this order: no row came in later than now.
            let (size, now) = (live.size(), shared.receipt.now());
            let age = |since: i64| now.saturating_sub(since);
            let is_old = size.since.is_some_and(|since| age(since) > seconds(settings.write_down_age_s));
            if size.rows >= settings.live_rows_max {
                done = done.and(write_down(shared, live, WriteDownScope::Settled).map(drop));
            } else if is_old && size.rows > 0 {
                done = done.and(write_down(shared, live, WriteDownScope::Past).map(drop));
            }
        }
        if shared.live_bytes() > settings.live_bytes_max {
            done = done.and(write_largest_down(shared, &all));
        }
        if Instant::now() >= self.calendar_due {
            self.calendar_due = Instant::now() + PAUSE;
            for live in &all {
                done = done.and(self.roll_if_due(shared, live));
            }
        }
        // Before senders are refused for long, what is kept for undo makes room.
        let is_full = shared.disk.is_refusing() && Instant::now() + MAINTENANCE > self.maintenance_due + PAUSE;
        if is_full || Instant::now() >= self.maintenance_due {
            self.maintenance_due = Instant::now() + MAINTENANCE;
            done = done.and(maintain(shared, is_full));
        }
        done
    }

    fn roll_if_due(&mut self, shared: &CaptureState, live: &LiveTable) -> Result<()> {
        let (late, now) = (live.meter().late_days(), shared.clock.now());
        let today = today(shared, live, now)?;
        let name = live.spec().name.clone();
        let quiet = now.saturating_sub(shared.calendars.of(&name).roll_delay);
        let is_quiet = late.at <= quiet || late.at > now;
        // Joining segments takes room: it waits until there is some.
        if shared.disk.is_refusing() {
            return Ok(());
        }
        let is_due = self.rolled.get_mut(&name).is_none_or(|rolled| {
            // A clock that was ahead rolled dates that end only now.
            rolled.date = rolled.date.min(today - 1);
            let is_amended = rolled.late_rows != late.rows && is_quiet && Instant::now() >= rolled.rest_until;
            rolled.date < today - 1 || is_amended
        });
        if is_due && !is_coming_in(shared, live, today)? {
            let begun = Instant::now();
            roll_table(shared, live, today)?;
            let rest_until = Instant::now() + begun.elapsed() * RollState::REST;
            self.rolled.insert(name, RollState { date: today - 1, late_rows: late.rows, rest_until });
        }
        Ok(())
    }
}

/// Removes dates beyond the tables' retention, and files that were kept long enough for undo; all of these if the disk is full.
fn maintain(shared: &CaptureState, is_full: bool) -> Result<()> {
    for name in shared.database.tables()? {
        let changes = shared.table_changes.lock().unwrap_or_else(PoisonError::into_inner);
        shared.check()?;
        let table = shared.database.table(&name)?;
        let retention = match table.stored() {
            Ok(stored) => stored.spec().retention,
            // It doesn't keep the others from being maintained.
            Err(_) => continue,
        };
        if !retention.is_unbounded() {
            let expired = shared.settled(table.expire(retention, false))?;
            if !expired.dates.is_empty() {
                tracing::info!(table = %name, dates = expired.dates.len(), rows = expired.rows, "dates beyond the retention removed");
            }
        }
        publish(shared, &table)?;
        shared.settled(table.forget(is_full))?;
        drop(changes);
        move_to_tiers(shared, &table)?;
    }
    Ok(())
}

/// Brings a table's Delta table up to date, if it is published; before files go that others may read still. The rest of the upkeep doesn't
/// depend on it. The caller holds the right to change.
fn publish(shared: &CaptureState, table: &Table) -> Result<()> {
    if table.stored()?.spec().publish.is_none() {
        return Ok(());
    }
    match table.publish() {
        Ok(report) if report.is_new => {
            tracing::info!(table = %table.name(), version = report.version, commit = report.epoch, files = report.files, "Delta table brought up to date");
        }
        Ok(_) => {}
        Err(error) if error.leaves_disk_unknown() => return shared.settled(Err(error)),
        Err(error) => tracing::warn!(table = %table.name(), %error, "Delta table not brought up to date"),
    }
    Ok(())
}

/// Moves dates to the tiers of their age. Rows are written down between one date and the next; what a while isn't enough for is left to
/// the next look.
fn move_to_tiers(shared: &CaptureState, table: &Table) -> Result<()> {
    let begun = Instant::now();
    for (date, tier) in table.stored()?.due_moves() {
        if shared.disk.is_refusing() || begun.elapsed() > MOVING_MAX {
            break;
        }
        // Before anybody has to wait for it.
        if tier == Tier::Object
            && let Err(error) = shared.database.claim_objects()
        {
            tracing::warn!(table = %table.name(), %error, "dates that are to move to the object store stay for now");
            break;
        }
        let _changes = shared.table_changes.lock().unwrap_or_else(PoisonError::into_inner);
        shared.check()?;
        let options = CompactOptions { date: Some(date), memory_bytes: COMPACT_BYTES, ..CompactOptions::default() };
        let moved = table.compact(&options, &mut |_| std::ops::ControlFlow::Continue(()));
        let moved = match moved {
            // The rest of the upkeep doesn't depend on it.
            Err(error @ splay_store::Error::Object { .. }) => {
                tracing::warn!(table = %table.name(), %error, "a date that is to move to another tier stays for now");
                break;
            }
            moved => shared.settled(moved)?,
        };
        let (before, after) = moved.bytes;
        tracing::info!(table = %table.name(), date = %splay_store::date(date), tier = tier.name(), before, after, "date moved to another tier");
    }
    Ok(())
}

/// Makes room by the table that holds most. One whose files are damaged keeps its rows in memory, and the next largest makes room.
fn write_largest_down(shared: &CaptureState, all: &[Arc<LiveTable>]) -> Result<()> {
    let mut by_size = all.to_vec();
    by_size.sort_by_key(|live| std::cmp::Reverse(live.size().bytes));
    let mut done = Ok(());
    for live in &by_size {
        let written = write_down(shared, live, WriteDownScope::Settled).map(drop);
        let is_damaged = matches!(&written, Err(Error::Store(error)) if error.is_damage());
        done = done.and(written);
        if !is_damaged {
            break;
        }
    }
    done
}

/// The oldest date that hasn't ended, in the table's time zone.
pub(crate) fn today(shared: &CaptureState, live: &LiveTable, now: i64) -> Result<i32> {
    let spec = live.spec();
    let at = now.saturating_sub(shared.calendars.of(&spec.name).roll_delay);
    Ok(spec.dates()?.of(at))
}

/// Whether rows of ended dates are coming in right now, from a file that is sent, say: they would be rolled piece by piece.
fn is_coming_in(shared: &CaptureState, live: &LiveTable, today: i32) -> Result<bool> {
    let (size, now) = (live.size(), shared.receipt.now());
    let fresh = now.saturating_sub(shared.calendars.of(&live.spec().name).roll_delay);
    let is_fresh = size.since.is_some_and(|since| since > fresh);
    Ok(is_fresh && has_ended(live, today)?)
}

/// Whether there are live rows of dates before this one.
fn has_ended(live: &LiveTable, today: i32) -> Result<bool> {
    let size = live.size();
    Ok(size.rows > 0 && live.spec().dates()?.of(size.earliest) < today)
}

pub(crate) fn roll_table(shared: &CaptureState, live: &LiveTable, today: i32) -> Result<RollReport> {
    let mut report = RollReport::default();
    if has_ended(live, today)? {
        report.rows = write_down(shared, live, WriteDownScope::Past)?.rows;
    }
    // Joined segments stand beside those that they replace for a while.
    if shared.disk.is_refusing() {
        return Err(shared.disk.error());
    }
    let _changes = shared.table_changes.lock().unwrap_or_else(PoisonError::into_inner);
    shared.check()?;
    if live.is_retired() {
        return Ok(report);
    }
    let options = CompactOptions { before: Some(today), memory_bytes: COMPACT_BYTES, ..CompactOptions::default() };
    let compacted = live.table().compact(&options, &mut |_| std::ops::ControlFlow::Continue(()));
    report.partitions = shared.settled(compacted)?.partitions;
    live.rolled_at.store(shared.clock.now(), Ordering::Relaxed);
    Ok(report)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use arrow::array::{Int64Array, RecordBatch, TimestampNanosecondArray};
    use splay_store::storage::fault::FaultStorage;
    use splay_store::{ColumnSpec, ColumnType, Database, Settings, TableSpec};

    use super::*;
    use crate::append::Append;
    use crate::capture::Capture;
    use crate::clock::Clock;
    use crate::settings::CaptureSettings;

    const DAY: i64 = 86_400_000_000_000;
    const NOON: i64 = 20_000 * DAY + DAY / 2;

    #[derive(Debug)]
    struct ManualClock(AtomicI64, AtomicI64);

    impl Clock for ManualClock {
        fn now(&self) -> i64 {
            self.0.load(Ordering::Relaxed)
        }

        fn monotonic(&self) -> i64 {
            self.1.load(Ordering::Relaxed)
        }
    }

    impl ManualClock {
        /// Time passes, and the clock goes on.
        fn pass(&self, nanoseconds: i64) {
            self.0.fetch_add(nanoseconds, Ordering::Relaxed);
            self.1.fetch_add(nanoseconds, Ordering::Relaxed);
        }
    }

    fn row(at: i64) -> Append {
        let time = TimestampNanosecondArray::from(vec![at]).with_timezone("UTC");
        let columns: [(&str, arrow::array::ArrayRef); 2] =
            [("time", Arc::new(time)), ("n", Arc::new(Int64Array::from(vec![1])))];
        Append::new("t", RecordBatch::try_from_iter(columns).unwrap())
    }

    fn capture() -> (Capture, Arc<ManualClock>) {
        with(CaptureSettings::default())
    }

    /// A capture whose own maintenance does nothing: the tests run its steps.
    fn with(settings: CaptureSettings) -> (Capture, Arc<ManualClock>) {
        let settings = CaptureSettings { automatic: false, ..settings };
        let database = Database::create_on(Arc::new(FaultStorage::new()), &Settings::default()).unwrap();
        let clock = Arc::new(ManualClock(AtomicI64::new(NOON), AtomicI64::new(0)));
        let capture = Capture::open_with(database, settings, clock.clone()).unwrap().0;
        (capture, clock)
    }

    /// Waits for so many late rows, which are measured behind their acknowledgement, by another thread.
    fn wait_for_late(capture: &Capture, rows: u64) {
        while capture.live("t").unwrap().unwrap().meter().late_days().rows < rows {
            std::thread::yield_now();
        }
    }

    /// Rows in memory after a look of the thread, as if its last had been long ago.
    fn looked(maintenance: &mut Maintenance, capture: &Capture) -> u64 {
        maintenance.calendar_due = Instant::now();
        maintenance.rolled.values_mut().for_each(|rolled| rolled.rest_until = Instant::now());
        maintenance.look(&capture.shared).unwrap();
        capture.live("t").unwrap().unwrap().size().rows
    }

    #[test]
    fn rows_go_to_the_disk_once_they_are_old() {
        let (capture, clock) = with(CaptureSettings { write_down_age_s: 60, late_s: 10, ..CaptureSettings::default() });
        let mut maintenance = Maintenance::new(Arc::downgrade(&capture.shared));
        capture.append(row(NOON)).unwrap();
        clock.0.fetch_add(seconds(60), Ordering::Relaxed);
        assert_eq!(looked(&mut maintenance, &capture), 1, "as old as they may be");
        clock.0.fetch_add(1, Ordering::Relaxed);
        capture.append(row(NOON + seconds(55))).unwrap();
        assert_eq!(looked(&mut maintenance, &capture), 1, "the late one is in its last ten seconds");
        assert_eq!(capture.shared.counters.write_downs.get(), 1);
    }

    #[test]
    fn bytes_in_memory_are_bounded_and_rows_refused_at_twice_that() {
        let (capture, clock) = with(CaptureSettings { live_bytes_max: 300, ..CaptureSettings::default() });
        let mut maintenance = Maintenance::new(Arc::downgrade(&capture.shared));
        let fill = || {
            (0..1_000).find_map(|_| {
                let at = clock.0.fetch_add(seconds(20), Ordering::Relaxed);
                capture.append(row(at)).err()
            })
        };
        for _ in 0..3 {
            let refused = fill().unwrap();
            assert!(matches!(refused, Error::Full { .. }) && refused.is_retryable(), "{refused}");
            let before = capture.live("t").unwrap().unwrap().size();
            assert!(before.bytes > 600, "{before:?}");
            assert!(looked(&mut maintenance, &capture) < before.rows);
            capture.append(row(clock.now())).unwrap();
        }
    }

    #[test]
    fn a_date_is_rolled_by_itself_once_it_has_ended_and_not_when_the_clock_goes_back() {
        let never = 1 << 30;
        let settings = CaptureSettings { roll_delay_s: 60, write_down_age_s: never, ..CaptureSettings::default() };
        let (capture, clock) = with(settings);
        let mut maintenance = Maintenance::new(Arc::downgrade(&capture.shared));
        capture.append(row(NOON)).unwrap();
        let live = capture.live("t").unwrap().unwrap();
        clock.0.store(NOON + DAY / 2 + seconds(59), Ordering::Relaxed);
        assert_eq!(looked(&mut maintenance, &capture), 1, "the date's delay isn't over");
        capture.append(row(NOON + DAY / 2 + seconds(55))).unwrap();
        clock.0.store(NOON + DAY / 2 + seconds(60), Ordering::Relaxed);
        assert_eq!(looked(&mut maintenance, &capture), 1, "a row of the last ten seconds stays");
        let rolled = live.rolled_at.load(Ordering::Relaxed);
        assert_eq!(rolled, clock.now());
        // The clock goes back by two days, and comes again.
        clock.0.store(NOON - 2 * DAY, Ordering::Relaxed);
        assert_eq!(looked(&mut maintenance, &capture), 1);
        let ack = capture.append(row(NOON)).unwrap();
        assert_eq!(ack.quarantined, 1, "what is two days ahead of the clock isn't believed");
        assert_eq!(live.rolled_at.load(Ordering::Relaxed), rolled, "nothing to roll");
        clock.0.store(NOON + 2 * DAY, Ordering::Relaxed);
        assert_eq!(looked(&mut maintenance, &capture), 0, "all dates have ended");
        assert_eq!(capture.database().table("t").unwrap().snapshot().unwrap().rows(), 2);
    }

    #[test]
    fn a_day_of_25_hours_ends_when_its_zone_says_so() {
        let never = 1 << 30;
        let settings = CaptureSettings { roll_delay_s: 0, write_down_age_s: never, ..CaptureSettings::default() };
        let (capture, clock) = with(settings);
        let mut maintenance = Maintenance::new(Arc::downgrade(&capture.shared));
        // 3 November 2024 in New York: from 04:00 to 05:00 of the next day in UTC.
        let (hour, begins) = (seconds(3_600), seconds(1_730_606_400));
        clock.0.store(begins + 12 * hour, Ordering::Relaxed);
        let columns = vec![ColumnSpec::new("time", ColumnType::Timestamp), ColumnSpec::new("n", ColumnType::Int64)];
        let spec = TableSpec::new("t", columns, "time", None);
        let spec = Some(spec.with_time_zone("America/New_York"));
        for at in [begins, begins + 12 * hour] {
            capture.append(Append { spec: spec.clone(), ..row(at) }).unwrap();
        }
        clock.0.store(begins + 25 * hour - 1, Ordering::Relaxed);
        capture.append(row(begins + 25 * hour - 1)).unwrap();
        assert_eq!(looked(&mut maintenance, &capture), 3, "the last moment of the date");
        clock.0.store(begins + 25 * hour, Ordering::Relaxed);
        assert_eq!(looked(&mut maintenance, &capture), 3, "rows of its last ten seconds may still come");
        clock.0.fetch_add(seconds(10), Ordering::Relaxed);
        assert_eq!(looked(&mut maintenance, &capture), 0);
        assert_eq!(capture.status().tables[0].quality.late_day_rows, 0, "each came in on its date");
        let snapshot = capture.database().table("t").unwrap().snapshot().unwrap();
        assert_eq!(snapshot.partitions().len(), 1, "one date of 25 hours");
    }

    /// Rows in memory, and files of the earliest date.
    fn amended(maintenance: &mut Maintenance, capture: &Capture) -> (u64, usize) {
        let live = looked(maintenance, capture);
        let table = capture.database().table("t").unwrap();
        let stored = table.stored().unwrap();
        (live, stored.partitions()[0].segments.len())
    }

    #[test]
    fn rows_of_a_date_that_was_rolled_amend_it_once_no_more_of_them_come() {
        let (capture, clock) = with(CaptureSettings { roll_delay_s: 60, ..CaptureSettings::default() });
        let mut maintenance = Maintenance::new(Arc::downgrade(&capture.shared));
        let pass = |count| clock.0.fetch_add(seconds(count), Ordering::Relaxed);
        capture.append(row(NOON - DAY)).unwrap();
        pass(60);
        assert_eq!(amended(&mut maintenance, &capture), (0, 1), "rolled");
        capture.append(row(NOON - DAY + 1)).unwrap();
        let late = |rows| wait_for_late(&capture, rows);
        late(2);
        pass(59);
        assert_eq!(amended(&mut maintenance, &capture), (1, 1), "more may come");
        capture.append(row(NOON - DAY - 1)).unwrap();
        late(3);
        pass(59);
        assert_eq!(amended(&mut maintenance, &capture), (2, 1), "one did");
        pass(1);
        assert_eq!(amended(&mut maintenance, &capture), (0, 1), "joined");
        assert_eq!(capture.database().table("t").unwrap().snapshot().unwrap().rows(), 3);
        let rolled = capture.live("t").unwrap().unwrap().rolled_at.load(Ordering::Relaxed);
        pass(600);
        looked(&mut maintenance, &capture);
        assert_eq!(capture.live("t").unwrap().unwrap().rolled_at.load(Ordering::Relaxed), rolled, "once");
        assert_eq!(capture.status().tables[0].quality.late_day_rows, 3);
    }

    #[test]
    fn a_date_that_ended_while_nobody_captured_is_rolled_though_no_row_comes_back() {
        let (capture, clock) = capture();
        for at in [NOON, NOON - 1] {
            capture.append(row(at)).unwrap();
            capture.write_down(None).unwrap();
            // A segment each.
            capture.append(row(at - seconds(30))).unwrap();
        }
        capture.write_down(None).unwrap();
        let database = capture.database().clone();
        capture.close().unwrap();
        clock.0.store(NOON + DAY, Ordering::Relaxed);
        let settings = CaptureSettings { automatic: false, ..CaptureSettings::default() };
        let (capture, recovered) = Capture::open_with(database, settings, clock.clone()).unwrap();
        assert_eq!(recovered.rows, 0);
        let mut maintenance = Maintenance::new(Arc::downgrade(&capture.shared));
        assert_eq!(amended(&mut maintenance, &capture), (0, 1));
        assert_ne!(capture.live("t").unwrap().unwrap().rolled_at.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_clock_that_was_ahead_and_is_put_back_delays_neither_rolls_nor_write_downs() {
        let (capture, clock) = with(CaptureSettings { roll_delay_s: 60, ..CaptureSettings::default() });
        let mut maintenance = Maintenance::new(Arc::downgrade(&capture.shared));
        clock.0.store(NOON + 400 * DAY, Ordering::Relaxed);
        capture.append(row(NOON)).unwrap();
        looked(&mut maintenance, &capture);
        capture.append(row(NOON + 1)).unwrap();
        clock.0.store(NOON + seconds(60), Ordering::Relaxed);
        assert_eq!(looked(&mut maintenance, &capture), 2, "they have just come in");
        clock.pass(seconds(2 * 3_600 + 2));
        assert_eq!(
            looked(&mut maintenance, &capture),
            0,
            "an hour ago by receive times, which lose half of what passes"
        );
        capture.append(row(NOON + seconds(3_600))).unwrap();
        assert_eq!(looked(&mut maintenance, &capture), 1);
        clock.pass(DAY);
        maintenance.rolled.values_mut().for_each(|rolled| assert!(rolled.date < 20_000, "as the clock says today"));
        assert_eq!(looked(&mut maintenance, &capture), 0);
        assert_eq!(maintenance.rolled["t"].date, 20_000);
    }

    #[test]
    fn a_date_that_begins_on_the_evening_before_ends_there() {
        let text = r#"
            roll_delay_s = 0
            late_s = 0
            write_down_age_s = 1000000
            [calendars.t]
            time_zone = "America/Chicago"
            day_start = "17:00"
        "#;
        let (capture, clock) = with(toml::from_str(text).unwrap());
        let mut maintenance = Maintenance::new(Arc::downgrade(&capture.shared));
        // Friday, 8 March 2024, 17:00 in Chicago is 23:00 in UTC; on Monday, clocks having gone forward, it is 22:00.
        let (hour, friday, monday) = (seconds(3_600), seconds(1_709_938_800), seconds(1_710_194_400));
        clock.0.store(friday - 1, Ordering::Relaxed);
        let append = |at| capture.append(row(at)).unwrap();
        append(friday - 1);
        let spec = capture.spec("t").unwrap().unwrap();
        assert_eq!(spec.dates_in(), "America/Chicago from 17:00 of the day before");
        assert_eq!(looked(&mut maintenance, &capture), 1, "the last moment of Friday's date");
        clock.0.store(friday, Ordering::Relaxed);
        assert_eq!(looked(&mut maintenance, &capture), 0);
        clock.0.store(monday - 1, Ordering::Relaxed);
        append(monday - 24 * hour);
        append(monday - 1);
        assert_eq!(looked(&mut maintenance, &capture), 2, "Sunday's evening is of Monday's date");
        clock.0.store(monday, Ordering::Relaxed);
        assert_eq!(looked(&mut maintenance, &capture), 0);
        let snapshot = capture.database().table("t").unwrap().snapshot().unwrap();
        let dates: Vec<String> =
            snapshot.partitions().iter().map(|partition| splay_store::date(partition.date).to_string()).collect();
        assert_eq!(dates, ["2024-03-08", "2024-03-11"]);
        // What comes later is late, and amends its date.
        append(friday - 1);
        wait_for_late(&capture, 1);
        assert_eq!(capture.status().tables[0].quality.late_day_rows, 1);
        let wrong = toml::from_str::<CaptureSettings>("day_start = \"07:00\"").unwrap_err().to_string();
        assert!(wrong.contains("a day starts at 00:00, or at 12:00 to 23:59 of the day before"), "{wrong}");
    }

    #[test]
    fn each_table_has_its_own_calendar() {
        let text = r#"
            time_zone = "America/New_York"
            roll_delay_s = 60
            write_down_age_s = 1000000
            [calendars.T]
            time_zone = "Asia/Tokyo"
            roll_delay_s = 600
        "#;
        let (capture, clock) = with(toml::from_str(text).unwrap());
        let columns = vec![ColumnSpec::new("time", ColumnType::Timestamp), ColumnSpec::new("n", ColumnType::Int64)];
        let spec_in_zurich = TableSpec::new("w", columns, "time", None).with_time_zone("Europe/Zurich");
        for (table, spec) in [("t", None), ("u", None), ("w", Some(spec_in_zurich))] {
            capture.append(Append { table: table.to_owned(), spec, ..row(NOON) }).unwrap();
        }
        let zone = |table: &str| capture.spec(table).unwrap().unwrap().time_zone.clone();
        assert_eq!(["t", "u", "w"].map(zone), ["Asia/Tokyo", "America/New_York", "Europe/Zurich"]);
        let mut maintenance = Maintenance::new(Arc::downgrade(&capture.shared));
        let live = || ["t", "u", "w"].map(|table| capture.live(table).unwrap().unwrap().size().rows);
        // Noon in UTC is 21:00 in Tokyo, whose date ends at 15:00.
        clock.0.store(NOON + seconds(3 * 3_600 + 599), Ordering::Relaxed);
        looked(&mut maintenance, &capture);
        assert_eq!(live(), [1, 1, 1], "the delay of the table itself");
        clock.0.fetch_add(seconds(1), Ordering::Relaxed);
        looked(&mut maintenance, &capture);
        assert_eq!(live(), [0, 1, 1], "dates of the others go on");
        let wrong = CaptureSettings { time_zone: Some("Nowhere".to_owned()), ..CaptureSettings::default() };
        let database = Database::create_on(Arc::new(FaultStorage::new()), &Settings::default()).unwrap();
        let refused = Capture::open(database, wrong).unwrap_err().to_string();
        assert!(refused.contains("\"Nowhere\" is not an IANA time zone"), "{refused}");
    }

    #[test]
    fn ended_dates_wait_until_their_rows_have_come_in() {
        let (capture, clock) = capture();
        let delay = seconds(capture.shared.settings.roll_delay_s);
        let waits = || {
            let live = capture.live("t").unwrap().unwrap();
            let today = today(&capture.shared, &live, clock.now()).unwrap();
            is_coming_in(&capture.shared, &live, today).unwrap()
        };
        capture.append(row(NOON)).unwrap();
        assert!(!waits(), "only rows of today");
        capture.append(row(NOON - 3 * DAY)).unwrap();
        assert!(waits(), "a row of an ended date that has just come");
        clock.0.fetch_add(delay, Ordering::Relaxed);
        assert!(!waits(), "it is as old as the delay");
        assert_eq!(capture.roll(None).unwrap().rows, 2);
        assert!(!waits(), "no rows in memory");
        capture.append(row(NOON - DAY)).unwrap();
        assert!(waits(), "the next row of an ended date");
    }

    #[test]
    fn rows_that_stay_in_memory_keep_an_age() {
        let (capture, clock) = capture();
        capture.append(row(NOON - seconds(60))).unwrap();
        clock.0.fetch_add(5, Ordering::Relaxed);
        capture.append(row(NOON)).unwrap();
        let live = capture.live("t").unwrap().unwrap();
        assert_eq!((live.size().rows, live.size().since), (2, Some(NOON)));
        assert_eq!(write_down(&capture.shared, &live, WriteDownScope::Settled).unwrap().rows, 1);
        assert_eq!((live.size().rows, live.size().since), (1, Some(NOON + 5)));
        assert_eq!(write_down(&capture.shared, &live, WriteDownScope::All).unwrap().rows, 1);
        assert_eq!((live.size().rows, live.size().since), (0, None));
    }
}
