//! Messages to clients.

use bytes::{BufMut, BytesMut};

use super::refusal::Refusal;
use super::types::Type;

/// Messages that are to be sent.
#[derive(Debug, Default)]
pub(super) struct Replies {
    pub(super) bytes: BytesMut,
}

/// A column of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) data_type: Type,
}

impl Replies {
    /// A message of a kind; its length is put in behind its body.
    fn message(&mut self, kind: u8, body: impl FnOnce(&mut BytesMut)) {
        self.bytes.put_u8(kind);
        let start = self.bytes.len();
        self.bytes.put_u32(0);
        body(&mut self.bytes);
        let length = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX);
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    pub(super) fn authenticated(&mut self) {
        self.message(b'R', |body| body.put_u32(0));
    }

    pub(super) fn ask_for_password(&mut self) {
        self.message(b'R', |body| body.put_u32(3));
    }

    /// Asks the client to prove its password by a mechanism.
    pub(super) fn ask_for_proof(&mut self, mechanism: &str) {
        self.message(b'R', |body| {
            body.put_u32(10);
            text(body, mechanism);
            body.put_u8(0);
        });
    }

    /// The server's answer in an exchange that goes on, or its last message.
    pub(super) fn exchange(&mut self, message: &str, is_last: bool) {
        self.message(b'R', |body| {
            body.put_u32(if is_last { 12 } else { 11 });
            body.put_slice(message.as_bytes());
        });
    }

    pub(super) fn parameter(&mut self, name: &str, value: &str) {
        self.message(b'S', |body| {
            text(body, name);
            text(body, value);
        });
    }

    pub(super) fn key(&mut self, process: u32, secret: u32) {
        self.message(b'K', |body| {
            body.put_u32(process);
            body.put_u32(secret);
        });
    }

    /// Version 3.0 in the place of a later one, without these options.
    pub(super) fn older_version(&mut self, options: &[String]) {
        self.message(b'v', |body| {
            body.put_u32(3 << 16);
            body.put_u32(u32::try_from(options.len()).unwrap_or(u32::MAX));
            options.iter().for_each(|option| text(body, option));
        });
    }

    /// Ready for the next statement: `I` outside of a transaction, `T` in one, `E` in one that failed.
    pub(super) fn ready(&mut self, transaction: u8) {
        self.message(b'Z', |body| body.put_u8(transaction));
    }

    /// Names and types of columns. Formats are included once they are known.
    pub(super) fn columns(&mut self, columns: &[Column], formats: &[i16]) {
        self.message(b'T', |body| {
            body.put_u16(u16::try_from(columns.len()).unwrap_or(u16::MAX));
            for (at, column) in columns.iter().enumerate() {
                text(body, &column.name);
                // The table and the column's number in it aren't sent.
                body.put_u32(0);
                body.put_u16(0);
                body.put_u32(column.data_type.oid);
                body.put_i16(column.data_type.size);
                body.put_i32(column.data_type.modifier);
                body.put_i16(format(formats, at));
            }
        });
    }

    pub(super) fn row(&mut self, values: &[Option<&str>]) {
        self.message(b'D', |body| {
            body.put_u16(u16::try_from(values.len()).unwrap_or(u16::MAX));
            for value in values {
                match value {
                    Some(value) => {
                        body.put_u32(u32::try_from(value.len()).unwrap_or(0));
                        body.put_slice(value.as_bytes());
                    }
                    None => body.put_i32(-1),
                }
            }
        });
    }

    pub(super) fn placeholders(&mut self, types: &[u32]) {
        self.message(b't', |body| {
            body.put_u16(u16::try_from(types.len()).unwrap_or(u16::MAX));
            types.iter().for_each(|oid| body.put_u32(*oid));
        });
    }

    pub(super) fn complete(&mut self, tag: &str) {
        self.message(b'C', |body| text(body, tag));
    }

    /// One of the messages that only say something: `1` parsed, `2` bound, `3` closed, `n` no columns, `s` suspended, `I` empty statement.
    pub(super) fn plain(&mut self, kind: u8) {
        self.message(kind, |_| {});
    }

    /// That rows of a `COPY` come, by `H`, or are taken, by `G`: all columns as text or in binary.
    pub(super) fn copy(&mut self, kind: u8, is_binary: bool, columns: usize) {
        self.message(kind, |body| {
            body.put_u8(u8::from(is_binary));
            body.put_u16(u16::try_from(columns).unwrap_or(u16::MAX));
            (0..columns).for_each(|_| body.put_u16(u16::from(is_binary)));
        });
    }

    /// A failure, with its place in the statement, before which so many characters stand.
    pub(super) fn refusal(&mut self, refusal: &Refusal, statement: &str, before: usize) {
        let severity = if refusal.is_fatal { "FATAL" } else { "ERROR" };
        let position = refusal.position(statement).map(|position| (before + position).to_string());
        let fields = [(b'S', severity), (b'V', severity), (b'C', refusal.code), (b'M', refusal.message.as_str())];
        let position = position.iter().map(|position| (b'P', position.as_str()));
        self.fields(b'E', fields.into_iter().chain(position));
    }

    /// Tells the client a side effect of a statement, which is no failure.
    pub(super) fn notice(&mut self, message: &str) {
        self.fields(b'N', [(b'S', "NOTICE"), (b'V', "NOTICE"), (b'C', "00000"), (b'M', message)].into_iter());
    }

    /// A message of fields, each with its kind.
    fn fields<'t>(&mut self, kind: u8, fields: impl Iterator<Item = (u8, &'t str)>) {
        self.message(kind, |body| {
            for (kind, value) in fields {
                body.put_u8(kind);
                text(body, value);
            }
            body.put_u8(0);
        });
    }
}

/// The format of a column. Without formats all columns are text; a single format is for all.
pub(super) fn format(formats: &[i16], at: usize) -> i16 {
    match formats {
        [] => 0,
        [all] => *all,
        formats => formats.get(at).copied().unwrap_or(0),
    }
}

/// Text that a zero ends; one within it is left out.
fn text(body: &mut BytesMut, text: &str) {
    text.bytes().filter(|byte| *byte != 0).for_each(|byte| body.put_u8(byte));
    body.put_u8(0);
}
