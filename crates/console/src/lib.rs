//! The web console's files as bytes of the program (docs/adr/0064-the-console-is-embedded.md).
//!
//! - The files come from `console/`, where `npm run build` packs them by gzip into `console/embedded`. Without that step the table is
//!   empty, everything else compiles, and the server says what is missing.
//! - Names are those of the built files: `index.html`, `assets/index-4f9c.js`.
//!
//! ```
//! if let Some(page) = splay_console::find("index.html") {
//!     assert!(page.content_type().starts_with("text/html") && page.etag.starts_with('"'));
//! }
//! assert!(splay_console::find("../Cargo.toml").is_none());
//! ```

/// A file of the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// Its path within the console.
    pub name: &'static str,
    /// Its entity tag, in quotes, which changes with its bytes.
    pub etag: &'static str,
    /// Its bytes, packed by gzip.
    pub gzip: &'static [u8],
}

/// All files, by name. None if the program was built without the console.
pub const ASSETS: &[Asset] = include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The file of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.binary_search_by(|asset| asset.name.cmp(name)).ok().map(|position| &ASSETS[position])
}

impl Asset {
    /// The file's media type, by the extension of its name.
    #[must_use]
    pub fn content_type(&self) -> &'static str {
        match self.name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("txt") => "text/plain; charset=utf-8",
            _ => "application/octet-stream",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_found_by_its_name_and_is_packed() {
        for asset in ASSETS {
            assert_eq!(find(asset.name), Some(asset));
            assert!(asset.gzip.starts_with(&[0x1f, 0x8b]), "{}", asset.name);
            assert_ne!(asset.content_type(), "application/octet-stream", "{}", asset.name);
        }
        assert_eq!(ASSETS.is_empty(), find("index.html").is_none());
        assert_eq!(find("index"), None);
    }
}
