//! The `splay` command.
fn main() {}
