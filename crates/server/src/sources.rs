//! Sources of a subscription's updates: capture or a replay, and bars computed from either.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use splay_store::{Database, TableSpec};

use crate::ingest::{
    BarRows, Bars, Clock, Ingest, IngestError, Pace, Replay, ReplayRequest, StoredBarRows, Subscription, SystemClock,
    Update,
};
use crate::problem::{Code, Outcome, Problem};
use crate::subscription_requests::SubscriptionRequest;

/// The sources of rows for subscribers.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    /// Live rows.
    pub(crate) ingest: Option<Arc<dyn Ingest>>,
    /// The replay that everyone gets, with its pace since its beginning.
    pub(crate) replay: Option<(Arc<ReplayRequest>, Pace)>,
    pub(crate) database: Database,
    pub(crate) queue_bytes_max: usize,
}

impl Sources {
    /// Begins what a client asks for. Takes a while; not for the network's threads.
    ///
    /// # Errors
    /// The errors of capture; [`Code::Unsupported`] for live rows on a server that has none.
    pub(crate) fn open(&self, ask: &SubscriptionRequest) -> Outcome<Box<dyn Subscription>> {
        let Some(request) = ask.bars()? else { return self.updates(ask) };
        let spec = self.spec(ask.tables()[0].as_str())?;
        // Rows of a replay can't be read again: some of the table's rows are still to come.
        let is_live = self.is_live(ask);
        let rows: Option<Box<dyn BarRows>> = match is_live {
            true => Some(Box::new(StoredBarRows::new(self.database.clone(), spec.name.clone()))),
            false => None,
        };
        let columns = request.columns(&spec);
        let bars = Bars::new(&spec, request, rows, ask.begins_with_snapshot())?;
        let updates = self.updates(&ask.with_columns(columns))?;
        let (ready, clock) = (VecDeque::new(), SystemClock::default());
        Ok(Box::new(BarUpdates { updates, bars, ready, clock, is_live, last: 0 }))
    }

    fn is_live(&self, ask: &SubscriptionRequest) -> bool {
        self.replay.is_none() && matches!(ask.replay(), Ok(None))
    }

    fn updates(&self, ask: &SubscriptionRequest) -> Outcome<Box<dyn Subscription>> {
        if let Some((request, view)) = ask.replay()? {
            let pace = Pace::new(Arc::new(SystemClock::default()));
            return Ok(Box::new(Replay::begin(&self.database, &request, &view, pace)?));
        }
        if let Some((request, pace)) = &self.replay {
            return Ok(Box::new(Replay::begin(&self.database, request, &ask.view(), pace.clone())?));
        }
        let none = || Problem::new(Code::Unsupported, "this server has no live rows; it replays what is stored");
        let ingest = self.ingest.as_ref().ok_or_else(none)?;
        Ok(ingest.subscribe(ask.live(self.queue_bytes_max)?)?)
    }

    fn spec(&self, table: &str) -> Outcome<TableSpec> {
        if let Some(ingest) = &self.ingest
            && let Some(spec) = ingest.spec(table)?
        {
            return Ok(spec);
        }
        Ok(self.database.table(table)?.stored()?.spec().clone())
    }
}

/// Bars of the updates of another subscription.
struct BarUpdates {
    updates: Box<dyn Subscription>,
    bars: Bars,
    ready: VecDeque<Update>,
    clock: SystemClock,
    is_live: bool,
    last: u64,
}

impl Subscription for BarUpdates {
    fn next(&mut self, timeout: Duration) -> Result<Option<Update>, IngestError> {
        while self.ready.is_empty() {
            match self.updates.next(timeout)? {
                Some(update) => {
                    self.last = update.sequence;
                    self.ready.extend(self.bars.take(&update, self.clock.now())?);
                }
                None if self.is_live => {
                    self.ready.extend(self.bars.idle(self.last, self.clock.now()));
                    break;
                }
                None => break,
            }
        }
        Ok(self.ready.pop_front())
    }
}
