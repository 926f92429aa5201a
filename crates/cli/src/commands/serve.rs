//! `splay serve`: a database over the network, until it is told to stop. `splay token`: for its clients. `splay roll`: what the
//! server does at the end of a day, without one.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use splay_capture::{Capture, CaptureSettings, FollowSettings, RecoveryStatus};
use splay_server::ingest::Ingest;
use splay_server::replica::{FollowerIngest, HttpLeader};
use splay_server::settings::Settings;
use splay_server::{CertificateReload, Server};
use splay_store::storage::{LocalStorage, Storage};
use splay_store::{Database, Secret, priority};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::notify::notify;
use super::place;
use crate::allocator;
use crate::args::{DatabaseArguments, ServeArguments, TokenArguments};
use crate::print::say;
use crate::size::Counted;

/// How often the server looks whether capture still takes rows.
const FAILED_INTERVAL: Duration = Duration::from_millis(250);

pub fn run(arguments: &ServeArguments) -> Result<()> {
    start_logs()?;
    refuse_huge_pages();
    allocator::give_back_when_idle().context("start a thread")?;
    let mut settings = arguments.config.as_ref().map_or_else(|| Ok(Settings::default()), Settings::read)?;
    settings.http.address = arguments.http.unwrap_or(settings.http.address);
    settings.flight.address = arguments.flight.unwrap_or(settings.flight.address);
    settings.postgres.address = arguments.postgres.unwrap_or(settings.postgres.address);
    settings.line.address = arguments.line.or(settings.line.address);
    settings.audit.key = super::audit::key_of_environment()?;
    settings.validate()?;
    let mut capture: CaptureSettings = settings.capture.clone().try_into().context("settings of [capture]")?;
    // Lines are held to the same number as batches, so that one too many costs a line and not its batch.
    let columns_max = capture.columns_max.min(settings.limits.columns_max);
    (capture.columns_max, settings.limits.columns_max) = (columns_max, columns_max);
    Server::check(&settings)?;
    priority::favour_capture();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().thread_name("splay-network").on_thread_start(priority::capture).build();
    let runtime = runtime.context("start network threads")?;
    // Before the journal is recovered, which may take minutes.
    let hangups = runtime.block_on(async { hangups() })?;
    let (database, capture) = open(arguments, capture)?;
    let served = runtime.block_on(serve(settings, database, capture, hangups));
    // A statement in a long step is not waited for.
    runtime.shutdown_background();
    served
}

/// Asks the system for pages of the usual size. It clears a page of 2 MiB when its first byte is touched, for a millisecond or more in
/// which nobody else gets the processor, and rows come in a few at a time (ADR 18).
fn refuse_huge_pages() {
    #[cfg(target_os = "linux")]
    // SAFETY: sets a flag of this process; the arguments are those that the flag wants.
    let refused = unsafe {
        let (on, unused): (libc::c_ulong, libc::c_ulong) = (1, 0);
        libc::prctl(libc::PR_SET_THP_DISABLE, on, unused, unused, unused)
    };
    #[cfg(target_os = "linux")]
    if refused != 0 {
        tracing::info!("huge pages stay on: {}", std::io::Error::last_os_error());
    }
}

/// The database, and capture unless the server only reads; what captures once it is promoted, if it follows another server.
fn open(arguments: &ServeArguments, settings: CaptureSettings) -> Result<(Database, Option<Arc<dyn Ingest>>)> {
    if let Some(url) = &arguments.follow {
        let token = place::token(arguments.follow_token_file.as_deref())?;
        let leader = HttpLeader::new(url, token, arguments.follow_authority.as_deref())?;
        let aside = arguments.aside.as_ref().map(LocalStorage::made).transpose()?;
        let aside = aside.map(|aside| Arc::new(aside) as Arc<dyn Storage>);
        let (database, follower) = FollowerIngest::start(&arguments.database, leader, aside, settings)?;
        return Ok((database, Some(Arc::new(follower))));
    }
    if arguments.read_only {
        let database = Database::open(&arguments.database)?;
        splay_capture::follow(&database, FollowSettings { bytes_max: settings.live_bytes_max.saturating_mul(2) });
        database.look_at_tables()?;
        return Ok((database, None));
    }
    let database = Database::open_or_create(&arguments.database)?;
    let (capture, recovered) = Capture::open(database.clone(), settings)?;
    if recovered != RecoveryStatus::default() {
        say!("{recovered}")?;
    }
    Ok((database, Some(Arc::new(capture))))
}

