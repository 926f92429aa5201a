//! `md5(text)` and `sha256(text)`: the digest of a text's bytes in hexadecimal digits.
//!
//! They tell texts apart; they keep nothing secret.
//!
//! Source: RFC 1321; the other is in `sha256.rs`.

use std::sync::Arc;

use arrow::array::{AsArray, StringArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use crate::arguments::is_text;
use crate::sha256::sha256;

/// By how much each step of a round rotates.
const ROTATIONS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Md5,
    Sha256,
}

/// The scalar functions `md5` and `sha256`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Digest {
    kind: Kind,
    signature: Signature,
}

impl Digest {
    pub(super) fn all() -> [Digest; 2] {
        [Kind::Md5, Kind::Sha256].map(|kind| Digest { kind, signature: Signature::user_defined(Volatility::Immutable) })
    }

    fn of(&self, text: &str) -> String {
        match self.kind {
            Kind::Md5 => hexadecimal(&digest(text.as_bytes())),
            Kind::Sha256 => hexadecimal(&sha256(text.as_bytes())),
        }
    }
}

impl ScalarUDFImpl for Digest {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Md5 => "md5",
            Kind::Sha256 => "sha256",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types {
            [text] if is_text(text) || text.is_null() => Ok(vec![DataType::Utf8]),
            _ => plan_err!("{} takes one text", self.name()),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Scalar(ScalarValue::Utf8(text))] => {
                Ok(ColumnarValue::Scalar(ScalarValue::Utf8(text.as_deref().map(|text| self.of(text)))))
            }
            [ColumnarValue::Array(texts)] => {
                let texts = texts.as_string::<i32>();
                let digests = texts.iter().map(|text| text.map(|text| self.of(text)));
                Ok(ColumnarValue::Array(Arc::new(digests.collect::<StringArray>())))
            }
            _ => exec_err!("{} takes one text", self.name()),
        }
    }
}

pub(super) fn hexadecimal(digest: &[u8]) -> String {
    use std::fmt::Write as _;
    digest.iter().fold(String::with_capacity(2 * digest.len()), |mut written, byte| {
        let _ = write!(written, "{byte:02x}");
        written
    })
}

fn digest(bytes: &[u8]) -> [u8; 16] {
    // The whole parts of 2^32 times the sines of 1 to 64.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 2^32")]
    let sines: [u32; 64] = std::array::from_fn(|step| ((step as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32);
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let (blocks, rest) = bytes.as_chunks::<64>();
    for block in blocks {
        mix(&mut state, block, &sines);
    }
    // A bit that is set, zeros, and the number of bits.
    let mut last = [0u8; 128];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    let end = if rest.len() < 56 { 64 } else { 128 };
    let bits = (bytes.len() as u64).wrapping_mul(8);
    last[end - 8..end].copy_from_slice(&bits.to_le_bytes());
    let (blocks, _) = last[..end].as_chunks::<64>();
    for block in blocks {
        mix(&mut state, block, &sines);
    }
    let mut digest = [0u8; 16];
    for (place, word) in state.iter().enumerate() {
        digest[place * 4..place * 4 + 4].copy_from_slice(&word.to_le_bytes());
    }
    digest
}

fn mix(state: &mut [u32; 4], block: &[u8; 64], sines: &[u32; 64]) {
    let word = |place: usize| {
        let at = place * 4;
        u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
    };
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64 {
        let (mixed, place) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
            2 => (b ^ c ^ d, (3 * step + 5) % 16),
            _ => (c ^ (b | !d), (7 * step) % 16),
        };
        let sum = mixed.wrapping_add(a).wrapping_add(sines[step]).wrapping_add(word(place));
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(ROTATIONS[step / 16][step % 4]));
    }
    for (word_of_state, mixed) in state.iter_mut().zip([a, b, c, d]) {
        *word_of_state = word_of_state.wrapping_add(mixed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        for (text, expected) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
        ] {
            assert_eq!(hexadecimal(&digest(text.as_bytes())), expected);
        }
        assert_eq!(hexadecimal(&digest(&[b'a'; 1000])), "cabe45dcc9ae5b66ba86600cca6b8ba8");
        // The rest of a block around the place where another one is needed.
        let all: Vec<String> = (54..66).map(|length| hexadecimal(&digest(&vec![b'x'; length]))).collect();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
