//! Names of tables that the store can hold.
//!
//! - A name that [`splay_store::validate_name`] accepts is kept as it is: `trades-COINBASE` stays `trades-COINBASE`.
//! - Of any other, each character that isn't allowed becomes `_`, and a point and eight hexadecimal digits of the name's
//!   hash follow, so that names that differ keep apart: `cpu load` is another table than `cpu/load`.
//! - The hash is the 64-bit FNV-1a (RFC 9923), folded to 32 bits: the same name gives the same table on every machine.

use splay_store::{NAME_BYTES_MAX, validate_name};

/// Bytes of the point and the hash.
const SUFFIX_BYTES: usize = 9;

/// The table's name for a measurement's.
pub(super) fn table_name(name: &str) -> String {
    if validate_name("table", name).is_ok() {
        return name.to_owned();
    }
    let mut stored: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '_' }).collect();
    if stored.is_empty() || stored.starts_with('.') {
        stored.insert(0, '_');
    }
    stored.truncate(NAME_BYTES_MAX - SUFFIX_BYTES);
    let hash = fnv1a(name.as_bytes());
    format!("{stored}.{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Why a column can't have the name, or `None` if it can. The rule is the store's, which checks whole tables only.
pub(super) fn column_fault(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Some("it must have 1 to 128 bytes");
    }
    if name.chars().any(|c| c.is_control() || c == '"') {
        return Some("control characters and double quotes are not allowed");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_store_are_kept() {
        for name in ["trades", "trades-COINBASE", "l2_book.BTC", "1m"] {
            assert_eq!(table_name(name), name);
        }
    }

    #[test]
    fn other_names_are_spelled_apart() {
        let names =
            ["cpu load", "cpu/load", "cpu:load", ".hidden", "größe", "", "splay.toml", &"x".repeat(300), "../etc"];
        let mut stored: Vec<String> = names.iter().map(|name| table_name(name)).collect();
        for name in &stored {
            assert!(validate_name("table", name).is_ok(), "{name}");
        }
        assert_eq!(stored[0], table_name("cpu load"));
        assert!(stored[0].starts_with("cpu_load."));
        stored.sort();
        stored.dedup();
        assert_eq!(stored.len(), names.len());
    }
}
