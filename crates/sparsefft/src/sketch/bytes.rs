//! The stored form of a sketch: versioned, little-endian, checksummed.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `SFFTSKCH` |
//! | 4 | version of this form |
//! | 8 · 3 | n, k, seed |
//! | 1 + 8 | noise: 0 unknown, 1 exact, 2 ratio in dB |
//! | 8 · 2 | tolerance, failure probability |
//! | 1 | algorithm: its place in [`Algorithm::ALL`] |
//! | 1 + 8 | taper: 0 none, 1 Hann, 2 Blackman, 3 Kaiser with β |
//! | 8 + 4 | number and CRC-32 of the indices that the plan keeps |
//! | 4 + … | the label, UTF-8 |
//! | 1 + 8 | samples: 0 none yet, 1 complex, 2 real; step between values |
//! | 8 + 24·p | the parts seen: start, step, count |
//! | 1 + 8 + … | values: their type, their number, and the values by ascending index |
//! | 4 | CRC-32 of all before |
//!
//! Plan and parts say which samples the values belong to. The type is the narrowest that holds
//! every value exactly. The indices' checksum guards against a machine or a release that would
//! plan other samples from the same problem.

use super::coverage::Coverage;
use super::{Kind, Part, Sketch, other_sketch};
use crate::plan::Plan;
use crate::problem::{Algorithm, Noise, Problem, Taper};
use crate::{Complex, Error};

const MAGIC: &[u8; 8] = b"SFFTSKCH";
const VERSION: u32 = 1;
/// Samples that a plan may keep, whatever the bytes hold: 32 MiB of indices.
const FREELY: u64 = 1 << 22;
/// Further samples that it may keep for each value that they hold.
const EACH: u64 = 256;

/// A type that a value can be stored in.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Width {
    I8,
    U8,
    I16,
    U16,
    I32,
    F32,
    F64,
}

impl Width {
    /// Narrow ones first.
    const ALL: [Width; 7] =
        [Width::I8, Width::U8, Width::I16, Width::U16, Width::F32, Width::I32, Width::F64];

    fn size(self) -> usize {
        match self {
            Width::I8 | Width::U8 => 1,
            Width::I16 | Width::U16 => 2,
            Width::I32 | Width::F32 => 4,
            Width::F64 => 8,
        }
    }

    fn put(self, v: f64, out: &mut Vec<u8>) {
        match self {
            Width::I8 => out.extend((v as i8).to_le_bytes()),
            Width::U8 => out.extend((v as u8).to_le_bytes()),
            Width::I16 => out.extend((v as i16).to_le_bytes()),
            Width::U16 => out.extend((v as u16).to_le_bytes()),
            Width::I32 => out.extend((v as i32).to_le_bytes()),
            Width::F32 => out.extend((v as f32).to_le_bytes()),
            Width::F64 => out.extend(v.to_le_bytes()),
        }
    }

    /// The value in these bytes, [`size`](Width::size) of them.
    fn get(self, b: &[u8]) -> f64 {
        let wide = |sign: bool| {
            let mut all = [if sign && b[b.len() - 1] > 127 { 255 } else { 0 }; 8];
            all[..b.len()].copy_from_slice(b);
            all
        };
        match self {
            Width::I8 | Width::I16 | Width::I32 => i64::from_le_bytes(wide(true)) as f64,
            Width::U8 | Width::U16 => u64::from_le_bytes(wide(false)) as f64,
            Width::F32 => f64::from(f32::from_bits(u64::from_le_bytes(wide(false)) as u32)),
            Width::F64 => f64::from_le_bytes(wide(false)),
        }
    }

    /// Whether it holds a value to the last bit.
    fn holds(self, v: f64) -> bool {
        let back = match self {
            Width::I8 => f64::from(v as i8),
            Width::U8 => f64::from(v as u8),
            Width::I16 => f64::from(v as i16),
            Width::U16 => f64::from(v as u16),
            Width::I32 => f64::from(v as i32),
            Width::F32 => f64::from(v as f32),
            Width::F64 => v,
        };
        back.to_bits() == v.to_bits()
    }
}

