//! Signals on web servers and in object stores, by HTTP range requests.
//!
//! Every object store serves objects over HTTP with byte ranges (S3, GCS, Azure: presigned or
//! public addresses). A transform needs a small share of a long signal; only that share is fetched.
//!
//! 1. A batch of samples becomes byte ranges, sorted; those nearer than [`Remote::join`] bytes
//!    become one, since a request costs more than the bytes between.
//! 2. Several threads fetch the ranges.
//! 3. What fails is asked for again, a few times, with growing pauses; then the transform ends
//!    with an error that names the range. A server that hardly sends anything fails, too: see
//!    [`Patience`].
//! 4. All answers must be parts of one object: its length and, where the server tells them, its
//!    ETag and the time of its last change are those of the first answer. Otherwise the transform
//!    ends, since samples of two recordings have no common spectrum.
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
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::http::HeaderMap;

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
/// How long a server is waited for.
///
/// - One request fails once `grace` and a second for every `rate` bytes received have passed, so a
///   server that sends a byte now and then fails after about `grace`.
/// - A range is asked for `tries` times, but not again once twice `grace` have passed.
/// - A batch (all ranges of one call) fails once `grace`, two seconds for each round of requests
///   (as many as are on their way at a time), and the time that its bytes take at `rate` on each
///   connection have passed.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Patience {
    /// Times that a range is asked for (5).
    pub tries: u32,
    /// Pause after the first failure; it doubles (50 ms).
    pub pause: Duration,
    /// Time for a request that sends nothing (20 s).
    pub grace: Duration,
    /// Bytes per second that one connection must bring on average after that (4 KiB).
    pub rate: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            tries: 5,
            pause: Duration::from_millis(50),
            grace: Duration::from_secs(20),
            rate: 4 << 10,
        }
    }
}

impl Patience {
    /// This many tries, and this pause after the first.
    pub fn tries(mut self, tries: u32, pause: Duration) -> Self {
        (self.tries, self.pause) = (tries.max(1), pause);
        self
    }

    /// This much time for a request that sends nothing, and so many bytes per second after that.
    pub fn speed(mut self, grace: Duration, rate: u64) -> Self {
        (self.grace, self.rate) = (grace.max(Duration::from_millis(1)), rate.max(1));
        self
    }

    /// The time that so many bytes take on one connection.
    fn time_for(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.rate as f64)
    }

    /// The time for a batch of so many requests and bytes, so many requests at a time.
    fn time_for_batch(&self, requests: u64, bytes: u64, threads: u64) -> Duration {
        let rounds = requests.div_ceil(threads);
        self.grace + Duration::from_secs(2 * rounds) + self.time_for(bytes / threads)
    }
}

/// What tells one state of an object from another.
#[derive(Debug, Clone, PartialEq)]
struct Version {
    size: u64,
    etag: Option<String>,
    modified: Option<String>,
}

impl Version {
    fn new(size: u64, headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
        Version { size, etag: text("ETag"), modified: text("Last-Modified") }
    }

    /// How another answer shows that the object has changed since this one.
    fn difference(&self, other: &Version) -> Option<String> {
        if self.size != other.size {
            return Some(format!("it had {} bytes, now {}", self.size, other.size));
        }
        let both = |a: &Option<String>, b: &Option<String>| a.clone().zip(b.clone());
        match both(&self.etag, &other.etag) {
            Some((a, b)) if a != b => return Some(format!("its ETag was {a}, now {b}")),
            // A strong ETag says that every byte is the same.
            Some((a, _)) if !a.starts_with("W/") => return None,
            _ => {}
        }
        both(&self.modified, &other.modified)
            .filter(|(a, b)| a != b)
            .map(|(a, b)| format!("its last change was {a}, now {b}"))
    }
}

/// Why a request failed, and whether another try may help.
struct Failure {
    why: String,
    again: bool,
}

impl Failure {
    fn last(why: impl Into<String>) -> Self {
        Failure { why: why.into(), again: false }
    }
    fn passing(why: impl Into<String>) -> Self {
        Failure { why: why.into(), again: true }
    }
}

