//! Rows over Flight: DoPut of record batches, acknowledged one by one, and Flight SQL's bulk ingestion.

use std::pin::Pin;

use arrow::array::RecordBatch;
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use arrow_flight::{FlightData, PutResult};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use serde::Deserialize;
use tokio::sync::mpsc;
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::metadata;
use crate::appends::{self, AckReceiver, Appends};
use crate::ingest::{AckClass, Append, Producer};
use crate::ipc;
use crate::problem::{Code, Outcome, Problem};

/// Bytes and rows that the values of one call may have.
const VALUES_BYTES_MAX: usize = 16 << 20;
const VALUES_ROWS_MAX: usize = 1 << 16;

/// The metadata of a batch.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BatchMetadata {
    /// The producer's number of the batch.
    sequence: Option<u64>,
}

/// The headers of a call, which hold for all batches of its stream.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) table: String,
    pub(super) ack: Option<AckClass>,
    pub(super) producer: Option<String>,
    /// Whether a batch that doesn't fit is reported in its place among the acks while the stream goes on.
    goes_on: bool,
}

impl Target {
    pub(super) fn new(table: &str, headers: &MetadataMap) -> Outcome<Target> {
        splay_store::validate_name("table", table)?;
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let ack = match text("splay-ack") {
            None => None,
            Some(class) => Some(class.parse().map_err(|error: String| Problem::new(Code::Request, error))?),
        };
        let goes_on = match text("splay-refused") {
            None | Some("end") => false,
            Some("report") => true,
            Some(other) => {
                let text = format!("splay-refused is {other:?}; there are end and report");
                return Err(Problem::new(Code::Request, text));
            }
        };
        Ok(Target { table: table.to_owned(), ack, producer: text("splay-producer").map(str::to_owned), goes_on })
    }

    fn append(&self, rows: RecordBatch, metadata: &Bytes) -> Outcome<Append> {
        let wrong = |error| Problem::new(Code::Request, format!("the metadata of a batch: {error}"));
        let metadata: BatchMetadata = if metadata.is_empty() {
            BatchMetadata::default()
        } else {
            serde_json::from_slice(metadata).map_err(wrong)?
        };
        let producer = match (&self.producer, metadata.sequence) {
            (Some(name), Some(sequence)) => Some(Producer::new(name.clone(), sequence)),
            (None, None) => None,
            (Some(_), None) => {
                return Err(Problem::new(Code::Request, "a producer numbers its batches: metadata {\"sequence\": N}"));
            }
            (None, Some(_)) => {
                return Err(Problem::new(Code::Request, "a numbered batch has a producer: header splay-producer"));
            }
        };
        Ok(Append { producer, ack: self.ack, ..Append::new(self.table.clone(), rows) })
    }
}

/// A problem out of what decoding reports.
fn decode_problem(error: FlightError) -> Problem {
    match error {
        FlightError::Tonic(status) => match serde_json::from_slice::<serde_json::Value>(status.details()) {
            // Ours, which went through the decoder.
            Ok(_) if status.code() == tonic::Code::ResourceExhausted => Problem::new(Code::TooLarge, status.message()),
            _ => Problem::new(Code::Request, status.message()),
        },
        other => Problem::new(Code::Request, format!("not a sound stream of rows: {other}")),
    }
}

/// Decodes a stream whose messages are checked before Arrow sees them. Messages with a descriptor alone, by which clients begin calls without
/// rows, are passed over.
pub(super) fn decoder<S>(stream: S, bytes_max: usize) -> FlightDataDecoder
where
    S: Stream<Item = Result<FlightData, Status>> + Send + 'static,
{
    let mut checker = ipc::Checker::new(bytes_max);
    let has_data = |message: &Result<FlightData, Status>| {
        let is_empty =
            |of: &FlightData| of.data_header.is_empty() && of.data_body.is_empty() && of.app_metadata.is_empty();
        std::future::ready(!message.as_ref().is_ok_and(is_empty))
    };
    FlightDataDecoder::new(stream.filter(has_data).map(move |message| {
        let message = message?;
        // A message may be metadata alone, and Arrow reads the header of any.
        if !message.data_header.is_empty() {
            checker.check(&message.data_header, &message.data_body).map_err(Status::from)?;
        }
        Ok(message)
    }))
}

/// The next batch with its metadata.
async fn next_batch(decoder: &mut FlightDataDecoder) -> Outcome<Option<(RecordBatch, Bytes)>> {
    while let Some(decoded) = ipc::guarded(decoder.next()).await? {
        let decoded = decoded.map_err(decode_problem)?;
        let metadata = decoded.app_metadata();
        if let DecodedPayload::RecordBatch(rows) = decoded.payload {
            return Ok(Some((rows, metadata)));
        }
    }
    Ok(None)
}

/// Streams of acks.
pub(super) type Acks = Pin<Box<dyn Stream<Item = Result<PutResult, Status>> + Send>>;

