//! Nasdaq TotalView-ITCH 5.0 in Nasdaq's BinaryFILE framing: each message behind its length.
//!
//! - One row for each message about an order, a trade or a cross (A, F, E, C, X, D, U, P, Q, B). Messages about the market, stocks and participants
//!   (S, R, H, Y, L, V, W, K, J, h, N, I, O) are passed over.
//! - Messages have nanoseconds since midnight in New York. The date is that of the file's name.
//! - `symbol` comes from the stock directory (R) by the stock locate of the message.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arrow::array::{
    ArrayRef, Float64Builder, Int64Builder, RecordBatch, StringDictionaryBuilder, TimestampNanosecondBuilder,
};
use arrow::datatypes::{Field, Int32Type, Schema, SchemaRef};
use splay_store::{ColumnSpec, ColumnType};

use crate::csv::times::{self, LocalZone};
use crate::decompress::DecompressedStream;
use crate::error::{Error, Result};
use crate::format::{FileBatches, batches_until_the_end};
use crate::input::InputFile;

/// Zone of the times, and of a new table's dates: sessions end after midnight UTC.
pub(crate) const TIME_ZONE: &str = "America/New_York";

const TIME: &str = "time";
const BATCH_ROWS: usize = 1 << 14;
const BUFFER_BYTES: usize = 1 << 18;
const MESSAGE_BYTES_MAX: usize = 50;
const STOCKS: usize = 1 << 16;
const STOCK_BYTES: usize = 8;
const DAY_NS: u64 = 86_400_000_000_000;
const PRICE_UNITS: f64 = 10_000.0;

/// Places in a message: stock locate, nanoseconds, and what follows the header that all messages share.
const LOCATE_AT: usize = 1;
const NANOSECONDS_AT: usize = 5;
const BODY_AT: usize = 11;

const COLUMNS: [(&str, ColumnType); 12] = [
    (TIME, ColumnType::Timestamp),
    ("symbol", ColumnType::Symbol),
    ("message", ColumnType::Symbol),
    ("order_id", ColumnType::Int64),
    ("new_order_id", ColumnType::Int64),
    ("side", ColumnType::Symbol),
    ("shares", ColumnType::Int64),
    ("price", ColumnType::Float64),
    ("match_id", ColumnType::Int64),
    ("mpid", ColumnType::Symbol),
    ("printable", ColumnType::Symbol),
    ("cross_type", ColumnType::Symbol),
];

/// The columns of every file, and the time column.
pub(crate) fn columns(file: &InputFile) -> Result<(Vec<ColumnSpec>, Option<String>)> {
    date_of(file)?;
    let columns = COLUMNS.iter().map(|(name, column_type)| ColumnSpec::new(*name, column_type.clone()));
    Ok((columns.collect(), Some(TIME.to_owned())))
}

/// Whether a file begins with the message that every ITCH file begins with: a system event, start of messages.
pub(crate) fn is_itch(head: &[u8]) -> bool {
    let Some(message) = head.get(2..2 + BODY_AT + 1) else { return false };
    let has_length = matches!(head, [0, 0 | 12, ..]);
    has_length && message[0] == b'S' && message[LOCATE_AT..][..2] == [0; 2] && message[BODY_AT] == b'O'
}

/// The file's batches.
pub(crate) fn batches(file: &InputFile) -> Result<FileBatches> {
    let mut decoder = ItchDecoder::open(file)?;
    let next = move || Ok(decoder.batch()?.map(|batch| (batch, decoder.stream.bytes_read())));
    Ok(batches_until_the_end(file, next))
}

/// The days since 1970 of the date in a file's name, as Nasdaq writes it: 01302019.NASDAQ_ITCH50, S081321-v50; or 20190130.
fn date_of(file: &InputFile) -> Result<i32> {
    let leaf = file.leaf();
    let found = leaf.split(|letter: char| !letter.is_ascii_digit()).find_map(date_of_digits);
    found.ok_or_else(|| {
        let reason = "has no date in its name, and its messages have none; call it as Nasdaq does, such as 01302019.NASDAQ_ITCH50";
        Error::unsupported(&file.name, reason)
    })
}

