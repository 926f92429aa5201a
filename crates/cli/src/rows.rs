//! Rows of an answer: from a database that this process has opened, or from a server.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{
    DataType, Field, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::{Value, json};
use splay_ipc::StreamReader;
use splay_server::client::Client;
use splay_sql::{
    Answer, IntoFiles, NamedStatement, NamedStatements, Parameters, Progress, ResolvedStatement, RunBy, ScalarValue,
    Session, StatementStats, Stop, WaitOutcome, is_change,
};
use splay_store::{SelectedCount, TZ_VARIANTS, did_you_mean};

use crate::commands::changes::settle;
use crate::commands::place::{json_error, runtime};
use crate::size::{Counted, HumanBytes, Thousands};

/// How often a statement that runs looks whether it was interrupted.
const INTERVAL: Duration = Duration::from_millis(50);

/// Where statements are run.
pub enum Source {
    Local(Session),
    Server(Client),
}

/// The rows of an answer, as they are made.
pub struct Rows<'a> {
    pub schema: SchemaRef,
    pub batches: Box<dyn Iterator<Item = Result<RecordBatch>> + 'a>,
}

/// A statement that was started.
pub enum StartedStatement<'a> {
    Local { answer: Box<Answer>, stopped: &'a AtomicBool, progress: &'a Progress },
    Server { schema: SchemaRef, batches: Box<dyn Iterator<Item = Result<RecordBatch>>>, elapsed: Duration },
}

impl Source {
    /// What a statement comes to. Of a session of this process, the statement of a `PREPARE` is planned at once; a server tells its faults when it
    /// is executed.
    pub fn resolve<'t>(
        &self,
        named: &mut NamedStatements,
        text: &'t str,
        stopped: &AtomicBool,
    ) -> Result<ResolvedStatement<'t>> {
        if let (Source::Local(session), Some(statement)) = (self, NamedStatement::of(text)?) {
            session.check_named(&statement, Stop::when(&|| stopped.load(Ordering::Relaxed)))?;
        }
        Ok(named.resolve(text)?)
    }

    /// Runs a statement until `stopped` is set. One of this process tells `progress` how far it is.
    pub fn start<'a>(
        &self,
        text: &str,
        values: &HashMap<String, ScalarValue>,
        stopped: &'a AtomicBool,
        progress: &'a Progress,
    ) -> Result<StartedStatement<'a>> {
        match self {
            Source::Local(session) => {
                let parameters = match values.is_empty() {
                    true => Parameters::None,
                    false => Parameters::Named(values.clone()),
                };
                let is_stopped = || stopped.load(Ordering::Relaxed);
                let stop = Stop::when(&is_stopped).telling(progress);
                let answer = match is_change(text) {
                    false => session.sql_until(text, parameters, stop)?,
                    true => {
                        settle(session.database())?;
                        session.change(text, parameters, stop, &IntoFiles(session.database()))?
                    }
                };
                Ok(StartedStatement::Local { answer: Box::new(answer), stopped, progress })
            }
            Source::Server(client) => ask(client, text, values, stopped),
        }
    }

    /// The rows of a statement's answer, each as the texts of its values by the names of their columns, without those that are null.
    pub fn texts(&self, text: &str) -> Result<Vec<HashMap<String, String>>> {
        let options = FormatOptions::default().with_timestamp_tz_format(Some("%Y-%m-%dT%H:%M:%SZ"));
        let never = AtomicBool::new(false);
        let progress = Progress::default();
        let mut started = self.start(text, &HashMap::new(), &never, &progress)?;
        let mut rows = Vec::new();
        for batch in started.rows().batches {
            let batch = batch?;
            let schema = batch.schema();
            let columns = schema.fields().iter().zip(batch.columns());
            let columns: Vec<_> = columns
                .map(|(field, column)| Ok((field.name(), column, ArrayFormatter::try_new(column, &options)?)))
                .collect::<Result<_>>()?;
            let value = |row: usize| {
                let there = columns.iter().filter(move |(_, column, _)| column.is_valid(row));
                there.map(move |(name, _, texts)| ((*name).clone(), texts.value(row).to_string())).collect()
            };
            rows.extend((0..batch.num_rows()).map(value));
        }
        Ok(rows)
    }

    /// Why the engine didn't run a statement as a tick plan, if a session of this process ran it.
    pub fn why_no_tick_plan(&self, text: &str, values: &HashMap<String, ScalarValue>) -> Option<String> {
        let Source::Local(session) = self else { return None };
        session.why_no_tick_plan(text, &Parameters::Named(values.clone()))
    }
}

