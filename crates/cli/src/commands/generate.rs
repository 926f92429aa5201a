//! `splay gen`: market data from the simulator.

use anyhow::Result;
use splay_lab::{CryptoSettings, FileFormat, TaqSettings, WrittenFile};
use splay_store::storage::refuse_address;

use crate::args::{GenCommand, GenFormat};
use crate::print::say;
use crate::progress;
use crate::size::{Counted, HumanBytes};

pub fn run(what: GenCommand) -> Result<()> {
    let bar = progress::rows("generating");
    let mut progress = |rows: u64| bar.set_position(rows);
    let start = std::time::Instant::now();
    let written = match what {
        GenCommand::Taq { out, date, symbols, quotes, trades, seed } => {
            refuse_address(&out)?;
            let settings = TaqSettings { out, date, symbols, quotes, trades, seed };
            splay_lab::generate_taq(&settings, &mut progress)?
        }
        GenCommand::Crypto { out, scale, seed, format, days, write_day } => {
            refuse_address(&out)?;
            let format = match format {
                GenFormat::Csv => FileFormat::Csv,
                GenFormat::Parquet => FileFormat::Parquet,
            };
            let settings = CryptoSettings { out, scale, seed, format, days };
            if write_day {
                splay_lab::generate_write_day(&settings, &mut progress)?
            } else {
                splay_lab::generate_crypto(&settings, &mut progress)?
            }
        }
    };
    bar.finish_and_clear();
    summarise(&written, start.elapsed())
}

fn summarise(written: &[WrittenFile], elapsed: std::time::Duration) -> Result<()> {
    let bytes: u64 = written.iter().filter_map(|file| file.path.metadata().ok()).map(|file| file.len()).sum();
    let rows: u64 = written.iter().map(|file| file.rows).sum();
    if written.len() <= 12 {
        for file in written {
            say!("{}  {}", file.path.display(), Counted(file.rows, "row"))?;
        }
    }
    say!(
        "{} in {}, {}, in {:.1} s",
        Counted(rows, "row"),
        Counted(written.len() as u64, "file"),
        HumanBytes(bytes),
        elapsed.as_secs_f64()
    )
}
