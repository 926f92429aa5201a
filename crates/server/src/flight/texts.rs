//! Symbols as texts, for clients in Java: Arrow's JDBC driver (18.3) shows the codes of a dictionary instead of its texts.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use tonic::metadata::MetadataMap;

/// The beginning of the `user-agent` of gRPC for Java.
const JAVA: &str = "grpc-java";

/// Whether a caller is to be given texts instead of dictionaries of them.
pub(super) fn are_wanted(headers: &MetadataMap) -> bool {
    headers.get("user-agent").and_then(|agent| agent.to_str().ok()).is_some_and(|agent| agent.starts_with(JAVA))
}

/// The columns, with dictionaries replaced by the types of their values.
pub(super) fn schema(schema: &Schema) -> Schema {
    let field = |field: &Arc<Field>| match field.data_type() {
        DataType::Dictionary(_, texts) => Arc::new(field.as_ref().clone().with_data_type(DataType::clone(texts))),
        _ => Arc::clone(field),
    };
    Schema::new_with_metadata(schema.fields().iter().map(field).collect::<Vec<_>>(), schema.metadata().clone())
}

/// The rows with the columns of [`schema`].
pub(super) fn rows(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns =
        columns.map(|(column, field)| cast(column, field.data_type())).collect::<Result<Vec<ArrayRef>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::array::{AsArray, DictionaryArray, Int64Array};
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn java_is_given_texts() {
        for (agent, expected) in [("grpc-java-netty/1.71.0", true), ("grpc-go/1.70", false), ("my grpc-java", false)] {
            let mut headers = MetadataMap::new();
            headers.insert("user-agent", agent.parse().unwrap());
            assert_eq!(are_wanted(&headers), expected, "{agent}");
        }
        assert!(!are_wanted(&MetadataMap::new()));
    }

    #[test]
    fn dictionaries_become_their_texts_and_the_rest_stays() {
        let symbols: DictionaryArray<Int32Type> = [Some("B"), None, Some("A"), Some("B")].into_iter().collect();
        let columns: [(&str, ArrayRef); 2] =
            [("sym", Arc::new(symbols)), ("n", Arc::new(Int64Array::from(vec![1, 2, 3, 4])))];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let plain = Arc::new(schema(&batch.schema()));
        let rows = rows(&batch, &plain).unwrap();
        let texts: Vec<_> = rows.column(0).as_string::<i32>().iter().collect();
        assert_eq!(texts, [Some("B"), None, Some("A"), Some("B")]);
        assert_eq!(rows.column(1), batch.column(1));
        let none = batch.project(&[]).unwrap();
        assert_eq!(super::rows(&none, &Arc::new(schema(&none.schema()))).unwrap().num_rows(), 4);
    }
}