impl Sketch {
    /// The stored form: a few bytes for each sample kept, nothing for the rest of the signal.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(VERSION.to_le_bytes());
        let problem = self.plan.problem();
        for v in [problem.n, problem.k().unwrap_or(0), problem.seed] {
            out.extend(v.to_le_bytes());
        }
        let (tag, value) = match problem.noise {
            Noise::Unknown => (0, 0.0),
            Noise::Exact => (1, 0.0),
            Noise::Snr(db) => (2, db),
        };
        put(&mut out, tag, value);
        out.extend(problem.tolerance.to_le_bytes());
        out.extend(problem.failure.to_le_bytes());
        let named = Algorithm::ALL.iter().position(|a| *a == problem.algorithm);
        out.push(named.unwrap_or(0) as u8);
        let (tag, value) = match problem.taper {
            Taper::None => (0, 0.0),
            Taper::Hann => (1, 0.0),
            Taper::Blackman => (2, 0.0),
            Taper::Kaiser(beta) => (3, beta),
        };
        put(&mut out, tag, value);
        out.extend((self.wanted.len() as u64).to_le_bytes());
        out.extend(self.plan.wanted_sum().to_le_bytes());
        out.extend((self.label.len() as u32).to_le_bytes());
        out.extend(self.label.as_bytes());
        match self.kind {
            None => put(&mut out, 0, 0.0),
            Some(kind) => put(&mut out, 1 + u8::from(kind.real), kind.resolution),
        }
        let parts: Vec<Part> = self.coverage.parts().collect();
        out.extend((parts.len() as u64).to_le_bytes());
        for p in parts {
            for v in [p.start, p.step, p.count] {
                out.extend(v.to_le_bytes());
            }
        }
        let real = self.kind.is_some_and(|kind| kind.real);
        let fits = |w: &Width| self.values.iter().all(|v| w.holds(v.re) && (real || w.holds(v.im)));
        let at = Width::ALL.iter().position(fits).unwrap_or(Width::ALL.len() - 1);
        let width = Width::ALL[at];
        out.push(at as u8);
        out.extend((self.values.len() as u64).to_le_bytes());
        for v in &self.values {
            width.put(v.re, &mut out);
            if !real {
                width.put(v.im, &mut out);
            }
        }
        let sum = crc32fast::hash(&out);
        out.extend(sum.to_le_bytes());
        out
    }

    /// The sketch of these bytes.
    ///
    /// # Errors
    /// [`Error::DamagedSketch`] says what is wrong with the bytes; [`Error::OtherSketch`] if this
    /// release or machine would plan other samples. Bytes that hold less than a 256th of more than 2^22
    /// samples that their plan keeps are refused: little would cause much work.
    /// [`merge_bytes`](Sketch::merge_bytes) takes them, with the plan at hand.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let stored = Stored::parse(bytes)?;
        let plan = Plan::new(stored.problem.clone()).map_err(|e| damaged(&e.to_string()))?;
        // All that the plan keeps is listed before a value is read, so few bytes could ask for gigabytes.
        let samples = plan.menu().map_or(0, |menu| menu.samples);
        if stored.wanted > samples {
            let theirs = format!("{} samples", stored.wanted);
            return Err(other_sketch("the menu", format!("at most {samples} samples"), theirs));
        }
        if samples > FREELY + EACH * stored.count {
            return Err(damaged(&format!(
                "it holds {} values, and its plan may keep {samples}; if that is meant, merge it into a \
                 sketch of the same plan that holds more",
                stored.count
            )));
        }
        stored.sketch(&plan)
    }

    /// Merges the sketch of these bytes.
    ///
    /// # Errors
    /// As [`from_bytes`](Sketch::from_bytes) and [`merge`](Sketch::merge). Nothing was merged
    /// then.
    pub fn merge_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let stored = Stored::parse(bytes)?;
        self.check_problem(&stored.problem)?;
        let plan = self.plan.clone();
        self.merge(&stored.sketch(&plan)?)
    }
}

fn put(out: &mut Vec<u8>, tag: u8, value: f64) {
    out.push(tag);
    out.extend(value.to_le_bytes());
}

fn damaged(why: &str) -> Error {
    Error::DamagedSketch(why.to_string())
}

fn cut_off() -> Error {
    damaged("it is cut off; copy it again")
}

/// What the bytes of a sketch say.
struct Stored<'a> {
    problem: Problem,
    wanted: u64,
    menu: u32,
    label: &'a str,
    kind: Option<Kind>,
    parts: Vec<Part>,
    width: Width,
    count: u64,
    values: &'a [u8],
}