/// An object behind an address, read by ranges.
#[derive(Debug)]
pub struct Object {
    url: String,
    /// That of the first answer; `None` before it.
    version: Option<Version>,
    agent: Agent,
    join: u64,
    threads: usize,
    patience: Patience,
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
        Self::open_with(url, Patience::default())
    }

    /// [`open`](Object::open) with another patience.
    ///
    /// # Errors
    /// As [`open`](Object::open).
    pub fn open_with(url: &str, patience: Patience) -> Result<Self, Error> {
        let grace = Some(patience.grace);
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(grace)
            .timeout_send_request(grace)
            .timeout_recv_response(grace)
            .timeout_per_read(grace)
            .timeout_per_write(grace)
            .max_idle_connections(THREADS)
            .max_idle_connections_per_host(THREADS)
            .build();
        let mut object = Object {
            url: url.to_string(),
            version: None,
            agent: config.into(),
            join: JOIN,
            threads: THREADS,
            patience,
            fetched: AtomicU64::new(0),
            requests: AtomicU64::new(0),
        };
        // The first byte tells the size of all, and whether ranges are served.
        let mut first = [0];
        object.version = Some(object.patiently(0, &mut first, object.until(1, 1))?);
        Ok(object)
    }

    /// Bytes of the object.
    pub fn size(&self) -> u64 {
        self.version.as_ref().map_or(0, |v| v.size)
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
    /// [`Error::Source`] with the range, after the last try; at once if the object has changed
    /// since it was opened.
    pub fn read(&self, start: u64, out: &mut [u8]) -> Result<(), Error> {
        if out.is_empty() {
            return Ok(());
        }
        let until = self.until(1, out.len() as u64);
        self.patiently(start, out, until).map(|_| ())
    }

    /// When a batch of so many requests and bytes must be done.
    fn until(&self, requests: usize, bytes: u64) -> Instant {
        let threads = self.threads.min(requests).max(1) as u64;
        Instant::now() + self.patience.time_for_batch(requests as u64, bytes, threads)
    }

    /// Fetches one range, again where that fails; the version of the object.
    fn patiently(&self, start: u64, out: &mut [u8], until: Instant) -> Result<Version, Error> {
        let Patience { mut pause, tries, grace, .. } = self.patience;
        let began = Instant::now();
        let mut tried = 1;
        loop {
            let Failure { why, again } = match self.once(start, out, until) {
                Ok(version) => return Ok(version),
                Err(failure) => failure,
            };
            let patient = tried < tries && began.elapsed() < 2 * grace && Instant::now() < until;
            if !again || !patient {
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

    /// Fetches one range.
    fn once(&self, start: u64, out: &mut [u8], until: Instant) -> Result<Version, Failure> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let last = start + out.len() as u64 - 1;
        let asked = self.agent.get(&self.url).header("Range", format!("bytes={start}-{last}"));
        // Bytes of a compressed answer are not those of the object.
        let asked = asked.header("Accept-Encoding", "identity");
        let mut answer = asked.call().map_err(|e| {
            let never = matches!(e, ureq::Error::BadUri(_) | ureq::Error::TlsRequired);
            Failure { why: e.to_string(), again: !never }
        })?;
        let status = answer.status().as_u16();
        match status {
            206 => {}
            200 => {
                return Err(Failure::last(
                    "the server does not serve ranges; download the file, or use a server or \
                     store that does",
                ));
            }
            416 => {
                return Err(Failure::last(match &self.version {
                    None => "the object is empty; give one with at least one sample",
                    Some(version) if last < version.size => {
                        "the object has become shorter while it was read; read it again when \
                         nothing writes to it"
                    }
                    Some(_) => "the object ends before this range",
                }));
            }
            408 | 425 | 429 | 500.. => {
                return Err(Failure::passing(format!("the server said {status}")));
            }
            _ => {
                return Err(Failure::last(format!("the server said {status}; check the address")));
            }
        }
        let headers = answer.headers();
        let encoding = headers.get("Content-Encoding").and_then(|v| v.to_str().ok());
        if let Some(encoding) = encoding.filter(|e| !e.eq_ignore_ascii_case("identity")) {
            return Err(Failure::last(format!(
                "the server sent a part in the encoding '{}'; it must send the bytes as they are",
                encoding.escape_debug()
            )));
        }
        let range = headers.get("Content-Range").and_then(|v| v.to_str().ok());
        let (first, size) = range.and_then(content_range).ok_or_else(|| {
            Failure::last(
                "the server sent a range without saying which; it must send Content-Range",
            )
        })?;
        if first != start {
            return Err(Failure::passing(format!("the server sent bytes from {first} on")));
        }
        let version = Version::new(size, headers);
        if let Some(how) = self.version.as_ref().and_then(|v| v.difference(&version)) {
            return Err(Failure::last(format!(
                "the object has changed while it was read ({how}); read it again when nothing \
                 writes to it"
            )));
        }
        let mut body = answer.body_mut().as_reader();
        let mut got = 0;
        while got < out.len() {
            let more = body.read(&mut out[got..]);
            let more = more.map_err(|e| Failure::passing(format!("the answer broke off: {e}")))?;
            if more == 0 {
                return Err(Failure::passing(format!("the answer broke off after {got} bytes")));
            }
            got += more;
            let slow = began.elapsed() > self.patience.grace + self.patience.time_for(got as u64);
            if got < out.len() && (slow || Instant::now() > until) {
                let time = began.elapsed().as_secs_f64();
                return Err(Failure::passing(format!(
                    "the server is too slow: {got} of {} bytes in {time:.1} s",
                    out.len()
                )));
            }
        }
        self.fetched.fetch_add(out.len() as u64, Ordering::Relaxed);
        Ok(version)
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
        let until = self.until(ranges.len(), ranges.iter().map(|r| r.end - r.start).sum());
        let failed = Mutex::new(None);
        let work = || {
            let mut bytes = Vec::new();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(range) = ranges.get(i) else { return };
                bytes.clear();
                bytes.resize((range.end - range.start) as usize, 0);
                let got = self.patiently(range.start, &mut bytes, until);
                if let Err(error) = got {
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
                // Where no more threads are to be had, those that are there do the work.
                if std::thread::Builder::new().spawn_scoped(s, work).is_err() {
                    break;
                }
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
        Self::open_with(url, offset, Patience::default())
    }

    /// [`open`](Remote::open) with another patience.
    ///
    /// # Errors
    /// As [`open`](Remote::open).
    pub fn open_with(url: &str, offset: u64, patience: Patience) -> Result<Self, Error> {
        let object = Object::open_with(url, patience)?;
        let bytes = object.size().checked_sub(offset).filter(|b| b.is_multiple_of(T::SIZE as u64));
        let Some(bytes) = bytes else {
            return Err(Error::Source(format!(
                "{url}: {} bytes from byte {offset} on are no whole number of samples of {} bytes",
                object.size(),
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
        self.object.patience = self.object.patience.tries(tries, pause);
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