/// Stores the batches of a stream, within the rate that the sender's quota allows, and acknowledges them in order.
///
/// A refused batch ends the stream after the acknowledgements of the batches before it. If the sender asked to go on,
/// and sending the batch again wouldn't help, its refusal is reported in its place, and the stream continues.
pub(super) fn put(appends: Appends, target: Target, mut batches: FlightDataDecoder, waiting_max: usize) -> Acks {
    // The outcome of each batch, and whether it is the last one.
    let (sender, receiver) = mpsc::channel::<(Outcome<AckReceiver>, bool)>(waiting_max);
    let goes_on = target.goes_on;
    let is_reported = move |problem: &Problem| goes_on && matches!(problem.code, Code::Request | Code::Rejected);
    tokio::spawn(async move {
        loop {
            let mut is_decoded = false;
            let submitted = async {
                let next = next_batch(&mut batches).await.inspect_err(|problem| appends.note(problem))?;
                let Some((rows, metadata)) = next else { return Ok(None) };
                is_decoded = true;
                appends.pace().await;
                let target = target.clone();
                appends.submit_rows(move |_| Ok(vec![target.append(rows, &metadata)?])).await.map(Some)
            };
            // A client that went away is given nothing more to wait for.
            let submitted = tokio::select! {
                submitted = submitted => submitted,
                () = sender.closed() => return,
            };
            let (message, is_last) = match submitted {
                Ok(Some(awaited)) => (Ok(awaited), false),
                Ok(None) => return,
                Err(problem) => {
                    let is_last = !(is_decoded && is_reported(&problem));
                    (Err(problem), is_last)
                }
            };
            if sender.send((message, is_last)).await.is_err() || is_last {
                return;
            }
        }
    });
    let acks = futures::stream::unfold(Some(receiver), move |receiver| async move {
        let mut receiver = receiver?;
        let (became, is_last) = receiver.recv().await?;
        let ack = match became {
            Ok(awaited) => awaited.ack().await,
            Err(problem) => Err(problem),
        };
        match ack {
            Ok(ack) => Some((Ok(result(&appends::json(&ack))), Some(receiver))),
            Err(problem) if !is_last && is_reported(&problem) => Some((Ok(result(&problem.json())), Some(receiver))),
            Err(problem) => Some((Err(problem.into()), None)),
        }
    });
    Box::pin(acks)
}

fn result(metadata_json: &serde_json::Value) -> PutResult {
    PutResult { app_metadata: Bytes::from(metadata_json.to_string()) }
}

/// Refuses an ingestion that wants what this server doesn't do, or a table to be there that isn't, or the other way round.
pub(super) fn check_ingest(command: &CommandStatementIngest, is_there: bool) -> Outcome<()> {
    let unsupported = |text: &str| Err(Problem::new(Code::Unsupported, text));
    let table = &command.table;
    if command.temporary {
        return unsupported("there are no temporary tables");
    }
    if command.transaction_id.as_ref().is_some_and(|id| !id.is_empty()) {
        return unsupported("there are no transactions: each batch is stored whole or not at all");
    }
    if !metadata::is_place(command.catalog.as_deref(), command.schema.as_deref()) {
        return Err(Problem::new(Code::NotFound, "all tables are in the catalogue splay and its schema public"));
    }
    let Some(options) = &command.table_definition_options else { return Ok(()) };
    match (is_there, options.if_exists(), options.if_not_exist()) {
        (true, TableExistsOption::Fail, _) => {
            Err(Problem::new(Code::Rejected, format!("there is a table {table:?} already; append to it")))
        }
        (true, TableExistsOption::Replace, _) => unsupported("rows of a table aren't replaced; append to it"),
        (false, _, TableNotExistOption::Fail) => {
            Err(Problem::new(Code::NotFound, format!("there is no table {table:?} to append to")))
        }
        _ => Ok(()),
    }
}

/// Takes all batches of a stream; says how many rows were stored.
pub(super) async fn ingest(appends: &Appends, target: &Target, mut batches: FlightDataDecoder) -> Outcome<i64> {
    let mut rows = 0u64;
    while let Some((batch, metadata)) = next_batch(&mut batches).await? {
        appends.pace().await;
        rows += appends.append(target.append(batch, &metadata)?).await?.rows;
    }
    Ok(i64::try_from(rows).unwrap_or(i64::MAX))
}

/// All rows of a stream that carries a statement's values.
pub(super) async fn values(mut batches: FlightDataDecoder) -> Outcome<Option<RecordBatch>> {
    let mut one = None;
    while let Some((batch, _)) = next_batch(&mut batches).await? {
        if batch.num_rows() == 0 {
            continue;
        }
        if batch.num_rows() > 1 || one.is_some() {
            let text = "a query is run with one row of values; run it once for each row";
            return Err(Problem::new(Code::Unsupported, text));
        }
        one = Some(batch);
    }
    Ok(one)
}

/// Rows of values for a statement that changes something, which runs for each of them; `None` if the stream brings no columns, as that of a
/// statement without placeholders in Java's client.
pub(super) async fn rows_of_values(mut batches: FlightDataDecoder) -> Outcome<Option<Vec<RecordBatch>>> {
    let (mut are_given, mut rows, mut bytes, mut count) = (false, Vec::new(), 0usize, 0);
    while let Some(decoded) = ipc::guarded(batches.next()).await? {
        let payload = decoded.map_err(decode_problem)?.payload;
        let batch = match payload {
            DecodedPayload::RecordBatch(batch) if batch.num_columns() > 0 => batch,
            DecodedPayload::Schema(schema) => {
                are_given |= !schema.fields().is_empty();
                continue;
            }
            _ => continue,
        };
        bytes = bytes.saturating_add(bytes_of(&batch));
        count += batch.num_rows();
        if bytes > VALUES_BYTES_MAX || count > VALUES_ROWS_MAX {
            let text = "the values take more than 16 MiB, or are more than 65,536 rows; bulk ingestion takes rows of any number";
            return Err(Problem::new(Code::TooLarge, text));
        }
        rows.push(batch);
    }
    Ok(are_given.then_some(rows))
}

/// Bytes of values. Columns of a message share its buffer, which isn't counted for each of them.
pub(super) fn bytes_of(values: &RecordBatch) -> usize {
    let bytes = values.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(usize::MAX));
    bytes.fold(0, usize::saturating_add)
}
