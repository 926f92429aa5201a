//! The real-time table: rows of one table that are in the journal and not yet in the table's files.
//!
//! - Batches are appended to a tail, which costs a push. Who wants to read puts the tail into layers first: segments in memory,
//!   ordered by (symbol, time, arrival), each with its directory of symbols. Writers never wait for that.
//! - Layers grow by tiers: eight of about one size become one, so that a row is copied a few times and there are few layers.
//! - What a snapshot has is decided by the files: [`Captured`] in the table's manifest says which rows are there, and of the
//!   states kept here the one is taken that begins where they end. While rows are written down there are two.

mod layers;
mod state;

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use splay_store::{Captured, LiveRows, Table, TableSnapshot, TableSpec};

use crate::error::{Error, Result};
use crate::measure::{Meter, Meters};
use layers::{Dated, Layers};
use state::State;
pub(crate) use state::Tail;

/// How often a snapshot is tried while rows are moved to disk.
const TRIES: usize = 10_000;

/// Rows in the tail from which on they are put into layers without waiting for a reader. With more the reader that comes first
/// waits longer; with fewer the rows of several producers, whose times overlap from tail to tail, are moved more often.
pub(crate) const TAIL_ROWS_MAX: u64 = 1 << 17;

/// Batches in the tail from which on they are put into layers as well: one of a single row takes some kilobytes.
pub(crate) const TAIL_BATCHES_MAX: usize = 1 << 13;

/// Rows in the tail from which on they are put into layers while they come back from the journal, when there are no readers.
pub(crate) const RECOVERED_ROWS_MAX: u64 = 1 << 20;

/// The live rows of a table.
#[derive(Debug)]
pub(crate) struct LiveTable {
    table: Table,
    spec: RwLock<Arc<TableSpec>>,
    states: Mutex<States>,
    /// Held by whoever puts tails into layers, or replaces a state.
    organising: Mutex<()>,
    /// What was last put over the files.
    composed: Mutex<Option<Composed>>,
    meter: Arc<Meter>,
    /// When rows were last written down, and dates last rolled, in nanoseconds since the epoch; 0 for not yet.
    pub(crate) written_at: AtomicI64,
    pub(crate) rolled_at: AtomicI64,
}

#[derive(Debug)]
struct States {
    current: State,
    /// What stays live once the rows that are being written down are on disk.
    next: Option<State>,
}

/// Segments of live dates over the files of a commit.
#[derive(Debug)]
struct Composed {
    epoch: u64,
    last: u64,
    partitions: Dated,
}

/// What a table holds in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LiveSize {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) tail_rows: u64,
    pub(crate) tail_batches: usize,
    /// When the oldest row came in, in nanoseconds since the epoch.
    pub(crate) since: Option<i64>,
    /// Latest time of a row.
    pub(crate) latest: i64,
    /// Number of the last batch.
    pub(crate) last: u64,
}

