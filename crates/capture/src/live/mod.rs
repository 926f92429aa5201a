//! The real-time table: rows of one table that are in the journal and not yet in the table's files.
//!
//! - Writers append batches to a tail, which is a push under a short lock; they never wait for sorting. A reader first
//!   turns the tail into a layer: a segment in memory, ordered by (symbol, time, arrival), with its symbol directory. Rows
//!   are sorted from a copy of the tail, outside the writers' lock; `organising` lets one thread at a time install layers.
//! - Layers are tiered: eight of similar size are merged into one, so each row is copied a few times and there are
//!   few layers. The thread that adds a layer merges small ones; the compaction thread merges larger ones, and no
//!   reader waits for it.
//! - Invariant: the files decide which rows a snapshot takes from memory. [`WriteDownPosition`] in the manifest says which
//!   rows the files have, and the snapshot takes the live state that begins exactly there. During a write-down there
//!   are two states, with the same tail, so every row is seen once, before and after the commit. A snapshot that
//!   finds no matching state retries.

pub(crate) mod layers;
mod state;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "tests")]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampNanosecondType;
use splay_store::{LiveRows, Table, TableSnapshot, TableSpec, WriteDownPosition};

use crate::error::{Error, Result};
use crate::measure::{Meter, Meters};
use layers::{Layers, SegmentsByDate};
use state::LiveState;
pub(crate) use state::Tail;

/// How often a snapshot is tried again while rows are moved to disk.
const TRIES: usize = 10_000;

/// Rows in the tail from which on they are put into layers without waiting for a reader. With more the reader that comes first
/// waits longer; with fewer the rows of several producers, whose times overlap from tail to tail, are moved more often.
pub(crate) const TAIL_ROWS_MAX: u64 = 1 << 16;

/// Batches in the tail from which on they are put into layers as well: one of a single row takes some kilobytes.
pub(crate) const TAIL_BATCHES_MAX: usize = 1 << 13;

/// Rows in the tail from which on they are put into layers while they come back from the journal, when there are no readers.
pub(crate) const RECOVERED_ROWS_MAX: u64 = 1 << 20;

/// The live rows of a table.
#[derive(Debug)]
pub(crate) struct LiveTable {
    table: Table,
    spec: RwLock<Arc<TableSpec>>,
    states: Mutex<TableStates>,
    /// Is locked while tails are put into layers, or a state is replaced.
    organising: Mutex<()>,
    /// The live segments of the last snapshot.
    composed: Mutex<Option<LiveSegments>>,
    meter: Arc<Meter>,
    /// Whether the table has lost its name: all rows are in its files, and none come here any more.
    retired: AtomicBool,
    /// When rows were last written down, and dates last rolled, in nanoseconds since the epoch; 0 for not yet.
    pub(crate) written_at: AtomicI64,
    pub(crate) rolled_at: AtomicI64,
}

#[derive(Debug)]
struct TableStates {
    current: LiveState,
    /// The rows that stay live once the current write-down is on disk.
    next: Option<LiveState>,
    /// The state that becomes `next` as soon as it is known which rows stay.
    forming: Option<LiveState>,
}

impl TableStates {
    fn each(&mut self) -> impl Iterator<Item = &mut LiveState> {
        std::iter::once(&mut self.current).chain(&mut self.next).chain(&mut self.forming)
    }
}

/// The first batches of a tail, and their rows in order.
struct SortedTail {
    batches: Vec<Arc<Tail>>,
    rows: Layers,
}

impl SortedTail {
    /// Whether a tail begins with these batches. Tails are pieces of one sequence, so the first one tells.
    fn begins(&self, tail: &[Arc<Tail>]) -> bool {
        self.batches.len() <= tail.len()
            && self.batches.first().zip(tail.first()).is_some_and(|(own, other)| Arc::ptr_eq(own, other))
    }
}

/// Layers of each state, with the number of the last batch in them.
struct LayersByState {
    current: (Arc<Layers>, u64),
    next: Option<(Arc<Layers>, u64)>,
}