fn date_of_digits(digits: &str) -> Option<i32> {
    let date = |year: &str, month: &str, day: &str| times::date(format!("{year}-{month}-{day}").as_bytes());
    match digits.len() {
        8 if digits.starts_with("19") || digits.starts_with("20") => {
            date(&digits[..4], &digits[4..6], &digits[6..]).or_else(|| date(&digits[4..], &digits[..2], &digits[2..4]))
        }
        8 => date(&digits[4..], &digits[..2], &digits[2..4]),
        6 => date(&format!("20{}", &digits[4..]), &digits[..2], &digits[2..4]),
        _ => None,
    }
}

/// Bytes of a message by its type.
fn message_bytes(kind: u8) -> Option<usize> {
    Some(match kind {
        b'S' | b'W' => 12,
        b'D' | b'B' => 19,
        b'Y' | b'N' => 20,
        b'h' => 21,
        b'X' => 23,
        b'H' => 25,
        b'L' => 26,
        b'K' => 28,
        b'E' => 31,
        b'V' | b'J' | b'U' => 35,
        b'A' | b'C' => 36,
        b'R' => 39,
        b'F' | b'Q' => 40,
        b'P' => 44,
        b'O' => 48,
        b'I' => MESSAGE_BYTES_MAX,
        _ => return None,
    })
}

/// Bytes of a message, at places that its length covers.
struct ItchMessage([u8; MESSAGE_BYTES_MAX]);

impl ItchMessage {
    fn kind(&self) -> u8 {
        self.0[0]
    }

    /// A big-endian number of `N` bytes.
    fn number<const N: usize>(&self, at: usize) -> u64 {
        self.0[at..at + N].iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    fn locate(&self) -> usize {
        usize::from(u16::from_be_bytes([self.0[LOCATE_AT], self.0[LOCATE_AT + 1]]))
    }

    fn price(&self, at: usize) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "32 bits")]
        let units = self.number::<4>(at) as f64;
        units / PRICE_UNITS
    }

    fn stock(&self, at: usize) -> [u8; STOCK_BYTES] {
        std::array::from_fn(|byte| self.0[at + byte])
    }
}

/// A row but for its time and symbol. What a message doesn't have is null.
#[derive(Default)]
struct OrderEvent {
    order: Option<u64>,
    new_order: Option<u64>,
    side: Option<u8>,
    shares: Option<u64>,
    price: Option<f64>,
    match_number: Option<u64>,
    participant: Option<[u8; 4]>,
    printable: Option<u8>,
    cross: Option<u8>,
}

impl OrderEvent {
    /// The event of a message, with the place of its stock's name if it has one. `None` for messages that make no row.
    fn of(message: &ItchMessage) -> Option<(OrderEvent, Option<usize>)> {
        let byte = |at: usize| Some(message.0[at]);
        let order = Some(message.number::<8>(11));
        let none = OrderEvent::default();
        let (event, stock) = match message.kind() {
            b'A' | b'F' => {
                let participant = (message.kind() == b'F').then(|| std::array::from_fn(|at| message.0[36 + at]));
                let (shares, price) = (Some(message.number::<4>(20)), Some(message.price(32)));
                (OrderEvent { order, side: byte(19), shares, price, participant, ..none }, Some(24))
            }
            b'E' | b'C' => {
                let is_priced = message.kind() == b'C';
                let (printable, price) = (is_priced.then(|| message.0[31]), is_priced.then(|| message.price(32)));
                let (shares, match_number) = (Some(message.number::<4>(19)), Some(message.number::<8>(23)));
                (OrderEvent { order, shares, match_number, printable, price, ..none }, None)
            }
            b'X' => (OrderEvent { order, shares: Some(message.number::<4>(19)), ..none }, None),
            b'D' => (OrderEvent { order, ..none }, None),
            b'U' => {
                let new_order = Some(message.number::<8>(19));
                let (shares, price) = (Some(message.number::<4>(27)), Some(message.price(31)));
                (OrderEvent { order, new_order, shares, price, ..none }, None)
            }
            b'P' => {
                let (shares, price) = (Some(message.number::<4>(20)), Some(message.price(32)));
                let match_number = Some(message.number::<8>(36));
                (OrderEvent { order, side: byte(19), shares, price, match_number, ..none }, Some(24))
            }
            b'Q' => {
                let (shares, price) = (Some(message.number::<8>(11)), Some(message.price(27)));
                let match_number = Some(message.number::<8>(31));
                (OrderEvent { shares, price, match_number, cross: byte(39), ..none }, Some(19))
            }
            b'B' => (OrderEvent { match_number: Some(message.number::<8>(11)), ..none }, None),
            _ => return None,
        };
        Some((event, stock))
    }
}

