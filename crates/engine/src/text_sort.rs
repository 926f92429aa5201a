//! Sorts texts with equal beginnings by the bytes that follow, seven at a time: a radix sort from the front.
//!
//! Idea: rows whose texts have the same first bytes form a stretch. Each step skips the bytes that all texts of a
//! stretch have in common, sorts the rows by a number made of the next seven bytes and of how many of these exist, and
//! leaves smaller stretches of rows that are still equal. Stretches of a few rows are sorted by comparing texts.
//!
//! Invariant: rows of equal texts keep their order. Open stretches are in a list. Recursion would be as deep as the
//! longest text.

use std::cmp::Ordering;
use std::ops::Range;

use arrow::array::{Array, StringArray};

use crate::error::Result;
use crate::parallel;

/// Bytes of a text that a key holds. The eighth byte of the key says how many there are.
const BYTES_OF_KEY: usize = 7;

/// Rows up to which texts are compared byte by byte.
const COMPARED_MAX: usize = 16;

/// Rows of a task of a thread.
const ROWS_OF_TASK: usize = 1 << 14;

/// Rows with the keys by which they were sorted last.
pub(crate) type KeyedRow = (u64, u32);

/// Rows, by their places, whose texts have the same first bytes.
pub(crate) struct Alike {
    pub places: Range<usize>,
    /// How many bytes at least.
    pub bytes: usize,
}

/// The order of texts.
pub(crate) struct TextSort<'a> {
    texts: &'a StringArray,
    descending: bool,
}

