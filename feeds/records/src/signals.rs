//! SIGTERM and SIGINT end the process in good order, and at once where it doesn't end.

use std::sync::Arc;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::stop::StopSignal;

/// Time to send the rows that wait once the process is to end.
const GRACE: Duration = Duration::from_secs(20);

/// Sets `stop` at a signal, so that the rows that wait are sent and the process ends. After [`GRACE`] no call is made again, and after twice
/// that, or at a second signal, `give_up` ends the process.
///
/// # Errors
/// Those of the operating system.
pub fn handle(stop: Arc<StopSignal>, give_up: fn()) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    std::thread::spawn(move || {
        let mut is_first = true;
        for _ in signals.forever() {
            if !is_first {
                give_up();
            }
            is_first = false;
            tracing::info!("sends the rows that wait, and ends");
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
