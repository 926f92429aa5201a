//! Arrow streams from the network: see crates/server/src/ipc/fuzz.rs.
//!
//! The first byte says whether the rest is a stream as it is, or rows that are written as one and then changed here and there, so
//! that what lies behind the checks is reached.

#![no_main]

use arrow::array::RecordBatch;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{DictionaryHandling, IpcWriteOptions, StreamWriter};
use libfuzzer_sys::fuzz_target;
use splay_mutate::{Bytes, Memory};

#[allow(dead_code)]
#[path = "../../crates/server/src/ipc/mod.rs"]
mod ipc;
#[path = "../../crates/server/src/ipc/fuzz.rs"]
mod target;

/// The server's error type, as far as the files above need it.
mod problem {
    pub(crate) type Outcome<T> = Result<T, Problem>;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Code {
        Request,
        TooLarge,
    }

    #[allow(dead_code)]
    #[derive(Debug, Clone)]
    pub(crate) struct Problem {
        pub(crate) code: Code,
        pub(crate) message: String,
    }

    impl Problem {
        pub(crate) fn new(code: Code, message: impl Into<String>) -> Problem {
            Problem { code, message: message.into() }
        }
    }
}

#[global_allocator]
static ALLOCATOR: splay_mutate::CountingAllocator = splay_mutate::CountingAllocator;

/// A megabyte may be unpacked, and is copied where it isn't aligned and where batches are put together.
const MEMORY: Memory = Memory { fixed: 16 << 20, each: 1 << 10 };

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes::new(bytes);
    if bytes.one_in(4) {
        splay_mutate::bounded(MEMORY, bytes.rest(), target::ipc);
        return;
    }
    let Some(stream) = changed(&mut bytes) else { return };
    splay_mutate::bounded(MEMORY, &stream, target::ipc);
});

/// Rows as a stream, with changes.
fn changed(bytes: &mut Bytes<'_>) -> Option<Vec<u8>> {
    let compression = *bytes.pick(&[None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)]);
    let handling = *bytes.pick(&[DictionaryHandling::Resend, DictionaryHandling::Delta]);
    let count = bytes.below(4);
    let changes: Vec<(u16, u8)> = (0..count).map(|_| (bytes.short(), bytes.byte())).collect();
    let rows = splay_capture::fuzz::any_rows(bytes);
    let mut stream = written(&rows, compression, handling)?;
    for (at, change) in changes {
        let at = usize::from(at) % stream.len();
        stream[at] ^= change;
    }
    Some(stream)
}

fn written(rows: &RecordBatch, compression: Option<CompressionType>, handling: DictionaryHandling) -> Option<Vec<u8>> {
    let options = IpcWriteOptions::default().try_with_compression(compression).ok()?;
    let options = options.with_dictionary_handling(handling);
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &rows.schema(), options).ok()?;
    for rows in [rows.slice(0, rows.num_rows() / 2), rows.clone()] {
        writer.write(&rows).ok()?;
    }
    writer.into_inner().ok()
}
