//! Refreshes the stored rows of materialized views from time to time.
//!
//! A refresh doesn't change a view's rows, only the cost of reading them. So a failed one is logged and repeated
//! later.

use std::sync::Arc;
use std::time::{Duration, Instant};

use splay_sql::{Session, Stop};
use tokio::sync::watch;

use crate::ingest::Ingest;

/// Refreshes all materialized views whose tables have changed, each time that `every` has gone by, until the server stops.
///
/// A database that another copy leads gets its views' rows from there.
pub(crate) async fn refresh(
    session: Session,
    ingest: Arc<dyn Ingest>,
    every: Duration,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
        if ingest.check_changes().is_err() {
            continue;
        }
        let (of_refresh, stopped) = (session.clone(), stopped.clone());
        let done = session.spawn_blocking(move || refresh_all(&of_refresh, &|| *stopped.borrow())).await;
        if let Err(error) = done {
            tracing::error!(%error, "materialized views are not refreshed any more");
            return;
        }
    }
}

fn refresh_all(session: &Session, is_stopped: &(dyn Fn() -> bool + Sync)) {
    // A damaged list of views is reported by statements that read an unknown name.
    let views = session.database().views().unwrap_or_default();
    for view in views.iter().filter(|view| view.materialized.is_some()) {
        if is_stopped() {
            return;
        }
        let begun = Instant::now();
        match session.refresh(&view.name, Stop::when(is_stopped)) {
            Ok(refreshed) if refreshed.commit.is_some() => {
                tracing::info!(view = %view.name, read = refreshed.read, written = refreshed.written, took = ?begun.elapsed(), "view refreshed");
            }
            Ok(_) => {}
            Err(_) if is_stopped() => return,
            Err(error) => tracing::warn!(view = %view.name, %error, "the view is not refreshed for now"),
        }
    }
}
