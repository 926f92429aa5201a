//! `splay replay`: a stored or recorded day for subscribers, until a signal ends it.

use anyhow::{Context, Result, bail};
use splay_capture::FollowSettings;
use splay_server::Server;
use splay_server::ingest::{ReplayRequest, ReplaySource, ReplaySpeed};
use splay_server::settings::Settings;
use splay_store::{Bounds, Database, Selection};
use tokio::signal::unix::{SignalKind, signal};

use super::serve::{announce, hangups, reload_at, start_logs};
use crate::args::ReplayArguments;
use crate::print::note;

pub fn run(arguments: &ReplayArguments) -> Result<()> {
    start_logs()?;
    let mut settings = arguments.config.as_ref().map_or_else(|| Ok(Settings::default()), Settings::read)?;
    settings.http.address = arguments.http.unwrap_or(settings.http.address);
    settings.audit.key = super::audit::key_of_environment()?;
    settings.flight.address = arguments.flight.unwrap_or(settings.flight.address);
    let database = Database::open(&arguments.database)?;
    splay_capture::follow(&database, FollowSettings::default());
    let request = request(arguments, &database)?;
    if let Some(date) = arguments.date.filter(|_| !arguments.recorded)
        && is_without_rows(&database, &request.tables, date)?
    {
        note!("no rows of {date} in {}: subscribers are told the end at once", request.tables.join(", "));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("splay-network").build();
    let runtime = runtime.context("start network threads")?;
    let served = runtime.block_on(serve(settings, database, request));
    runtime.shutdown_background();
    served
}

fn request(arguments: &ReplayArguments, database: &Database) -> Result<ReplayRequest> {
    let tables = if arguments.tables.is_empty() { database.tables()? } else { arguments.tables.clone() };
    if !(arguments.batch_ms > 0.0 && arguments.batch_ms <= 86_400_000.0) {
        bail!("--batch-ms is above 0 and at most a day");
    }
    Ok(ReplayRequest {
        tables,
        symbols: (!arguments.symbols.is_empty()).then(|| arguments.symbols.clone()),
        source: if arguments.recorded { ReplaySource::Recorded } else { ReplaySource::Stored },
        date: arguments.date.map(|date| date.to_string()),
        from: arguments.from.clone(),
        to: arguments.to.clone(),
        #[expect(clippy::cast_possible_truncation, reason = "at most a day")]
        batch_ns: ((arguments.batch_ms * 1e6) as i64).max(1),
        speed: arguments.speed,
    })
}

fn is_without_rows(database: &Database, tables: &[String], date: chrono::NaiveDate) -> Result<bool> {
    let day = splay_store::days(date);
    let selection = Selection { date: Bounds { min: day, max: day }, ..Selection::default() };
    for table in tables {
        let (rows, _) = database.table(table)?.snapshot()?.select(&selection)?;
        if !rows.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn serve(settings: Settings, database: Database, request: ReplayRequest) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("wait for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("wait for SIGTERM")?;
    let hangups = hangups()?;
    let what = describe(&database, &request);
    let server = Server::bind_replay(settings, database, request).await?;
    tokio::spawn(reload_at(hangups, server.certificate()));
    announce(&what, &server)?;
    server
        .run(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        })
        .await;
    Ok(())
}

fn describe(database: &Database, request: &ReplayRequest) -> String {
    let speed = match request.speed {
        ReplaySpeed::Max => "as fast as it is taken".to_owned(),
        ReplaySpeed::Times(times) => format!("at speed {times}"),
    };
    let date = request.date.as_deref().unwrap_or("all that is recorded");
    format!("replays {} of {}, {date}, {speed}", request.tables.join(", "), database.path().display())
}
