//! Lists of keys as people write them. Messages name lines, never what they hold.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::settings::EncryptionSettings;

/// Bytes of a key of AES, of 128 or 256 bits.
pub(super) const KEY_BYTES: [usize; 2] = [16, 32];

/// Most bytes of an id.
const ID_BYTES_MAX: usize = 64;

/// Ids with their keys, that for new files first.
pub(super) type KeyList = Vec<(String, Vec<u8>)>;

/// The keys where the settings say, or why there are none.
pub(super) fn read(settings: &EncryptionSettings) -> Result<KeyList, String> {
    match (&settings.key_file, &settings.key_env) {
        (Some(path), _) => {
            let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            warn_of_readers(path);
            parse(&text).map_err(|reason| format!("{}: {reason}", path.display()))
        }
        (None, Some(name)) => {
            let text = std::env::var(name).map_err(|_| format!("the variable {name} isn't set, or isn't text"))?;
            parse(&text).map_err(|reason| format!("variable {name}: {reason}"))
        }
        (None, None) => Err("no place of keys is named".to_owned()),
    }
}

pub(super) fn parse(text: &str) -> Result<KeyList, String> {
    let mut keys = KeyList::new();
    for (number, line) in text.split(['\n', ',']).enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |what: &str| format!("key {} in the list {what}", number + 1);
        let (id, key) = line.split_once(char::is_whitespace).ok_or_else(|| wrong("isn't an id, a space and a key"))?;
        let is_plain = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_' | '.');
        if id.len() > ID_BYTES_MAX || !id.chars().all(is_plain) {
            return Err(wrong("has an id of other signs than letters, digits, '-', '_' and '.', or more than 64"));
        }
        let key =
            decode_base64(key.trim()).ok_or_else(|| wrong("isn't 16 or 32 bytes in hexadecimal digits or base64"))?;
        if keys.iter().any(|(other, _)| other == id) {
            return Err(wrong("has the id of one before it"));
        }
        keys.push((id.to_owned(), key));
    }
    if keys.is_empty() { Err("it lists no key".to_owned()) } else { Ok(keys) }
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let is_key = |key: &Vec<u8>| KEY_BYTES.contains(&key.len());
    from_hex(text).filter(is_key).or_else(|| STANDARD.decode(text).ok().filter(is_key))
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks_exact(2).filter_map(|pair| u8::try_from(pair[0] << 4 | pair[1]).ok()).collect())
}

#[cfg(unix)]
fn warn_of_readers(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o077 != 0 {
        tracing::warn!(path = %path.display(), "the key file can be read by others than its owner");
    }
}

#[cfg(not(unix))]
fn warn_of_readers(_: &Path) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_hexadecimal_digits_or_base64() {
        let list = parse(
            "# newest first\nb 000102030405060708090a0b0c0d0e0f\n\na AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        );
        let list = list.unwrap();
        assert_eq!(list[0], ("b".to_owned(), (0..16).collect()));
        assert_eq!(list[1], ("a".to_owned(), vec![0; 32]));
        assert_eq!(parse("a 000102030405060708090a0b0c0d0e0f,b 100102030405060708090a0b0c0d0e0f").unwrap().len(), 2);
    }

    #[test]
    fn a_refusal_never_shows_a_key() {
        let secret = "5ec2e7000102030405060708090a0b0c0d";
        for text in
            [secret.to_owned(), format!("a {secret}"), format!("a b {secret}"), format!("é {secret}"), String::new()]
        {
            let reason = parse(&text).unwrap_err();
            assert!(!reason.contains("5ec2e7"), "{reason}");
        }
        let twice = format!("a {0}\na {0}", "00".repeat(16));
        assert!(parse(&twice).unwrap_err().contains("key 2 in the list has the id of one before it"));
    }
}