impl<'a> Stored<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let Some(rest) = bytes.strip_prefix(MAGIC) else {
            return Err(damaged("it does not begin with SFFTSKCH; give what a sketch wrote"));
        };
        let version = rest.first_chunk().map(|b| u32::from_le_bytes(*b));
        if let Some(version) = version.filter(|v| *v != VERSION) {
            return Err(Error::OtherSketch {
                what: "the version of the stored form",
                ours: VERSION.to_string(),
                theirs: version.to_string(),
            });
        }
        let Some((body, sum)) = bytes.split_last_chunk::<4>() else {
            return Err(cut_off());
        };
        if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
            return Err(damaged(
                "its checksum is wrong: it is cut off or was changed; copy it again",
            ));
        }
        let mut from = Reader { rest: &body[MAGIC.len() + 4..] };
        let (n, k, seed) = (from.u64()?, from.u64()?, from.u64()?);
        let noise = match from.tagged()? {
            (0, _) => Noise::Unknown,
            (1, _) => Noise::Exact,
            (2, db) => Noise::Snr(db),
            _ => return Err(damaged("its noise is none that is known")),
        };
        let (tolerance, failure) = (from.f64()?, from.f64()?);
        let algorithm = Algorithm::ALL.get(from.u8()? as usize).copied();
        let algorithm = algorithm.ok_or_else(|| damaged("its algorithm is none that is known"))?;
        let taper = match from.tagged()? {
            (0, _) => Taper::None,
            (1, _) => Taper::Hann,
            (2, _) => Taper::Blackman,
            (3, beta) => Taper::Kaiser(beta),
            _ => return Err(damaged("its taper is none that is known")),
        };
        let problem = Problem::new(n)
            .sparsity(k)
            .seed(seed)
            .noise(noise)
            .tolerance(tolerance)
            .failure_probability(failure)
            .algorithm(algorithm)
            .taper(taper)
            .one_pass();
        let (wanted, menu) = (from.u64()?, from.u32()?);
        let length = from.u32()? as usize;
        let (label, rest) = from.rest.split_at_checked(length).ok_or_else(cut_off)?;
        let label = std::str::from_utf8(label).map_err(|_| damaged("its label is no text"))?;
        from.rest = rest;
        let kind = match from.tagged()? {
            (0, _) => None,
            (1, resolution) => Some(Kind { real: false, resolution }),
            (2, resolution) => Some(Kind { real: true, resolution }),
            _ => return Err(damaged("its kind of samples is none that is known")),
        };
        let mut parts = Vec::new();
        for _ in 0..from.u64()? {
            parts.push(Part { start: from.u64()?, step: from.u64()?, count: from.u64()? });
        }
        let width = Width::ALL.get(from.u8()? as usize).copied();
        let width = width.ok_or_else(|| damaged("its type of values is none that is known"))?;
        let count = from.u64()?;
        let values = from.rest;
        let stored = Stored { problem, wanted, menu, label, kind, parts, width, count, values };
        let (_, each) = stored.layout();
        if count.checked_mul(each as u64) != Some(values.len() as u64) {
            return Err(damaged("its values are not as many as it says"));
        }
        Ok(stored)
    }

    /// Whether the values are real, and the bytes of each.
    fn layout(&self) -> (bool, usize) {
        let real = self.kind.is_some_and(|kind| kind.real);
        (real, self.width.size() * if real { 1 } else { 2 })
    }

    /// The sketch, for a plan of the same problem.
    fn sketch(&self, plan: &Plan) -> Result<Sketch, Error> {
        let mut sketch = Sketch::new(plan)?;
        let ours = (sketch.wanted.len() as u64, plan.wanted_sum());
        if ours != (self.wanted, self.menu) {
            let name = |(count, sum): (u64, u32)| format!("{count} samples ({sum:08x})");
            return Err(other_sketch("the menu", name(ours), name((self.wanted, self.menu))));
        }
        let mut coverage = Coverage::default();
        for part in &self.parts {
            if part.step == 0 {
                return Err(damaged("one of its parts has the step 0"));
            }
            coverage.add(*part, plan.problem().n).map_err(|e| damaged(&e.to_string()))?;
        }
        let held = coverage.select(&sketch.wanted);
        let held = held.ok_or_else(|| damaged("its parts have too many different steps"))?;
        if held.len() as u64 != self.count {
            return Err(damaged("its values are not those of its parts"));
        }
        let (real, each) = self.layout();
        let size = self.width.size();
        let number = |b: &[u8]| self.width.get(b);
        let value = |b: &[u8]| match real {
            true => Complex::new(number(b), 0.0),
            false => Complex::new(number(&b[..size]), number(&b[size..])),
        };
        sketch.values = self.values.chunks_exact(each).map(value).collect();
        sketch.label = self.label.to_string();
        (sketch.held, sketch.coverage, sketch.kind) = (held, coverage, self.kind);
        Ok(sketch)
    }
}

/// Takes numbers from the front.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (first, rest) = self.rest.split_first_chunk().ok_or_else(cut_off)?;
        self.rest = rest;
        Ok(*first)
    }
    fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.take::<1>()?[0])
    }
    fn u32(&mut self) -> Result<u32, Error> {
        self.take().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Result<u64, Error> {
        self.take().map(u64::from_le_bytes)
    }
    fn f64(&mut self) -> Result<f64, Error> {
        self.take().map(f64::from_le_bytes)
    }
    fn tagged(&mut self) -> Result<(u8, f64), Error> {
        Ok((self.u8()?, self.f64()?))
    }
}
