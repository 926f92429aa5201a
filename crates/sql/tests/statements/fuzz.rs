//! Any statement is answered or refused within its memory and its time, and nothing panics.
//!
//! What has to be true of each: no thread panics, also not one whose panic is caught; it ends by its deadline and a tenth; the process
//! never holds more than its memory and a fifth. A statement is made of its number and of the logic files alone: `SPLAY_FUZZ_SEED=N` begins
//! with the N-th, `SPLAY_FUZZ_INPUTS` says how many. Without these a few are run, and their time is looked at for hangs alone.

use std::panic;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use arrow::util::display::array_value_to_string;
use splay_sql::{Error, Parameters, Session};
use splay_store::Tier;

use crate::corpus;
use crate::counted::alone;
use crate::grammar::Grammar;
use crate::market;
use crate::run::{MEMORY, Outcome, run, session};

const LIMIT: Duration = Duration::from_secs(2);

/// Of a machine that does other things at the same time, and of steps that look at the clock when they are done.
const SLACK: Duration = Duration::from_millis(500);

/// What no statement of a test run takes that ends at all, on whatever machine.
const HANG: Duration = Duration::from_secs(60);

/// What a statement may hold beside what it has to ask for: the text, plans, batches on their way.
const UNASKED: usize = 64 << 20;

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn set(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Names of all functions of a session.
fn functions(session: &Session) -> Vec<String> {
    let text = "select distinct routine_name from information_schema.routines order by 1";
    let batches = session.sql(text, Parameters::None).unwrap().batches().unwrap();
    let names = |batch: &arrow::array::RecordBatch| {
        (0..batch.num_rows()).map(|row| array_value_to_string(batch.column(0), row).unwrap()).collect::<Vec<_>>()
    };
    batches.iter().flat_map(names).filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_')).collect()
}

/// Why an outcome isn't as it has to be.
fn fault(outcome: &Outcome) -> Option<String> {
    let panics = std::mem::take(&mut *PANICS.lock().unwrap());
    if !panics.is_empty() {
        return Some(panics.join("; "));
    }
    let slack = if set("SPLAY_FUZZ_INPUTS").is_some() { SLACK } else { HANG };
    if outcome.time > LIMIT + LIMIT / 10 + slack {
        return Some(format!("it took {:?}", outcome.time));
    }
    if outcome.memory > MEMORY / 5 * 6 + UNASKED {
        return Some(format!("it held {} bytes", outcome.memory));
    }
    match &outcome.result {
        Err(Error::Internal { message }) if message.contains("fault of SplayDB") => Some(message.clone()),
        _ => None,
    }
}

#[test]
fn any_statement_is_answered_or_refused_within_its_bounds() {
    let _alone = alone();
    let (_folder, database) = market::database(Tier::Mapped);
    let session = session(&database);
    let grammar = Grammar { corpus: corpus::statements(), functions: functions(&session) };
    assert!(grammar.corpus.len() > 100 && grammar.functions.len() > 200);
    let before = panic::take_hook();
    panic::set_hook(Box::new(|panic_info| PANICS.lock().unwrap().push(panic_info.to_string())));
    let first = set("SPLAY_FUZZ_SEED").unwrap_or(1);
    let inputs = set("SPLAY_FUZZ_INPUTS").unwrap_or(300);
    let (begun, mut number, mut faults, mut answered) = (Instant::now(), first, Vec::new(), 0);
    while number < first + inputs {
        let text = grammar.statement(number);
        if std::env::var_os("SPLAY_FUZZ_SHOW").is_some() {
            eprintln!("{number}: {}", text.chars().take(300).collect::<String>());
        }
        let outcome = run(&session, &text, LIMIT);
        answered += u64::from(outcome.result.is_ok());
        if let Some(fault) = fault(&outcome) {
            let text: String = text.chars().take(600).collect();
            eprintln!("statement {number}: {fault}\n  {text}");
            faults.push(number);
            // What it left behind isn't the next one's.
            settle(&session);
        }
        number += 1;
    }
    panic::set_hook(before);
    eprintln!("{} statements from {first}, {answered} answered, {:?}", number - first, begun.elapsed());
    assert!(faults.is_empty(), "statements {faults:?}");
    settle(&session);
}

/// Runs the statement of `SPLAY_FUZZ_TEXT`, with `SPLAY_FUZZ_LIMIT` seconds, to look into one.
#[test]
fn a_statement_of_the_environment_runs() {
    let Ok(text) = std::env::var("SPLAY_FUZZ_TEXT") else { return };
    let _alone = alone();
    let (_folder, database) = market::database(Tier::Mapped);
    let limit = set("SPLAY_FUZZ_LIMIT").map_or(LIMIT, Duration::from_secs);
    eprintln!("{:?}", run(&session(&database), &text, limit));
}

/// Waits for a statement that was dropped to end its step.
fn settle(session: &Session) {
    let begun = Instant::now();
    while session.memory_reserved() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "memory stays reserved: {}", session.memory_reserved());
        std::thread::sleep(Duration::from_millis(1));
    }
}
