//! Rows on their way to capture, from any protocol.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, oneshot};

use crate::blocking::on_thread;
use crate::ingest::{Ack, AckClass, Append, Ingest, IngestError};
use crate::metrics::Metrics;
use crate::problem::{Code, Outcome, Problem};

/// Hands rows to capture and waits for acks.
#[derive(Debug, Clone)]
pub(crate) struct Appends {
    ingest: Arc<dyn Ingest>,
    metrics: Arc<Metrics>,
    way: &'static str,
    /// Hand-overs at a time: each holds a thread, and back-pressure holds it long.
    places: Arc<Semaphore>,
}

/// Hand-overs at a time, over all protocols.
pub(crate) const SUBMITS_MAX: usize = 128;

/// How long a stream waits before it looks again whether it may go on.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// An ack that is yet to come.
#[derive(Debug)]
pub(crate) struct AckReceiver(oneshot::Receiver<Result<Ack, IngestError>>);

impl AckReceiver {
    pub(crate) async fn ack(self) -> Outcome<Ack> {
        match self.0.await {
            Ok(ack) => Ok(ack?),
            // Whoever held the other end is gone: the rows may be stored or not.
            Err(_) => Err(Problem::new(Code::Closed, "the server stopped before the ack")),
        }
    }
}

impl Appends {
    pub(crate) fn new(ingest: Arc<dyn Ingest>, metrics: Arc<Metrics>) -> Appends {
        Appends { ingest, metrics, way: "", places: Arc::new(Semaphore::new(SUBMITS_MAX)) }
    }

    /// The same for rows that came this way.
    pub(crate) fn by(&self, way: &'static str) -> Appends {
        Appends { way, ..self.clone() }
    }

    /// The same places for rows that go elsewhere.
    pub(crate) fn with_ingest(&self, ingest: Arc<dyn Ingest>) -> Appends {
        Appends { ingest, ..self.clone() }
    }

    pub(crate) fn ingest(&self) -> &Arc<dyn Ingest> {
        &self.ingest
    }

    /// Waits until a stream may hand over its next batch.
    pub(crate) async fn pace(&self) {
        while self.ingest.may_pause() {
            let ingest = Arc::clone(&self.ingest);
            // Its rights are looked up, which reads a file.
            let pause = on_thread(move || ingest.pause()).await.unwrap_or_default();
            if pause.is_zero() {
                return;
            }
            tokio::time::sleep(pause.min(PAUSE_MAX)).await;
        }
    }

    /// Hands over rows. Returns once they are accepted, which back-pressure delays.
    ///
    /// # Errors
    /// The refusal, if capture refuses them at once.
    pub(crate) async fn submit(&self, append: Append) -> Outcome<AckReceiver> {
        self.submit_rows(move |_| Ok(vec![append])).await
    }

    /// Creates rows and submits them together, on one thread that may block. A second change of threads would cost as
    /// much as the work on a small message.
    ///
    /// # Errors
    /// The error of `make`, or the refusal, if capture refuses the rows at once.
    pub(crate) async fn submit_rows(
        &self,
        make: impl FnOnce(&dyn Ingest) -> Outcome<Vec<Append>> + Send + 'static,
    ) -> Outcome<AckReceiver> {
        let start = Instant::now();
        let closed = |_| Problem::new(Code::Closed, "the server is stopping");
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(closed)?;
        let appends = self.clone();
        let submitted = tokio::task::spawn_blocking(move || {
            let _place = place;
            let made = make(appends.ingest.as_ref()).inspect_err(|problem| appends.note(problem));
            appends.hand_over(made?, start)
        });
        submitted.await.map_err(|_| Problem::new(Code::Internal, "the append broke off"))?
    }

    /// Notes for the operator that a message was refused for what it says.
    pub(crate) fn note(&self, problem: &Problem) {
        if matches!(problem.code, Code::Request | Code::Rejected) {
            self.ingest.reject(self.way, problem.message.clone(), &[]);
        }
    }

    fn hand_over(&self, rows: Vec<Append>, start: Instant) -> Outcome<AckReceiver> {
        let (sender, receiver) = oneshot::channel();
        let (appends, metrics, way) = (self.clone(), Arc::clone(&self.metrics), self.way);
        let class = rows.last().and_then(|append| append.ack).map_or("default", class);
        metrics.received(way, rows.iter().map(|append| append.rows.get_array_memory_size()).sum());
        let done = move |acked: Result<Ack, IngestError>| {
            match &acked {
                Ok(ack) => metrics.append(way, "ok", class, if ack.duplicate { 0 } else { ack.rows }, start),
                Err(error) => {
                    metrics.append(way, "failed", class, 0, start);
                    appends.note(&Problem::from(error.clone()));
                }
            }
            let _ = sender.send(acked);
        };
        self.ingest.submit(rows, Box::new(done)).map_err(|error| {
            self.metrics.append(way, "refused", class, 0, start);
            let problem = Problem::from(error);
            self.note(&problem);
            problem
        })?;
        Ok(AckReceiver(receiver))
    }

    /// Hands over rows and waits for the ack.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) async fn append(&self, append: Append) -> Outcome<Ack> {
        self.submit(append).await?.ack().await
    }
}

/// An ack as clients get it.
pub(crate) fn json(ack: &Ack) -> serde_json::Value {
    serde_json::json!({
        "sequence": ack.sequence,
        "class": class(ack.class),
        "rows": ack.rows,
        "duplicate": ack.duplicate,
        "quarantined": ack.quarantined,
        "duplicate_rows": ack.duplicate_rows,
    })
}

/// The name of an ack class.
pub(crate) fn class(class: AckClass) -> &'static str {
    match class {
        AckClass::Memory => "memory",
        AckClass::Process => "process",
        AckClass::Disk => "disk",
        AckClass::Replica => "replica",
    }
}
