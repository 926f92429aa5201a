//! Settings of the quality of feeds.

use serde::{Deserialize, Serialize};

/// Columns that are looked at, of one table. `None`: by the names that are usual; an empty name: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QualitySettings {
    /// The feed's number of a message, ascending by one within a series. Default `sequence`, `seq` or `sequence_number`.
    pub sequence: Option<String>,
    /// The best bid, or the bids' levels. Default `bid_price` or `bid`.
    pub bid: Option<String>,
    /// The best ask, or the asks' levels. Default `ask_price`, `ask`, `offer_price` or `offer`.
    pub ask: Option<String>,
    /// The venue's clock. Default `ts_event`, otherwise the table's time unless that is called `ts_recv`.
    pub event: Option<String>,
    /// Together with `venue` it tells series apart. Default the table's symbol.
    pub symbol: Option<String>,
    /// Default `venue` or `exchange`.
    pub venue: Option<String>,
}