impl StartedStatement<'_> {
    pub fn rows(&mut self) -> Rows<'_> {
        match self {
            StartedStatement::Local { answer, stopped, progress } => {
                let (schema, stopped, progress) = (answer.schema(), *stopped, *progress);
                let batches = std::iter::from_fn(move || {
                    loop {
                        if stopped.load(Ordering::Relaxed) {
                            return Some(Err(splay_sql::Error::Cancelled.into()));
                        }
                        match answer.wait(INTERVAL) {
                            WaitOutcome::Batch(batch) => return Some(batch.map_err(Into::into)),
                            WaitOutcome::End => return None,
                            WaitOutcome::TimedOut => answer.tell(progress),
                        }
                    }
                });
                Rows { schema, batches: Box::new(batches) }
            }
            StartedStatement::Server { schema, batches, .. } => {
                Rows { schema: Arc::clone(schema), batches: Box::new(batches.by_ref()) }
            }
        }
    }

    /// What the statement cost, in lines, once its rows were read.
    pub fn costs(&self, source: &Source, text: &str, values: &HashMap<String, ScalarValue>) -> String {
        match self {
            StartedStatement::Local { answer, .. } => {
                let stats = answer.stats();
                let reason = answer.refusal().map(str::to_owned).or_else(|| source.why_no_tick_plan(text, values));
                format!("{}\n{}", stats_line(&stats), run_by(&stats, reason.as_deref()))
            }
            StartedStatement::Server { elapsed, .. } => format!("{:.3} ms on the way", elapsed.as_secs_f64() * 1e3),
        }
    }

    /// From the text to the last row.
    pub fn elapsed(&self) -> Duration {
        match self {
            StartedStatement::Local { answer, .. } => {
                let stats = answer.stats();
                stats.planning + stats.execution
            }
            StartedStatement::Server { elapsed, .. } => *elapsed,
        }
    }
}

/// Sends a statement to a server and takes its answer as a stream of Arrow. Once `stopped` is set, the connection is closed, which ends the
/// statement there.
fn ask(
    client: &Client,
    text: &str,
    values: &HashMap<String, ScalarValue>,
    stopped: &AtomicBool,
) -> Result<StartedStatement<'static>> {
    let mut request = json!({"sql": text, "format": "arrow"});
    if !values.is_empty() {
        let values: Result<serde_json::Map<String, Value>> =
            values.iter().map(|(name, value)| Ok((name.clone(), json_of(value)?))).collect();
        request["params"] = Value::Object(values?);
    }
    let start = Instant::now();
    let answer = runtime()?.block_on(async {
        let interrupted = async {
            while !stopped.load(Ordering::Relaxed) {
                tokio::time::sleep(INTERVAL).await;
            }
        };
        tokio::select! {
            answer = client.post_statement("/query", request.to_string().into()) => answer.map_err(anyhow::Error::from),
            () = interrupted => Err(anyhow::Error::from(splay_sql::Error::Cancelled)),
        }
    })?;
    if answer.status >= 300 {
        return Err(json_error(&answer));
    }
    let reader = StreamReader::try_new(std::io::Cursor::new(answer.body)).context("read the server's answer")?;
    let (schema, elapsed) = (reader.schema(), start.elapsed());
    let batches = reader.map(|batch| batch.context("read the server's answer"));
    Ok(StartedStatement::Server { schema, batches: Box::new(batches), elapsed })
}

fn json_of(value: &ScalarValue) -> Result<Value> {
    Ok(match value {
        ScalarValue::Int64(Some(number)) => Value::from(*number),
        ScalarValue::Float64(Some(number)) => Value::from(*number),
        ScalarValue::Boolean(Some(value)) => Value::from(*value),
        ScalarValue::Utf8(Some(text)) => Value::from(text.as_str()),
        other => bail!("{other} can't be sent to a server"),
    })
}

impl<'a> Rows<'a> {
    /// The rows with instants shown in a time zone.
    pub fn in_zone(self, zone: Option<&str>) -> Result<Rows<'a>> {
        let Some(zone) = zone else { return Ok(self) };
        check_zone(zone)?;
        let zone: Arc<str> = zone.into();
        let moved = |data_type: &DataType| match data_type {
            DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some(Arc::clone(&zone))),
            other => other.clone(),
        };
        let field = |field: &Arc<Field>| Field::new(field.name(), moved(field.data_type()), field.is_nullable());
        let schema = Arc::new(Schema::new(self.schema.fields().iter().map(field).collect::<Vec<_>>()));
        let zoned = Arc::clone(&schema);
        let batches = self.batches.map(move |batch| {
            let batch = batch?;
            let columns = batch.columns().iter().map(|column| with_zone(column, &zone)).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            Ok(RecordBatch::try_new_with_options(Arc::clone(&zoned), columns, &options)?)
        });
        Ok(Rows { schema, batches: Box::new(batches) })
    }
}

