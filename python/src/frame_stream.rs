//! Streams of frames by Arrow's C interface.
//!
//! A column without a type of its own has no buffers by the specification, and Arrow's reader refuses one that says it has. Polars
//! says so of columns of nulls, and its buffer has nothing in it. This reader passes such buffers over, and is else like Arrow's.
//!
//! Source: <https://arrow.apache.org/docs/format/CStreamInterface.html>.

use std::ffi::CStr;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions, RecordBatchReader, StructArray};
use arrow::datatypes::{DataType, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// The batches of a frame's stream.
pub(crate) struct FrameStream {
    stream: FFI_ArrowArrayStream,
    schema: SchemaRef,
}

impl FrameStream {
    /// Takes the stream that a frame's `__arrow_c_stream__` gives.
    ///
    /// # Errors
    /// Those of the frame, and `ValueError` for a stream that was read before or isn't one of columns.
    pub(crate) fn of(frame: &Bound<'_, PyAny>) -> PyResult<FrameStream> {
        let capsule = frame.call_method0("__arrow_c_stream__")?;
        let pointer = capsule.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_array_stream"))?;
        // SAFETY: a capsule of this name has such a stream; taking it leaves a released one behind.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.cast().as_ptr()) };
        FrameStream::new(stream).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn new(mut stream: FFI_ArrowArrayStream) -> Result<FrameStream, ArrowError> {
        let get_schema = stream.get_schema.filter(|_| stream.release.is_some());
        let get_schema = get_schema.ok_or_else(|| wrong("the frame's stream was read before"))?;
        let mut schema = FFI_ArrowSchema::empty();
        // SAFETY: the stream isn't released, and `schema` outlives the call.
        let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
        if code != 0 {
            return Err(failure(&mut stream, code));
        }
        let schema = Arc::new(Schema::try_from(&schema)?);
        Ok(FrameStream { stream, schema })
    }

    fn next_array(&mut self) -> Result<Option<FFI_ArrowArray>, ArrowError> {
        let get_next = self.stream.get_next.ok_or_else(|| wrong("the frame's stream has no batches"))?;
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: the stream isn't released while `self` has it, and `array` outlives the call.
        let code = unsafe { get_next(&raw mut self.stream, &raw mut array) };
        match code {
            0 if array.is_released() => Ok(None),
            0 => Ok(Some(array)),
            code => Err(failure(&mut self.stream, code)),
        }
    }

    fn batch(&self, mut array: FFI_ArrowArray) -> Result<RecordBatch, ArrowError> {
        let fields = self.schema.fields();
        drop_buffers_of_nulls(&mut array, fields);
        // SAFETY: the stream gave the array as one of its schema.
        let columns = unsafe { from_ffi_and_data_type(array, DataType::Struct(fields.clone())) }?;
        let options = RecordBatchOptions::new().with_row_count(Some(columns.len()));
        let columns = StructArray::from(columns).into_parts().1;
        RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), columns, &options)
    }
}

impl Iterator for FrameStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_array().transpose().map(|array| self.batch(array?))
    }
}

impl RecordBatchReader for FrameStream {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

/// Columns without a type have no buffers, whatever their maker says.
fn drop_buffers_of_nulls(array: &mut FFI_ArrowArray, fields: &Fields) {
    let children = usize::try_from(array.n_children).unwrap_or(0);
    if array.children.is_null() || children != fields.len() {
        return;
    }
    for (place, field) in fields.iter().enumerate() {
        // SAFETY: there are `n_children` pointers, of arrays that belong to this one.
        let child = unsafe { (*array.children.add(place)).as_mut() };
        match (child, field.data_type()) {
            (Some(child), DataType::Null) => child.n_buffers = 0,
            (Some(child), DataType::Struct(fields)) => drop_buffers_of_nulls(child, fields),
            _ => {}
        }
    }
}

/// The error message of a stream.
fn failure(stream: &mut FFI_ArrowArrayStream, code: i32) -> ArrowError {
    let text = stream.get_last_error.and_then(|get_last_error| {
        // SAFETY: the stream isn't released, and its text is copied before it is called again.
        let text = unsafe { get_last_error(&raw mut *stream) };
        // SAFETY: a text that is there ends with a zero.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    });
    ArrowError::CDataInterface(text.unwrap_or_else(|| format!("the frame's stream failed with code {code}")))
}

fn wrong(reason: &str) -> ArrowError {
    ArrowError::CDataInterface(reason.to_owned())
}
