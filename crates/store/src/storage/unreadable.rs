//! Pages of mapped files that can't be read, because another program truncated the file or the disk fails.
//!
//! The system sends SIGBUS to the thread that touches such a page, which by default ends the process. This handler
//! replaces the page and all pages after it in the mapping by zeros, records that, and lets the thread continue.
//! Results computed from zeros must not leave the process: code that reads mapped bytes checks a [`ReadWatch`] before
//! it returns anything, and fails with file and offset (docs/adr/0021-unreadable-pages-end-statements.md).
//!
//! - A mapping is registered before its first byte is touched, and removed before it is unmapped. A thread that
//!   touches a page holds its mapping, so the handler finds it.
//! - Invariant: the record is written before the zeros are in place. So a thread that reads zeros and then checks
//!   finds the record.
//! - The handler takes no lock and allocates nothing. It scans the slots, which is cheap for so rare an event; a slot
//!   that changes meanwhile belongs to another mapping, and its version shows this.
//! - Other faults go to the previously installed handler, or end the process as if there were none. So do all faults
//!   once mapped bytes were passed to readers that check no watch ([`hand_out_mapped`]): zeros in their hands would
//!   be worse than an end.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use crate::error::{Error, Result};

/// Slots that are made at a time.
const CHUNK_SLOTS: usize = 1024;

/// Chunks of slots: room for 4 million mappings, where the system allows 65,530 by default.
const CHUNKS: usize = 4096;

/// A mapping, as the signal handler reads it.
struct MappingSlot {
    /// Odd while the others change.
    version: AtomicUsize,
    start: AtomicUsize,
    end: AtomicUsize,
    /// The offset of the first unreadable page plus one; 0 if all could be read.
    failed: AtomicU64,
    /// The number of the last unreadable page of this mapping among all that the process met, from 1.
    at: AtomicU64,
}

impl MappingSlot {
    const fn new() -> MappingSlot {
        MappingSlot {
            version: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            failed: AtomicU64::new(0),
            at: AtomicU64::new(0),
        }
    }

    /// Gives the slot to a mapping, or to none. One caller at a time.
    fn set(&self, start: usize, end: usize) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.start.store(start, Ordering::SeqCst);
        self.end.store(end, Ordering::SeqCst);
        self.failed.store(0, Ordering::SeqCst);
        self.at.store(0, Ordering::SeqCst);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// The beginning and the end of the mapping, if it holds the address.
    fn holding(&self, address: usize) -> Option<(usize, usize)> {
        let version = self.version.load(Ordering::SeqCst);
        let (start, end) = (self.start.load(Ordering::SeqCst), self.end.load(Ordering::SeqCst));
        let is_whole = version.is_multiple_of(2) && self.version.load(Ordering::SeqCst) == version;
        (is_whole && (start..end).contains(&address)).then_some((start, end))
    }
}

static SLOTS: [AtomicPtr<[MappingSlot; CHUNK_SLOTS]>; CHUNKS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS];
/// Slots that were ever in use.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Pages that couldn't be read.
static COUNT: AtomicU64 = AtomicU64::new(0);
static HANDED_OUT: AtomicBool = AtomicBool::new(false);
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(0);
/// The signal's action before ours.
static FORMER: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());
static INSTALLED: Once = Once::new();
static BOOK: Mutex<Option<MappingTable>> = Mutex::new(None);

/// The bookkeeping of mappings that the signal handler doesn't use.
#[derive(Default)]
struct MappingTable {
    free: Vec<usize>,
    /// Paths of the mappings by slot.
    paths: HashMap<usize, PathBuf>,
    /// Files that couldn't be read and are no longer mapped: when it happened last, and where.
    past: BTreeMap<PathBuf, (u64, u64)>,
}

fn with_book<T>(act: impl FnOnce(&mut MappingTable) -> T) -> T {
    let mut book: MutexGuard<'_, Option<MappingTable>> = BOOK.lock().unwrap_or_else(PoisonError::into_inner);
    act(book.get_or_insert_default())
}