impl LiveTable {
    /// No rows over the files as they are.
    pub(crate) fn new(table: Table, meters: &Meters) -> Result<Arc<LiveTable>> {
        let stored = table.stored()?;
        let live = Arc::new(LiveTable {
            spec: RwLock::new(Arc::new(stored.spec().clone())),
            states: Mutex::new(States { current: State::new(stored.captured()), next: None }),
            organising: Mutex::new(()),
            composed: Mutex::new(None),
            meter: meters.of(&stored.spec().name),
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

    /// What is measured of its rows.
    pub(crate) fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// The table as rows have to be.
    pub(crate) fn spec(&self) -> Arc<TableSpec> {
        Arc::clone(&self.spec.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks at the table's schema again.
    pub(crate) fn refresh_spec(&self) -> Result<()> {
        let spec = Arc::new(self.table.stored()?.spec().clone());
        *self.spec.write().unwrap_or_else(PoisonError::into_inner) = spec;
        Ok(())
    }

    fn states(&self) -> MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a batch. Sequence numbers rise.
    pub(crate) fn push(&self, tail: Tail) {
        let tail = Arc::new(tail);
        let mut states = self.states();
        if let Some(next) = &mut states.next {
            next.push(Arc::clone(&tail));
        }
        states.current.push(tail);
    }

    pub(crate) fn size(&self) -> LiveSize {
        self.states().current.size()
    }

    /// Which captured rows are on disk.
    pub(crate) fn captured(&self) -> Captured {
        self.states().current.captured
    }

    /// Puts the tail into layers.
    pub(crate) fn organise(&self) -> Result<()> {
        let _organising = self.organising.lock().unwrap_or_else(PoisonError::into_inner);
        self.organise_state(false).map(|_| ())
    }

    /// The layers of a state, its tail among them, and the sequence number up to which they reach. The caller holds `organising`.
    fn organise_state(&self, next: bool) -> Result<(Arc<Layers>, u64)> {
        let pick = |states: &mut States| -> Option<State> {
            if next { states.next.clone() } else { Some(states.current.clone()) }
        };
        let Some(state) = pick(&mut self.states()) else { return Err(Error::Closed) };
        if state.tail().is_empty() {
            return Ok((state.layers, state.last));
        }
        let spec = self.table.stored()?.spec().clone();
        let layers = Arc::new(layers::with_tail(&spec, &state.layers, state.tail())?);
        let mut states = self.states();
        let place = if next { states.next.as_mut() } else { Some(&mut states.current) };
        if let Some(place) = place {
            place.put_into(Arc::clone(&layers), state.tail().len());
        }
        Ok((layers, state.last))
    }

    /// The live rows over the files.
    fn compose(&self, stored: &TableSnapshot, layers: &Layers, last: u64) -> Result<TableSnapshot> {
        let mut composed = self.composed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = composed.as_ref().filter(|known| (known.epoch, known.last) == (stored.epoch(), last)) {
            return Ok(stored.with_partitions(last, known.partitions.clone()));
        }
        let mut partitions = Vec::new();
        for (date, live) in layers {
            let stands = stored.partitions().binary_search_by_key(date, |partition| partition.date);
            let files = stands.map(|place| stored.partitions()[place].segments.to_vec()).unwrap_or_default();
            partitions.push((*date, layers::over(stored.spec(), files, live)?));
        }
        let snapshot = stored.with_partitions(last, partitions.clone());
        *composed = Some(Composed { epoch: stored.epoch(), last, partitions });
        Ok(snapshot)
    }

    /// The earliest date that has rows in layers.
    pub(crate) fn earliest_date(&self) -> Option<i32> {
        self.states().current.layers.keys().next().copied()
    }

    /// Begins to write rows down: those with a time up to what `cut` says of the live rows' latest time. From here on two states
    /// are kept.
    pub(crate) fn begin_write_down(&self, cut: impl FnOnce(i64) -> i64) -> Result<WriteDown> {
        let _organising = self.organising.lock().unwrap_or_else(PoisonError::into_inner);
        let (layers, sequence) = self.organise_state(false)?;
        let captured = {
            let mut states = self.states();
            let before = states.current.captured;
            let captured = Captured { sequence, cut: cut(states.current.latest).max(before.cut) };
            let mut next = State::new(captured);
            next.last = sequence;
            states.current.tail().iter().for_each(|tail| next.push(Arc::clone(tail)));
            states.next = Some(next);
            captured
        };
        let spec = self.table.stored()?.spec().clone();
        let split = layers::split(&spec, &layers, captured.cut);
        let (rows, kept) = match split {
            Ok(split) => split,
            Err(error) => {
                self.states().next = None;
                return Err(error);
            }
        };
        let mut states = self.states();
        let States { current, next } = &mut *states;
        if let Some(next) = next {
            next.take_layers(kept, current);
        }
        Ok(WriteDown { captured, rows })
    }

    /// Puts the rows that came in meanwhile into layers, so that the first reader afterwards needn't.
    pub(crate) fn organise_next(&self) -> Result<()> {
        let _organising = self.organising.lock().unwrap_or_else(PoisonError::into_inner);
        self.organise_state(true).map(|_| ())
    }

    /// The rows are on disk: what stays live is all there is.
    pub(crate) fn finish_write_down(&self) {
        let _organising = self.organising.lock().unwrap_or_else(PoisonError::into_inner);
        let mut states = self.states();
        if let Some(next) = states.next.take() {
            states.current = next;
        }
    }

    /// The rows aren't on disk.
    pub(crate) fn give_up_write_down(&self) {
        let _organising = self.organising.lock().unwrap_or_else(PoisonError::into_inner);
        self.states().next = None;
    }
}

/// Rows that are to be written down.
#[derive(Debug)]
pub(crate) struct WriteDown {
    /// What the table shall say it has.
    pub(crate) captured: Captured,
    /// Segments by date.
    pub(crate) rows: Dated,
}

impl LiveRows for LiveTable {
    fn over(&self, stored: &dyn Fn() -> splay_store::Result<TableSnapshot>) -> splay_store::Result<TableSnapshot> {
        for _ in 0..TRIES {
            // In this order: rows that go to disk in between are found there, and the state that begins behind them is taken.
            let known = {
                let states = self.states();
                (states.current.captured, states.next.as_ref().map(|next| next.captured))
            };
            let files = stored()?;
            let next = match files.captured() {
                captured if captured == known.0 => false,
                captured if Some(captured) == known.1 => true,
                _ => {
                    std::thread::yield_now();
                    continue;
                }
            };
            let _organising = self.organising.lock().unwrap_or_else(PoisonError::into_inner);
            let is_still = {
                let states = self.states();
                let state = if next { states.next.as_ref() } else { Some(&states.current) };
                state.is_some_and(|state| state.captured == files.captured())
            };
            if !is_still {
                continue;
            }
            let (layers, last) = self.organise_state(next).map_err(into_store)?;
            if layers.is_empty() {
                return Ok(files.with_partitions(last, Vec::new()));
            }
            return self.compose(&files, &layers, last).map_err(into_store);
        }
        Err(splay_store::Error::Poisoned)
    }
}

/// A failure on the way to a snapshot, which the store hands to its reader.
fn into_store(error: Error) -> splay_store::Error {
    let reason = match error {
        Error::Store(ref source) => match std::sync::Arc::try_unwrap(Arc::clone(source)) {
            Ok(own) => return own,
            Err(shared) => shared.to_string(),
        },
        other => other.to_string(),
    };
    splay_store::Error::Setting { setting: "live rows", reason }
}
