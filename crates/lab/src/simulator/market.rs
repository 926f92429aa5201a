//! The market of one instrument: a fair price, a book per exchange, trades that meet the book.

use super::book::{Book, draw_size};
use super::crypto_rows::{Snapshot, Trade};
use super::instruments::Instrument;
use super::price::PriceWalk;
use super::random::Random;

/// A day, in microseconds.
pub(crate) const DAY_US: u64 = 86_400_000_000;
/// An exchange's price leaves the common one by this fraction, one step's standard deviation.
const EXCHANGE_DEVIATION: f64 = 0.000_01;
/// What is left of the difference after a step.
const EXCHANGE_MEMORY: f64 = 0.98;
/// Trades take this part of a usual order's size.
const TRADE_PART: u64 = 4;
/// A trade is on the side of the trade before it, in percent: orders come in runs.
const SAME_SIDE_PERCENT: u64 = 65;
/// The identifier of trades rises by 1 to this.
const ID_STEP_MAX: u64 = 3;

/// The market of an instrument over any number of days.
#[derive(Debug)]
pub(crate) struct Market {
    instrument: &'static Instrument,
    /// The position of the instrument in `INSTRUMENTS`.
    symbol: usize,
    random: Random,
    walk: PriceWalk,
    venues: Vec<Venue>,
    buying: bool,
    id: u64,
}

/// An exchange's book and the difference of its price, as a fraction.
#[derive(Debug)]
struct Venue {
    book: Book,
    difference: f64,
}

impl Market {
    /// Opens the market on `venues` exchanges, `price` ticks the fair price, trade identifiers start anywhere.
    pub(crate) fn new(
        instrument: &'static Instrument,
        symbol: usize,
        venues: usize,
        price: u64,
        mut random: Random,
    ) -> Self {
        let walk = PriceWalk::new(price, instrument.daily_deviation, DAY_US);
        let mut open = || Venue { book: Book::new(price as f64, instrument, &mut random), difference: 0.0 };
        let venues = (0..venues).map(|_| open()).collect();
        let id = 100_000_000 + random.below(100_000_000);
        Self { instrument, symbol, random, walk, venues, buying: true, id }
    }

    /// Midnight: the fair price is not moved by the time between the last event and the day's first.
    pub(crate) fn start_day(&mut self) {
        self.walk.start_at(0);
    }

    /// The next snapshot of an exchange's book, at `time` microseconds since midnight.
    pub(crate) fn snapshot(&mut self, time: u64, exchange: usize) -> Snapshot {
        let common = self.walk.advance(time, &mut self.random);
        let venue = &mut self.venues[exchange];
        venue.difference = venue.difference * EXCHANGE_MEMORY + self.random.normal() * EXCHANGE_DEVIATION;
        venue.book.update(common * (1.0 + venue.difference), self.instrument, &mut self.random);
        Snapshot { time, symbol: self.symbol, exchange, book: venue.book }
    }

    /// The next trade at the best price of an exchange's book.
    pub(crate) fn trade(&mut self, time: u64, exchange: usize) -> Trade {
        if !self.random.percent(SAME_SIDE_PERCENT) {
            self.buying = !self.buying;
        }
        self.id += 1 + self.random.below(ID_STEP_MAX);
        let book = &self.venues[exchange].book;
        let met = if self.buying { &book.asks } else { &book.bids };
        let amount = draw_size(self.instrument, &mut self.random) / TRADE_PART;
        Trade {
            time,
            symbol: self.symbol,
            exchange,
            buying: self.buying,
            price: met.price(0),
            amount: 1 + self.random.below(amount * 2),
            id: self.id,
        }
    }
}