struct ItchDecoder {
    file: String,
    stream: DecompressedStream,
    /// Bytes of the stream, of which those before `at` are decoded.
    buffer: Vec<u8>,
    at: usize,
    /// Bytes of the stream before the buffer.
    passed: u64,
    midnight: i64,
    zone: LocalZone,
    /// Names of stocks by their locate codes; those that no message named are blank.
    stocks: Vec<[u8; STOCK_BYTES]>,
    schema: SchemaRef,
}

impl ItchDecoder {
    fn open(file: &InputFile) -> Result<ItchDecoder> {
        let midnight = times::local(date_of(file)?, 0);
        let midnight = midnight.ok_or_else(|| Error::unsupported(&file.name, times::OUT_OF_RANGE))?;
        let zone =
            LocalZone::parse(TIME_ZONE).ok_or_else(|| Error::unsupported(&file.name, "has times in New York"))?;
        let columns = COLUMNS.iter().map(|(name, column_type)| Field::new(*name, column_type.arrow(), true));
        Ok(ItchDecoder {
            file: file.name.clone(),
            stream: DecompressedStream::open(file, Arc::new(AtomicU64::new(0)))?,
            buffer: Vec::new(),
            at: 0,
            passed: 0,
            midnight,
            zone,
            stocks: vec![[b' '; STOCK_BYTES]; STOCKS],
            schema: Arc::new(Schema::new(columns.collect::<Vec<_>>())),
        })
    }

    fn damaged(&self, reason: impl std::fmt::Display) -> Error {
        let place = self.passed + self.at as u64;
        Error::damaged(&self.file, format!("{reason}, at byte {place} of its decompressed bytes"))
    }

    /// The bytes from here on, at least `count` of them unless the stream ends before.
    fn ahead(&mut self, count: usize) -> Result<&[u8]> {
        if self.buffer.len() - self.at < count {
            self.buffer.drain(..self.at);
            self.passed += self.at as u64;
            self.at = 0;
            let had = self.buffer.len();
            self.buffer.resize(BUFFER_BYTES, 0);
            let got = self.stream.read_full(&mut self.buffer[had..])?;
            self.buffer.truncate(had + got);
        }
        Ok(&self.buffer[self.at..])
    }

    /// The next message. `None` at the end of the file, which may be a length of zero.
    fn message(&mut self) -> Result<Option<ItchMessage>> {
        let (length, kind) = match *self.ahead(3)? {
            [] | [0, 0] => return Ok(None),
            [high, low, kind, ..] => (usize::from(u16::from_be_bytes([high, low])), kind),
            _ => return Err(self.damaged("ends inside a message")),
        };
        let Some(bytes) = message_bytes(kind) else {
            return Err(self.damaged(format!("has a message of the unknown type {:?}", char::from(kind))));
        };
        // Some samples have zero in place of each length.
        if length != bytes && length != 0 {
            return Err(self.damaged(format!("has a message {:?} of {length} bytes, not {bytes}", char::from(kind))));
        }
        let mut message = ItchMessage([0; MESSAGE_BYTES_MAX]);
        let Some(found) = self.ahead(2 + bytes)?.get(2..2 + bytes) else {
            return Err(self.damaged("ends inside a message"));
        };
        message.0[..bytes].copy_from_slice(found);
        self.at += 2 + bytes;
        Ok(Some(message))
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut rows = EventColumns::default();
        while rows.count < BATCH_ROWS {
            let Some(message) = self.message()? else { break };
            if message.kind() == b'R' {
                self.stocks[message.locate()] = message.stock(BODY_AT);
            }
            let Some((event, stock)) = OrderEvent::of(&message) else { continue };
            let nanoseconds = message.number::<6>(NANOSECONDS_AT);
            let Some(clock) = i64::try_from(nanoseconds).ok().filter(|_| nanoseconds < DAY_NS) else {
                return Err(self.damaged(format!("has a message {nanoseconds} ns after midnight")));
            };
            let local = self.midnight.checked_add(clock).ok_or(times::OUT_OF_RANGE);
            let time = local.and_then(|local| self.zone.instant(local)).map_err(|reason| self.damaged(reason))?;
            let symbol = stock.map_or(self.stocks[message.locate()], |at| message.stock(at));
            rows.push(time, &symbol, message.kind(), &event).map_err(|reason| self.damaged(reason))?;
        }
        if rows.count == 0 {
            return Ok(None);
        }
        let batch = RecordBatch::try_new(SchemaRef::clone(&self.schema), rows.finish());
        batch.map(Some).map_err(|e| self.damaged(e))
    }
}

