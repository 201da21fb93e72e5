//! Output files: regular ones appear whole or not at all, everything else is written through.
//!
//! | the name given | what happens |
//! |---|---|
//! | no file, a regular file | written under a hidden name beside it, then renamed over it; an existing file keeps its permissions and, where the system allows, its owner |
//! | a symbolic link | the same for the file that the link points to; the link stays |
//! | a pipe, a terminal, a device | written as the bytes come, as a redirection would |
//! | `-`, `/dev/stdout` | standard output |
//! | a directory | refused |

use super::partial::Partial;
use anyhow::{Context, Result, bail, ensure};
use std::fs::{File, Metadata};
use std::io::{BufWriter, ErrorKind, Seek, Write};
use std::path::{Path, PathBuf};

/// An output that is not there until [`commit`](Atomic::commit), if it is a regular file; dropped
/// before, it leaves nothing.
pub struct Atomic {
    sink: BufWriter<Sink>,
    /// The name as it was given, for messages.
    path: PathBuf,
}

/// Where the bytes go.
enum Sink {
    /// A hidden file beside this path.
    Beside(Partial, PathBuf),
    /// A pipe or a device.
    Through(File),
    Stdout(std::io::Stdout),
    /// An unnamed file that is copied to the sink at the end.
    Spooled(File, Box<Sink>),
}

impl Sink {
    /// Whether nothing is seen of it before it is complete.
    fn is_whole(&self) -> bool {
        matches!(self, Sink::Beside(..) | Sink::Spooled(..))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Sink::Beside(partial, _) => partial.file()?.write(bytes),
            Sink::Through(file) | Sink::Spooled(file, _) => file.write(bytes),
            Sink::Stdout(out) => out.write(bytes),
        }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Sink::Beside(partial, _) => partial.file()?.flush(),
            Sink::Through(file) | Sink::Spooled(file, _) => file.flush(),
            Sink::Stdout(out) => out.flush(),
        }
    }
}

/// What a name stands for, links followed.
enum Place {
    /// A regular file, there or not.
    Regular(PathBuf, Option<Metadata>),
    /// A pipe or a device behind this path.
    Other(PathBuf),
    /// An open file of this process or another, as `/dev/fd/3` names it.
    Descriptor(PathBuf),
}

impl Atomic {
    /// Starts an output. A pipe waits here for its reader.
    ///
    /// # Errors
    /// A directory, a place that may not be written, or links that lead nowhere.
    pub fn create(path: &Path) -> Result<Self> {
        let sink = if path == Path::new("-") {
            Sink::Stdout(std::io::stdout())
        } else {
            sink(path).with_context(|| path.display().to_string())?
        };
        Ok(Atomic { sink: BufWriter::with_capacity(1 << 20, sink), path: path.to_owned() })
    }

    /// [`create`](Atomic::create) of an output that must not replace what it is made from.
    ///
    /// # Errors
    /// As [`create`](Atomic::create); the output is one of the inputs.
    pub fn create_beside(path: &Path, inputs: &[PathBuf]) -> Result<Self> {
        refuse_inputs(path, inputs)?;
        Self::create(path)
    }

    /// Starts an output whose [`file`](Atomic::file) can be read and written at any place: what
    /// is written through goes to an unnamed file first.
    ///
    /// # Errors
    /// As [`create_beside`](Atomic::create_beside); no temporary file can be made.
    pub fn create_seekable(path: &Path, inputs: &[PathBuf]) -> Result<Self> {
        let Atomic { sink, path } = Self::create_beside(path, inputs)?;
        let sink = match sink.into_inner().map_err(|e| e.into_error())? {
            sink @ Sink::Beside(..) => sink,
            sink => {
                let spool = tempfile::tempfile();
                let spool = spool.context("no temporary file can be made; set TMPDIR")?;
                Sink::Spooled(spool, Box::new(sink))
            }
        };
        Ok(Atomic { sink: BufWriter::with_capacity(1 << 20, sink), path })
    }

