//! `splay-feed feed.toml`: rows of WebSocket feeds and of Cryptofeed's sockets into a SplayDB server.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use splay_records::metrics::serve;
use splay_records::signals;
use splay_records::stop::StopSignal;
use splay_socket::counts::AllCounts;
use splay_socket::run::Program;
use splay_socket::settings::Settings;
use tracing_subscriber::EnvFilter;

const USAGE: &str = "\
Rows of WebSocket feeds and of Cryptofeed's sockets into a SplayDB server.

Usage: splay-feed FILE [--check]

  FILE               settings (docs/guide/feeds.md)
  --check            looks whether the settings are sound, asks nobody, and ends
  --version, --help

SIGTERM and SIGINT send the rows that wait, and end. A second one ends at once, which loses them.
SPLAY_LOG says what is logged: warn, info (default), debug.";

fn arguments() -> Result<Option<(PathBuf, bool)>, String> {
    let (mut file, mut is_check) = (None, false);
    for argument in std::env::args_os().skip(1) {
        match argument.to_str() {
            Some("--help" | "-h") => {
                println!("{USAGE}");
                return Ok(None);
            }
            Some("--version" | "-V") => {
                println!("splay-feed {}", env!("CARGO_PKG_VERSION"));
                return Ok(None);
            }
            Some("--check") => is_check = true,
            Some(option) if option.starts_with('-') => return Err(format!("there is no option {option}")),
            _ if file.is_some() => return Err("one file of settings".to_owned()),
            _ => file = Some(PathBuf::from(argument)),
        }
    }
    Ok(Some((file.ok_or("a file of settings is missing; --help says more")?, is_check)))
}

fn run(file: &Path, is_check: bool) -> Result<(), String> {
    let settings = Settings::read(file)?;
    let counts = Arc::new(AllCounts::new(settings.feeds.iter().map(|feed| feed.name.as_str())));
    let (listen, log_seconds) = (settings.metrics.listen, settings.metrics.log_seconds);
    let stop = Arc::new(StopSignal::default());
    let program = Program::new(settings, Arc::clone(&counts), Arc::clone(&stop))?;
    if is_check {
        println!("{}: the settings are sound", file.display());
        return Ok(());
    }
    if let Some(address) = listen {
        let cannot = |error: std::io::Error| format!("metrics.listen: {address}: {error}");
        let of_page = Arc::clone(&counts);
        serve(TcpListener::bind(address).map_err(cannot)?, move || of_page.page()).map_err(cannot)?;
    }
    signals::handle(stop, give_up).map_err(|error| format!("signals: {error}"))?;
    if log_seconds > 0 {
        let counts = Arc::clone(&counts);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(log_seconds));
                tracing::info!("{}", counts.line());
            }
        });
    }
    let ended = program.run();
    tracing::info!("{}", counts.line());
    ended
}

/// Ends at once.
fn give_up() {
    tracing::error!("ends at once: the rows that wait are lost");
    std::process::exit(1);
}

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_env("SPLAY_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let ended = match arguments() {
        Ok(None) => return ExitCode::SUCCESS,
        Ok(Some((file, is_check))) => run(&file, is_check),
        Err(error) => Err(error),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("splay-feed: {error}");
            ExitCode::FAILURE
        }
    }
}
