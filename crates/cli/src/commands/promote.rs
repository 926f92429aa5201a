//! `splay promote`: a follower becomes the leader.

use anyhow::{Context, Result, bail};
use splay_store::Database;

use super::place;
use crate::args::PromoteArguments;
use crate::print::say;

pub fn run(arguments: &PromoteArguments) -> Result<()> {
    let place = &arguments.place.place;
    let Some(client) = place::client(&arguments.place)? else {
        let epoch = match splay_capture::promote(&Database::open(place)?) {
            Err(splay_capture::Error::Locked { .. }) => {
                bail!(
                    "a process follows with this database: promote it by its address, as in splay promote http://127.0.0.1:7750"
                )
            }
            promoted => promoted?,
        };
        say!("promoted {place}: it leads in epoch {epoch} once `splay serve {place}` runs")?;
        return Ok(());
    };
    let answer = place::runtime()?.block_on(client.post_json("/replica/promote", b"{}".as_slice().into()));
    let reply = place::json(&answer?)?;
    let epoch = reply["epoch"].as_u64().context("the server didn't say in which epoch it leads")?;
    say!("promoted {place}: it leads in epoch {epoch}")?;
    Ok(())
}
