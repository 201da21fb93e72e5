//! Progress bars: on stderr, on a terminal, and only after a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Whether `-q` was given.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Whether `-v` was given.
static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Switches bars and notes off, or details on.
pub fn set_level(quiet: bool, verbose: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
    VERBOSE.store(verbose, Ordering::Relaxed);
}

/// Whether `-q` was given.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// The most memory this process has held at once, in bytes, where the system tells.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// A line of detail on stderr if `-v` was given.
pub fn detail(text: &str) {
    if VERBOSE.load(Ordering::Relaxed) {
        for line in text.lines() {
            say(line);
        }
    }
}

/// A sentence on stderr that is no error, unless `-q` was given.
pub fn note(text: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        say(text);
    }
}

/// The text without control characters: names of files and values of options may hold any, and a
/// sentence is one line that changes nothing on the terminal.
fn printable(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let escape = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escape).collect::<String>().into()
}

/// A line on stderr. Where stderr takes nothing (a full disk, a closed terminal), nobody can be
/// told, and the work goes on.
pub fn say(text: &str) {
    let text = printable(text);
    let _ = writeln!(std::io::stderr().lock(), "sparsefft: {text}");
}

/// A bar that shows itself if the work takes longer than a second.
pub struct Bar {
    bar: ProgressBar,
    started: Instant,
    visible: std::cell::Cell<bool>,
}

impl Bar {
    /// A bar for `total` steps.
    pub fn steps(message: &'static str, total: u64) -> Self {
        let style = ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} % {eta:>4}");
        Self::new(ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()), style)
            .message(message)
    }

    /// A counter of bytes whose end is not known.
    pub fn bytes(message: &'static str) -> Self {
        let style = ProgressStyle::with_template("{spinner} {msg} {bytes} ({bytes_per_sec})");
        Self::new(ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()), style)
            .message(message)
    }

    fn new(
        bar: ProgressBar,
        style: Result<ProgressStyle, indicatif::style::TemplateError>,
    ) -> Self {
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Bar { bar, started: Instant::now(), visible: false.into() }
    }

    fn message(self, message: &'static str) -> Self {
        self.bar.set_message(message);
        self
    }

    /// Counts steps.
    pub fn add(&self, steps: u64) {
        if !self.visible.get() && self.started.elapsed() > Duration::from_secs(1) {
            self.visible.set(true);
            if std::io::stderr().is_terminal() && !QUIET.load(Ordering::Relaxed) {
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
        }
        self.bar.inc(steps);
    }

    /// A reader that counts its bytes.
    pub fn reader<R: Read>(self, inner: R) -> impl Read {
        Counted { inner, bar: self }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

struct Counted<R> {
    inner: R,
    bar: Bar,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.bar.add(got as u64);
        Ok(got)
    }
}

/// Runs work whose progress cannot be known, with a spinner if it takes longer than a second.
pub fn spin<T: Send>(message: &'static str, work: impl FnOnce() -> T + Send) -> T {
    if !std::io::stderr().is_terminal() || QUIET.load(Ordering::Relaxed) {
        return work();
    }
    std::thread::scope(|s| {
        let (done, waiting) = std::sync::mpsc::channel::<()>();
        let spinner = move || {
            let bar = Bar::bytes("").message(message);
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
                bar.bar.set_style(style);
            }
            // The sender is dropped when the work ends.
            while waiting.recv_timeout(Duration::from_millis(100))
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                bar.add(1);
            }
        };
        // Where no thread is to be had, the work goes on without a picture of it.
        let _ = std::thread::Builder::new().spawn_scoped(s, spinner);
        let result = work();
        drop(done);
        result
    })
}
