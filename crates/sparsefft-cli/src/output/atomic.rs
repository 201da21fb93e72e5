//! Files that appear whole or not at all: written under a temporary name, then renamed.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A file that is not there until [`commit`](Atomic::commit); dropped before, it leaves nothing.
pub struct Atomic {
    file: BufWriter<NamedTempFile>,
    path: PathBuf,
}

impl Atomic {
    /// Starts a file beside its later place.
    ///
    /// # Errors
    /// The directory does not exist or cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        let dir = directory(path);
        let mut builder = tempfile::Builder::new();
        builder.prefix(".sparsefft-").suffix(".part");
        #[cfg(unix)]
        {
            // The usual permissions of a new file, less the umask.
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        if path.is_dir() {
            anyhow::bail!("{}: this is a directory; give the name of a file", path.display());
        }
        let file = builder.tempfile_in(dir).with_context(|| {
            format!("{}: the directory is missing or cannot be written", path.display())
        })?;
        Ok(Atomic { file: BufWriter::with_capacity(1 << 20, file), path: path.to_owned() })
    }

    /// The file itself, open for reading and writing, with all that was written so far.
    ///
    /// # Errors
    /// The disk is full.
    pub fn file(&mut self) -> std::io::Result<&File> {
        self.file.flush()?;
        Ok(self.file.get_ref().as_file())
    }

    /// A file without a name beside the later place, which vanishes when it is closed.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn scratch(&self) -> Result<File> {
        tempfile::tempfile_in(directory(&self.path))
            .with_context(|| format!("{}: no scratch file beside it", self.path.display()))
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// The disk is full or the name cannot be taken.
    pub fn commit(self) -> Result<()> {
        let cannot = || format!("{}: it cannot be written", self.path.display());
        let file = self.file.into_inner().map_err(|e| e.into_error()).with_context(cannot)?;
        file.persist(&self.path)
            .map_err(|e| e.error)
            .with_context(|| format!("{}: it cannot be written", self.path.display()))?;
        Ok(())
    }
}

impl Write for Atomic {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        self.file.write(buffer)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// The directory of a path.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes a whole file at once, or to stdout for `-`.
///
/// # Errors
/// As [`Atomic::create`] and [`Atomic::commit`].
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if path == Path::new("-") {
        let mut out = std::io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()?;
        return Ok(());
    }
    let mut file = Atomic::create(path)?;
    file.write_all(bytes).with_context(|| format!("{}: it cannot be written", path.display()))?;
    file.commit()
}
