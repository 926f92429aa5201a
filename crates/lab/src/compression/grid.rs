//! The lists of schemes that are measured.

use std::str::FromStr;

use super::blocks::{BLOCK_BITS, BlockScheme};
use super::codec::Codec;
use super::ipc::{BufferCodec, IpcScheme};
use super::light_encodings::LightEncoding;
use super::parquet_file::{PageCodec, PageEncoding, ParquetScheme};
use super::pco::Floats;
use super::scheme::Scheme;
use super::{dictionary, fsst, light_encodings, pco};

/// Rows of a page, a batch or a block that are tried.
const ROWS: [u32; 3] = [1_024, 8_192, 65_536];

/// Which schemes are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemeSet {
    /// Both of the others.
    All,
    /// [`q_grid`].
    Q,
    /// [`today`].
    Today,
}

impl FromStr for SchemeSet {
    type Err = String;

    fn from_str(text: &str) -> Result<SchemeSet, String> {
        match text {
            "all" => Ok(SchemeSet::All),
            "q" => Ok(SchemeSet::Q),
            "today" => Ok(SchemeSet::Today),
            _ => Err(format!("unknown set of schemes {text:?}; there are all, q, today")),
        }
    }
}

/// The schemes of a set that have one of these codecs, if any is named, and a name that contains a text.
#[must_use]
pub fn schemes(set: SchemeSet, codecs: &[String], text: Option<&str>) -> Schemes {
    let mut schemes = match set {
        SchemeSet::All => q_grid().into_iter().chain(today()).collect(),
        SchemeSet::Q => q_grid(),
        SchemeSet::Today => today(),
    };
    schemes.retain(|scheme| {
        let id = scheme.id();
        let is_codec = codecs.is_empty() || codecs.iter().any(|codec| codec == id.codec);
        is_codec && text.is_none_or(|text| id.name.contains(text))
    });
    schemes
}

/// Schemes to measure.
pub type Schemes = Vec<Box<dyn Scheme>>;

/// All codecs of blocks of bytes with their levels, but none.
fn codecs() -> impl Iterator<Item = Codec> {
    let gzip = (0..=9).map(Codec::Gzip);
    let lz4hc = (0..=16).map(Codec::Lz4hc);
    let zstd = (-7..=22).map(Codec::Zstd);
    [Codec::Lz].into_iter().chain(gzip).chain([Codec::Snappy]).chain(lz4hc).chain(zstd)
}

/// The grid of q's parameters: uncompressed, and logical blocks of 2^12 to 2^20 bytes by 59 algorithms and levels, 532 in all.
#[must_use]
pub fn q_grid() -> Schemes {
    let mut schemes: Schemes = vec![Box::new(BlockScheme::new(Codec::None, 0))];
    for codec in codecs() {
        schemes.extend(BLOCK_BITS.map(|bits| Box::new(BlockScheme::new(codec, bits)) as Box<dyn Scheme>));
    }
    schemes
}

/// What columnar stores use today: light encodings, pco, FSST, Parquet by encoding, codec and page, and Arrow IPC.
#[must_use]
pub fn today() -> Schemes {
    let mut schemes: Schemes = Vec::new();
    for codec in [Codec::None, Codec::Lz4hc(1), Codec::Zstd(3)] {
        schemes
            .extend(LightEncoding::ALL.map(|light| Box::new(light_encodings::scheme(light, codec)) as Box<dyn Scheme>));
        schemes.push(Box::new(dictionary::scheme(codec)));
    }
    for block_rows in ROWS {
        for level in [1, 4, 8, 12] {
            schemes.push(Box::new(pco::scheme(level, block_rows, Floats::Asis)));
            schemes.push(Box::new(pco::scheme(level, block_rows, Floats::Decimal)));
        }
    }
    schemes.push(Box::new(fsst::scheme()));
    schemes.extend(parquet());
    for batch_rows in ROWS {
        for codec in [BufferCodec::None, BufferCodec::Lz4, BufferCodec::Zstd] {
            schemes.push(Box::new(IpcScheme::new(codec, batch_rows)));
        }
    }
    schemes
}

fn parquet() -> Schemes {
    use PageCodec::{Brotli, Gzip, Lz4, None, Snappy, Zstd};
    let codecs = [None, Snappy, Lz4, Gzip(6), Brotli(5), Brotli(9), Zstd(1), Zstd(3), Zstd(9)];
    let mut schemes: Schemes = Vec::new();
    for encoding in PageEncoding::ALL {
        for codec in codecs {
            schemes.extend(ROWS.map(|rows| Box::new(ParquetScheme::new(encoding, codec, rows)) as Box<dyn Scheme>));
        }
    }
    schemes
}
