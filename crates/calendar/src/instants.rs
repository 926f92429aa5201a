//! Which session an instant is in.
//!
//! The sessions are searched by halves. A search remembers the stretch that it found, so that rows that come by time look once
//! for each session and once for each break between two.

use chrono::DateTime;

use crate::calendar::{Calendar, Session};
use crate::error::Result;

/// Finds the sessions of instants.
#[derive(Debug)]
pub struct SessionSearch<'a> {
    calendar: &'a Calendar,
    /// The instants from one to before another that have the answer below.
    from: i64,
    until: i64,
    session: Option<&'a Session>,
}

impl Calendar {
    /// A search through its sessions.
    #[must_use]
    pub fn search(&self) -> SessionSearch<'_> {
        SessionSearch { calendar: self, from: 0, until: 0, session: None }
    }
}

impl<'a> SessionSearch<'a> {
    /// The session that an instant is in, if it is in one.
    ///
    /// # Errors
    /// [`crate::Error::NotCovered`]
    #[inline]
    pub fn session(&mut self, instant: i64) -> Result<Option<&'a Session>> {
        if instant < self.from || instant >= self.until {
            self.find(instant)?;
        }
        Ok(self.session)
    }

    /// The session that an instant is in, else the next one; none at the end of the calendar.
    ///
    /// # Errors
    /// [`crate::Error::NotCovered`]
    pub fn session_or_next(&mut self, instant: i64) -> Result<Option<&'a Session>> {
        if let Some(session) = self.session(instant)? {
            return Ok(Some(session));
        }
        let sessions = self.calendar.all_sessions();
        Ok(sessions.get(sessions.partition_point(|session| session.close <= instant)))
    }

    fn find(&mut self, instant: i64) -> Result<()> {
        let covered = self.calendar.instants();
        if !covered.contains(&instant) {
            return Err(self.calendar.not_covered(DateTime::from_timestamp_nanos(instant).to_rfc3339()));
        }
        let sessions = self.calendar.all_sessions();
        // Sessions don't overlap, so that the first one that ends behind the instant is the only one that may have it.
        let position = sessions.partition_point(|session| session.close <= instant);
        let next = sessions.get(position);
        let before = position.checked_sub(1).and_then(|before| sessions.get(before));
        self.session = next.filter(|session| session.open <= instant);
        (self.from, self.until) = match self.session {
            Some(session) => (session.open, session.close),
            None => (before.map_or(covered.start, |before| before.close), next.map_or(covered.end, |next| next.open)),
        };
        Ok(())
    }
}
