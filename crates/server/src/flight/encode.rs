//! Rows as Flight messages: the schema, then dictionaries that changed, then rows.
//!
//! Symbols stay dictionaries except for clients that need [texts]. A dictionary is sent again when it changes.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow_flight::FlightData;
use bytes::Bytes;
use serde_json::json;
use splay_sql::{AnswerMemory, StatementStats, widest_row_bytes};

use super::texts;
use crate::counted_bytes;
use crate::http::kind;
use crate::ingest::Update;
use crate::problem::{Code, Outcome, Problem};
use crate::statements::Encode;
use crate::subscriptions::EncodeUpdate;

/// A stream of Flight messages that is being written.
pub(super) struct Messages {
    generator: IpcDataGenerator,
    dictionaries: DictionaryTracker,
    options: IpcWriteOptions,
    context: IpcWriteContext,
    schema: Option<SchemaRef>,
    /// Whether symbols are sent as texts.
    as_texts: bool,
    /// The memory of the statement whose answer is encoded.
    memory: Option<AnswerMemory>,
}

fn cant_write(error: ArrowError) -> Problem {
    Problem::new(Code::Internal, format!("rows can't be written: {error}"))
}

impl Messages {
    pub(super) fn new() -> Messages {
        Messages {
            generator: IpcDataGenerator::default(),
            dictionaries: DictionaryTracker::new(false),
            options: IpcWriteOptions::default(),
            context: IpcWriteContext::default(),
            schema: None,
            as_texts: false,
            memory: None,
        }
    }

    /// The same, with symbols as texts if these are wanted.
    pub(super) fn for_caller(as_texts: bool) -> Messages {
        Messages { as_texts, ..Messages::new() }
    }

    fn schema(&mut self, schema: &SchemaRef) -> FlightData {
        self.schema = Some(SchemaRef::clone(schema));
        let (dictionaries, options) = (&mut self.dictionaries, &self.options);
        self.generator.schema_to_bytes_with_dictionary_tracker(schema, dictionaries, options).into()
    }

    fn batch(&mut self, batch: &RecordBatch) -> Outcome<(Vec<FlightData>, FlightData)> {
        let (dictionaries, options) = (&mut self.dictionaries, &self.options);
        let encoded = self.generator.encode(batch, dictionaries, options, &mut self.context);
        let (dictionaries, rows) = encoded.map_err(cant_write)?;
        Ok((dictionaries.into_iter().map(FlightData::from).collect(), rows.into()))
    }
}

impl Encode for Messages {
    type Piece = FlightData;

    fn start(&mut self, schema: &SchemaRef, memory: &AnswerMemory) -> Outcome<Vec<FlightData>> {
        self.memory = Some(memory.clone());
        let schema = if self.as_texts { SchemaRef::new(texts::schema(schema)) } else { SchemaRef::clone(schema) };
        Ok(vec![Messages::schema(self, &schema)])
    }

    fn rows(&mut self, batch: &RecordBatch) -> Outcome<Vec<FlightData>> {
        let plain = match &self.schema {
            Some(schema) if self.as_texts => Some(texts::rows(batch, schema).map_err(cant_write)?),
            _ => None,
        };
        let batch = plain.as_ref().unwrap_or(batch);
        let part = match &self.memory {
            // Twice while they are put together.
            Some(memory) => Some(counted_bytes::part(memory, widest_row_bytes(batch) * batch.num_rows() as u64 * 2)?),
            None => None,
        };
        let (mut messages, rows) = self.batch(batch)?;
        messages.push(rows);
        if let (Some(part), Some(rows)) = (part, messages.last_mut()) {
            part.resize(rows.data_body.len())?;
            rows.data_body = counted_bytes::counted(std::mem::take(&mut rows.data_body), part);
        }
        Ok(messages)
    }

    fn end(&mut self, _stats: &StatementStats) -> Outcome<Vec<FlightData>> {
        Ok(Vec::new())
    }
}

/// The same for updates, each with its sequence number and kind as metadata.
impl EncodeUpdate for Messages {
    type Message = FlightData;

    fn update(&mut self, update: &Update) -> Outcome<Vec<FlightData>> {
        let schema = update.rows.schema();
        let mut messages = Vec::new();
        match &self.schema {
            None => messages.push(Messages::schema(self, &schema)),
            Some(previous) if *previous == schema => {}
            Some(_) => {
                // A Flight stream has one schema.
                return Err(Problem::new(Code::Gone, "the table has other columns now; subscribe again"));
            }
        }
        let (dictionaries, mut rows) = self.batch(&update.rows)?;
        let (kind, more) = kind(update.kind);
        let metadata = json!({ "table": *update.table, "sequence": update.sequence, "kind": kind, "more": more });
        rows.app_metadata = Bytes::from(metadata.to_string());
        messages.extend(dictionaries);
        messages.push(rows);
        Ok(messages)
    }
}
