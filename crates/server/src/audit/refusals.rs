//! Limits how many refused sign-ins get a record of their own, so that guessing passwords can't fill the disk.

use std::sync::{Mutex, PoisonError};

use splay_store::audit::AuditEvent;

/// Refused sign-ins of a second that have a record each.
const RECORDED_MAX: u64 = 20;

const SECOND_NS: i64 = 1_000_000_000;

/// Counts those of a second.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Second>);

#[derive(Debug, Default)]
struct Second {
    second: i64,
    count: u64,
}

impl Refusals {
    /// Whether one at a time is recorded; and a record of those of an earlier second that weren't.
    pub(super) fn count(&self, time: i64) -> (Option<AuditEvent>, bool) {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let second = time.div_euclid(SECOND_NS);
        let mut more = None;
        if window.second != second {
            let others = window.count.saturating_sub(RECORDED_MAX);
            more = (others > 0).then(|| AuditEvent {
                messages: Some(others),
                outcome: "unauthorized",
                about: "more were refused in an earlier second than are recorded one by one".to_owned(),
                ..AuditEvent::new("sign_in", time)
            });
            *window = Second { second, count: 0 };
        }
        window.count += 1;
        (more, window.count <= RECORDED_MAX)
    }
}
