//! Reading back what was written.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;

/// The text of a file, unpacked if its name ends in `.gz`.
pub fn text(path: &Path) -> String {
    let mut text = String::new();
    let mut file = File::open(path).unwrap();
    if path.extension().is_some_and(|ending| ending == "gz") {
        GzDecoder::new(file).read_to_string(&mut text).unwrap();
    } else {
        file.read_to_string(&mut text).unwrap();
    }
    text
}

/// The bytes of all files below a folder, by their path in it.
pub fn all_files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            files.extend(all_files(&path).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else {
            files.insert(name, fs::read(&path).unwrap());
        }
    }
    files
}

/// FNV-1a: enough to see that a text is the one it was.
pub fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A separated text as its header and rows.
pub fn table(text: &str, separator: char) -> (Vec<String>, Vec<Vec<String>>) {
    let mut lines = text.lines().map(|line| line.split(separator).map(str::to_owned).collect::<Vec<_>>());
    let header = lines.next().unwrap();
    (header, lines.collect())
}

/// The position of a column.
pub fn column(header: &[String], name: &str) -> usize {
    header.iter().position(|column| column == name).unwrap_or_else(|| panic!("no column {name}"))
}
