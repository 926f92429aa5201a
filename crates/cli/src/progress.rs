//! Progress on a terminal; nothing where standard error is none.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over bytes, with rate and time left.
pub fn bytes(total: u64, what: &str) -> ProgressBar {
    bar(total, "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {prefix} {eta} left").with_message(what.to_owned())
}

/// A count of rows, with rate.
pub fn rows(what: &str) -> ProgressBar {
    bar(0, "{msg} {human_pos} rows {per_sec}").with_message(what.to_owned())
}

/// A bar over tests, with a message behind it.
pub fn tests(total: usize) -> ProgressBar {
    bar(total as u64, "{bar:30} {pos}/{len} {wide_msg}")
}

fn bar(total: u64, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(8));
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
