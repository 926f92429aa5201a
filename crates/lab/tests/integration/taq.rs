//! The equity day: rows, order, prices, agreement of quotes, NBBO and trades.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use splay_lab::{TaqSettings, WrittenFile, generate_taq};
use tempfile::tempdir;

use super::support::{all_files, column, digest, table, text};

fn settings(out: &Path) -> TaqSettings {
    TaqSettings {
        out: out.to_path_buf(),
        symbols: 120,
        quotes: 60_000,
        trades: 9_000,
        seed: 42,
        ..TaqSettings::default()
    }
}

fn name(file: &WrittenFile) -> String {
    file.path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// A row of any of the files.
#[derive(Debug, Clone)]
struct Event {
    symbol: String,
    time: String,
    participant_time: String,
    sequence: u64,
    fields: HashMap<String, String>,
}

impl Event {
    fn cents(&self, column: &str) -> i64 {
        let (dollars, cents) = self.fields[column].split_once('.').unwrap();
        assert_eq!(cents.len(), 2, "a one-cent grid");
        dollars.parse::<i64>().unwrap() * 100 + cents.parse::<i64>().unwrap()
    }
}

/// The rows of a file; checks header, trailer, widths and the order by symbol, time, sequence.
fn events(file: &WrittenFile) -> Vec<Event> {
    let (header, mut rows) = table(&text(&file.path), '|');
    let trailer = rows.pop().unwrap();
    assert_eq!(trailer[..3], ["END".to_owned(), "20191007".to_owned(), file.rows.to_string()]);
    assert_eq!((trailer.len(), rows.len() as u64), (header.len(), file.rows));
    let sequence = header.iter().position(|name| name.replace(' ', "_") == "Sequence_Number").unwrap();
    let participant = header.iter().position(|name| name.replace(' ', "_") == "Participant_Timestamp").unwrap();
    let event = |row: Vec<String>| {
        assert_eq!(row.len(), header.len());
        Event {
            symbol: row[2].clone(),
            time: row[0].clone(),
            participant_time: row[participant].clone(),
            sequence: row[sequence].parse().unwrap(),
            fields: header.iter().cloned().zip(row).collect(),
        }
    };
    let events: Vec<Event> = rows.into_iter().map(event).collect();
    let key = |event: &Event| (event.symbol.clone(), event.time.clone(), event.sequence);
    assert!(events.windows(2).all(|pair| key(&pair[0]) < key(&pair[1])), "{}", name(file));
    for event in &events {
        assert!(event.time.len() == 15 && ("040000000000000".."200000000000000").contains(&event.time.as_str()));
        assert!(event.participant_time < event.time);
    }
    events
}

/// The three tables of a day.
fn day(written: &[WrittenFile]) -> (Vec<Event>, Vec<Event>, Vec<Event>) {
    let of = |start: &str| written.iter().filter(|file| name(file).starts_with(start)).flat_map(events).collect();
    (of("SPLITS_US_ALL_BBO_"), of("EQY_US_ALL_TRADE_"), of("EQY_US_ALL_NBBO_"))
}

#[test]
fn counts_are_exact_and_each_letter_has_a_file() {
    let folder = tempdir().unwrap();
    let mut reported = Vec::new();
    let written = generate_taq(&settings(folder.path()), &mut |rows| reported.push(rows)).unwrap();
    let (quotes, trades, nbbo) = day(&written);
    assert_eq!((quotes.len(), trades.len()), (60_000, 9_000));
    assert!(nbbo.len() > 10_000);
    assert!(reported.is_sorted());
    assert_eq!(*reported.last().unwrap(), (quotes.len() + trades.len() + nbbo.len()) as u64);
    for file in written.iter().filter(|file| name(file).starts_with("SPLITS")) {
        let letter = name(file).chars().nth("SPLITS_US_ALL_BBO_".len()).unwrap();
        assert!(events(file).iter().all(|event| event.symbol.starts_with(letter)));
    }
    let symbols: BTreeSet<&str> = quotes.iter().map(|event| event.symbol.as_str()).collect();
    assert!(
        symbols.len() > 100 && ["AAPL", "MSFT", "SPY", "IBM", "BRK A"].iter().all(|ticker| symbols.contains(ticker))
    );
}

#[test]
fn same_settings_same_bytes_and_another_seed_another_day() {
    let folders = [tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap()];
    for (folder, seed) in folders.iter().zip([42, 42, 43]) {
        generate_taq(&TaqSettings { seed, ..settings(folder.path()) }, &mut |_| {}).unwrap();
    }
    let [first, again, other] = folders.each_ref().map(|folder| all_files(folder.path()));
    assert!(first == again);
    let trades = "EQY_US_ALL_TRADE_20191007.gz";
    assert!(first[trades] != other[trades]);
    // The text every machine gives, before gzip. Changing the simulator changes them: then say so in the changelog.
    let of = |name: &str| digest(&text(&folders[0].path().join(name)));
    assert_eq!([of(trades), of("SPLITS_US_ALL_BBO_A_20191007.gz")], [0xede4_df33_48e3_7af6, 0xfa58_cf8c_6293_f8ae]);
}

#[test]
fn nbbo_follows_from_the_quotes_and_is_never_crossed() {
    let folder = tempdir().unwrap();
    let (quotes, _, nbbo) = day(&generate_taq(&settings(folder.path()), &mut |_| {}).unwrap());
    let mut nbbo = nbbo.into_iter().peekable();
    let mut venues: BTreeMap<(String, String), (i64, i64)> = BTreeMap::new();
    for quote in &quotes {
        let (bid, offer) = (quote.cents("Bid_Price"), quote.cents("Offer_Price"));
        assert!(0 < bid && bid < offer, "{quote:?}");
        venues.insert((quote.symbol.clone(), quote.fields["Exchange"].clone()), (bid, offer));
        if nbbo.peek().is_some_and(|row| row.symbol == quote.symbol && row.sequence == quote.sequence) {
            let row = nbbo.next().unwrap();
            assert_eq!(quote.fields["National_BBO_Ind"], "2");
            let from = (quote.symbol.clone(), String::new());
            let of_symbol = venues.range(from..).take_while(|((symbol, _), _)| *symbol == quote.symbol);
            let best =
                of_symbol.fold((i64::MIN, i64::MAX), |best, (_, quote)| (best.0.max(quote.0), best.1.min(quote.1)));
            assert_eq!((row.cents("Best_Bid_Price"), row.cents("Best_Offer_Price")), best);
            assert!(best.0 < best.1, "crossed or locked: {row:?}");
            let at_bid = &venues[&(quote.symbol.clone(), row.fields["Best_Bid_Exchange"].clone())];
            assert_eq!(at_bid.0, best.0);
        } else {
            assert_eq!(quote.fields["National_BBO_Ind"], "0");
        }
    }
    assert!(nbbo.next().is_none());
}

#[test]
fn trades_are_inside_the_prevailing_nbbo() {
    let folder = tempdir().unwrap();
    let (_, trades, nbbo) = day(&generate_taq(&settings(folder.path()), &mut |_| {}).unwrap());
    let by_sequence: BTreeMap<(String, u64), &Event> =
        nbbo.iter().map(|row| ((row.symbol.clone(), row.sequence), row)).collect();
    for trade in &trades {
        let until = (trade.symbol.clone(), trade.sequence);
        let Some(((symbol, _), row)) = by_sequence.range(..until).next_back() else {
            panic!("no quote before {trade:?}")
        };
        assert_eq!(*symbol, trade.symbol);
        assert!(row.time <= trade.time);
        let price = trade.cents("Trade Price");
        assert!((row.cents("Best_Bid_Price")..=row.cents("Best_Offer_Price")).contains(&price), "{trade:?} {row:?}");
    }
}

#[test]
fn conditions_tell_the_auctions_odd_lots_and_extended_hours() {
    let folder = tempdir().unwrap();
    let (_, trades, _) = day(&generate_taq(&settings(folder.path()), &mut |_| {}).unwrap());
    let mut kinds = BTreeSet::new();
    for trade in &trades {
        let condition = trade.fields["Sale Condition"].as_str();
        kinds.insert(condition.to_owned());
        assert_eq!(condition.len(), 4);
        let volume: u64 = trade.fields["Trade Volume"].parse().unwrap();
        let regular = ("093000000000000".."160000000000000").contains(&trade.time.as_str());
        let closing = trade.time.starts_with("160000") && (condition.contains('6') || condition.contains('M'));
        assert_eq!(condition.contains('T'), !regular && !closing, "{trade:?}");
        assert_eq!(condition.contains('I'), volume < 100, "{trade:?}");
        assert_eq!(trade.fields["Trade Reporting Facility"].is_empty(), trade.fields["Exchange"] != "D");
    }
    for code in ["@   ", " F I", "@  I", "@O X", " O  ", "@6 X", " 6  ", "@ TI", "   Q", "   M"] {
        assert!(kinds.contains(code), "{code:?} in {kinds:?}");
    }
    let opening = |trade: &&Event| trade.symbol == "AAPL" && trade.fields["Sale Condition"].contains('O');
    let first = trades.iter().find(opening).unwrap();
    assert!(first.time.starts_with("093000") && first.fields["Trade Volume"].parse::<u64>().unwrap() >= 5_000);
}

#[test]
fn tiny_and_lopsided_days_work() {
    for (symbols, quotes, trades) in [(1, 0, 0), (1, 1, 1), (3, 0, 50), (500, 7, 3), (2, 100, 0)] {
        let folder = tempdir().unwrap();
        let settings = TaqSettings { symbols, quotes, trades, ..settings(folder.path()) };
        let (quote_rows, trade_rows, _) = day(&generate_taq(&settings, &mut |_| {}).unwrap());
        assert_eq!((quote_rows.len() as u64, trade_rows.len() as u64), (quotes, trades));
    }
}

#[test]
fn the_header_is_the_published_one() {
    let folder = tempdir().unwrap();
    let written =
        generate_taq(&TaqSettings { symbols: 1, quotes: 5, trades: 5, ..settings(folder.path()) }, &mut |_| {})
            .unwrap();
    let trade = written.iter().find(|file| name(file).contains("TRADE")).unwrap();
    let (header, _) = table(&text(&trade.path), '|');
    assert_eq!(header.len(), 15);
    assert_eq!(column(&header, "Trade Through Exempt Indicator"), 14);
    assert_eq!(column(&header, "Sale Condition"), 3);
    let nbbo = written.iter().find(|file| name(file).contains("NBBO")).unwrap();
    let (header, _) = table(&text(&nbbo.path), '|');
    assert!(column(&header, "Best_Bid_Price") < column(&header, "Best_Offer_Price"));
}
