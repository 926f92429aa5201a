//! Settings of a database, kept in `splay.toml` in its folder.

use serde::{Deserialize, Serialize};

use crate::encryption::EncryptionSettings;
use crate::error::{Error, Result};
use crate::folder_layout::SETTINGS_FILE;
use crate::object::ObjectSettings;

/// Version of the folder's layout.
pub(crate) const LAYOUT_VERSION: u32 = 1;

/// Settings of a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Version of the folder's layout; written by `create`, not for editing.
    pub layout: u32,
    /// Whether mapped data is checked against its checksums when a process first touches it. Costs some 0.1 ns a byte, once.
    /// Default true. What describes the data is checked in any case.
    pub verify_on_read: bool,
    /// Bytes of rows in memory that make a segment. Larger segments make fewer files, smaller ones less memory in a load.
    /// Default 256 MiB, at least 1 MiB.
    pub segment_bytes: u64,
    /// Seconds for which files stay on disk after a commit removed or replaced them, so that the commit can be undone and the table
    /// read as it was. They take their room that long. Default 86,400, a day; 0 keeps none.
    pub history_s: u64,
    /// The object store of the remote tier.
    #[serde(skip_serializing_if = "TierSettings::is_default")]
    pub tier: TierSettings,
    /// The source of the keys that segments of the compressed tiers are encrypted with. Without it they aren't encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption: Option<EncryptionSettings>,
}

/// Settings of tiers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TierSettings {
    /// The store of the tier `object`; without it no rows can be there.
    pub object: Option<ObjectSettings>,
}

impl TierSettings {
    fn is_default(&self) -> bool {
        *self == TierSettings::default()
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            layout: LAYOUT_VERSION,
            verify_on_read: true,
            segment_bytes: 256 << 20,
            history_s: 86_400,
            tier: TierSettings::default(),
            encryption: None,
        }
    }
}

impl Settings {
    pub(crate) fn parse(bytes: &[u8], path: &std::path::Path) -> Result<Settings> {
        let text = String::from_utf8_lossy(bytes);
        let settings: Settings = toml::from_str(&text).map_err(|error| Error::Setting {
            setting: SETTINGS_FILE,
            reason: format!("{}: {error}", path.display()),
        })?;
        if settings.layout > LAYOUT_VERSION {
            return Err(Error::FormatVersion {
                path: path.to_path_buf(),
                found: settings.layout,
                supported: LAYOUT_VERSION,
            });
        }
        settings.validate()?;
        Ok(settings)
    }

    pub(crate) fn validate(&self) -> Result<()> {
        if self.segment_bytes < 1 << 20 {
            let reason = format!("{} is less than 1 MiB", self.segment_bytes);
            return Err(Error::Setting { setting: "segment_bytes", reason });
        }
        self.encryption.as_ref().map_or(Ok(()), EncryptionSettings::validate)?;
        self.tier.object.as_ref().map_or(Ok(()), ObjectSettings::validate)
    }

    pub(crate) fn to_toml(&self) -> String {
        let own = format!(
            "# Settings of this SplayDB database; docs/reference/settings.md says what they do.\n\
             layout = {}\nverify_on_read = {}\nsegment_bytes = {}\nhistory_s = {}\n",
            self.layout, self.verify_on_read, self.segment_bytes, self.history_s
        );
        let object = self.tier.object.as_ref().map_or_else(String::new, ObjectSettings::to_toml);
        own + &object + &self.encryption.as_ref().map_or_else(String::new, EncryptionSettings::to_toml)
    }
}
