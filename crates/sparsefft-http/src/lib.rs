//! Signals on web servers and in object stores, by HTTP range requests.
//!
//! Every object store serves objects over HTTP with byte ranges (S3, GCS, Azure: presigned or
//! public addresses). A transform needs a small share of a long signal; only that share is fetched.
//!
//! 1. A batch of samples becomes byte ranges, sorted; those nearer than [`Remote::join`] bytes
//!    become one, since a request costs more than the bytes between.
//! 2. Several threads fetch the ranges.
//! 3. What fails is asked for again, a few times, with growing pauses; then the transform ends
//!    with an error that names the range.
//!
//! ```no_run
//! use sparsefft::{Complex, Plan, Problem, Samples};
//! use sparsefft_http::Remote;
//!
//! let signal = Remote::<Complex<f32>>::open("http://store/recording.cf32", 0)?;
//! let plan = Plan::new(Problem::new(signal.len()).sparsity(50).one_pass())?;
//! let mut sketch = plan.sketch()?; // asks for everything at once, so that ranges join best
//! sketch.add(0, &signal)?;
//! println!("{} with {} bytes", sketch.finish()?.certificate(), signal.fetched());
//! # Ok::<(), sparsefft::Error>(())
//! ```
//! Not here: listing of buckets, credentials, writing. The feature `tls` adds https.

use sparsefft::{Complex, Error, Samples, Scalar};
use std::io::Read;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use ureq::Agent;

/// A number that lies in a file, little-endian.
pub trait Stored: Scalar {
    /// Bytes of one.
    const SIZE: usize;
    /// The number in these bytes, [`SIZE`](Stored::SIZE) of them.
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! stored {
    ($($t:ty),*) => {$(
        impl Stored for $t {
            const SIZE: usize = size_of::<$t>();
            fn from_bytes(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$t>()];
                own.copy_from_slice(bytes);
                <$t>::from_le_bytes(own)
            }
        }
        impl Stored for Complex<$t> {
            const SIZE: usize = 2 * size_of::<$t>();
            fn from_bytes(bytes: &[u8]) -> Self {
                let (re, im) = bytes.split_at(size_of::<$t>());
                Complex::new(<$t>::from_bytes(re), <$t>::from_bytes(im))
            }
        }
    )*};
}
stored!(f32, f64, i8, u8, i16, u16, i32, u32, i64, u64);

/// Bytes between two ranges that are fetched rather than asked for separately.
const JOIN: u64 = 16 << 10;
/// Longest range of one request.
const LONGEST: u64 = 8 << 20;
/// Requests at a time.
const THREADS: usize = 16;
/// Times a range is asked for.
const TRIES: u32 = 5;
/// Pause after the first failure; it doubles.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest wait for one answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An object behind an address, read by ranges.
#[derive(Debug)]
pub struct Object {
    url: String,
    size: u64,
    agent: Agent,
    join: u64,
    threads: usize,
    tries: u32,
    pause: Duration,
    fetched: AtomicU64,
    requests: AtomicU64,
}