type Symbols = StringDictionaryBuilder<Int32Type>;

/// The rows of a batch.
#[derive(Default)]
struct EventColumns {
    count: usize,
    times: TimestampNanosecondBuilder,
    symbols: Symbols,
    messages: Symbols,
    orders: Int64Builder,
    new_orders: Int64Builder,
    sides: Symbols,
    shares: Int64Builder,
    prices: Float64Builder,
    matches: Int64Builder,
    participants: Symbols,
    printables: Symbols,
    crosses: Symbols,
}

impl EventColumns {
    fn push(&mut self, time: i64, symbol: &[u8], kind: u8, event: &OrderEvent) -> Result<(), String> {
        self.times.append_value(time);
        append_text(&mut self.symbols, Some(symbol))?;
        append_text(&mut self.messages, Some(&[kind]))?;
        append_number(&mut self.orders, event.order)?;
        append_number(&mut self.new_orders, event.new_order)?;
        append_text(&mut self.sides, event.side.as_ref().map(std::slice::from_ref))?;
        append_number(&mut self.shares, event.shares)?;
        self.prices.append_option(event.price);
        append_number(&mut self.matches, event.match_number)?;
        append_text(&mut self.participants, event.participant.as_ref().map(<[u8; 4]>::as_slice))?;
        append_text(&mut self.printables, event.printable.as_ref().map(std::slice::from_ref))?;
        append_text(&mut self.crosses, event.cross.as_ref().map(std::slice::from_ref))?;
        self.count += 1;
        Ok(())
    }

    fn finish(self) -> Vec<ArrayRef> {
        let EventColumns { mut times, mut orders, mut new_orders, mut shares, mut prices, mut matches, .. } = self;
        let text = |mut symbols: Symbols| Arc::new(symbols.finish()) as ArrayRef;
        vec![
            Arc::new(times.finish().with_timezone("UTC")),
            text(self.symbols),
            text(self.messages),
            Arc::new(orders.finish()),
            Arc::new(new_orders.finish()),
            text(self.sides),
            Arc::new(shares.finish()),
            Arc::new(prices.finish()),
            Arc::new(matches.finish()),
            text(self.participants),
            text(self.printables),
            text(self.crosses),
        ]
    }
}

/// Appends a text without the blanks at its end; one of blanks alone is null.
fn append_text(symbols: &mut Symbols, text: Option<&[u8]>) -> Result<(), String> {
    match text.map(<[u8]>::trim_ascii_end) {
        None | Some([]) => symbols.append_null(),
        Some(text) => drop(symbols.append(String::from_utf8_lossy(text)).map_err(|e| e.to_string())?),
    }
    Ok(())
}

fn append_number(numbers: &mut Int64Builder, number: Option<u64>) -> Result<(), String> {
    let number = number.map(|number| i64::try_from(number).map_err(|_| format!("has the number {number}")));
    numbers.append_option(number.transpose()?);
    Ok(())
}
