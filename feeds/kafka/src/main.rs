//! `splay-kafka feed.toml`: rows of Kafka topics into a SplayDB server.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use splay_kafka::kafka::Feeds;
use splay_kafka::metrics::{Metrics, serve};
use splay_kafka::settings::{OnError, Settings};
use splay_kafka::stop::StopSignal;
use splay_records::signals;
use tracing_subscriber::EnvFilter;

const USAGE: &str = "\
Rows of Kafka topics into a SplayDB server, each exactly once.

Usage: splay-kafka FILE [--check] [--on-error stop|skip]

  FILE               settings (docs/guide/kafka.md)
  --check            looks whether the settings are sound, asks nobody, and ends
  --on-error WHAT    for records that are no rows, in the place of the setting:
                     skip writes them to the dead letters, stop ends before them
  --version, --help

SIGTERM and SIGINT send the rows that wait, and end; a second one ends at once, which loses nothing.
SPLAY_LOG says what is logged: warn, info (default), debug.";

struct Arguments {
    file: PathBuf,
    is_check: bool,
    on_error: Option<OnError>,
}

fn arguments() -> Result<Option<Arguments>, String> {
    let (mut file, mut is_check, mut on_error) = (None, false, None);
    let mut words = std::env::args_os().skip(1);
    while let Some(argument) = words.next() {
        match argument.to_str() {
            Some("--help" | "-h") => {
                println!("{USAGE}");
                return Ok(None);
            }
            Some("--version" | "-V") => {
                println!("splay-kafka {}", env!("CARGO_PKG_VERSION"));
                return Ok(None);
            }
            Some("--check") => is_check = true,
            Some("--on-error") => {
                on_error = Some(match words.next().as_deref().and_then(|value| value.to_str()) {
                    Some("skip") => OnError::Skip,
                    Some("stop") => OnError::Stop,
                    _ => return Err("--on-error takes skip or stop".to_owned()),
                });
            }
            Some(option) if option.starts_with('-') => return Err(format!("there is no option {option}")),
            _ if file.is_some() => return Err("one file of settings".to_owned()),
            _ => file = Some(PathBuf::from(argument)),
        }
    }
    let file = file.ok_or("a file of settings is missing; --help says more")?;
    Ok(Some(Arguments { file, is_check, on_error }))
}

fn settings(file: &Path, on_error: Option<OnError>) -> Result<Settings, String> {
    let mut settings = Settings::read(file)?;
    settings.on_error = on_error.unwrap_or(settings.on_error);
    settings.validate().map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(settings)
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let settings = settings(&arguments.file, arguments.on_error)?;
    let (metrics, stop) = (Arc::new(Metrics::new("splay_kafka", "topic")), Arc::new(StopSignal::default()));
    let (listen, log_seconds) = (settings.metrics.listen, settings.metrics.log_seconds);
    let feeds = Feeds::new(settings, Arc::clone(&metrics), Arc::clone(&stop))?;
    if arguments.is_check {
        println!("{}: the settings are sound", arguments.file.display());
        return Ok(());
    }
    if let Some(address) = listen {
        let cannot = |error: std::io::Error| format!("metrics.listen: {address}: {error}");
        let of_page = Arc::clone(&metrics);
        serve(TcpListener::bind(address).map_err(cannot)?, move || of_page.page()).map_err(cannot)?;
    }
    signals::handle(Arc::clone(&stop), give_up).map_err(|error| format!("signals: {error}"))?;
    if log_seconds > 0 {
        let metrics = Arc::clone(&metrics);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(log_seconds));
                tracing::info!("{}", metrics.line());
            }
        });
    }
    let ended = feeds.run();
    tracing::info!("{}", metrics.line());
    ended
}

/// Ends at once, which loses nothing.
fn give_up() {
    tracing::warn!("ends at once: the rows that wait are read again after the next start");
    std::process::exit(0);
}

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_env("SPLAY_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let ended = match arguments() {
        Ok(None) => return ExitCode::SUCCESS,
        Ok(Some(arguments)) => run(&arguments),
        Err(error) => Err(error),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("splay-kafka: {error}");
            ExitCode::FAILURE
        }
    }
}
