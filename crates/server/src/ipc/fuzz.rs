//! A target for fuzzing: any bytes as an Arrow stream. What passes the checks is read without a panic and within its bounds.
//!
//! `fuzz/` takes this file as it is: the crate around it needs DataFusion, which nobody wants to compile once more.

use bytes::Bytes;

use crate::ipc::{check_stream, read};

/// Bytes to which streams may unpack.
const BYTES_MAX: usize = 1 << 20;

/// The target.
pub(crate) fn ipc(bytes: &[u8]) {
    if check_stream(bytes, BYTES_MAX).is_err() {
        return;
    }
    let Ok((schema, batches)) = read(Bytes::copy_from_slice(bytes)) else { return };
    for batch in &batches {
        assert_eq!(batch.schema(), schema);
        // Looks at values of every column.
        let first = batch.slice(0, batch.num_rows().min(50));
        drop(arrow::util::pretty::pretty_format_batches(&[first]));
    }
    drop(arrow::compute::concat_batches(&schema, &batches));
}

#[cfg(test)]
mod tests {
    use arrow::ipc::CompressionType;
    use splay_mutate::{Memory, Run};

    use crate::ipc::tests::stream;

    #[test]
    fn any_stream_is_refused_or_read() {
        let samples = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)].map(stream).to_vec();
        let memory = Memory { fixed: 16 << 20, each: 1 << 10 };
        Run { inputs: 20_000, bytes_max: 1 << 14, memory, ..Run::default() }.feed(&samples, super::ipc);
    }
}
