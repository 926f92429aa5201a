//! Writes the table of the console's files: those that `npm run build` has put into `console/embedded`, packed by gzip.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console/embedded");
    // The folder is always there, with a README, so that Cargo has something to compare.
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    gather(&folder, &folder, &mut files)?;
    files.sort();
    let mut table = String::from("&[\n");
    for (name, path) in &files {
        let etag = digest(&fs::read(path)?);
        let path = path.canonicalize()?;
        let _ = writeln!(
            table,
            "Asset {{ name: {name:?}, etag: \"\\\"{etag:016x}\\\"\", gzip: include_bytes!({path:?}) }},"
        );
    }
    table.push(']');
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    fs::write(out.join("assets.rs"), table)
}

/// Packed files below a folder, by the names that they are served under.
fn gather(root: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            gather(root, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "gz") {
            let name = path.with_extension("");
            let name = name.strip_prefix(root).unwrap_or(&name).to_string_lossy().replace('\\', "/");
            files.push((name, path));
        }
    }
    Ok(())
}

/// Tells versions of a file from each other. Nothing relies on it being hard to forge.
fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
