//! Small files that hold secrets.

use std::io::{self, Write as _};
use std::path::Path;

/// Options for a file that only its owner can read, once it is created by them.
pub fn private() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options
}

/// Writes a file that only its owner can read.
pub fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = private().write(true).truncate(true).open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // The mode above counts for new files only.
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    file.write_all(bytes)
}
