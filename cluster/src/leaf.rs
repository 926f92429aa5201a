//! A leaf as an operator, and its bytes on the wire.
//!
//! Task *t* of *n* takes the slices *t*, *t + n*, *t + 2n* and so on, so that each slice is in exactly one task. The slices of a task run one after
//! the other, each with all threads of the executor.
//!
//! | Bytes | Content |
//! | --- | --- |
//! | 4 | length of the description, little-endian |
//! | so many | the leaf as JSON, but for its schema |
//! | the rest | the schema, as an Arrow IPC stream without batches |

use std::collections::BTreeMap;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use datafusion_distributed::DistributedTaskContext;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use serde::{Deserialize, Serialize};
use splay_ipc::StreamReader;
use splay_sql::{Leaf, Session};
use splay_store::{CommitPin, Slice};

/// Batches that wait to be sent.
const BATCHES_WAITING: usize = 2;

/// The most slices of a leaf. No scheduler asks for more.
const SLICES_MAX: usize = 1 << 20;

/// Runs the slices of a task. On the scheduler it has no session: there it is only described and sent.
#[derive(Debug)]
pub struct LeafExec {
    leaf: Arc<Leaf>,
    session: Option<Session>,
    properties: Arc<PlanProperties>,
}

impl LeafExec {
    /// The operator.
    #[must_use]
    pub fn new(leaf: Leaf, session: Option<Session>) -> LeafExec {
        let properties = Arc::new(properties(&leaf.schema));
        LeafExec { leaf: Arc::new(leaf), session, properties }
    }
}

/// Properties of one stream without an order.
pub(crate) fn properties(schema: &SchemaRef) -> PlanProperties {
    PlanProperties::new(
        EquivalenceProperties::new(Arc::clone(schema)),
        Partitioning::UnknownPartitioning(1),
        EmissionType::Incremental,
        Boundedness::Bounded,
    )
}

impl DisplayAs for LeafExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LeafExec: slices={}", self.leaf.slices.len())
    }
}

impl ExecutionPlan for LeafExec {
    fn name(&self) -> &str {
        "LeafExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(session) = self.session.clone() else {
            return datafusion::common::internal_err!("a leaf runs on an executor alone");
        };
        let task = DistributedTaskContext::from_ctx(&context);
        let leaf = Arc::clone(&self.leaf);
        let mut stream = RecordBatchReceiverStream::builder(Arc::clone(&leaf.schema), BATCHES_WAITING);
        let sender = stream.tx();
        // Statements run on the session's threads; this one waits for them.
        stream.spawn_blocking(move || {
            for slice in leaf.slices.iter().skip(task.task_index).step_by(task.task_count.max(1)) {
                let rows = session.run_leaf(&leaf, slice).map_err(execution_error)?;
                for batch in rows {
                    if sender.blocking_send(batch.map_err(execution_error)).is_err() {
                        // The statement has ended.
                        return Ok(());
                    }
                }
            }
            Ok(())
        });
        Ok(stream.build())
    }
}

/// An error as datafusion-distributed sends it to the scheduler: as text.
fn execution_error(error: splay_sql::Error) -> DataFusionError {
    DataFusionError::Execution(format!("an executor: {error}"))
}

/// A leaf but for its schema.
#[derive(Debug, Serialize, Deserialize)]
struct LeafDescription {
    text: String,
    part: Option<usize>,
    digest: u64,
    columns: Vec<usize>,
    commits: BTreeMap<String, CommitPin>,
    slices: Vec<Slice>,
}

/// Leaves as bytes.
#[derive(Debug, Default)]
pub struct LeafCodec {
    /// The session that runs the leaves that are read; `None` on the scheduler.
    pub session: Option<Session>,
}

fn wrong(reason: impl std::fmt::Display) -> DataFusionError {
    DataFusionError::Execution(format!("bytes that are no leaf: {reason}"))
}

