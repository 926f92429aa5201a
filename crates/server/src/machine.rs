//! The memory of the machine, or of the server's container.

use std::fs;

/// The memory limit of statements if the machine's memory isn't known.
const UNKNOWN: usize = 4 << 30;

/// The memory, in bytes, if the system tells it.
#[must_use]
pub fn memory_of_machine() -> Option<usize> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let container = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    machine.into_iter().chain(container).min()
}

/// Half of the memory: the rest is for capture, for pages of files, and for what isn't counted.
pub(crate) fn half_of_memory() -> usize {
    memory_of_machine().map_or(UNKNOWN, |bytes| bytes / 2)
}

/// The machine's memory, of the text of `/proc/meminfo`.
fn total(text: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_of_its_line() {
        let text = "MemFree: 3 kB\nMemTotal:       16384 kB\nMemAvailable: 4 kB\n";
        assert_eq!(total(text), Some(16 << 20));
        assert_eq!(total("MemTotal: much"), None);
        assert!(half_of_memory() > 1 << 20);
    }
}
