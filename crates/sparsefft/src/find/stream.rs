//! Findings of samples that keep coming: hop after hop, with lines tracked from one to the next.

use super::findings::{Burst, Findings, Line, LineKind, Reason};
use super::survey::long::Survey;
use super::{Effort, Find};
use crate::samples::Samples;
use crate::tones::Drift;
use crate::{Complex, Error};

/// Shortest and longest hop in samples: fewer have no findings, more have no place.
const SHORTEST: u64 = 1 << 10;
const LONGEST: u64 = 1 << 28;
/// Deviations, and bins of a hop, by which a line may be away from where its track leads.
const SIGMAS: f64 = 5.0;
const BINS: f64 = 2.0;
/// Hops in a row without a line after which its track ends.
const PATIENCE: u64 = 2;
/// Hops that the drift is taken of, and fewest of them.
const REMEMBERED: usize = 16;
const FEWEST: usize = 3;
/// Most tracks at a time, the strongest.
const MOST_TRACKS: usize = 1 << 12;
/// Share of a hop by which a burst may end before a border, or begin behind it, to be one with what is
/// on the other side; and fewest samples.
const TOUCH: u64 = 256;
const TOUCH_SAMPLES: u64 = 128;
/// Memory for the survey of a hop in bytes.
const MEMORY: u64 = 1 << 30;

/// A line over several hops.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Track {
    /// The same number for the same line, in order of appearance.
    pub id: u64,
    /// The line as it was in the last hop in which it was seen.
    pub line: Line,
    /// First sample of the hop in which it appeared.
    pub first: u64,
    /// First sample of the hop in which it was seen last.
    pub last: u64,
    /// Hops in which it was seen.
    pub hops: u64,
    /// Change of the frequency per sample over the last hops, once there are three.
    pub drift: Option<Drift>,
    /// The last places: middle of the hop in samples, frequency, standard deviation.
    history: Vec<[f64; 3]>,
}

/// What one hop has brought.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Hop {
    /// Its first sample, counted from the start of the stream, lost samples included.
    pub start: u64,
    /// Samples.
    pub length: u64,
    /// Samples that are missing between the hop before and this one.
    pub lost: u64,
    /// The lines of this hop, strongest first.
    pub tracks: Vec<Track>,
    /// Lines that are gone, as they were when they were seen last.
    pub ended: Vec<Track>,
    /// Bursts that ended in this hop, or at its border, by their first sample in the stream: one that
    /// crosses borders comes once, when it ends.
    pub bursts: Vec<Burst>,
    /// The findings of this hop by itself. Its samples count from the start of the hop.
    pub findings: Findings,
}

/// Findings of a stream, hop after hop.
///
/// A hop is surveyed when its last sample is there: what begins with a hop is known a hop later, and
/// the time that its survey takes, which [`Cost::elapsed`](super::Cost::elapsed) of its findings
/// states. A burst that is longer than a hop is a line or a band of the hops that it fills.
///
/// ```
/// use sparsefft::find::Stream;
/// use sparsefft::iq;
///
/// // Blocks of i16 I/Q from a device: a carrier that drifts.
/// let mut stream = Stream::new(false, 1 << 14)?;
/// let (mut phase, mut state) = (0.0f64, 1u64);
/// let mut seen = Vec::new();
/// for block in 0..64 {
///     let samples: Vec<i16> = (0..2048)
///         .flat_map(|t| {
///             state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
///             phase += 0.1 + 1e-9 * f64::from(block * 2048 + t);
///             let noise = (state >> 48) as f64 / 65536.0 - 0.5;
///             let (sin, cos) = (std::f64::consts::TAU * phase).sin_cos();
///             [(100.0 * cos + 50.0 * noise) as i16, (100.0 * sin - 50.0 * noise) as i16]
///         })
///         .collect();
///     for hop in stream.push(&iq(&samples)?)? {
///         seen.push(hop.tracks[0].clone());
///     }
/// }
/// let last = seen.last().unwrap();
/// assert!(seen.len() == 8 && last.id == seen[0].id && last.hops == 8);
/// assert!((last.drift.unwrap().rate / 1e-9 - 1.0).abs() < 0.1);
/// # Ok::<(), sparsefft::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Stream {
    real: bool,
    hop: u64,
    failure: f64,
    /// Samples of the hop that is not complete; 32 bits hold what devices send.
    samples: Vec<Complex<f32>>,
    /// First sample of that hop.
    start: u64,
    lost: u64,
    tracks: Vec<Track>,
    next_id: u64,
    /// Bursts that reach the border behind them.
    open: Vec<Burst>,
}

impl Stream {
    /// A stream of real or complex samples, surveyed every `hop` samples.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for hops of less than 1024 or more than 2^28 samples.
    pub fn new(real: bool, hop: u64) -> Result<Self, Error> {
        if !(SHORTEST..=LONGEST).contains(&hop) {
            let allowed = "1024 to 2^28 samples";
            return Err(Error::InvalidOption { name: "hop", value: hop as f64, allowed });
        }
        Ok(Stream {
            real,
            hop,
            failure: Survey::FAILURE,
            samples: Vec::new(),
            start: 0,
            lost: 0,
            tracks: Vec::new(),
            next_id: 0,
            open: Vec::new(),
        })
    }

