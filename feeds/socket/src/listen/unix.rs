//! A Unix socket that its owner alone can connect to, from its first moment on.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Listens at a path. Replaces the socket that a killed run has left there, and refuses one at which a program listens.
///
/// The socket is made in a folder that only the owner may enter, and moved to its path with its rights.
pub(super) fn bind(path: &Path) -> Result<UnixListener, String> {
    let error_at = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    if UnixStream::connect(path).is_ok() {
        return Err(error_at(&"another program listens there"));
    }
    if std::fs::symlink_metadata(path).is_ok_and(|metadata| !is_socket(&metadata)) {
        return Err(error_at(&"it is there, and no socket"));
    }
    let name = path.file_name().ok_or_else(|| error_at(&"it names no file"))?.to_string_lossy();
    let folder = path.with_file_name(format!(".{name}.{}", std::process::id()));
    // A run of the same process id that was killed at this may have left its folder, as in a container.
    std::fs::remove_dir_all(&folder).ok();
    let made = || -> std::io::Result<UnixListener> {
        std::fs::create_dir(&folder)?;
        std::fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        let inside = folder.join("s");
        let listener = UnixListener::bind(&inside)?;
        std::fs::set_permissions(&inside, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        std::fs::rename(&inside, path)?;
        Ok(listener)
    };
    let listener = made().map_err(|error| error_at(&error));
    std::fs::remove_dir_all(&folder).ok();
    listener
}

fn is_socket(metadata: &std::fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_socket(&metadata.file_type())
}