/// Segments of live dates over the files of a commit.
#[derive(Debug)]
struct LiveSegments {
    epoch: u64,
    last: u64,
    /// Pages of files that couldn't be read until then: such files are opened anew.
    unreadable: u64,
    partitions: SegmentsByDate,
}

/// The rows and bytes of a table in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LiveSize {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) tail_rows: u64,
    pub(crate) tail_batches: usize,
    /// When the oldest row came in, in nanoseconds since the epoch.
    pub(crate) since: Option<i64>,
    /// Earliest time of a row.
    pub(crate) earliest: i64,
    /// Number of the last batch.
    pub(crate) last: u64,
}

impl LiveTable {
    /// No rows over the files as they are.
    pub(crate) fn new(table: Table, meters: &Meters) -> Result<Arc<LiveTable>> {
        let stored = table.stored()?;
        if **stored.folder() != *table.folder() {
            return Err(Error::Full { reason: format!("another table takes the name {:?} right now", table.name()) });
        }
        let live = Arc::new(LiveTable {
            spec: RwLock::new(Arc::new(stored.spec().clone())),
            states: Mutex::new(TableStates { current: LiveState::new(stored.captured()), next: None, forming: None }),
            organising: Mutex::new(()),
            composed: Mutex::new(None),
            meter: meters.of(&stored.spec().name),
            retired: AtomicBool::new(false),
            written_at: AtomicI64::new(0),
            rolled_at: AtomicI64::new(0),
            table: table.clone(),
        });
        table.attach(Some(Arc::clone(&live) as Arc<dyn LiveRows>));
        Ok(live)
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// The table has lost its name, by a drop or a rename. There are no live rows.
    pub(crate) fn retire(&self) {
        // In this order: a reader whom the second turns away finds the first.
        self.table.attach(None);
        self.retired.store(true, Ordering::Release);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// The measurements of its rows.
    pub(crate) fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// The table as rows have to be.
    pub(crate) fn spec(&self) -> Arc<TableSpec> {
        Arc::clone(&self.spec.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks at the table's schema, which statements change, and refuses rows for a table whose manifest is damaged: they could be neither read
    /// nor written down. Costs one look at its HEAD.
    pub(crate) fn follow_schema(&self) -> Result<()> {
        match self.table.stored() {
            Err(error) if error.is_damage() => Err(error.into()),
            Ok(stored) if *stored.spec() != *self.spec() => {
                *self.spec.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(stored.spec().clone());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Looks at the table's schema again.
    pub(crate) fn refresh_spec(&self) -> Result<()> {
        let spec = Arc::new(self.table.stored()?.spec().clone());
        *self.spec.write().unwrap_or_else(PoisonError::into_inner) = spec;
        Ok(())
    }

    fn states(&self) -> MutexGuard<'_, TableStates> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends batches, which readers see all at once. Sequence numbers rise.
    pub(crate) fn push(&self, tails: impl IntoIterator<Item = Tail>) {
        let mut states = self.states();
        for tail in tails.into_iter().map(Arc::new) {
            states.each().for_each(|state| state.push(Arc::clone(&tail)));
        }
    }

    pub(crate) fn size(&self) -> LiveSize {
        self.states().current.size()
    }

    /// Which captured rows are on disk.
    pub(crate) fn captured(&self) -> WriteDownPosition {
        self.states().current.captured
    }

    fn organising(&self) -> MutexGuard<'_, ()> {
        self.organising.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the tail into layers. What takes long is done before readers have to wait.
    pub(crate) fn organise(&self) -> Result<()> {
        let state = self.states().current.clone();
        let ready = self.in_order(state.tail())?;
        let _organising = self.organising();
        self.put_into_layers(ready).map(|_| ())
    }

    /// Batches put in order; those of no tail are none.
    fn in_order(&self, tail: &[Arc<Tail>]) -> Result<Vec<SortedTail>> {
        if tail.is_empty() {
            return Ok(Vec::new());
        }
        // The table's columns are read after the batches were taken: the table has all columns of these then.
        let rows = layers::of_tail(self.table.stored()?.spec(), tail)?;
        Ok(vec![SortedTail { batches: tail.to_vec(), rows }])
    }

    /// Puts the tails of both states into their layers, and gives these. Batches that are `ready` aren't put in order once more. The
    /// caller holds `organising`.
    fn put_into_layers(&self, mut ready: Vec<SortedTail>) -> Result<LayersByState> {
        let (current, next) = {
            let states = self.states();
            (states.current.clone(), states.next.clone())
        };
        let is_empty = current.tail().is_empty() && next.as_ref().is_none_or(|next| next.tail().is_empty());
        if is_empty {
            let of = |state: LiveState| (state.layers, state.last);
            return Ok(LayersByState { current: of(current), next: next.map(of) });
        }
        let spec = self.table.stored()?.spec().clone();
        let mut with_tail = |state: &LiveState| -> Result<(Arc<Layers>, u64)> {
            let (mut tail, mut layers) = (state.tail(), Arc::clone(&state.layers));
            while !tail.is_empty() {
                // Mostly what was made for the other state: one tail is the end of the other.
                let ready_place = ready.iter().position(|ready| ready.begins(tail));
                let place = ready_place.unwrap_or(ready.len());
                if ready_place.is_none() {
                    ready.push(SortedTail { batches: tail.to_vec(), rows: layers::of_tail(&spec, tail)? });
                }
                layers = Arc::new(layers::with(&spec, &layers, &ready[place].rows)?);
                tail = &tail[ready[place].batches.len()..];
            }
            Ok((layers, state.last))
        };
        let of_current = with_tail(&current)?;
        let of_next = next.as_ref().map(&mut with_tail).transpose()?;
        let mut states = self.states();
        states.current.put_into(Arc::clone(&of_current.0), current.tail().len());
        if let (Some(state), Some(before), Some((layers, _))) = (&mut states.next, &next, &of_next) {
            state.put_into(Arc::clone(layers), before.tail().len());
        }
        Ok(LayersByState { current: of_current, next: of_next })
    }

    /// Joins layers of about one size, if there are enough of them and no late row changes them meanwhile. Neither readers nor
    /// writers wait for it.
    pub(crate) fn join_layers(&self) -> Result<bool> {
        let all: Vec<Arc<Layers>> = self.states().each().map(|state| Arc::clone(&state.layers)).collect();
        let Some((date, parts)) = all.iter().find_map(|layers| layers::alike(layers)) else { return Ok(false) };
        // The table's columns are read after the layers were taken: the table has all columns of these then.
        let joined = layers::joined(self.table.stored()?.spec(), date, &parts)?;
        let _organising = self.organising();
        let mut is_done = false;
        for state in self.states().each() {
            if let Some(layers) = layers::replaced(&state.layers, date, &parts, joined.as_ref()) {
                state.layers = Arc::new(layers);
                is_done = true;
            }
        }
        if is_done {
            // The same rows, in fewer layers.
            *self.composed.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        Ok(is_done)
    }

    /// The live rows over the files.
    fn compose(&self, stored: &TableSnapshot, layers: &Layers, last: u64) -> Result<TableSnapshot> {
        let mut composed = self.composed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |cached: &&LiveSegments| {
            (cached.epoch, cached.last, cached.unreadable) == (stored.epoch(), last, stored.watch().since())
        };
        if let Some(cached) = composed.as_ref().filter(is_same) {
            return Ok(stored.with_partitions(last, cached.partitions.clone()));
        }
        let partitions = layers::over_files(stored, layers)?;
        let snapshot = stored.with_partitions(last, partitions.clone());
        *composed = Some(LiveSegments { epoch: stored.epoch(), last, unreadable: stored.watch().since(), partitions });
        Ok(snapshot)
    }

    /// Begins a write-down of the rows up to the time that `cut` computes from the latest time of the live rows. From here on two states are
    /// maintained.
    pub(crate) fn begin_write_down(&self, cut: impl FnOnce(i64) -> i64) -> Result<WriteDown> {
        self.organise()?;
        let (layers, captured) = {
            let _organising = self.organising();
            let (layers, sequence) = self.put_into_layers(Vec::new())?.current;
            let mut states = self.states();
            let current = &states.current;
            let captured = WriteDownPosition { sequence, cut: cut(current.times.1).max(current.captured.cut) };
            let mut forming = LiveState::new(captured);
            current.tail().iter().for_each(|tail| forming.push(Arc::clone(tail)));
            states.forming = Some(forming);
            (layers, captured)
        };
        // Readers don't wait for this; they put the tail into the current state's layers alone.
        let split = self
            .table
            .stored()
            .map_err(Error::from)
            .and_then(|stored| layers::split(stored.spec(), &layers, captured.cut));
        let came_in = self.states().forming.clone();
        let ready = came_in.map_or_else(|| Ok(Vec::new()), |forming| self.in_order(forming.tail()));
        let _organising = self.organising();
        let mut states = self.states();
        let forming = states.forming.take();
        let ((rows, later_layers), ready) = (split?, ready?);
        states.next = forming.map(|mut next| {
            next.take_layers(later_layers, &states.current);
            next
        });
        drop(states);
        // From here on both tails are the same.
        if let Err(error) = self.put_into_layers(ready) {
            self.states().next = None;
            return Err(error);
        }
        Ok(WriteDown { captured, rows })
    }

    /// The rows are on disk: what stays live is all there is.
    pub(crate) fn finish_write_down(&self) {
        let _organising = self.organising();
        let mut states = self.states();
        if let Some(next) = states.next.take() {
            states.current = next;
        }
    }

    /// The rows aren't on disk.
    pub(crate) fn give_up_write_down(&self) {
        let _organising = self.organising();
        self.states().next = None;
    }
}

/// Rows that are to be written down.
#[derive(Debug)]
pub(crate) struct WriteDown {
    /// The position that the commit of the write-down records.
    pub(crate) captured: WriteDownPosition,
    /// Segments by date.
    pub(crate) rows: SegmentsByDate,
}

impl LiveRows for LiveTable {
    fn over(&self, stored: &dyn Fn() -> splay_store::Result<TableSnapshot>) -> splay_store::Result<TableSnapshot> {
        for _ in 0..TRIES {
            // In this order: rows that go to disk in between are found there, and the state that begins behind them is taken.
            let captured_by_state = {
                let states = self.states();
                (states.current.captured, states.next.as_ref().map(|next| next.captured))
            };
            let files = stored()?;
            let next = match files.captured() {
                captured if captured == captured_by_state.0 => false,
                captured if Some(captured) == captured_by_state.1 => true,
                _ if self.is_retired() => break,
                _ => {
                    std::thread::yield_now();
                    continue;
                }
            };
            let _organising = self.organising();
            let is_still = {
                let states = self.states();
                let state = if next { states.next.as_ref() } else { Some(&states.current) };
                state.is_some_and(|state| state.captured == files.captured())
            };
            if !is_still {
                continue;
            }
            let reached = self.put_into_layers(Vec::new()).map_err(into_store)?;
            let Some((layers, last)) = (if next { reached.next } else { Some(reached.current) }) else { continue };
            if layers.is_empty() {
                return Ok(files.with_partitions(last, Vec::new()));
            }
            return self.compose(&files, &layers, last).map_err(into_store);
        }
        Err(splay_store::Error::Poisoned)
    }
}

/// A failure on the way to a snapshot, which the store hands to its reader.
pub(crate) fn into_store(error: Error) -> splay_store::Error {
    let reason = match error {
        Error::Store(source) => match Arc::try_unwrap(source) {
            Ok(own) => return own,
            Err(shared) => shared.to_string(),
        },
        Error::Damaged { path, offset, expected, found } => {
            return splay_store::Error::Corrupt { path, offset, expected, found };
        }
        other => other.to_string(),
    };
    splay_store::Error::Setting { setting: "live rows", reason }
}

/// Earliest and latest time of rows.
pub(crate) fn times(spec: &TableSpec, rows: &RecordBatch) -> (i64, i64) {
    let times = rows.column(spec.time_position()).as_primitive::<TimestampNanosecondType>().values();
    let (least, greatest) = (times.iter().min(), times.iter().max());
    (least.copied().unwrap_or(i64::MAX), greatest.copied().unwrap_or(i64::MIN))
}