impl TextSort<'_> {
    pub fn new(texts: &StringArray, descending: bool) -> TextSort<'_> {
        TextSort { texts, descending }
    }

    /// Sorts the rows of each stretch by their texts, and returns the places of rows with equal texts. Rows of nulls are a stretch of their own.
    /// `sort` sorts many rows by their keys, stably and by several threads.
    pub fn settle(
        &self,
        rows: &mut [KeyedRow],
        alike: Vec<Alike>,
        threads: usize,
        sort: impl Fn(&mut Vec<KeyedRow>) -> Result<()>,
        sort_part: impl Fn(&mut [KeyedRow]) -> Result<()> + Sync,
    ) -> Result<Vec<Range<usize>>> {
        let (mut open, mut equal, mut of_tasks) = (alike, Vec::new(), Vec::new());
        let rows_of_thread = rows.len() / threads.max(1);
        while let Some(Alike { places, bytes }) = open.pop() {
            if self.texts.is_null(rows[places.start].1 as usize) {
                equal.push(places);
            } else if threads > 1 && places.len() > rows_of_thread.max(ROWS_OF_TASK) {
                // One thread alone would keep the others waiting.
                let bytes = self.set_keys(&mut rows[places.clone()], bytes);
                let mut sorted = rows[places.clone()].to_vec();
                sort(&mut sorted)?;
                rows[places.clone()].copy_from_slice(&sorted);
                self.split(&rows[places.clone()], places.start, bytes, &mut open, &mut equal);
            } else {
                of_tasks.push(Alike { places, bytes });
            }
        }
        of_tasks.sort_unstable_by_key(|alike| alike.places.start);
        let of_tasks = parallel::each_of(tasks(rows, of_tasks).into_iter(), threads, |task| {
            let mut equal = Vec::new();
            for (alike, rows) in task {
                self.sort_alike(rows, alike, &sort_part, &mut equal)?;
            }
            Ok(equal)
        })?;
        equal.extend(of_tasks.into_iter().flatten());
        Ok(equal)
    }

    /// Sorts rows that are alike, and adds the places of equal ones.
    fn sort_alike(
        &self,
        rows: &mut [KeyedRow],
        alike: Alike,
        sort_part: &impl Fn(&mut [KeyedRow]) -> Result<()>,
        equal: &mut Vec<Range<usize>>,
    ) -> Result<()> {
        let first = alike.places.start;
        let mut open = vec![alike];
        while let Some(Alike { places, bytes }) = open.pop() {
            let rows = &mut rows[places.start - first..places.end - first];
            if rows.len() > COMPARED_MAX {
                let bytes = self.set_keys(rows, bytes);
                sort_part(rows)?;
                self.split(rows, places.start, bytes, &mut open, equal);
                continue;
            }
            rows.sort_unstable_by(|(_, one), (_, other)| self.compare(*one, *other, bytes).then(one.cmp(other)));
            let mut start = places.start;
            for same in rows.chunk_by(|(_, one), (_, other)| self.compare(*one, *other, bytes).is_eq()) {
                if same.len() > 1 {
                    equal.push(start..start + same.len());
                }
                start += same.len();
            }
        }
        Ok(())
    }

    /// Sets the keys of rows with the same first bytes, and returns how many bytes all of them have in common up to the end of the keys.
    fn set_keys(&self, rows: &mut [KeyedRow], bytes: usize) -> usize {
        let first = self.rest(rows[0].1, bytes);
        let mut shared = first.len();
        for (_, row) in &rows[1..] {
            let rest = self.rest(*row, bytes);
            shared = first[..shared].iter().zip(rest).take_while(|(one, other)| one == other).count();
            if shared == 0 {
                break;
            }
        }
        for (key, row) in rows {
            let number = key_of(self.rest(*row, bytes + shared));
            *key = if self.descending { !number } else { number };
        }
        bytes + shared + BYTES_OF_KEY
    }

    /// Parts sorted rows by their keys. `bytes` are those that rows of equal keys have in common if their texts go on.
    fn split(
        &self,
        rows: &[KeyedRow],
        mut place: usize,
        bytes: usize,
        open: &mut Vec<Alike>,
        equal: &mut Vec<Range<usize>>,
    ) {
        for same in rows.chunk_by(|one, other| one.0 == other.0) {
            let places = place..place + same.len();
            place = places.end;
            if same.len() > 1 {
                match ends(if self.descending { !same[0].0 } else { same[0].0 }) {
                    true => equal.push(places),
                    false => open.push(Alike { places, bytes }),
                }
            }
        }
    }

    /// The order of two rows whose texts have the same first bytes.
    fn compare(&self, one: u32, other: u32, bytes: usize) -> Ordering {
        let order = self.rest(one, bytes).cmp(self.rest(other, bytes));
        if self.descending { order.reverse() } else { order }
    }

    fn rest(&self, row: u32, bytes: usize) -> &[u8] {
        self.texts.value(row as usize).as_bytes().get(bytes..).unwrap_or_default()
    }
}

/// A number with the order of the first bytes of a text, and of their number.
fn key_of(text: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = text.len().min(BYTES_OF_KEY);
    bytes[..length].copy_from_slice(&text[..length]);
    bytes[BYTES_OF_KEY] = if text.len() > BYTES_OF_KEY { u8::MAX } else { length.to_le_bytes()[0] };
    u64::from_be_bytes(bytes)
}

/// Whether a text is no longer than its key.
fn ends(key: u64) -> bool {
    key & u64::from(u8::MAX) < u64::from(u8::MAX)
}

/// Stretches with their rows, in tasks of about the same size.
fn tasks(mut rows: &mut [KeyedRow], alike: Vec<Alike>) -> Vec<Vec<(Alike, &mut [KeyedRow])>> {
    let (mut tasks, mut task, mut rows_of_task, mut place) = (Vec::new(), Vec::new(), 0, 0);
    for alike in alike {
        let (_, rest) = std::mem::take(&mut rows).split_at_mut(alike.places.start - place);
        let (own, rest) = rest.split_at_mut(alike.places.len());
        (rows, place) = (rest, alike.places.end);
        rows_of_task += own.len();
        task.push((alike, own));
        if rows_of_task >= ROWS_OF_TASK {
            tasks.push(std::mem::take(&mut task));
            rows_of_task = 0;
        }
    }
    tasks.push(task);
    tasks
}