/// Whether there is a time zone of that name.
pub fn check_zone(zone: &str) -> Result<()> {
    match Tz::from_str(zone) {
        Ok(_) => Ok(()),
        Err(_) => {
            let question = did_you_mean(zone, TZ_VARIANTS.iter().map(|zone| zone.name()));
            let hint = question.unwrap_or_else(|| "there are names such as America/New_York".to_owned());
            bail!("{zone:?} is not a time zone; {hint}")
        }
    }
}

fn with_zone(column: &ArrayRef, zone: &Arc<str>) -> ArrayRef {
    let zone = Arc::clone(zone);
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Second, Some(_)) => {
            Arc::new(column.as_primitive::<TimestampSecondType>().clone().with_timezone(zone))
        }
        DataType::Timestamp(TimeUnit::Millisecond, Some(_)) => {
            Arc::new(column.as_primitive::<TimestampMillisecondType>().clone().with_timezone(zone))
        }
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
            Arc::new(column.as_primitive::<TimestampMicrosecondType>().clone().with_timezone(zone))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, Some(_)) => {
            Arc::new(column.as_primitive::<TimestampNanosecondType>().clone().with_timezone(zone))
        }
        _ => Arc::clone(column),
    }
}

/// Values of placeholders, given as NAME=VALUE.
pub fn parameters(arguments: &[String]) -> Result<HashMap<String, ScalarValue>> {
    arguments
        .iter()
        .map(|parameter| {
            let (name, value) = parameter.split_once('=').ok_or_else(|| anyhow!("{parameter:?} is not NAME=VALUE"))?;
            Ok((name.trim_start_matches('$').to_owned(), value_of(value)))
        })
        .collect()
}

/// A value by its looks: quotes make it a text whatever it looks like. Words for infinity and for no number are texts, which symbols are called.
fn value_of(text: &str) -> ScalarValue {
    if let Some(quoted) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return ScalarValue::from(quoted);
    }
    if let Ok(number) = text.parse::<i64>() {
        return ScalarValue::from(number);
    }
    if let Some(number) = text.parse::<f64>().ok().filter(|number| number.is_finite()) {
        return ScalarValue::from(number);
    }
    match text {
        "true" => ScalarValue::from(true),
        "false" => ScalarValue::from(false),
        _ => ScalarValue::from(text),
    }
}
/// What a statement cost, in one line.
fn stats_line(stats: &StatementStats) -> String {
    let ratio = |count: SelectedCount| format!("{}/{}", Thousands(count.selected), Thousands(count.total));
    format!(
        "{:.3} ms ({:.3} planning, {:.3} execution) | {} | scanned {}, {} | kept: partitions {}, symbols {}, blocks {} | \
         peak {} in operators, {} in the process",
        (stats.planning + stats.execution).as_secs_f64() * 1e3,
        stats.planning.as_secs_f64() * 1e3,
        stats.execution.as_secs_f64() * 1e3,
        Counted(stats.rows_returned, "row"),
        Thousands(stats.rows_scanned),
        HumanBytes(stats.bytes_scanned),
        ratio(stats.selection.partitions),
        ratio(stats.selection.symbols),
        ratio(stats.selection.blocks),
        HumanBytes(stats.peak_memory_bytes),
        HumanBytes(process_bytes("VmHWM:").unwrap_or(0)),
    )
}

/// What ran a statement, and why that wasn't a tick plan, in one line.
fn run_by(stats: &StatementStats, reason: Option<&str>) -> String {
    let by = match stats.run_by {
        RunBy::TickPlan => return "run as a tick plan".to_owned(),
        RunBy::TickParts => "run by DataFusion, groupings in it as tick plans",
        RunBy::DataFusion => "run by DataFusion",
    };
    reason.map_or_else(|| by.to_owned(), |reason| format!("{by}; no tick plan because of {reason}"))
}

/// Memory that the process holds without that of mapped files (`RssAnon:`), or the most that it held with them (`VmHWM:`); `None` where the
/// system doesn't say.
pub fn process_bytes(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_statement_on_a_server_ends_when_it_is_interrupted() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::new(&format!("http://{}", server.local_addr().unwrap()), None, None).unwrap();
        let stopped = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(&client, "select 1", &HashMap::new(), &stopped).map(drop));
            // The server takes the statement and never answers.
            let _connection = server.accept().unwrap();
            stopped.store(true, Ordering::Relaxed);
            let error = asked.join().unwrap().unwrap_err();
            assert!(matches!(error.downcast_ref(), Some(splay_sql::Error::Cancelled)), "{error}");
        });
    }
}
