//! Keys of line protocol over TCP, as QuestDB's clients have them: the client names its key, and signs what the server sends.
//!
//! - The file has a line for each key: `name ec-p-256-sha256 x y`, the coordinates of the public key in base64url, and comments
//!   behind `#`. It is QuestDB's `auth.txt`, which needs no change.
//! - The server sends [`CHALLENGE_BYTES`] random letters and a line feed. The client sends their signature (ECDSA over P-256 with SHA-256, two
//!   numbers of 32 bytes or ASN.1) as base64 and a line feed, and then its lines.
//! - A client that names no key of the file is asked as others are, so that it doesn't learn which there are.

use std::collections::HashMap;
use std::path::Path;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use ring::signature::{ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

use crate::error::{Error, Result};

const ALGORITHM: &str = "ec-p-256-sha256";
const COORDINATE_BYTES: usize = 32;

/// Bytes of a signature that is two numbers, as QuestDB's clients send. In ASN.1 it has 70 or so.
const FIXED_SIGNATURE_BYTES: usize = 64;

/// Bytes of the random letters, as QuestDB sends.
const CHALLENGE_BYTES: usize = 512;

/// Bytes of a line of the client: the name of a key, or a signature.
const LINE_BYTES_MAX: usize = 512;

/// Public keys by their names.
#[derive(Debug)]
pub(crate) struct LineKeys(HashMap<String, Vec<u8>>);

impl LineKeys {
    /// Reads the keys of a file.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Setting`] for a line that is no key.
    pub(crate) fn read(path: &Path) -> Result<LineKeys> {
        let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
        LineKeys::parse(&text).map_err(|(line, reason)| Error::Setting {
            setting: format!("line.keys: {}, line {line}", path.display()),
            reason: reason.to_owned(),
        })
    }

    fn parse(text: &str) -> Result<LineKeys, (usize, &'static str)> {
        let mut keys = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            let wrong = |reason: &'static str| (number + 1, reason);
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            let [name, algorithm, x, y] = words[..] else {
                match words[..] {
                    [] => continue,
                    _ => return Err(wrong("a key is a name, ec-p-256-sha256 and the coordinates x and y")),
                }
            };
            if algorithm != ALGORITHM {
                return Err(wrong("the algorithm of keys is ec-p-256-sha256"));
            }
            let coordinate = |text: &str| {
                let bytes = BASE64_URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
                let bytes = bytes.filter(|bytes| bytes.len() <= COORDINATE_BYTES);
                // Leading zeros may be left out.
                bytes.map(|bytes| [vec![0; COORDINATE_BYTES - bytes.len()], bytes].concat())
            };
            let (Some(x), Some(y)) = (coordinate(x), coordinate(y)) else {
                return Err(wrong("the coordinates of a key are 32 bytes each in base64url"));
            };
            // An uncompressed point.
            if keys.insert(name.to_owned(), [vec![4], x, y].concat()).is_some() {
                return Err(wrong("a key of this name is there already"));
            }
        }
        Ok(LineKeys(keys))
    }

    /// Whether the holder of a key has signed a challenge.
    fn is_signed(&self, name: &str, challenge: &[u8], signature: &[u8]) -> bool {
        let Some(key) = self.0.get(name) else { return false };
        let form = match signature.len() {
            FIXED_SIGNATURE_BYTES => &ECDSA_P256_SHA256_FIXED,
            _ => &ECDSA_P256_SHA256_ASN1,
        };
        UnparsedPublicKey::new(form, key).verify(challenge, signature).is_ok()
    }
}

/// A client that has to prove that it has a key.
pub(crate) struct KeyExchange {
    keys: LineKeys,
    /// The bytes of a line that isn't whole yet.
    line: Vec<u8>,
    /// The name of the key and what was sent, once the client has named one.
    asked: Option<(String, Vec<u8>)>,
}

/// What comes next between a server and a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyStep {
    /// More bytes of the client are needed.
    Read,
    /// These bytes are sent to the client.
    Send(Vec<u8>),
    /// The client has the key of this name. The bytes behind its signature are lines.
    Proved(String, Vec<u8>),
    /// The client has no key, and the connection ends.
    Refused(&'static str),
}

impl KeyExchange {
    pub(crate) fn new(keys: LineKeys) -> KeyExchange {
        KeyExchange { keys, line: Vec::new(), asked: None }
    }