impl Object {
    /// Asks a server for the size of an object.
    ///
    /// # Errors
    /// [`Error::Source`] if it cannot be reached, does not have the object, or does not serve
    /// ranges.
    pub fn open(url: &str) -> Result<Self, Error> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .max_idle_connections(THREADS)
            .max_idle_connections_per_host(THREADS)
            .build();
        let mut object = Object {
            url: url.to_string(),
            size: 0,
            agent: config.into(),
            join: JOIN,
            threads: THREADS,
            tries: TRIES,
            pause: PAUSE,
            fetched: AtomicU64::new(0),
            requests: AtomicU64::new(0),
        };
        // The first byte tells the size of all, and whether ranges are served.
        let mut first = [0];
        object.size = object.patiently(0, &mut first)?;
        Ok(object)
    }

    /// Bytes of the object.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes fetched so far.
    pub fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }

    /// Requests made so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Fetches one range.
    ///
    /// # Errors
    /// [`Error::Source`] with the range, after the last try.
    pub fn read(&self, start: u64, out: &mut [u8]) -> Result<(), Error> {
        if out.is_empty() { Ok(()) } else { self.patiently(start, out).map(|_| ()) }
    }

    /// Fetches one range, again where that fails; the size of the object.
    fn patiently(&self, start: u64, out: &mut [u8]) -> Result<u64, Error> {
        let mut pause = self.pause;
        let mut tried = 1;
        loop {
            let (why, again) = match self.once(start, out) {
                Ok(size) => return Ok(size),
                Err(failure) => failure,
            };
            if !again || tried >= self.tries {
                let end = start + out.len() as u64;
                let times = if tried == 1 { "once" } else { "again and again" };
                return Err(Error::Source(format!(
                    "{}: bytes {start}..{end}, asked for {times} ({tried}): {why}",
                    self.url
                )));
            }
            std::thread::sleep(pause);
            pause *= 2;
            tried += 1;
        }
    }

    /// Fetches one range; why not, and whether another try may help.
    fn once(&self, start: u64, out: &mut [u8]) -> Result<u64, (String, bool)> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let last = start + out.len() as u64 - 1;
        let asked = self.agent.get(&self.url).header("Range", format!("bytes={start}-{last}"));
        let mut answer = asked.call().map_err(|e| {
            let never = matches!(e, ureq::Error::BadUri(_) | ureq::Error::TlsRequired);
            (e.to_string(), !never)
        })?;
        let status = answer.status().as_u16();
        match status {
            206 => {}
            200 => {
                let why = "the server does not serve ranges; download the file, or use a server \
                           or store that does";
                return Err((why.to_string(), false));
            }
            416 => return Err(("the object ends before this range".to_string(), false)),
            408 | 425 | 429 | 500.. => return Err((format!("the server said {status}"), true)),
            _ => return Err((format!("the server said {status}; check the address"), false)),
        }
        let range = answer.headers().get("Content-Range").and_then(|v| v.to_str().ok());
        let (first, size) = range.and_then(content_range).ok_or_else(|| {
            (
                "the server sent a range without saying which; it must send Content-Range".into(),
                false,
            )
        })?;
        if first != start {
            return Err((format!("the server sent bytes from {first} on"), true));
        }
        let mut body = answer.body_mut().as_reader();
        body.read_exact(out).map_err(|e| (format!("the answer broke off: {e}"), true))?;
        self.fetched.fetch_add(out.len() as u64, Ordering::Relaxed);
        Ok(size)
    }

    /// Fetches `size` bytes at each of these places, in any order, and hands them to `take` with
    /// the number of the place. Places that lie close together are fetched in one piece.
    ///
    /// # Errors
    /// As [`read`](Object::read).
    pub fn read_each(
        &self,
        places: &[u64],
        size: u64,
        take: impl Fn(usize, &[u8]) + Sync,
    ) -> Result<(), Error> {
        let mut order: Vec<(u64, usize)> = places.iter().copied().zip(0..).collect();
        order.sort_unstable();
        let mut ranges: Vec<Range<u64>> = Vec::new();
        // Of each range, one past the last of the places that it holds.
        let mut ends: Vec<usize> = Vec::new();
        for (i, &(at, _)) in order.iter().enumerate() {
            let joins = |last: &Range<u64>| {
                at <= last.end.saturating_add(self.join) && at + size - last.start <= LONGEST
            };
            match (ranges.last_mut().filter(|last| joins(last)), ends.last_mut()) {
                (Some(last), Some(end)) => {
                    last.end = last.end.max(at + size);
                    *end = i + 1;
                }
                _ => {
                    ranges.push(at..at + size);
                    ends.push(i + 1);
                }
            }
        }
        self.fetch(&ranges, |i, bytes| {
            let from = if i == 0 { 0 } else { ends[i - 1] };
            for &(at, place) in &order[from..ends[i]] {
                let at = (at - ranges[i].start) as usize;
                take(place, &bytes[at..at + size as usize]);
            }
        })
    }

    /// Fetches ranges, which ascend and do not overlap, several at a time, and hands each to
    /// `take` with its number.
    fn fetch(
        &self,
        ranges: &[Range<u64>],
        take: impl Fn(usize, &[u8]) + Sync,
    ) -> Result<(), Error> {
        let next = AtomicUsize::new(0);
        let failed = Mutex::new(None);
        let work = || {
            let mut bytes = Vec::new();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(range) = ranges.get(i) else { return };
                bytes.clear();
                bytes.resize((range.end - range.start) as usize, 0);
                if let Err(error) = self.read(range.start, &mut bytes) {
                    // The others need not begin anything new.
                    next.store(ranges.len(), Ordering::Relaxed);
                    failed.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
                    return;
                }
                take(i, &bytes);
            }
        };
        std::thread::scope(|s| {
            for _ in 1..self.threads.min(ranges.len()) {
                s.spawn(work);
            }
            work();
        });
        failed.into_inner().unwrap_or_else(|e| e.into_inner()).map_or(Ok(()), Err)
    }
}