/// Each SIGHUP from now on, by which a process ends unless it asks for it.
pub(super) fn hangups() -> Result<Signal> {
    signal(SignalKind::hangup()).context("wait for SIGHUP")
}

/// Reads the certificate anew at each SIGHUP.
pub(super) async fn reload_at(mut hangups: Signal, certificate: CertificateReload) {
    while hangups.recv().await.is_some() {
        let certificate = certificate.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || certificate.reload()).await {
            tracing::error!(%error, "the certificate was not reloaded");
        }
    }
}

async fn serve(
    settings: Settings,
    database: Database,
    capture: Option<Arc<dyn Ingest>>,
    hangups: Signal,
) -> Result<()> {
    // Before the first connection, so that no signal falls between.
    let mut interrupt = signal(SignalKind::interrupt()).context("wait for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("wait for SIGTERM")?;
    let name = database.path().display().to_string();
    let (watched, observed) = (capture.clone(), capture.clone());
    let server = Server::bind(settings, database, capture).await?;
    tokio::spawn(reload_at(hangups, server.certificate()));
    announce(&format!("serves {name}"), &server)?;
    notify("READY=1");
    server
        .run(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                () = failed(observed) => tracing::error!("capture has failed"),
            }
            notify("STOPPING=1");
        })
        .await;
    match watched {
        Some(capture) => capture.close().context("start again: what was acknowledged is recovered"),
        None => Ok(()),
    }
}

/// Waits until capture takes nothing more, because its journal can't be written.
async fn failed(capture: Option<Arc<dyn Ingest>>) {
    let Some(capture) = capture else { return std::future::pending().await };
    while capture.is_ready() {
        tokio::time::sleep(FAILED_INTERVAL).await;
    }
}

/// Says where the server listens: one line each, for people and for programs that start it.
pub(super) fn announce(what: &str, server: &Server) -> Result<()> {
    let addresses = server.addresses();
    say!("splay {} {what}", env!("CARGO_PKG_VERSION"))?;
    let (http, grpc) = if addresses.tls { ("https", "grpc+tls") } else { ("http", "grpc") };
    let listeners = [
        ("http", http, addresses.http),
        ("flight", grpc, addresses.flight),
        ("postgres", "postgresql", addresses.postgres),
        ("line", "tcp", addresses.line),
    ];
    for (listener, scheme, address) in listeners {
        match address {
            Some(address) => say!("{listener:6} {scheme}://{address}")?,
            // The listener is off unless the settings name an address.
            None if listener == "postgres" => {}
            None => say!("{listener:6} off")?,
        }
    }
    Ok(())
}

/// Logs go to standard error: one line for each event, its fields as name=value, or with SPLAY_LOG_FORMAT=json an object of JSON.
pub(super) fn start_logs() -> Result<()> {
    let directives =
        std::env::var("SPLAY_LOG").unwrap_or_else(|_| "warn,splay_server=info,splay_capture=info".to_owned());
    let filter: Targets = directives.parse().with_context(|| format!("SPLAY_LOG={directives:?}"))?;
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    match std::env::var("SPLAY_LOG_FORMAT").as_deref() {
        Err(_) | Ok("" | "text") => registry.with(lines).init(),
        Ok("json") => registry.with(lines.json().flatten_event(true)).init(),
        Ok(other) => bail!("SPLAY_LOG_FORMAT={other:?}; there are text and json"),
    }
    Ok(())
}

/// Rolls a database that nothing captures into.
pub fn roll(arguments: &DatabaseArguments) -> Result<()> {
    let database = Database::open(&arguments.database)?;
    let settings = CaptureSettings { automatic: false, disk_reserve_bytes: 0, ..CaptureSettings::default() };
    let (capture, recovered) =
        Capture::open(database, settings).context("a server that captures into the database rolls it by itself")?;
    if recovered != RecoveryStatus::default() {
        say!("{recovered}")?;
    }
    let report = capture.roll(None)?;
    let (rows, partitions) = (Counted(report.rows, "row"), Counted(report.partitions as u64, "partition"));
    say!("rolled {rows}, joined the segments of {partitions}")?;
    capture.close()?;
    Ok(())
}

pub fn token(arguments: &TokenArguments) -> Result<()> {
    let new = Secret::generate()?;
    say!("# For the client, shown this once:\n#   {}", new.token)?;
    say!("# For the server's settings:")?;
    say!("[[auth.tokens]]\nname = {:?}\nblake3 = {:?}\nroles = [\"read\", \"write\"]", arguments.name, new.blake3)?;
    Ok(())
}
