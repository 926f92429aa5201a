//! Shared parts of the protocols' fuzz targets: a server without sockets, statements or a journal.
//!
//! - There is no slot for statements: requests are processed up to the point at which a statement would run.
//! - Rows are accepted and dropped. Subscriptions end as soon as they have begun, as when a server stops.

use std::sync::Arc;
use std::time::Duration;

use splay_mutate::Memory;
use splay_sql::{Session, SessionSettings};
use splay_store::storage::fault::FaultStorage;
use splay_store::{Database, TableSpec};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};

use crate::appends::Appends;
use crate::audit::Auditor;
use crate::auth::Tokens;
use crate::callers::Callers;
use crate::http::HttpState;
use crate::ingest::{
    Ack, AckClass, Append, Ingest, IngestCallback, IngestError, IngestFigure, SubscribeRequest, Subscription, Update,
};
use crate::metrics::Metrics;
use crate::quotas::Quotas;
use crate::settings::{Auth, Limits, Log};
use crate::sources::Sources;
use crate::statements::Statements;
use crate::subscriptions::Subscriptions;

#[global_allocator]
static ALLOCATOR: splay_mutate::CountingAllocator = splay_mutate::CountingAllocator;

/// Memory that an input may take.
pub(crate) const MEMORY: Memory = Memory { fixed: 32 << 20, each: 1 << 10 };

/// The state that requests share.
pub(crate) fn shared() -> Arc<HttpState> {
    shared_by(watch::channel(true).1)
}

/// The same of a server that doesn't stop.
pub(crate) fn serving() -> Arc<HttpState> {
    // The sender is dropped: a wait for the stop never ends.
    let (sender, stop) = watch::channel(false);
    std::mem::forget(sender);
    shared_by(stop)
}

fn shared_by(stop: watch::Receiver<bool>) -> Arc<HttpState> {
    let limits = Limits {
        statements_max: 0,
        statements_waiting_max: 0,
        message_bytes_max: 1 << 20,
        subscriptions_max: 1 << 10,
        ..Limits::default()
    };
    let database = Database::create_on(Arc::new(FaultStorage::new()), &splay_store::Settings::default());
    let database = database.unwrap_or_else(|error| panic!("{error}"));
    let session = Session::new(database.clone(), SessionSettings::default()).unwrap_or_else(|error| panic!("{error}"));
    let ingest: Arc<dyn Ingest> = Arc::new(NullIngest);
    let metrics = Arc::new(Metrics::new(Some(Arc::clone(&ingest)), Auditor::default()));
    let queue_bytes_max = limits.subscription_bytes_max;
    let tokens = Tokens::read(&Auth::default()).unwrap_or_else(|error| panic!("{error}"));
    let callers = Callers::new(tokens, &Auth::default(), database.clone(), true, None, Quotas::default());
    let callers = callers.unwrap_or_else(|error| panic!("{error}"));
    let sources = Sources { ingest: Some(Arc::clone(&ingest)), replay: None, database, queue_bytes_max };
    Arc::new(HttpState {
        statements: Statements::new(session, limits.clone(), Log::default(), Arc::clone(&metrics)),
        subscriptions: Subscriptions::new(sources, &limits, Arc::clone(&metrics), stop.clone()),
        appends: Some(Appends::new(ingest, Arc::clone(&metrics))),
        callers,
        auditor: Auditor::default(),
        limits,
        metrics,
        followers: Arc::new(Semaphore::new(1)),
        stop,
    })
}

/// The runtime of requests: the one thread whose memory is counted.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap_or_else(|error| panic!("{error}"))
}

/// Takes rows and drops them.
#[derive(Debug)]
struct NullIngest;

impl Ingest for NullIngest {
    fn submit(&self, appends: Vec<Append>, done: IngestCallback) -> Result<(), IngestError> {
        let class = appends.last().and_then(|append| append.ack).unwrap_or(AckClass::Memory);
        let rows = appends.iter().map(|append| append.rows.num_rows() as u64).sum();
        done(Ok(Ack { sequence: 1, class, rows, duplicate: false, quarantined: 0, duplicate_rows: 0 }));
        Ok(())
    }

    fn spec(&self, _table: &str) -> Result<Option<TableSpec>, IngestError> {
        Ok(None)
    }

    fn subscribe(&self, _request: SubscribeRequest) -> Result<Box<dyn Subscription>, IngestError> {
        Ok(Box::new(NullIngest))
    }

    fn last_of(&self, _producer: &str) -> Result<Option<u64>, IngestError> {
        Ok(None)
    }

    fn reject(&self, _way: &'static str, _reason: String, _sample: &[u8]) {}

    fn is_ready(&self) -> bool {
        true
    }

    fn figures(&self) -> Vec<IngestFigure> {
        Vec::new()
    }

    fn close(&self) -> Result<(), IngestError> {
        Ok(())
    }
}

impl Subscription for NullIngest {
    fn next(&mut self, _timeout: Duration) -> Result<Option<Update>, IngestError> {
        Err(IngestError::Closed)
    }
}