/// The bytes of a leaf.
fn encode(leaf: &Leaf) -> Result<Vec<u8>> {
    let Leaf { text, part, digest, columns, commits, slices, .. } = leaf.clone();
    let description =
        serde_json::to_vec(&LeafDescription { text, part, digest, columns, commits, slices }).map_err(wrong)?;
    let length = u32::try_from(description.len()).map_err(wrong)?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(description);
    let mut writer = StreamWriter::try_new(&mut bytes, &leaf.schema)?;
    writer.finish()?;
    drop(writer);
    Ok(bytes)
}

/// The leaf of some bytes.
fn decode(bytes: &[u8]) -> Result<Leaf> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Err(wrong("too few")) };
    let length = u32::from_le_bytes(*length) as usize;
    let Some((description, schema)) = rest.split_at_checked(length) else { return Err(wrong("too few")) };
    let LeafDescription { text, part, digest, columns, commits, slices } =
        serde_json::from_slice(description).map_err(wrong)?;
    let schema = schema_of(schema)?;
    if columns.len() != schema.fields().len() || slices.len() > SLICES_MAX {
        return Err(wrong("columns without types, or too many slices"));
    }
    Ok(Leaf { text, part, digest, columns, schema, commits, slices, plan: String::new() })
}

fn schema_of(bytes: &[u8]) -> Result<SchemaRef> {
    // A damaged schema may panic in Arrow's reader.
    let read =
        catch_unwind(AssertUnwindSafe(|| StreamReader::try_new(Cursor::new(bytes)).map(|reader| reader.schema())));
    read.map_err(|_| wrong("its schema breaks Arrow's reader"))?.map_err(wrong)
}

impl PhysicalExtensionCodec for LeafCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        _: &[Arc<dyn ExecutionPlan>],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(LeafExec::new(decode(bytes)?, self.session.clone())))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(exec) = node.downcast_ref::<LeafExec>() else {
            return datafusion::common::internal_err!("{} isn't a leaf", node.name());
        };
        bytes.extend(encode(&exec.leaf)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use splay_store::SymbolRange;

    fn leaf() -> Leaf {
        let fields = vec![Field::new("sym", DataType::Utf8, true), Field::new("n", DataType::Int64, false)];
        let pin = CommitPin { commit: 7, digest: "ab".to_owned() };
        let symbols = SymbolRange { from: Some("B".to_owned()), until: None };
        Leaf {
            text: "select sym, count(*) n from trade group by sym".to_owned(),
            part: Some(0),
            digest: u64::MAX,
            columns: vec![0, 1],
            schema: Arc::new(Schema::new(fields)),
            commits: BTreeMap::from([("trade".to_owned(), pin)]),
            slices: vec![Slice::default(), Slice { dates: Some((1, 2)), symbols: Some(symbols) }],
            plan: String::new(),
        }
    }

    #[test]
    fn a_leaf_comes_back_as_it_was() {
        let (sent, back) = (leaf(), decode(&encode(&leaf()).unwrap()).unwrap());
        assert_eq!(
            (sent.text, sent.part, sent.digest, sent.columns),
            (back.text, back.part, back.digest, back.columns)
        );
        assert_eq!((sent.schema, sent.commits, sent.slices), (back.schema, back.commits, back.slices));
    }

    #[test]
    fn damaged_bytes_are_a_leaf_or_an_error() {
        std::panic::set_hook(Box::new(|_| {}));
        let whole = encode(&leaf()).unwrap();
        for place in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[place] ^= 1 << bit;
                let _ = decode(&bytes);
            }
        }
        let _ = std::panic::take_hook();
    }

    #[test]
    fn bytes_that_are_cut_short_are_refused() {
        let bytes = encode(&leaf()).unwrap();
        let description = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        for length in 0..description + 8 {
            assert!(decode(&bytes[..length]).is_err(), "{length}");
        }
        assert!(decode(&[0xff; 64]).is_err());
    }
}