    /// Takes bytes of the client.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> KeyStep {
        self.line.extend_from_slice(bytes);
        let Some(end) = self.line.iter().position(|byte| *byte == b'\n') else {
            return match self.line.len() > LINE_BYTES_MAX {
                true => KeyStep::Refused("it named no key: line.keys asks for one"),
                false => KeyStep::Read,
            };
        };
        let rest = self.line.split_off(end + 1);
        self.line.truncate(end);
        let line = std::mem::replace(&mut self.line, rest);
        if line.len() > LINE_BYTES_MAX {
            return KeyStep::Refused("it named no key: line.keys asks for one");
        }
        match self.asked.take() {
            None => self.ask(&line),
            Some((name, challenge)) => {
                let text = line.trim_ascii_end();
                let signature = BASE64_STANDARD.decode(text).or_else(|_| BASE64_STANDARD_NO_PAD.decode(text));
                match signature {
                    Ok(signature) if self.keys.is_signed(&name, &challenge, &signature) => {
                        KeyStep::Proved(name, std::mem::take(&mut self.line))
                    }
                    _ => KeyStep::Refused("its signature is not that of the key it named, or there is no such key"),
                }
            }
        }
    }

    fn ask(&mut self, name: &[u8]) -> KeyStep {
        // What is sent before the challenge can't be a signature of it.
        if !self.line.is_empty() {
            return KeyStep::Refused("it sent lines before it proved to have a key");
        }
        let mut random = [0; CHALLENGE_BYTES / 4 * 3];
        if getrandom::fill(&mut random).is_err() {
            return KeyStep::Refused("the system gives no random bytes");
        }
        let challenge = BASE64_STANDARD.encode(random).into_bytes();
        let sent = [&challenge[..], b"\n"].concat();
        self.asked = Some((String::from_utf8_lossy(name.trim_ascii_end()).into_owned(), challenge));
        KeyStep::Send(sent)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{
        ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair,
    };

    use super::*;

    fn pair(form: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(form, &random).unwrap();
        EcdsaKeyPair::from_pkcs8(form, document.as_ref(), &random).unwrap()
    }

    fn file(pair: &EcdsaKeyPair) -> String {
        let point = pair.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|bytes| BASE64_URL_SAFE_NO_PAD.encode(bytes));
        format!("# keys\n\nfeed {ALGORITHM} {x} {y} # of the feed\n")
    }

    fn begun(text: &str, name: &str) -> (KeyExchange, Vec<u8>) {
        let mut exchange = KeyExchange::new(LineKeys::parse(text).unwrap());
        let (first, last) = name.split_at(2);
        assert_eq!(exchange.take(first.as_bytes()), KeyStep::Read);
        let KeyStep::Send(sent) = exchange.take(format!("{last}\n").as_bytes()) else { panic!("nothing is asked") };
        assert_eq!((sent.len(), sent.last()), (CHALLENGE_BYTES + 1, Some(&b'\n')));
        (exchange, sent[..CHALLENGE_BYTES].to_vec())
    }

    fn signed(pair: &EcdsaKeyPair, challenge: &[u8]) -> String {
        BASE64_STANDARD.encode(pair.sign(&SystemRandom::new(), challenge).unwrap().as_ref())
    }

    #[test]
    fn the_holder_of_a_key_is_let_in_and_nobody_else() {
        for form in [&ECDSA_P256_SHA256_FIXED_SIGNING, &ECDSA_P256_SHA256_ASN1_SIGNING] {
            let_in_by(&pair(form), &pair(form));
        }
    }

    fn let_in_by(pair: &EcdsaKeyPair, other: &EcdsaKeyPair) {
        let text = file(pair);
        let (mut exchange, challenge) = begun(&text, "feed");
        let step = exchange.take(format!("{}\ntrade price=1 1\n", signed(pair, &challenge)).as_bytes());
        assert_eq!(step, KeyStep::Proved("feed".to_owned(), b"trade price=1 1\n".to_vec()));
        for (name, signer, of) in [("feed", other, None), ("other", pair, None), ("feed", pair, Some(b"x"))] {
            let (mut exchange, challenge) = begun(&text, name);
            let signature = signed(signer, of.map_or(&challenge[..], |of| &of[..]));
            assert!(matches!(exchange.take(format!("{signature}\n").as_bytes()), KeyStep::Refused(_)), "{name}");
        }
        // The signature of another connection's challenge.
        let (_, first) = begun(&text, "feed");
        let (mut exchange, second) = begun(&text, "feed");
        assert!(first != second);
        assert!(matches!(exchange.take(format!("{}\n", signed(pair, &first)).as_bytes()), KeyStep::Refused(_)));
    }

    #[test]
    fn lines_without_a_key_and_endless_names_are_refused() {
        let text = file(&pair(&ECDSA_P256_SHA256_FIXED_SIGNING));
        let of = |bytes: &[u8]| KeyExchange::new(LineKeys::parse(&text).unwrap()).take(bytes);
        assert!(matches!(of(b"trade price=1 1\ntrade price=2 2\n"), KeyStep::Refused(_)));
        assert!(matches!(of(&[b'a'; LINE_BYTES_MAX + 1]), KeyStep::Refused(_)));
        let (mut exchange, _) = begun(&text, "feed");
        assert!(matches!(exchange.take(&[0, 255, b'\n']), KeyStep::Refused(_)));
    }

    #[test]
    fn files_that_are_wrong_are_refused_by_line() {
        let sound = file(&pair(&ECDSA_P256_SHA256_FIXED_SIGNING));
        assert_eq!(LineKeys::parse(&sound).unwrap().0.len(), 1);
        for (text, line) in [
            ("feed".to_owned(), 1),
            (sound.replace(ALGORITHM, "rsa"), 3),
            (sound.replace(" # of", "!"), 3),
            (format!("{sound}{sound}"), 6),
            ("feed ec-p-256-sha256 AA== !".to_owned(), 1),
        ] {
            assert_eq!(LineKeys::parse(&text).map(|_| ()).unwrap_err().0, line, "{text}");
        }
        // A point that isn't on the curve is nobody's key.
        let keys = LineKeys::parse("feed ec-p-256-sha256 AQ AQ").unwrap();
        assert!(!keys.is_signed("feed", b"x", &[48, 6, 2, 1, 1, 2, 1, 1]));
    }
}
