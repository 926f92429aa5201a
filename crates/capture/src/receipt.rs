//! Receive times, which never go back, whatever happens to the clock.
//!
//! - *The clock as read* is the machine's time. It may be wrong, and may be corrected.
//! - A *receive time* is the clock as read, unless that is before the last receive time, of this process or of an
//!   earlier one (from the journal). Until the clock has caught up, receive times continue from the last one at half
//!   the speed of time: order is preserved, distances about so, and the lead is gone after twice its length.
//! - A step of the clock is detected by comparison with the monotonic clock: a difference of more than a second
//!   between two readings is reported and counted.
//!
//! Reasons: docs/adr/0026-receive-times-never-go-back.md.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::clock::Clock;

/// The difference, in nanoseconds, between the change of the clock and the elapsed time from which on it counts as a step of the clock.
const STEP: i64 = 1_000_000_000;

/// The steps of the clock since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ClockStatus {
    /// The last receive time, in nanoseconds since the epoch.
    pub received: i64,
    /// How far receive times are ahead of the clock, in nanoseconds; 0 while they are the clock's.
    pub ahead_ns: u64,
    /// For how long they have been ahead of it since the start, in nanoseconds.
    pub ahead_total_ns: u64,
    /// How many times the clock was put back by more than a second.
    pub steps_back: u64,
    /// How many times it was put ahead.
    pub steps_ahead: u64,
    /// The last step, in nanoseconds; below zero for one back.
    pub last_step_ns: i64,
}

/// One look at the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockReading {
    /// The clock as read.
    pub(crate) clock: i64,
    /// The receive time of what comes in now.
    pub(crate) received: i64,
}

/// Gives receive times.
#[derive(Debug)]
pub(crate) struct Receipt {
    clock: Arc<dyn Clock>,
    state: Mutex<ReceiptState>,
}

#[derive(Debug)]
struct ReceiptState {
    /// When the clock was last read, by the monotonic clock.
    read_at: i64,
    /// The difference between the wall clock and the monotonic clock.
    offset: i64,
    status: ClockStatus,
}

