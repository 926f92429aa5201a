//! One file for each group of commands.

pub mod advise;
pub mod audit;
pub mod backup;
pub mod changes;
pub mod export;
pub mod generate;
pub mod journal;
pub mod lab;
pub mod load;
pub mod manual;
mod notify;
pub mod place;
pub mod promote;
pub mod replay;
pub mod serve;
pub mod shell;
pub mod sql;
pub mod tables;
pub mod tick_status;
pub mod tick_write;
pub mod upkeep;
mod views;
