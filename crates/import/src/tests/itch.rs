//! ITCH 5.0 files of every message about orders and trades, with and without lengths, and damaged ones.

use super::*;

/// 2019-01-30, 04:00:00 in New York.
const FOUR_NS: u64 = 4 * 3_600_000_000_000;
const FOUR_UTC: i64 = 1_548_838_800_000_000_000;

/// A message: type, stock locate, nanoseconds after 04:00 and what follows.
fn message(kind: u8, locate: u16, nanoseconds: u64, body: &[&[u8]]) -> Vec<u8> {
    let time = &(FOUR_NS + nanoseconds).to_be_bytes()[2..];
    [&[kind][..], &locate.to_be_bytes(), &[0, 9], time, &body.concat()].concat()
}

fn messages() -> Vec<Vec<u8>> {
    let order = |number: u64| number.to_be_bytes();
    let units = |number: u32| number.to_be_bytes();
    let mut directory = message(b'R', 7, 1, &[b"IBM     "]);
    directory.resize(39, b' ');
    vec![
        message(b'S', 0, 0, &[b"O"]),
        directory,
        message(b'A', 7, 2, &[&order(11), b"B", &units(300), b"IBM     ", &units(1_612_500)]),
        message(b'F', 8, 3, &[&order(12), b"S", &units(5), b"A       ", &units(1), b"GSCO"]),
        message(b'E', 7, 4, &[&order(11), &units(100), &order(900)]),
        message(b'C', 7, 4, &[&order(11), &units(50), &order(901), b"N", &units(1_612_400)]),
        message(b'X', 7, 5, &[&order(11), &units(20)]),
        message(b'U', 7, 6, &[&order(11), &order(13), &units(80), &units(1_613_000)]),
        message(b'D', 7, 7, &[&order(13)]),
        message(b'P', 7, 8, &[&order(0), b"B", &units(10), b"IBM     ", &units(1_612_600), &order(902)]),
        message(b'Q', 7, 9, &[&order(1 << 40), b"IBM     ", &units(1_612_700), &order(903), b"O"]),
        message(b'B', 9, 10, &[&order(902)]),
        message(b'S', 0, 11, &[b"C"]),
    ]
}

/// A file of messages, each behind its length, or behind a length of zero.
pub(super) fn framed(messages: &[Vec<u8>], has_lengths: bool) -> Vec<u8> {
    let length = |message: &Vec<u8>| if has_lengths { u16::try_from(message.len()).unwrap() } else { 0 };
    messages.iter().flat_map(|message| [&length(message).to_be_bytes()[..], message].concat()).collect()
}

/// Three rows.
pub(super) fn sound_itch() -> Vec<u8> {
    framed(&messages()[..5], true)
}

fn numbers(rows: &RecordBatch, name: &str) -> Vec<Option<i64>> {
    rows.column_by_name(name).unwrap().as_primitive::<Int64Type>().iter().collect()
}

#[test]
fn each_message_about_orders_and_trades_is_a_row() {
    let end: &[u8] = &[0, 0];
    for (name, bytes) in [
        ("01302019.NASDAQ_ITCH50", framed(&messages(), true)),
        ("S013019-v50.txt", [&framed(&messages(), true), end].concat()),
        ("20190130.bin.gz", gzip(&framed(&messages(), false))),
    ] {
        let Loaded { spec, rows, .. } = load_bytes(name, &bytes, ImportSettings::default()).unwrap();
        assert_eq!((spec.time.as_str(), spec.symbol.as_deref()), ("time", Some("symbol")), "{name}");
        assert_eq!(spec.time_zone, "America/New_York");
        let after = |nanoseconds: i64| Some(FOUR_UTC + nanoseconds);
        assert_eq!(times(&rows, "time"), [2, 3, 4, 4, 5, 6, 7, 8, 9, 10].map(after), "{name}");
        let letters = "AFECXUDPQB".chars().map(|letter| Some(letter.to_string()));
        assert_eq!(texts(&rows, "message"), letters.collect::<Vec<_>>());
        let ibm = Some("IBM".to_owned());
        let mut symbols = vec![ibm; 10];
        (symbols[1], symbols[9]) = (Some("A".to_owned()), None);
        assert_eq!(texts(&rows, "symbol"), symbols);
        let (eleven, thirteen) = (Some(11), Some(13));
        let orders = [eleven, Some(12), eleven, eleven, eleven, eleven, thirteen, Some(0), None, None];
        assert_eq!(numbers(&rows, "order_id"), orders);
        assert_eq!(numbers(&rows, "new_order_id").iter().flatten().collect::<Vec<_>>(), [&13]);
        let shares = [300, 5, 100, 50, 20, 80].map(Some);
        assert_eq!(numbers(&rows, "shares"), [&shares[..], &[None, Some(10), Some(1 << 40), None]].concat());
        let prices =
            [Some(161.25), Some(0.0001), None, Some(161.24), None, Some(161.3), None, Some(161.26), Some(161.27)];
        assert_eq!(floats(&rows, "price"), [&prices[..], &[None]].concat());
        assert_eq!(numbers(&rows, "match_id")[2..4], [Some(900), Some(901)]);
        assert_eq!(numbers(&rows, "match_id")[7..], [Some(902), Some(903), Some(902)]);
        let only = |name: &str| texts(&rows, name).into_iter().flatten().collect::<Vec<_>>();
        assert_eq!(
            [only("side"), only("mpid"), only("printable"), only("cross_type")].concat(),
            ["B", "S", "B", "GSCO", "N", "O"]
        );
    }
}

#[test]
fn itch_files_that_are_damaged_or_have_no_date_are_refused() {
    let of = |bytes: &[u8]| error_of("01302019.itch", bytes, ImportSettings::default());
    let whole = framed(&messages(), true);
    let cut = of(&whole[..whole.len() - 1]);
    assert!(
        cut.ends_with(&format!("ends inside a message, at byte {} of its decompressed bytes", whole.len() - 14)),
        "{cut}"
    );
    let one = |body: Vec<u8>| of(&framed(&[messages()[0].clone(), body], true));
    assert!(one(b"Z".to_vec()).contains("unknown type 'Z'"));
    assert!(one(vec![b'D'; 20]).contains("a message 'D' of 20 bytes, not 19"));
    let late = message(b'D', 1, 6 * FOUR_NS, &[&[0; 8]]);
    assert!(one(late).contains("ns after midnight"));
    let huge = message(b'D', 1, 1, &[&[255; 8]]);
    assert!(one(huge).contains("has the number 18446744073709551615"));
    let unnamed = error_of("today.itch", &whole, ImportSettings::default());
    assert!(unnamed.contains("has no date in its name"), "{unnamed}");
    let zone = ImportSettings { zone: Some("UTC".to_owned()), ..ImportSettings::default() };
    assert!(error_of("01302019.itch", &whole, zone).contains("its values have types"));
    // A file of the market's messages alone has no rows.
    let none = load_bytes("01302019.itch", &framed(&messages()[..2], true), ImportSettings::default());
    assert_eq!(none.unwrap().rows.num_rows(), 0);
}
