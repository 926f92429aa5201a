//! Any bytes under any name: rows or an error, never a panic.

use ::dbn::encode::EncodeRecord;
use ::dbn::encode::dbn::Encoder as DbnEncoder;
use ::dbn::{MboMsg, Mbp10Msg, Metadata, OhlcvMsg, RecordHeader, SType, Schema, TradeMsg, rtype};

use super::*;

/// A change of some bytes: which kind, where, how many, by what.
type Edit = (u8, usize, usize, u8);

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    proptest::collection::vec((0..7u8, any::<usize>(), 1..64usize, any::<u8>()), 1..5)
}

fn edited(bytes: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (kind, place, length, byte) in edits {
        if bytes.is_empty() {
            break;
        }
        let at = place % bytes.len();
        let length = (*length).min(bytes.len() - at);
        match kind {
            0 => bytes[at] ^= 1 << (byte % 8),
            1 => bytes[at] = *byte,
            2 => bytes[at..at + length].fill(if byte % 2 == 0 { 0xff } else { 0 }),
            3 => bytes.truncate(at),
            4 => drop(bytes.splice(at..at, std::iter::repeat_n(*byte, length))),
            5 => drop(bytes.drain(at..at + length)),
            _ => {
                let to = place % (bytes.len() - length + 1);
                bytes.copy_within(at..at + length, to);
            }
        }
    }
    bytes
}

/// A file of three records, of a schema.
fn dbn_file(schema: Schema) -> Vec<u8> {
    let metadata = Metadata::builder()
        .dataset("XNAS.ITCH".to_owned())
        .schema(Some(schema))
        .start(1_704_205_800_000_000_000)
        .stype_in(Some(SType::RawSymbol))
        .stype_out(SType::InstrumentId)
        .symbols(vec!["IBM".to_owned()])
        .build();
    let mut encoder = DbnEncoder::new(Vec::new(), &metadata).unwrap();
    for time in 1_704_205_800_000_000_000..1_704_205_800_000_000_003 {
        macro_rules! put {
            ($message:ty, $record_type:expr) => {{
                let hd = RecordHeader::new::<$message>($record_type, 1, 7, time);
                encoder.encode_record(&<$message>::default_of(hd)).unwrap();
            }};
        }
        match schema {
            Schema::Mbo => put!(MboMsg, rtype::MBO),
            Schema::Mbp10 => put!(Mbp10Msg, rtype::MBP_10),
            Schema::Ohlcv1S => put!(OhlcvMsg, rtype::OHLCV_1S),
            _ => put!(TradeMsg, rtype::MBP_0),
        }
    }
    encoder.get_ref().clone()
}

/// A record with nothing but a header.
trait DefaultOf {
    fn default_of(hd: RecordHeader) -> Self;
}

macro_rules! default_of {
    ($($message:ty => $default:expr),*) => {$(
        impl DefaultOf for $message {
            fn default_of(hd: RecordHeader) -> Self {
                Self { hd, ..$default }
            }
        }
    )*};
}

default_of!(
    MboMsg => MboMsg::default(),
    TradeMsg => TradeMsg::default(),
    Mbp10Msg => Mbp10Msg::default(),
    OhlcvMsg => OhlcvMsg::default_for_schema(Schema::Ohlcv1S)
);

/// A sound file of each format.
fn sound() -> Vec<(&'static str, Vec<u8>)> {
    let text = "time,sym,price,size,note\n2024-01-02T14:30:00.123Z,IBM,161.25,100,\"a, \"\"b\"\"\"\n\
                2024-01-02T14:30:01Z,AIG,49.1,,\n2024-01-02T14:30:01Z,,-1e-7,7,\u{e9}\n";
    let rows = load_text(text).unwrap().rows;
    let mut files = vec![
        ("t.csv", text.as_bytes().to_vec()),
        ("t.psv", text.replace(',', "|").into_bytes()),
        ("t.csv.gz", gzip(text.as_bytes())),
        ("t.csv.zst", zstd::encode_all(text.as_bytes(), 3).unwrap()),
        ("t.zip", zip(&[("a.csv", text.as_bytes()), ("b.csv", text.as_bytes())])),
        ("t.parquet", parquet(&rows)),
        ("t.arrow", ipc_file(&rows)),
        ("t.arrows", ipc_stream(&rows)),
    ];
    for schema in [Schema::Trades, Schema::Mbo, Schema::Mbp10, Schema::Ohlcv1S] {
        files.push(("t.dbn", dbn_file(schema)));
    }
    files.push(("01302019.itch", super::itch::sound_itch()));
    files
}

#[test]
fn sound_files_of_each_format_are_read() {
    for (name, bytes) in sound() {
        let loaded = load_bytes(name, &bytes, ImportSettings::default());
        let rows = loaded.unwrap_or_else(|error| panic!("{name}: {error}")).rows.num_rows();
        assert!(rows == 3 || (name == "t.zip" && rows == 6), "{name}: {rows} rows");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn changed_files_are_read_or_refused(edits in edits()) {
        for (name, bytes) in sound() {
            drop(load_bytes(name, &edited(&bytes, &edits), ImportSettings::default()));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300), magic in 0..10usize) {
        let magics: [&[u8]; 10] = [
            b"", b"DBN\x03", b"DBN\x01\x10\0\0\0", b"PAR1", b"ARROW1\0\0", b"\xff\xff\xff\xff", b"\x1f\x8b\x08\0",
            b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"\0\x0cS\0\0\0\0\0\0\0\0\0\x01O",
        ];
        let bytes = [magics[magic], &bytes].concat();
        for name in ["t.csv", "t.dbn", "t.parquet", "t.arrow", "t.csv.gz", "t.csv.zst", "t.zip", "t", "01302019.itch"] {
            drop(load_bytes(name, &bytes, ImportSettings::default()));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9a-c.,;|\t\"' :TZ/\r\n\u{0}\u{e9}-]{0,120}", separator in 0..4usize) {
        let heading = ["time,sym,price\n", "", "time|sym|price\n", "ts;a;a\n"][separator];
        drop(load_text(&format!("{heading}{text}")));
    }
}
