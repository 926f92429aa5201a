//! Checkpoints of a Delta log: the state at a version, one action per row, as a Parquet file.
//!
//! Rows are converted through JSON, in which the log has them anyway.

use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::action::DeltaAction;
use crate::error::{Error, Result};
use crate::segment::guarded;
use crate::storage::Storage;

/// How names of checkpoints end.
pub(super) const ENDING: &str = ".checkpoint.parquet";

/// Rows that are put together at once.
const BATCH_ROWS: usize = 8192;

fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

fn texts(name: &str) -> Field {
    field(name, DataType::List(Arc::new(Field::new("element", DataType::Utf8, true))))
}

fn map(name: &str) -> Field {
    let pair = Fields::from(vec![Field::new("key", DataType::Utf8, false), field("value", DataType::Utf8)]);
    field(name, DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(pair), false)), false))
}

fn group(name: &str, fields: Vec<Field>) -> Field {
    field(name, DataType::Struct(fields.into()))
}

/// The columns of a checkpoint: Delta's names and types.
fn schema() -> Schema {
    use DataType::{Boolean, Int32, Int64, Utf8};
    let protocol = vec![
        field("minReaderVersion", Int32),
        field("minWriterVersion", Int32),
        texts("readerFeatures"),
        texts("writerFeatures"),
    ];
    let metadata = vec![
        field("id", Utf8),
        field("name", Utf8),
        group("format", vec![field("provider", Utf8), map("options")]),
        field("schemaString", Utf8),
        texts("partitionColumns"),
        map("configuration"),
        field("createdTime", Int64),
    ];
    let add = vec![
        field("path", Utf8),
        map("partitionValues"),
        field("size", Int64),
        field("modificationTime", Int64),
        field("dataChange", Boolean),
        field("stats", Utf8),
        map("tags"),
    ];
    let remove = vec![field("path", Utf8), field("deletionTimestamp", Int64), field("dataChange", Boolean)];
    Schema::new(vec![
        group("txn", vec![field("appId", Utf8), field("version", Int64), field("lastUpdated", Int64)]),
        group("add", add),
        group("remove", remove),
        group("metaData", metadata),
        group("protocol", protocol),
    ])
}

/// The bytes of a checkpoint.
pub(super) fn encode(actions: &[DeltaAction]) -> Result<Vec<u8>> {
    let schema = Arc::new(schema());
    let mut decoder =
        arrow::json::ReaderBuilder::new(Arc::clone(&schema)).with_batch_size(BATCH_ROWS).build_decoder()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties))?;
    for some in actions.chunks(BATCH_ROWS) {
        decoder.serialize(some)?;
        if let Some(batch) = decoder.flush()? {
            writer.write(&batch)?;
        }
    }
    Ok(writer.into_inner()?)
}

/// The actions of a checkpoint, ours or one that another program wrote of our log.
pub(super) fn read(storage: &dyn Storage, path: &str) -> Result<Vec<DeltaAction>> {
    let (bytes, shown) = (storage.read(path)?, storage.display_path(path));
    guarded(&shown, || decode(bytes, &shown))
}

fn decode(bytes: Vec<u8>, shown: &Path) -> Result<Vec<DeltaAction>> {
    let damage = |error: String| Error::corrupt(shown, 0, "a checkpoint of a Delta log", error);
    let builder = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).map_err(|e| damage(e.to_string()))?;
    let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(|e| damage(e.to_string()))?;
    let mut actions = Vec::new();
    for batch in reader {
        let mut lines = arrow::json::LineDelimitedWriter::new(Vec::new());
        let batch = batch.map_err(|e| damage(e.to_string()))?;
        lines.write(&batch).and_then(|()| lines.finish()).map_err(|e| damage(e.to_string()))?;
        for line in lines.into_inner().split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            actions.push(serde_json::from_slice(line).map_err(|e| damage(e.to_string()))?);
        }
    }
    Ok(actions)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::action::{Add, DeltaTransaction, Metadata, Protocol};
    use super::*;

    #[test]
    fn a_checkpoint_gives_back_what_it_was_made_of() {
        let add = |number: usize| Add {
            path: format!("date=2024-03-04/{number:08}.000001.parquet"),
            partition_values: [("date".to_owned(), Some("2024-03-04".to_owned()))].into(),
            size: 12,
            modification_time: 34,
            data_change: true,
            stats: Some("{\"numRecords\":3}".to_owned()),
            tags: Some([("splay.digest".to_owned(), Some("ab".to_owned()))].into()),
        };
        let metadata = Metadata {
            id: super::super::action::random_id().unwrap(),
            name: Some("trade".to_owned()),
            format: super::super::action::DeltaFormat::default(),
            schema_string: "{}".to_owned(),
            partition_columns: vec!["date".to_owned()],
            configuration: [("splay.table".to_owned(), "trade".to_owned())].into(),
            created_time: Some(5),
        };
        let txn = DeltaTransaction { app_id: "splay".to_owned(), version: 7, last_updated: Some(8) };
        let mut actions = vec![
            DeltaAction { protocol: Some(Protocol::ours()), ..DeltaAction::default() },
            DeltaAction { meta_data: Some(metadata), ..DeltaAction::default() },
            DeltaAction { txn: Some(txn), ..DeltaAction::default() },
        ];
        actions.extend((0..20_000).map(|number| DeltaAction { add: Some(add(number)), ..DeltaAction::default() }));
        let bytes = encode(&actions).unwrap();
        assert_eq!(decode(bytes.clone(), Path::new("x")).unwrap(), actions);
        for length in [0, 4, bytes.len() / 2, bytes.len() - 1] {
            assert!(decode(bytes[..length].to_vec(), Path::new("x")).is_err());
        }
    }
}
