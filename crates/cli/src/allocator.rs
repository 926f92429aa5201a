//! The allocator of the process, and how soon it gives freed memory back to the system (ADR 11).

use std::ffi::{c_int, c_long};
use std::time::Duration;

/// Freed memory serves the next column instead of going back to the system page by page.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Milliseconds that freed memory waits for its next use. mimalloc's own default of a second lets a server that answers without
/// pause keep hundreds of megabytes; without any wait sorts take up to three times as long.
const PURGE_DELAY_MILLISECONDS: c_long = 100;

/// How often an idle process looks for freed memory.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// `mi_option_purge_delay` of `mimalloc.h`.
const PURGE_DELAY: c_int = 15;

// SAFETY: the signatures of `mimalloc.h`, where `mi_option_t` is an enum, which C passes as an int.
unsafe extern "C" {
    fn mi_option_set(option: c_int, value: c_long);
    fn mi_collect(force: bool);
}

/// Sets the delay, unless the environment says it (`MIMALLOC_PURGE_DELAY`).
pub fn give_back_soon() {
    if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
        // SAFETY: both arguments are numbers, and mimalloc ignores an option that it doesn't know.
        unsafe { mi_option_set(PURGE_DELAY, PURGE_DELAY_MILLISECONDS) };
    }
}

/// Gives freed memory of this thread back at once, so that what a piece of work needs is seen.
pub fn give_back_now() {
    // SAFETY: the function takes a flag and may be called by any thread at any time.
    unsafe { mi_collect(true) };
}

/// Starts a thread that releases freed memory each second. mimalloc checks the delay only when a thread allocates or frees, so a server without
/// work would keep what its last statement freed.
pub fn give_back_when_idle() -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name("splay-memory".to_owned());
    thread.spawn(|| {
        loop {
            std::thread::sleep(IDLE_INTERVAL);
            // SAFETY: as above. Without force only memory whose delay is over goes back.
            unsafe { mi_collect(false) };
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // SAFETY: the signature of `mimalloc.h`.
    unsafe extern "C" {
        fn mi_option_get(option: c_int) -> c_long;
    }

    /// mimalloc numbers its options, and another release may number them anew.
    #[test]
    fn the_option_is_the_purge_delay() {
        // SAFETY: reads one of mimalloc's options, which exists.
        let before = unsafe { mi_option_get(PURGE_DELAY) };
        assert_eq!(before, 1000, "mimalloc's default");

        give_back_soon();

        // SAFETY: as above.
        assert_eq!(unsafe { mi_option_get(PURGE_DELAY) }, PURGE_DELAY_MILLISECONDS);
    }
}