    /// Accepted probability that noise makes a finding of a kind in one hop (default 10⁻⁶).
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for probabilities outside 0 … 1.
    pub fn failure_probability(mut self, p: f64) -> Result<Self, Error> {
        if !(p > 0.0 && p < 1.0) {
            let allowed = "more than 0 and less than 1";
            return Err(Error::InvalidOption { name: "failure_probability", value: p, allowed });
        }
        self.failure = p;
        Ok(self)
    }

    /// Takes the next samples, of any number; returns the hops that they complete. Of a stream of real
    /// samples the imaginary parts are left out.
    ///
    /// # Errors
    /// [`Error::NonFinite`] and [`Error::Overflow`] for samples that are no numbers, or beyond 32
    /// bits; they count from the start of the stream. The block that holds them is left out; call
    /// [`lost`](Stream::lost) with its length and go on. And what the source meets.
    pub fn push<S: Samples + ?Sized>(&mut self, block: &S) -> Result<Vec<Hop>, Error> {
        /// Samples that are asked for at a time.
        const READ: usize = 1 << 13;
        let before = self.samples.len();
        let (mut at, end) = (0, block.len());
        if end > LONGEST {
            let allowed = "at most 2^28 samples at a time";
            return Err(Error::InvalidOption { name: "block", value: end as f64, allowed });
        }
        let mut buffer = vec![Complex::ZERO; READ.min(end as usize)];
        let mut hops = Vec::new();
        let mut fresh: Vec<Complex<f32>> = Vec::with_capacity(end as usize);
        while at < end {
            let part = &mut buffer[..READ.min((end - at) as usize)];
            block.read_range(at, part)?;
            let place = self.start + before as u64 + at;
            if let Some(i) = part.iter().position(|v| !is_small(v)) {
                let finite = part[i].re.is_finite() && part[i].im.is_finite();
                return Err(match finite {
                    true => Error::Overflow { limit: LARGEST },
                    false => crate::algorithms::non_finite(place + i as u64, part[i]),
                });
            }
            fresh.extend(part.iter().map(|v| Complex::new(v.re as f32, v.im as f32)));
            at += part.len() as u64;
        }
        let mut rest = &fresh[..];
        while !rest.is_empty() {
            let room = self.hop as usize - self.samples.len();
            let (now, later) = rest.split_at(room.min(rest.len()));
            self.samples.extend_from_slice(now);
            rest = later;
            if self.samples.len() == self.hop as usize {
                hops.push(self.survey()?);
            }
        }
        Ok(hops)
    }

    /// Says that the device has dropped so many samples. The hop in progress is given up, since its
    /// phases no longer belong together: its samples count as lost, too. Bursts do not reach over
    /// the gap; tracks do.
    pub fn lost(&mut self, samples: u64) {
        let dropped = samples.saturating_add(self.samples.len() as u64);
        self.samples.clear();
        self.start = self.start.saturating_add(dropped);
        self.lost = self.lost.saturating_add(dropped);
    }

    /// Samples since the last hop was complete, which no hop has seen.
    pub fn pending(&self) -> u64 {
        self.samples.len() as u64
    }

    /// The tracks and bursts that are still open when the stream ends.
    pub fn finish(self) -> (Vec<Track>, Vec<Burst>) {
        (self.tracks, self.open)
    }

    /// Surveys the hop that is complete.
    fn survey(&mut self) -> Result<Hop, Error> {
        let samples = std::mem::take(&mut self.samples);
        let (start, lost) = (self.start, std::mem::take(&mut self.lost));
        self.start += self.hop;
        let findings = if self.real {
            let values: Vec<f32> = samples.iter().map(|v| v.re).collect();
            self.findings(&values)?
        } else {
            self.findings(&samples)?
        };
        // The buffer is kept.
        self.samples = samples;
        self.samples.clear();
        let (tracks, ended) = self.follow(&findings, start);
        let bursts = self.close(&findings, start, lost > 0);
        Ok(Hop { start, length: self.hop, lost, tracks, ended, bursts, findings })
    }

    /// In parts where that is possible, which is faster, with a second pass over the samples at hand.
    fn findings<S: Samples + ?Sized>(&self, samples: &S) -> Result<Findings, Error> {
        if self.hop >= Survey::SHORTEST {
            let mut findings = super::survey::long::run(samples, self.failure, MEMORY)?;
            findings.reasons.retain(|r: &Reason| r.code != "in_parts");
            return Ok(findings);
        }
        let find = Find::new().effort(Effort::Thorough).failure_probability(self.failure);
        find.run(samples)
    }

