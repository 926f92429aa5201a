//! How much memory a piece of work needs at most, as far as the system tells: by how much the resident memory of the process grows.
//!
//! It is a lower bound: memory that the allocator kept from earlier work and gives out again doesn't make the process grow.

/// The start of a piece of work.
#[derive(Debug)]
pub struct Peak {
    /// Resident bytes at the start; nothing where the system doesn't tell the peak.
    resident: Option<u64>,
}

impl Peak {
    /// Forgets earlier peaks.
    pub fn start() -> Peak {
        let is_reset = std::fs::write("/proc/self/clear_refs", "5").is_ok();
        Peak { resident: if is_reset { status("VmRSS:") } else { None } }
    }

    /// Bytes of growth since the start, at most.
    pub fn growth(&self) -> Option<u64> {
        Some(status("VmHWM:")?.saturating_sub(self.resident?))
    }
}

/// A number of kilobytes of `/proc/self/status`, as bytes.
fn status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1_024)
}

/// Gives memory that the C library's allocator keeps back to the system.
pub fn release() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number of bytes to keep.
    unsafe {
        libc::malloc_trim(0);
    }
}
