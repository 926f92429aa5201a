//! Makes the command, and Python's library, smaller. They have no symbols, which Cargo leaves in where a package has a profile of its own. Where the
//! linker is known to be lld, which Rust links with on x86-64 Linux unless somebody chose another, functions of the same code become one, and the
//! addresses that a start relocates are packed.

use std::env;
use std::process::Command;

/// The first glibc that loads packed addresses.
const GLIBC_WITH_PACKED_ADDRESSES: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-link-arg=-Wl,--strip-all");
    }
    if !is_linked_by_lld() {
        return;
    }
    println!("cargo:rustc-link-arg=-Wl,--icf=all");
    // Who builds for an older system builds on one.
    if glibc().is_some_and(|version| version >= GLIBC_WITH_PACKED_ADDRESSES) {
        println!("cargo:rustc-link-arg=-Wl,-z,pack-relative-relocs");
    }
}

fn is_linked_by_lld() -> bool {
    let is_set = |name| env::var(name).is_ok_and(|value| !value.is_empty());
    let is_target = |name| env::var(name).is_ok_and(|triple| triple == "x86_64-unknown-linux-gnu");
    is_target("TARGET") && is_target("HOST") && !is_set("RUSTC_LINKER") && !is_set("CARGO_ENCODED_RUSTFLAGS")
}

/// The version that `getconf` tells: `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let output = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = output.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