fn slot(number: usize) -> Option<&'static MappingSlot> {
    let chunk = SLOTS.get(number / CHUNK_SLOTS)?.load(Ordering::SeqCst);
    // SAFETY: a chunk is published whole and never freed.
    unsafe { chunk.as_ref() }.map(|chunk| &chunk[number % CHUNK_SLOTS])
}

/// A mapping that the handler knows; it is taken out when this is dropped, which has to be before it is unmapped.
#[derive(Debug)]
pub(super) struct WatchedMapping {
    number: usize,
}

impl WatchedMapping {
    /// Notes a mapping of a file, before any byte of it is touched.
    ///
    /// # Errors
    /// [`Error::Io`] where there are too many.
    pub(super) fn new(bytes: &[u8], path: &Path) -> Result<WatchedMapping> {
        INSTALLED.call_once(install);
        let start = bytes.as_ptr() as usize;
        let end = (start + bytes.len()).next_multiple_of(PAGE_BYTES.load(Ordering::SeqCst).max(1));
        let number = with_book(|book| {
            let number = book.free.pop().or_else(next_slot)?;
            book.paths.insert(number, path.to_path_buf());
            Some(number)
        });
        let slot_entry = number.and_then(|number| Some((number, slot(number)?)));
        let Some((number, slot)) = slot_entry else {
            return Err(Error::io("map", path)(std::io::ErrorKind::OutOfMemory.into()));
        };
        slot.set(start, end);
        Ok(WatchedMapping { number })
    }

    /// Offset of the first page that couldn't be read.
    pub(super) fn failed(&self) -> Option<u64> {
        if count() == 0 {
            return None;
        }
        slot(self.number)?.failed.load(Ordering::SeqCst).checked_sub(1)
    }
}

impl Drop for WatchedMapping {
    fn drop(&mut self) {
        let Some(slot) = slot(self.number) else { return };
        with_book(|book| {
            let path = book.paths.remove(&self.number).unwrap_or_default();
            if let Some(offset) = self.failed() {
                book.past.insert(path, (slot.at.load(Ordering::SeqCst), offset));
            }
            slot.set(0, 0);
            book.free.push(self.number);
        });
    }
}

/// A slot that was never used; `None` where there are no more. The caller holds the book.
fn next_slot() -> Option<usize> {
    let number = USED.load(Ordering::SeqCst);
    let chunk = SLOTS.get(number / CHUNK_SLOTS)?;
    if chunk.load(Ordering::SeqCst).is_null() {
        let new: Box<[MappingSlot; CHUNK_SLOTS]> = Box::new([const { MappingSlot::new() }; CHUNK_SLOTS]);
        chunk.store(Box::into_raw(new), Ordering::SeqCst);
    }
    USED.store(number + 1, Ordering::SeqCst);
    Some(number)
}

/// How many times a page couldn't be read in this process.
fn count() -> u64 {
    COUNT.load(Ordering::SeqCst)
}

/// From now on a page that can't be read ends the process, as it does outside of guarded reads: mapped bytes are handed to readers that don't
/// check a [`ReadWatch`] afterwards.
pub fn hand_out_mapped() {
    HANDED_OUT.store(true, Ordering::SeqCst);
}

/// The mapped ranges at this moment, in ascending order. Scans all slots.
#[must_use]
pub fn mapped_ranges() -> Vec<Range<usize>> {
    let ranges = (0..USED.load(Ordering::SeqCst)).filter_map(slot).filter_map(|slot| {
        let start = slot.start.load(Ordering::SeqCst);
        slot.holding(start).map(|(start, end)| start..end)
    });
    let mut ranges: Vec<_> = ranges.collect();
    ranges.sort_unstable_by_key(|range| range.start);
    ranges
}

/// Tells whether a page of a table's files has proved unreadable since the watch began; such pages read as zeros.
#[derive(Debug, Clone)]
pub struct ReadWatch {
    since: u64,
    folder: Arc<Path>,
}

impl ReadWatch {
    /// A watch over the files in a folder, from now on.
    #[must_use]
    pub fn begin(folder: Arc<Path>) -> ReadWatch {
        ReadWatch { since: count(), folder }
    }

    /// How many times a page couldn't be read in this process before it began.
    #[must_use]
    pub fn since(&self) -> u64 {
        self.since
    }