    /// Continues the tracks with the lines of a hop; those that were seen, and those that have ended.
    fn follow(&mut self, findings: &Findings, start: u64) -> (Vec<Track>, Vec<Track>) {
        let middle = start as f64 + 0.5 * self.hop as f64;
        let bin = 1.0 / self.hop as f64;
        let mut free: Vec<bool> = vec![true; self.tracks.len()];
        let mut seen = Vec::new();
        for line in findings.lines.iter().filter(|l| l.kind != LineKind::Offset).take(MOST_TRACKS) {
            let nearest = (0..free.len())
                .filter(|i| free[*i])
                .map(|i| {
                    let track = &self.tracks[i];
                    let drift = track.drift.map_or(0.0, |d| d.rate);
                    let [at, last, std] = track.history[track.history.len() - 1];
                    let off = apart(line.frequency, last + drift * (middle - at), findings.real);
                    let gate = SIGMAS * line.frequency_std.hypot(std) + BINS * bin;
                    (i, off / gate)
                })
                .filter(|(_, off)| *off <= 1.0)
                .min_by(|a, b| a.1.total_cmp(&b.1));
            match nearest {
                Some((i, _)) => {
                    free[i] = false;
                    self.tracks[i].extend(line, start, middle);
                    seen.push(self.tracks[i].clone());
                }
                None if self.tracks.len() < MOST_TRACKS => {
                    let track = Track::new(self.next_id, line, start, middle);
                    self.next_id += 1;
                    seen.push(track.clone());
                    self.tracks.push(track);
                }
                None => {}
            }
        }
        let is_gone = |t: &Track| t.last + PATIENCE * self.hop <= start;
        let (ended, kept) = std::mem::take(&mut self.tracks).into_iter().partition(is_gone);
        self.tracks = kept;
        (seen, ended)
    }

    /// The bursts that are over; those that reach the end of the hop wait for the next one.
    fn close(&mut self, findings: &Findings, start: u64, gap: bool) -> Vec<Burst> {
        let reach = (self.hop / TOUCH).max(TOUCH_SAMPLES);
        let mut earlier = std::mem::take(&mut self.open);
        let mut out: Vec<Burst> = if gap { std::mem::take(&mut earlier) } else { Vec::new() };
        for found in &findings.bursts {
            let mut burst = Burst { start: start + found.start, ..*found };
            let meets = |b: &Burst| b.low < burst.high && burst.low < b.high;
            let at = earlier.iter().position(|b| found.start <= reach && meets(b));
            if let Some(b) = at.map(|i| earlier.swap_remove(i)) {
                let energy = b.power * b.length as f64 + burst.power * burst.length as f64;
                burst.length += burst.start - b.start;
                burst.start = b.start;
                burst.power = energy / burst.length as f64;
                (burst.low, burst.high) = (burst.low.min(b.low), burst.high.max(b.high));
                burst.above_db = burst.above_db.max(b.above_db);
            }
            let is_over = burst.start + burst.length + reach < start + self.hop;
            if is_over { out.push(burst) } else { self.open.push(burst) }
        }
        out.append(&mut earlier);
        out.sort_by_key(|b| b.start);
        out
    }
}

/// Samples whose squares, summed over a hop, are 32-bit numbers in the scale of the survey.
const LARGEST: f64 = 1e30;

fn is_small(v: &Complex<f64>) -> bool {
    // NaN is not small.
    v.re.abs() <= LARGEST && v.im.abs() <= LARGEST
}

/// Distance of two frequencies, around the circle for complex samples.
fn apart(a: f64, b: f64, real: bool) -> f64 {
    let d = (a - b).abs();
    if real { d } else { d.rem_euclid(1.0).min(1.0 - d.rem_euclid(1.0)) }
}

impl Track {
    fn new(id: u64, line: &Line, start: u64, middle: f64) -> Self {
        let history = vec![[middle, line.frequency, line.frequency_std]];
        Track { id, line: *line, first: start, last: start, hops: 1, drift: None, history }
    }

    fn extend(&mut self, line: &Line, start: u64, middle: f64) {
        self.line = *line;
        self.last = start;
        self.hops += 1;
        if self.history.len() == REMEMBERED {
            self.history.remove(0);
        }
        self.history.push([middle, line.frequency, line.frequency_std]);
        if self.history.len() >= FEWEST {
            self.drift = Some(slope(&self.history));
        }
    }
}

/// The weighted straight line through places of a track: its slope. If they scatter by more than their
/// deviations, its deviation grows as much.
fn slope(points: &[[f64; 3]]) -> Drift {
    let weight = |p: &[f64; 3]| 1.0 / (p[2] * p[2]).max(1e-40);
    // A frequency may cross the end of the band.
    let first = points[0][1];
    let place = |p: &[f64; 3]| p[1] - first - (p[1] - first).round();
    let total: f64 = points.iter().map(weight).sum();
    let at = points.iter().map(|p| weight(p) * p[0]).sum::<f64>() / total;
    let level = points.iter().map(|p| weight(p) * place(p)).sum::<f64>() / total;
    let spread: f64 = points.iter().map(|p| weight(p) * (p[0] - at).powi(2)).sum();
    let rate =
        points.iter().map(|p| weight(p) * (p[0] - at) * (place(p) - level)).sum::<f64>() / spread;
    let chi: f64 = points
        .iter()
        .map(|p| weight(p) * (place(p) - level - rate * (p[0] - at)).powi(2))
        .sum::<f64>()
        / (points.len() as f64 - 2.0);
    Drift { rate, std: (chi.max(1.0) / spread).sqrt() }
}
