//! Files that are not finished yet: removed when the command ends early, by an error or a signal.
//!
//! A destructor does not run when a signal ends the process, so the names of all unfinished files
//! are also kept in one list. A thread waits for SIGINT, SIGTERM and SIGHUP, removes the files of
//! the list, and ends the process by the same signal, so that the shell sees the usual status.
//! Files are created and renamed under the list's lock: no moment exists in which a file is there
//! and not listed. Signals that were ignored when the command started (`nohup`) stay ignored.
//!
//! SIGBUS, which a memory-mapped input raises when another program shortens it, ends the command the
//! same way, but with a sentence and the status of an input error. The thread that met it wakes the
//! waiting one with SIGUSR2 and stops.
//!
//! Not covered: SIGKILL and a power failure. The hidden file then stays.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use tempfile::{Builder, NamedTempFile};

/// The unfinished files of this process.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(|e| e.into_inner())
}

/// A hidden file with a random name, which is removed unless it gets its real name.
pub(super) struct Partial {
    /// `None` once the file has its name.
    file: Option<NamedTempFile>,
}

impl Partial {
    /// Creates a file in this directory with these permissions, less the umask.
    pub(super) fn create(dir: &Path, mode: u32) -> std::io::Result<Self> {
        watch();
        let mut builder = Builder::new();
        builder.prefix(".sparsefft-").suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(mode));
        }
        #[cfg(not(unix))]
        let _ = mode;
        let mut list = unfinished();
        let file = builder.tempfile_in(dir)?;
        list.push(file.path().to_owned());
        Ok(Partial { file: Some(file) })
    }

    /// The open file.
    pub(super) fn file(&self) -> std::io::Result<&File> {
        let gone = || std::io::Error::other("the file has its name already");
        self.file.as_ref().map(NamedTempFile::as_file).ok_or_else(gone)
    }

    /// Gives the file this name; a file of that name is replaced.
    pub(super) fn persist(mut self, path: &Path) -> std::io::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let mut list = unfinished();
        list.retain(|p| p != file.path());
        file.persist(path).map(|_| ()).map_err(|e| e.error)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            let mut list = unfinished();
            list.retain(|p| p != file.path());
            drop(file);
        }
    }
}

/// Begins to wait for signals, once; needed before files are created or mapped.
pub(crate) fn watch() {
    #[cfg(unix)]
    unix::watch();
}

#[cfg(unix)]
mod unix {
    use super::unfinished;
    use signal_hook::consts::{SIGBUS, SIGHUP, SIGINT, SIGTERM, SIGUSR2, SIGXFSZ};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;
    use std::sync::Once;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Starts the thread that waits for signals, once.
    pub(super) fn watch() {
        static STARTED: Once = Once::new();
        STARTED.call_once(|| {
            let wanted: Vec<_> = [SIGINT, SIGTERM, SIGHUP, SIGUSR2]
                .into_iter()
                .filter(|&s| !is_ignored(s))
                .collect();
            let wakes = wanted.contains(&SIGUSR2);
            // Caught, so that a write beyond the limit of `ulimit -f` fails instead of killing.
            let _ = signal_hook::flag::register(SIGXFSZ, Default::default());
            let Ok(mut signals) = Signals::new(wanted) else { return };
            let waiting = move || {
                if let Some(signal) = signals.forever().next() {
                    let list = unfinished();
                    for path in list.iter() {
                        let _ = std::fs::remove_file(path);
                    }
                    if signal == SIGUSR2 && SHORTENED.load(Ordering::Relaxed) {
                        crate::output::progress::say(
                            "an input file was shortened, or its disk failed, while it was read; \
                             read it again when nothing writes to it",
                        );
                        // Not `std::process::exit`: nothing may be torn down under the other threads.
                        signal_hook::low_level::exit(crate::Exit::Bad as i32);
                    }
                    // The lock is held to the end: no other file is created meanwhile.
                    let _ = emulate_default_handler(signal);
                    std::process::exit(128 + signal);
                }
            };
            // Without the thread the signals would be swallowed.
            if std::thread::Builder::new().name("signals".into()).spawn(waiting).is_err() {
                for signal in [SIGINT, SIGTERM, SIGHUP, SIGUSR2] {
                    let _ = signal_hook::flag::register_conditional_default(
                        signal,
                        std::sync::Arc::new(true.into()),
                    );
                }
                return;
            }
            if !wakes {
                return;
            }
            let mut action = no_action();
            action.sa_sigaction = shortened as *const () as usize;
            // SAFETY: `shortened` does only what a signal handler may do; `action` outlives the call.
            // The handler that it replaces, the standard library's, would end the process.
            unsafe { libc::sigaction(SIGBUS, &action, std::ptr::null_mut()) };
        });
    }

    /// Whether a read of a mapped file has failed.
    static SHORTENED: AtomicBool = AtomicBool::new(false);

    /// Handles SIGBUS: the waiting thread does what a signal handler may not.
    extern "C" fn shortened(_: libc::c_int) {
        SHORTENED.store(true, Ordering::Relaxed);
        // SAFETY: `getpid` and `kill` may be called by signal handlers.
        unsafe { libc::kill(libc::getpid(), SIGUSR2) };
        loop {
            // The read cannot succeed; the process ends meanwhile.
            // SAFETY: `pause` may be called by signal handlers.
            unsafe { libc::pause() };
        }
    }

    /// The default action, without flags and with an empty mask.
    fn no_action() -> libc::sigaction {
        // SAFETY: an all-zero `sigaction` is a valid value of this C structure.
        unsafe { std::mem::zeroed() }
    }

    /// Whether the parent has asked for this signal to be ignored.
    fn is_ignored(signal: i32) -> bool {
        let mut old = no_action();
        // SAFETY: a null `act` asks for the present action only; `old` outlives the call.
        let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &mut old) };
        asked == 0 && old.sa_sigaction == libc::SIG_IGN
    }
}