impl Receipt {
    /// Behind the last receive time of the process before; `None` if there is none.
    pub(crate) fn behind(clock: Arc<dyn Clock>, last: Option<i64>) -> Receipt {
        let (now, read_at) = (clock.now(), clock.monotonic());
        let received = last.map_or(now, |last| last.max(now));
        if received.saturating_sub(now) > STEP {
            let seconds = (received - now) / STEP;
            tracing::warn!(seconds, "the clock is behind the last rows' receive time, which goes on at half its speed");
        }
        let status = ClockStatus { received, ahead_ns: lead(received, now), ..ClockStatus::default() };
        let state = ReceiptState { read_at, offset: now.saturating_sub(read_at), status };
        Receipt { clock, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, ReceiptState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the clock.
    pub(crate) fn read(&self) -> ClockReading {
        let mut state = self.state();
        let (clock, read_at) = (self.clock.now(), self.clock.monotonic());
        let passed = read_at.saturating_sub(state.read_at).max(0);
        state.watch(clock, read_at);
        state.read_at = read_at;
        let status = &mut state.status;
        if clock < status.received {
            status.ahead_total_ns = status.ahead_total_ns.saturating_add(passed.unsigned_abs());
            status.received = status.received.saturating_add(passed / 2);
        } else {
            status.received = clock;
        }
        status.ahead_ns = lead(status.received, clock);
        ClockReading { clock, received: status.received }
    }

    /// The receive time of what would come in now.
    pub(crate) fn now(&self) -> i64 {
        self.read().received
    }

    pub(crate) fn status(&self) -> ClockStatus {
        self.read();
        self.state().status.clone()
    }
}

impl ReceiptState {
    /// Looks for a step of the clock.
    fn watch(&mut self, clock: i64, read_at: i64) {
        let offset = clock.saturating_sub(read_at);
        let step = offset.saturating_sub(self.offset);
        self.offset = offset;
        if step.saturating_abs() <= STEP {
            return;
        }
        self.status.last_step_ns = step;
        let seconds = step / STEP;
        if step < 0 {
            self.status.steps_back += 1;
            tracing::warn!(seconds, "the clock was put back: receive times go on at half the speed of time meanwhile");
        } else {
            self.status.steps_ahead += 1;
            tracing::warn!(seconds, "the clock was put ahead");
        }
    }
}

fn lead(received: i64, clock: i64) -> u64 {
    u64::try_from(received.saturating_sub(clock)).unwrap_or(0)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use arrow::array::{ArrayRef, RecordBatch, TimestampNanosecondArray};
    use splay_store::storage::fault::FaultStorage;
    use splay_store::{Database, Settings};

    use super::*;
    use crate::append::Append;
    use crate::capture::Capture;
    use crate::journal;
    use crate::settings::CaptureSettings;

    const SECOND: i64 = 1_000_000_000;
    const DAY: i64 = 86_400 * SECOND;

    /// A clock that is put, beside one that isn't.
    #[derive(Debug, Default)]
    struct SteppedClock {
        clock: AtomicI64,
        monotonic: AtomicI64,
    }

    impl SteppedClock {
        fn pass(&self, nanoseconds: i64) {
            self.clock.fetch_add(nanoseconds, Ordering::Relaxed);
            self.monotonic.fetch_add(nanoseconds, Ordering::Relaxed);
        }

        fn put(&self, nanoseconds: i64) {
            self.clock.fetch_add(nanoseconds, Ordering::Relaxed);
        }
    }

    impl Clock for SteppedClock {
        fn now(&self) -> i64 {
            self.clock.load(Ordering::Relaxed)
        }

        fn monotonic(&self) -> i64 {
            self.monotonic.load(Ordering::Relaxed)
        }
    }

    fn at(now: i64, last: Option<i64>) -> (Arc<SteppedClock>, Receipt) {
        let hands = Arc::new(SteppedClock { clock: AtomicI64::new(now), monotonic: AtomicI64::new(77) });
        (Arc::clone(&hands), Receipt::behind(hands, last))
    }

    #[test]
    fn a_clock_that_is_right_gives_receive_times_and_no_steps() {
        let (hands, receipt) = at(100 * DAY, Some(99 * DAY));
        for passed in [0, 1, SECOND, 3 * DAY] {
            hands.pass(passed);
            assert_eq!(receipt.read(), ClockReading { clock: hands.now(), received: hands.now() });
        }
        // Put right a little at a time, as NTP does.
        for _ in 0..100 {
            hands.pass(SECOND);
            hands.put(-SECOND / 2);
            receipt.read();
        }
        let status = receipt.status();
        assert_eq!((status.steps_back, status.steps_ahead, status.ahead_total_ns), (0, 0, 0));
    }

    #[test]
    fn receive_times_go_on_at_half_the_speed_while_the_clock_is_behind() {
        let (hands, receipt) = at(100 * DAY, None);
        hands.put(-2 * DAY);
        assert_eq!(receipt.read(), ClockReading { clock: 98 * DAY, received: 100 * DAY });
        hands.pass(DAY);
        assert_eq!(receipt.read(), ClockReading { clock: 99 * DAY, received: 100 * DAY + DAY / 2 });
        let status = receipt.status();
        assert_eq!((status.ahead_ns, status.ahead_total_ns), ((3 * DAY / 2).unsigned_abs(), DAY.unsigned_abs()));
        assert_eq!((status.steps_back, status.last_step_ns), (1, -2 * DAY));
        hands.pass(3 * DAY);
        assert_eq!(receipt.now(), 102 * DAY, "the lead is gone after twice its length");
        hands.pass(1);
        assert_eq!((receipt.now(), receipt.status().ahead_ns), (102 * DAY + 1, 0));
        hands.put(400 * DAY);
        assert_eq!(receipt.now(), 502 * DAY + 1);
        assert_eq!((receipt.status().steps_ahead, receipt.status().last_step_ns), (1, 400 * DAY));
    }

    #[test]
    fn receive_times_never_go_back_whatever_the_clock_does() {
        let (hands, receipt) = at(0, None);
        let mut last = i64::MIN;
        for step in 0..10_000_i64 {
            hands.pass(step * 7_919 % 5_000_000);
            hands.put((step * 104_729 % 20_011 - 10_005) * SECOND);
            let now = receipt.now();
            assert!(now >= last && now >= hands.now(), "step {step}: {now} behind {last}");
            last = now;
        }
        hands.clock.store(i64::MIN, Ordering::Relaxed);
        assert!(receipt.now() >= last);
    }

    /// What the journal has, in its order.
    fn recorded(storage: &FaultStorage) -> Vec<i64> {
        let mut times = Vec::new();
        let take = |batch: journal::JournalBatch| {
            times.push(batch.received);
            Ok(())
        };
        journal::replay(&storage.copy(), &Vec::new, |_, _, _| true, take).unwrap();
        times
    }

    #[test]
    fn the_journal_s_receive_times_rise_over_steps_of_the_clock_and_starts() {
        let storage = FaultStorage::new();
        let database = Database::create_on(Arc::new(storage.clone()), &Settings::default()).unwrap();
        let mut last = i64::MIN;
        for (start, now) in [(0, 500 * DAY), (1, 100 * DAY), (2, 499 * DAY), (3, 700 * DAY), (4, 600 * DAY)] {
            let hands = Arc::new(SteppedClock { clock: AtomicI64::new(now), monotonic: AtomicI64::new(start) });
            let settings = CaptureSettings { automatic: false, journal_keep_bytes: 0, ..CaptureSettings::default() };
            let open = || Capture::open_with(database.clone(), settings.clone(), Arc::clone(&hands) as _).unwrap().0;
            let capture = open();
            assert!(capture.status().clock.received >= last, "start {start}");
            for step in [0, -3 * DAY, -SECOND / 2, 2 * SECOND, DAY, -30 * DAY] {
                hands.put(step);
                hands.pass(5);
                let time = TimestampNanosecondArray::from(vec![hands.now()]).with_timezone("UTC");
                let rows = RecordBatch::try_from_iter([("time", Arc::new(time) as ArrayRef)]).unwrap();
                assert_eq!(capture.append(Append::new("t", rows)).unwrap().quarantined, 0);
            }
            let times = recorded(&storage);
            assert_eq!(times.len(), 6);
            assert!(times[0] >= last && times.is_sorted(), "start {start}: {times:?} behind {last}");
            last = times[5];
            capture.close().unwrap();
            // The file that knows it by its rows goes; what stays has none.
            let capture = open();
            capture.write_down(None).unwrap();
            capture.close().unwrap();
            assert!(recorded(&storage).is_empty());
        }
        assert!(last >= 700 * DAY);
    }

    #[test]
    fn rows_go_to_quarantine_by_the_clock_as_read_and_get_its_time_where_receive_times_are_far_ahead() {
        let database = Database::create_on(Arc::new(FaultStorage::new()), &Settings::default()).unwrap();
        let hands = Arc::new(SteppedClock { clock: AtomicI64::new(100 * DAY), monotonic: AtomicI64::new(0) });
        let settings = CaptureSettings { automatic: false, ..CaptureSettings::default() };
        let (capture, _) = Capture::open_with(database, settings, hands.clone()).unwrap();
        let send = |time: i64| {
            let time = TimestampNanosecondArray::from(vec![time]).with_timezone("UTC");
            let rows = RecordBatch::try_from_iter([("time", Arc::new(time) as ArrayRef)]).unwrap();
            capture.append(Append::new("t", rows)).unwrap().quarantined
        };
        hands.put(10 * DAY);
        assert_eq!((send(110 * DAY), capture.row_time()), (0, 110 * DAY));
        hands.put(-10 * DAY);
        assert_eq!((send(100 * DAY), send(99 * DAY)), (0, 0), "good rows after a clock that was ahead");
        assert_eq!(send(105 * DAY), 1, "though receive times are further ahead");
        assert_eq!((capture.row_time(), capture.status().clock.received), (100 * DAY, 110 * DAY));
        hands.put(10 * DAY - 200 * SECOND);
        assert_eq!(capture.row_time(), 110 * DAY, "in order, and near enough");
        assert_eq!(send(capture.row_time()), 0);
        let clock = capture.status().clock;
        assert_eq!((clock.steps_ahead, clock.steps_back), (2, 1));
    }

    #[test]
    fn a_start_goes_on_behind_the_process_before() {
        let (hands, receipt) = at(100 * DAY, Some(500 * DAY));
        assert_eq!(receipt.read(), ClockReading { clock: 100 * DAY, received: 500 * DAY });
        hands.pass(10);
        assert_eq!(receipt.now(), 500 * DAY + 5);
        assert_eq!(receipt.status().steps_back, 0, "nobody saw it");
    }
}
