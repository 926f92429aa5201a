//! SIGTERM and SIGINT end the process in good order, and at once where it doesn't end.

use std::sync::Arc;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::stop::StopSignal;

/// How long what waits may take to be sent once the process is to end.
const GRACE: Duration = Duration::from_secs(20);

/// Ends the process at a signal: what waits is sent. After a while nothing is tried again, and after one more, or at a second signal,
/// `give_up` ends it.
///
/// # Errors
/// What the operating system says.
pub fn hear(stop: Arc<StopSignal>, give_up: fn()) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    std::thread::spawn(move || {
        let mut is_first = true;
        for _ in signals.forever() {
            if !is_first {
                give_up();
            }
            is_first = false;
            tracing::info!("sends what waits, and ends");
            stop.set();
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                std::thread::sleep(GRACE);
                stop.urge();
                std::thread::sleep(GRACE);
                give_up();
            });
        }
    });
    Ok(())
}