    /// The file itself, open for reading and writing, with all that was written so far.
    ///
    /// # Errors
    /// The disk is full, or the output was not started by
    /// [`create_seekable`](Atomic::create_seekable) and is a pipe or a device.
    pub fn file(&mut self) -> std::io::Result<&File> {
        self.sink.flush()?;
        match self.sink.get_ref() {
            Sink::Beside(partial, _) => partial.file(),
            Sink::Spooled(spool, _) => Ok(spool),
            Sink::Through(_) | Sink::Stdout(_) => Err(ErrorKind::NotSeekable.into()),
        }
    }

    /// Asks whether so many bytes can be written: a disk that fills up harms everyone on it.
    ///
    /// # Errors
    /// The disk has less space left.
    pub fn expect(&self, bytes: u64) -> Result<()> {
        #[cfg(unix)]
        if let Sink::Beside(partial, _) = self.sink.get_ref()
            && let Ok(disk) = rustix::fs::fstatvfs(partial.file()?)
        {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            ensure!(
                bytes <= free,
                "{}: {} are to be written, but the disk has {} left; choose another place or \
                 write less",
                self.path.display(),
                crate::units::bytes(bytes),
                crate::units::bytes(free)
            );
        }
        #[cfg(not(unix))]
        let _ = bytes;
        Ok(())
    }

    /// A file without a name beside the later place, which vanishes when it is closed.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn scratch(&self) -> Result<File> {
        match self.sink.get_ref() {
            Sink::Beside(_, path) => tempfile::tempfile_in(directory(path)),
            _ => tempfile::tempfile(),
        }
        .with_context(|| format!("{}: no scratch file can be made", self.path.display()))
    }

    /// Writes all of these bytes.
    ///
    /// # Errors
    /// The disk is full, or the reader of a pipe went away.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.sink.write_all(bytes);
        explain(written, &self.path, self.sink.get_ref().is_whole())
    }

    /// Writes all of these bytes and [`commit`](Atomic::commit)s.
    ///
    /// # Errors
    /// As [`put`](Atomic::put) and [`commit`](Atomic::commit).
    pub fn finish(mut self, bytes: &[u8]) -> Result<()> {
        self.put(bytes)?;
        self.commit()
    }

    /// Gives the file its name, or ends what was written through.
    ///
    /// # Errors
    /// The disk is full or the name cannot be taken.
    pub fn commit(mut self) -> Result<()> {
        let flushed = self.sink.flush();
        explain(flushed, &self.path, self.sink.get_ref().is_whole())?;
        let Atomic { sink, path } = self;
        let done = match sink.into_inner().map_err(|e| e.into_error())? {
            Sink::Beside(partial, target) => partial.persist(&target),
            Sink::Spooled(mut spool, mut target) => spool
                .rewind()
                .and_then(|()| std::io::copy(&mut spool, &mut target))
                .and_then(|_| target.flush()),
            Sink::Through(_) | Sink::Stdout(_) => Ok(()),
        };
        explain(done, &path, false)
    }
}

/// Says what a failed write means for this output, of which nothing is left if it would have
/// appeared as a whole.
fn explain(written: std::io::Result<()>, path: &Path, whole: bool) -> Result<()> {
    let left = if whole { "nothing was written" } else { "the output is not complete" };
    written.map_err(|e| {
        let why = match e.kind() {
            ErrorKind::StorageFull => format!("the disk is full; {left}"),
            ErrorKind::FileTooLarge | ErrorKind::QuotaExceeded => {
                format!("it becomes larger than the system allows; {left}")
            }
            _ => "it cannot be written".into(),
        };
        anyhow::Error::new(e).context(format!("{}: {why}", path.display()))
    })
}

/// Refuses an output that is a recording among the inputs, or a file that belongs to one.
fn refuse_inputs(output: &Path, inputs: &[PathBuf]) -> Result<()> {
    let Ok(output_file) = output.canonicalize() else { return Ok(()) };
    for input in inputs {
        let (meta, data) = crate::input::sigmf::pair(input);
        let pair = input.extension().is_some_and(|e| e == "sigmf-meta" || e == "sigmf-data");
        let all = if pair { vec![&meta, &data] } else { vec![input] };
        ensure!(
            !all.iter().any(|path| path.canonicalize().is_ok_and(|file| file == output_file)),
            "{}: this is the input itself; give the output another name",
            output.display()
        );
    }
    Ok(())
}

