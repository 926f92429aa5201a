//! `splay-cluster`: a scheduler, an executor, or a statement for a scheduler.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use splay_cluster::args::{Arguments, Command, Format, ServerArguments};
use splay_cluster::executors::Executors;
use splay_cluster::scheduler::Scheduler;
use splay_cluster::token::Token;
use splay_cluster::{Error, Result, client, executor};
use splay_sql::{Session, SessionSettings};
use splay_store::Database;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

fn main() -> ExitCode {
    #[cfg(feature = "stores")]
    splay_stores::register();
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let run = runtime
        .map_err(|source| Error::Io { act: "start threads".to_owned(), source })
        .and_then(|runtime| runtime.block_on(run(arguments.command)));
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("splay-cluster: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<()> {
    match command {
        Command::Executor { database, server } => {
            let (session, token) = (session(&database, &server)?, Token::read(server.token_file.as_deref())?);
            executor::serve(listen(&server, &token).await?, session, token).await
        }
        Command::Scheduler { database, executors, slices_per_executor, slice_rows_min, statements_max, server } => {
            let (session, token) = (session(&database, &server)?, Token::read(server.token_file.as_deref())?);
            let executors = Executors::new(&executors, token.clone())?;
            let places = Arc::new(Semaphore::new(statements_max.max(1)));
            let scheduler = Scheduler { session, executors, slices_per_executor, slice_rows_min, places };
            scheduler.serve(listen(&server, &token).await?, token).await
        }
        Command::Sql { url, statement, format, token_file } => {
            print(&url, &statement, format, &Token::read(token_file.as_deref())?).await
        }
    }
}

fn session(database: &Path, server: &ServerArguments) -> Result<Session> {
    let database = Database::open(database).map_err(splay_sql::Error::from)?;
    let defaults = SessionSettings::default();
    let memory_bytes = server.memory_mb.max(64).saturating_mul(1 << 20);
    let threads = server.threads.unwrap_or(defaults.threads).max(1);
    let settings = SessionSettings { memory_bytes, total_memory_bytes: memory_bytes, threads, ..defaults };
    Ok(Session::new(database, settings)?)
}

/// Listens, and prints the address on standard output.
async fn listen(server: &ServerArguments, token: &Token) -> Result<TcpListener> {
    token.check_listening(server.listen)?;
    let io = |source| Error::Io { act: format!("listen on {}", server.listen), source };
    let listener = TcpListener::bind(server.listen).await.map_err(io)?;
    let address = listener.local_addr().map_err(io)?;
    println!("listening on http://{address}");
    std::io::stdout().flush().map_err(io)?;
    Ok(listener)
}

async fn print(url: &str, statement: &str, format: Format, token: &Token) -> Result<()> {
    let wrong = |error: arrow::error::ArrowError| Error::Statement { reason: error.to_string() };
    let mut batches = Vec::new();
    let mut csv = arrow::csv::WriterBuilder::new().with_header(true).build(std::io::stdout().lock());
    let take = |batch| match format {
        Format::Csv => csv.write(&batch).map_err(wrong),
        Format::Table => {
            batches.push(batch);
            Ok(())
        }
    };
    client::ask(url, statement, token, take).await?;
    if format == Format::Table {
        println!("{}", arrow::util::pretty::pretty_format_batches(&batches).map_err(wrong)?);
    }
    Ok(())
}
