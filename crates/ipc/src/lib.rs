//! Arrow IPC files and streams of unknown origin.
//!
//! Arrow's own readers believe the lengths that a file claims: a buffer said to unpack to an exabyte is allocated before it is unpacked,
//! which ends the process. [`FileReader`] and [`StreamReader`] check first that every part lies within the file and that there is memory
//! for what a message unpacks to. The format: <https://arrow.apache.org/docs/format/Columnar.html>.
//!
//! A damaged schema can still panic in Arrow's reader; run these readers where a panic is caught.

mod error;
mod file;
mod message;
mod stream;

pub use error::{Error, Result};
pub use file::FileReader;
pub use message::{buffer_sizes, is_file};
pub use stream::StreamReader;