/// Opens what this name stands for.
fn sink(path: &Path) -> Result<Sink> {
    match place(path)? {
        Place::Regular(target, old) => {
            let partial = beside(&target, old.as_ref())?;
            Ok(Sink::Beside(partial, target))
        }
        Place::Descriptor(link) if link.file_name().is_some_and(|f| f == "1") && is_own(&link) => {
            Ok(Sink::Stdout(std::io::stdout()))
        }
        Place::Descriptor(link) => {
            ensure!(!link.is_dir(), "this is a directory; give the name of a file");
            let truncate = link.is_file();
            let file = File::options().write(true).truncate(truncate).open(&link);
            Ok(Sink::Through(file.context("it cannot be opened for writing")?))
        }
        Place::Other(target) => {
            let file = File::options().write(true).open(&target);
            Ok(Sink::Through(file.context("it cannot be opened for writing")?))
        }
    }
}

/// A hidden file beside this one, with its permissions.
fn beside(target: &Path, old: Option<&Metadata>) -> Result<Partial> {
    if old.is_some() {
        // A rename asks nobody whether the file may be written.
        match File::options().write(true).open(target) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                bail!("it may not be written; change its permissions or give another name")
            }
            Err(e) => return Err(e).context("it cannot be written"),
        }
    }
    // The usual permissions of a new file; nobody else reads along until the old ones are set.
    let mode = if old.is_some() { 0o600 } else { 0o666 };
    let partial = Partial::create(directory(target), mode)
        .context("the directory is missing or cannot be written")?;
    #[cfg(unix)]
    if let Some(old) = old {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
        // Only the superuser may give files away; others have theirs already.
        let _ = fchown(partial.file()?, Some(old.uid()), Some(old.gid()));
        let permissions = std::fs::Permissions::from_mode(old.mode() & 0o777);
        partial.file()?.set_permissions(permissions).context("its permissions cannot be kept")?;
    }
    Ok(partial)
}

/// Follows links to what is there.
fn place(path: &Path) -> Result<Place> {
    /// Links that Linux follows before it gives up.
    const MOST: usize = 40;
    const DIRECTORY: &str = "this is a directory; give the name of a file";
    ensure!(!path.as_os_str().as_encoded_bytes().ends_with(b"/"), DIRECTORY);
    let mut at = path.to_owned();
    for _ in 0..MOST {
        if directory(&at) == Path::new(DESCRIPTORS) {
            return Ok(Place::Descriptor(at));
        }
        let found = match std::fs::symlink_metadata(&at) {
            Ok(found) => found,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Place::Regular(at, None)),
            Err(e) => return Err(e).context("it cannot be written"),
        };
        if found.is_dir() {
            bail!(DIRECTORY);
        } else if found.is_file() {
            return Ok(Place::Regular(at, Some(found)));
        } else if !found.is_symlink() {
            return Ok(Place::Other(at));
        }
        if is_descriptor(&at) {
            return Ok(Place::Descriptor(at));
        }
        let target = std::fs::read_link(&at).context("the link cannot be read")?;
        at = directory(&at).join(target);
    }
    bail!("its symbolic links lead in a circle; give the name of a file")
}

/// Whether this is an entry of `/proc/…/fd`: a link whose text is no path.
fn is_descriptor(link: &Path) -> bool {
    let dir = directory(link).canonicalize().unwrap_or_default();
    dir.starts_with("/proc") && dir.ends_with("fd")
}

/// Where a process finds its own open files, links on Linux and devices elsewhere.
const DESCRIPTORS: &str = "/dev/fd";

/// Whether an entry of `/proc/…/fd` or `/dev/fd` belongs to this process.
fn is_own(link: &Path) -> bool {
    let own = Path::new("/proc/self/fd").canonicalize();
    let is = |own: PathBuf| directory(link).canonicalize().is_ok_and(|dir| dir == own);
    directory(link) == Path::new(DESCRIPTORS) || own.is_ok_and(is)
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
    Atomic::create(path)?.finish(bytes)
}
