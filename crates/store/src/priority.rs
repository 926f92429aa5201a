//! Lets threads that take and acknowledge rows go before threads that compute, in a process that asks for it.
//!
//! If all processors are busy, Linux lets a woken thread wait until the computing one has used up its slice, which it finds out at the next
//! timer tick, up to 4 ms later. An acknowledgement takes several such steps: network, journal, disk, network. A computing thread of lower
//! priority mostly gives the processor up at once to one that asks for a short slice (docs/adr/0095-capture-goes-before-statements.md).
//! Neither needs a privilege. Elsewhere than on Linux nothing happens.

use std::sync::OnceLock;

/// The priority of a process that favours capture, before it did: a number of `nice(2)`.
static USUAL: OnceLock<i32> = OnceLock::new();

/// From here on threads of this process that call [`work`] have a lower priority than the calling one. Threads that run already keep theirs.
pub fn favour_capture() {
    USUAL.get_or_init(system::priority);
}

/// The calling thread, and each that it starts, computes for a statement.
pub fn work() {
    if let Some(usual) = USUAL.get() {
        system::set((usual + system::STEPS).min(system::LOWEST), system::USUAL_SLICE);
    }
}

/// The calling thread takes or acknowledges rows.
pub fn capture() {
    system::set(USUAL.get().copied().unwrap_or_else(system::priority), system::SHORT_SLICE);
}

#[cfg(target_os = "linux")]
mod system {
    /// Steps of `nice` between capture and work, 1.25 each: while both want a processor, work gets a tenth of it.
    pub(super) const STEPS: i32 = 10;

    pub(super) const LOWEST: i32 = 19;

    /// Nanoseconds that a woken thread asks for; what capture does for a batch takes about as long.
    pub(super) const SHORT_SLICE: u64 = 100_000;

    /// The kernel's own, of some milliseconds.
    pub(super) const USUAL_SLICE: u64 = 0;

    /// Says that the policy stays, which the owner of the process may have chosen.
    const KEEP_POLICY: u64 = 8;

    /// `struct sched_attr` of `sched_setattr(2)`, as of Linux 3.14. Since 6.12 `runtime` is the slice of a usual thread; before it has no effect.
    #[repr(C)]
    #[derive(Default)]
    struct SchedAttr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }

    /// The priority of the calling thread; a lower number goes first.
    pub(super) fn priority() -> i32 {
        // SAFETY: only reads. Of the calling thread it doesn't fail.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
    }

    /// Sets priority and slice of the calling thread. Where the system refuses, as in some sandboxes, both stay as they were, and rows wait longer.
    pub(super) fn set(nice: i32, runtime: u64) {
        let size = u32::try_from(size_of::<SchedAttr>()).unwrap_or_default();
        let attributes = SchedAttr { size, flags: KEEP_POLICY, nice, runtime, ..SchedAttr::default() };
        // SAFETY: the pointer is to a whole structure whose size it states, and the call only reads it. 0 is the calling thread.
        let refused = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } != 0;
        if refused {
            // Linux before 5.3, which doesn't know the flag.
            // SAFETY: takes numbers and changes the calling thread's priority only.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) const STEPS: i32 = 0;
    pub(super) const LOWEST: i32 = 0;
    pub(super) const SHORT_SLICE: u64 = 0;
    pub(super) const USUAL_SLICE: u64 = 0;

    pub(super) fn priority() -> i32 {
        0
    }

    pub(super) fn set(_nice: i32, _slice: u64) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::system::{LOWEST, STEPS, priority};
    use super::*;

    #[test]
    fn work_and_what_it_starts_have_a_lower_priority_only_in_a_process_that_favours_capture() {
        let usual = priority();
        // The priority of a thread that did it, and of one that this started and did it again.
        let of_threads = |act: fn()| {
            let thread = std::thread::spawn(move || {
                act();
                let inner = std::thread::spawn(move || {
                    act();
                    priority()
                });
                (priority(), inner.join().ok())
            });
            thread.join().ok()
        };
        assert_eq!(of_threads(work), Some((usual, Some(usual))));
        favour_capture();
        let lower = (usual + STEPS).min(LOWEST);
        assert_eq!(of_threads(work), Some((lower, Some(lower))));
        assert_eq!(of_threads(capture), Some((usual, Some(usual))));
        assert_eq!(priority(), usual);
    }
}