    /// Fails if a page of a file in the folder couldn't be read since the watch began. To be asked when bytes have been read, and before
    /// anything that was made of them leaves. Costs some nanoseconds.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with file and offset.
    pub fn check(&self) -> Result<()> {
        // The data must be read before the count.
        fence(Ordering::SeqCst);
        if count() == self.since { Ok(()) } else { self.look() }
    }

    #[cold]
    fn look(&self) -> Result<()> {
        let failure = with_book(|book| {
            let now = book.paths.iter().filter_map(|(number, path)| {
                let slot = slot(*number)?;
                let offset = slot.failed.load(Ordering::SeqCst).checked_sub(1)?;
                Some((path, slot.at.load(Ordering::SeqCst), offset))
            });
            let past = book.past.iter().map(|(path, (at, offset))| (path, *at, *offset));
            let mut all = now.chain(past);
            all.find(|(path, at, _)| *at > self.since && path.starts_with(&self.folder))
                .map(|(path, _, offset)| (path.clone(), offset))
        });
        failure.map_or(Ok(()), |(path, offset)| Err(unreadable(&path, offset)))
    }
}

/// The error of a page that can't be read.
pub(crate) fn unreadable(path: &Path, offset: u64) -> Error {
    Error::corrupt(path, offset, "a page that can be read", "none: the file was cut, or the disk fails")
}

fn install() {
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    PAGE_BYTES.store(usize::try_from(page).unwrap_or(4096), Ordering::SeqCst);
    // SAFETY: both structures are plain data for which zeros are sound; the handler has the signature that SA_SIGINFO asks for.
    unsafe {
        let mut own: libc::sigaction = std::mem::zeroed();
        own.sa_sigaction = handle as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) as usize;
        own.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut own.sa_mask);
        let former: *mut libc::sigaction = Box::into_raw(Box::new(std::mem::zeroed()));
        // Known before the first signal can come.
        libc::sigaction(libc::SIGBUS, std::ptr::null(), former);
        FORMER.store(former, Ordering::SeqCst);
        libc::sigaction(libc::SIGBUS, &raw const own, std::ptr::null_mut());
    }
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the system gives the handler a sound structure.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // The address of a signal that a process has sent means nothing.
    if code <= 0 || HANDED_OUT.load(Ordering::SeqCst) || !replace(address) {
        former(signal, info, context);
    }
}

/// Notes that a page can't be read and puts zeros in its place; false where it is in no mapping of ours.
fn replace(address: usize) -> bool {
    let page = PAGE_BYTES.load(Ordering::SeqCst).max(1);
    let slots = (0..USED.load(Ordering::SeqCst)).filter_map(slot);
    let Some((slot, (start, end))) = slots.filter_map(|slot| Some((slot, slot.holding(address)?))).next() else {
        return false;
    };
    let from = address / page * page;
    let offset = (from - start) as u64;
    // In this order: who opens the file from now on finds it, and who has opened it finds a number above his own.
    let _ = slot.failed.compare_exchange(0, offset + 1, Ordering::SeqCst, Ordering::SeqCst);
    slot.at.fetch_max(COUNT.load(Ordering::SeqCst) + 1, Ordering::SeqCst);
    COUNT.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the pages belong to a mapping that the touching thread holds, and of which nothing is ever written.
    unsafe {
        let error = *libc::__errno_location();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let zeros = libc::mmap(from as *mut libc::c_void, end - from, libc::PROT_READ, flags, -1, 0);
        *libc::__errno_location() = error;
        zeros != libc::MAP_FAILED
    }
}

/// Does what would have been done without us.
fn former(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: it was published whole and is never freed.
    let Some(former) = (unsafe { FORMER.load(Ordering::SeqCst).as_ref() }) else { return };
    match former.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: puts the former action back. The touch happens once more and ends the process; a signal that was sent is sent again.
            unsafe {
                libc::sigaction(signal, std::ptr::from_ref(former), std::ptr::null_mut());
                if (*info).si_code <= 0 {
                    libc::raise(signal);
                }
            }
        }
        handler if former.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: with this flag the action is a function of this signature.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without the flag the action is a function of this signature.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
