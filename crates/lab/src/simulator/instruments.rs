//! The instruments and exchanges of the crypto month, and how many rows each has.
//!
//! Source: "Benchmarking Specialized Databases for High-frequency Data" (Barez, Bilokon, Xiong), section 4.3 and table 3.

/// The exchanges; the first is the only one of the month and of the write day.
pub(crate) const EXCHANGES: [&str; 5] = ["COINBASE", "BINANCE-US", "FTX", "FTX-US", "BITSTAMP"];
/// Shares of the NBBO day's books, in the order of [`EXCHANGES`].
pub(crate) const EXCHANGE_WEIGHTS: [f64; 5] = [0.32, 0.24, 0.20, 0.12, 0.12];

/// Trades of the write day at scale 1.
pub(crate) const WRITE_TRADES: u64 = 1_000_000;
/// Books of the write day at scale 1.
pub(crate) const WRITE_BOOKS: u64 = 1_500_000;

/// An instrument: its grid, its market, its rows at scale 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instrument {
    pub(crate) symbol: &'static str,
    /// A tick is 10^-`price_decimals` dollars.
    pub(crate) price_decimals: usize,
    /// A unit of size is 10^-`size_decimals` coins.
    pub(crate) size_decimals: usize,
    /// Price levels lie 1 to this many ticks apart.
    pub(crate) gap_ticks: u64,
    /// The least size of a usual order, in units.
    pub(crate) size_units: u64,
    /// Standard deviation of the price after a day, as a fraction of it.
    pub(crate) daily_deviation: f64,
    /// The price in ticks on 2022-06-18.
    pub(crate) price_month: u64,
    /// The price in ticks on 2022-07-20.
    pub(crate) price_nbbo: u64,
    /// The price in ticks on 2022-06-01.
    pub(crate) price_write: u64,
    /// Trades of the month.
    pub(crate) trades: u64,
    /// Books of the month.
    pub(crate) books: u64,
    /// Books of the NBBO day, over all exchanges.
    pub(crate) nbbo_books: u64,
}

/// The three instruments.
pub(crate) const INSTRUMENTS: [Instrument; 3] = [
    Instrument {
        symbol: "BTC-USD",
        price_decimals: 2,
        size_decimals: 8,
        gap_ticks: 120,
        size_units: 2_000_000,
        daily_deviation: 0.035,
        price_month: 2_045_000,
        price_nbbo: 2_340_000,
        price_write: 3_179_000,
        trades: 8_810_000,
        books: 15_660_000,
        nbbo_books: 1_430_000,
    },
    Instrument {
        symbol: "ETH-USD",
        price_decimals: 2,
        size_decimals: 8,
        gap_ticks: 12,
        size_units: 30_000_000,
        daily_deviation: 0.045,
        price_month: 108_600,
        price_nbbo: 154_200,
        price_write: 194_200,
        trades: 10_010_000,
        books: 14_060_000,
        nbbo_books: 1_220_000,
    },
    Instrument {
        symbol: "USDT-USD",
        price_decimals: 5,
        size_decimals: 4,
        gap_ticks: 3,
        size_units: 5_000_000,
        daily_deviation: 0.0003,
        price_month: 99_890,
        price_nbbo: 99_985,
        price_write: 99_930,
        trades: 760_000,
        books: 920_000,
        nbbo_books: 110_000,
    },
];