/// First byte and size of the whole, of `bytes 0-99/1234`.
fn content_range(text: &str) -> Option<(u64, u64)> {
    let (range, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.parse().ok()?, size.parse().ok()?))
}

/// A signal behind an address: numbers of one type, little-endian, one after the other.
#[derive(Debug)]
pub struct Remote<T> {
    object: Object,
    /// Byte of the first sample.
    offset: u64,
    n: u64,
    kind: PhantomData<fn() -> T>,
}

impl<T: Stored> Remote<T> {
    /// The numbers from byte `offset` on to the end of an object.
    ///
    /// # Errors
    /// As [`Object::open`]; if the object is shorter than the offset, or its end is no whole
    /// number.
    pub fn open(url: &str, offset: u64) -> Result<Self, Error> {
        let object = Object::open(url)?;
        let bytes = object.size.checked_sub(offset).filter(|b| b.is_multiple_of(T::SIZE as u64));
        let Some(bytes) = bytes else {
            return Err(Error::Source(format!(
                "{url}: {} bytes from byte {offset} on are no whole number of samples of {} bytes",
                object.size,
                T::SIZE
            )));
        };
        Ok(Remote { n: bytes / T::SIZE as u64, object, offset, kind: PhantomData })
    }

    /// Only this many samples.
    ///
    /// # Errors
    /// [`Error::RangeOutside`] if there are fewer.
    pub fn first(mut self, n: u64) -> Result<Self, Error> {
        if n > self.n {
            return Err(Error::RangeOutside { start: 0, end: n, n: self.n });
        }
        self.n = n;
        Ok(self)
    }

    /// Ranges nearer than this many bytes become one (default 16 KiB).
    pub fn join(mut self, bytes: u64) -> Self {
        self.object.join = bytes;
        self
    }

    /// Requests at a time (default 16).
    pub fn threads(mut self, threads: usize) -> Self {
        self.object.threads = threads.max(1);
        self
    }

    /// Times that a range is asked for before the transform ends with an error (default 5), and
    /// the pause after the first (default 50 ms; it doubles).
    pub fn tries(mut self, tries: u32, pause: Duration) -> Self {
        (self.object.tries, self.object.pause) = (tries.max(1), pause);
        self
    }

    /// The object.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Bytes fetched so far.
    pub fn fetched(&self) -> u64 {
        self.object.fetched()
    }
}

impl<T: Stored> Samples for Remote<T> {
    fn len(&self) -> u64 {
        self.n
    }
    fn is_real(&self) -> bool {
        T::REAL
    }
    fn resolution(&self) -> f64 {
        T::STEP
    }
    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        let places: Vec<u64> = indices.iter().map(|t| self.offset + t * T::SIZE as u64).collect();
        let out = Mutex::new(out);
        self.object.read_each(&places, T::SIZE as u64, |i, bytes| {
            let mut out = out.lock().unwrap_or_else(|e| e.into_inner());
            out[i] = T::from_bytes(bytes).complex();
        })
    }
    fn read_range(&self, start: u64, out: &mut [Complex<f64>]) -> Result<(), Error> {
        let size = T::SIZE as u64;
        // Pieces of one request each; several of them are on their way at a time.
        let piece = (LONGEST / size) as usize;
        for (i, part) in out.chunks_mut(piece * self.object.threads).enumerate() {
            let first = start + (i * piece * self.object.threads) as u64;
            let ranges: Vec<Range<u64>> = (0..part.len())
                .step_by(piece)
                .map(|j| {
                    let end = (j + piece).min(part.len()) as u64;
                    let byte = |t: u64| self.offset + (first + t) * size;
                    byte(j as u64)..byte(end)
                })
                .collect();
            let part = Mutex::new(part);
            self.object.fetch(&ranges, |i, bytes| {
                let values = bytes.chunks_exact(T::SIZE).map(|b| T::from_bytes(b).complex());
                let mut part = part.lock().unwrap_or_else(|e| e.into_inner());
                for (o, v) in part[i * piece..].iter_mut().zip(values) {
                    *o = v;
                }
            })?;
        }
        Ok(())
    }
}
