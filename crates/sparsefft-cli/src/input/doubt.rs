//! What other sample types the bytes of raw samples look like.
//!
//! Numbers of the right type have mostly similar sizes, or follow each other closely; then few bits
//! tell them apart. Read as another type, fast and slow bytes change places and every sample costs
//! more. So the measure is a code length: the class of a number (its highest and its lowest bit)
//! with an adaptive code, the bits between them as they are; of the samples or of their
//! differences, whichever is shorter. Three physical facts decide where bits cannot:
//! - A number of the wrong sign convention keeps away from zero and crowds where it wraps.
//! - Floats of a recording lie within a few tens of octaves; other bytes read as floats do not.
//! - Floats that do are plausible, whatever else the bytes could be.

use super::layout::Number;
use super::raw::Type;

/// Bytes that are looked at: windows of this many, this many of them. 32 KiB place the code lengths
/// to 0.03 bits per byte.
pub(super) const WINDOW: usize = 512;
pub(super) const WINDOWS: usize = 64;
/// Fewer bytes say nothing.
const FEWEST: usize = 2048;
/// Bits per byte by which another type must be shorter. Differences between right readings of the
/// same numbers (recordings and synthetic signals, twelve types) stay below 0.37; wrong readings
/// cost 0.5 to 4 more, but for full-scale noise, which looks alike in every type.
const MARGIN: f64 = 0.5;
/// Distinct numbers below which a recording is too coarse to judge, such as keyed full-scale
/// levels.
const COARSE: usize = 16;
/// Octaves around the median, and the share of floats beyond them from which they are no recording:
/// 40 octaves are 240 dB.
const OCTAVES: i64 = 40;
const WILD_SHARE: f64 = 0.02;
/// Share of full scale around zero, and of the numbers there, below which a sign is doubted. Noise
/// of any level, tones, and full-scale sines have 16 % or more of their samples there.
const CENTRE: f64 = 0.25;
const EMPTY: f64 = 0.02;
/// Least share of the numbers at either end.
const BOTH: f64 = 0.1;

/// How well a type fits the bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// The type.
    pub kind: Type,
    /// Bits per byte that its numbers take; 8 for bytes without any order.
    pub bits: f64,
    /// Root mean square against full scale, in dB; NaN or infinite for floats that are none.
    pub rms_db: f64,
    /// Whether the numbers could be a recording.
    pub plausible: bool,
    distinct: usize,
    /// Whether the numbers keep away from zero and crowd where signed and unsigned ones wrap.
    wrapped: bool,
}

/// A doubt about the sample type.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Doubt {
    /// A code that does not change.
    pub code: &'static str,
    /// The name of the type that the samples look like, for `--format`.
    pub format: String,
    /// One sentence.
    pub text: String,
}

/// The types that are compared, of this complexity.
fn types(complex: bool) -> impl Iterator<Item = Type> {
    use Number::*;
    let all = [I8, U8, I16, U16, I32, U32, F32, F64].into_iter();
    all.flat_map(move |number| {
        let both = [false, true].into_iter().filter(move |big| number.size() > 1 || !big);
        both.map(move |big_endian| Type { number, complex, big_endian })
    })
}

/// Every type against these bytes, the one that was read first, then by code length.
pub fn fits(bytes: &[u8], read: Type) -> Vec<Fit> {
    let bytes = &bytes[..bytes.len() / 8 * 8];
    if bytes.len() < FEWEST {
        return Vec::new();
    }
    let mut all: Vec<Fit> = types(read.complex).map(|kind| fit(bytes, kind)).collect();
    all.sort_by(|a, b| (a.kind != read, a.bits).partial_cmp(&(b.kind != read, b.bits)).unwrap());
    all
}

/// The type that the bytes look like, if it is not the one that was read; of [`fits`].
pub fn doubt(fits: &[Fit]) -> Option<Doubt> {
    let (own, others) = fits.split_first()?;
    if own.distinct < COARSE && !own.wrapped {
        return None;
    }
    let same =
        |a: Type, b: Type| a.number.size() == b.number.size() && a.big_endian == b.big_endian;
    let integer = |f: &Fit| !f.kind.number.is_float();
    let twin = others.iter().find(|f| integer(f) && integer(own) && same(f.kind, own.kind));
    let better =
        others.iter().filter(|f| f.plausible && f.distinct >= COARSE && !f.wrapped).find(|f| {
            let float = !integer(own);
            let needed = if float && !own.plausible { 0.0 } else { MARGIN };
            let allowed = !float || !own.plausible || !integer(f);
            allowed && twin.is_none_or(|t| t.kind != f.kind) && f.bits + needed < own.bits
        });
    // The other sign first: the bytes of both are the same numbers, but for the highest bit.
    let sign = twin.filter(|t| own.wrapped && better.is_none_or(|b| t.bits <= b.bits));
    let found = sign.or(better)?;
    Some(sentence(own, found))
}

fn sentence(own: &Fit, found: &Fit) -> Doubt {
    let (had, format) = (name(own.kind), name(found.kind));
    let why = match (own.kind.number.is_float(), found.kind.number.is_float()) {
        _ if own.wrapped && found.kind.number.size() == own.kind.number.size() => {
            "no sample is near zero, and they crowd around the ends of the range".to_owned()
        }
        (true, _) if !own.plausible => "the numbers spread over more than 240 dB".to_owned(),
        _ => format!("as {format} each byte takes {:.1} bits, not {:.1}", found.bits, own.bits),
    };
    let pairs = match found.kind.complex {
        true => String::new(),
        false => format!(", or --format c{format} if I and Q alternate"),
    };
    let text = format!(
        "read as {had} the samples look wrong ({why}): this looks like {}; try --format {format}{pairs}",
        words(found.kind)
    );
    Doubt { code: "sample_type", format, text }
}

/// The name that `--format` takes.
pub fn name(kind: Type) -> String {
    let prefix = if kind.complex { "c" } else { "" };
    let number = kind.number.name().replace('i', "s");
    format!("{prefix}{number}{}", if kind.big_endian { "_be" } else { "" })
}

/// A type in words: `complex unsigned 8-bit integers`.
pub fn words(kind: Type) -> String {
    let complex = if kind.complex { "complex " } else { "" };
    let what = match kind.number {
        Number::U8 | Number::U16 | Number::U32 | Number::U64 => "unsigned ",
        n if n.is_float() => "",
        _ => "signed ",
    };
    let thing = if kind.number.is_float() { "floats" } else { "integers" };
    let order = if kind.big_endian { ", most significant byte first" } else { "" };
    format!("{complex}{what}{}-bit {thing}{order}", 8 * kind.number.size())
}

/// The numbers as integers in the order of their values, with sign.
fn ordered(bytes: &[u8], kind: Type) -> Vec<i64> {
    let size = kind.number.size() as usize;
    let bits = 8 * size as u32;
    let raw = |chunk: &[u8]| {
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        if kind.big_endian { chunk.iter().fold(0, add) } else { chunk.iter().rev().fold(0, add) }
    };
    // The sign bit moves to the top of 64 bits and back.
    let signed = |value: u64| (value << (64 - bits)) as i64 >> (64 - bits);
    let all = bytes.chunks_exact(size).map(raw);
    match kind.number {
        n if n.is_float() => {
            let top = 1u64 << (bits - 1);
            let value = |v: u64| if v & top == 0 { v as i64 } else { -((v & (top - 1)) as i64) };
            all.map(value).collect()
        }
        Number::U8 | Number::U16 | Number::U32 => {
            all.map(|v| signed(v ^ (1 << (bits - 1)))).collect()
        }
        _ => all.map(signed).collect(),
    }
}

fn fit(bytes: &[u8], kind: Type) -> Fit {
    let size = kind.number.size() as f64;
    let values = ordered(bytes, kind);
    let differences = |lag: usize| -> Vec<i64> {
        values[lag..].iter().zip(&values).map(|(a, b)| a.wrapping_sub(*b)).collect()
    };
    let own = match kind.number {
        Number::F32 => class_bits(&values, FLOATS, |v| float_class(v.unsigned_abs(), 23)),
        Number::F64 => class_bits(&values, DOUBLES, |v| float_class(v.unsigned_abs(), 52)),
        _ => class_bits(&values, INTEGERS, integer_class),
    };
    // Of interleaved pairs those of the same part follow each other.
    let follow = [1, 2].map(|lag| class_bits(&differences(lag), INTEGERS, integer_class));
    let bits = follow.into_iter().fold(own, f64::min) / size;
    let distinct = distinct(&values);
    let (plausible, rms) = match kind.number {
        Number::F32 => (is_tame(&values, 23, 127), rms_of_floats(bytes, kind)),
        Number::F64 => (is_tame(&values, 52, 1023), rms_of_floats(bytes, kind)),
        _ => {
            let power = values.iter().map(|v| (*v as f64).powi(2)).sum::<f64>();
            (true, (power / values.len() as f64).sqrt() / kind.number.full_scale())
        }
    };
    let wrapped = !kind.number.is_float() && distinct > 3 && is_wrapped(&values, kind.number);
    let rms_db = 20.0 * rms.log10();
    Fit { kind, bits, rms_db, plausible, distinct, wrapped }
}

/// Distinct values, counted up to [`COARSE`].
fn distinct(values: &[i64]) -> usize {
    let mut seen = Vec::with_capacity(COARSE);
    for value in values {
        if seen.len() < COARSE && !seen.contains(value) {
            seen.push(*value);
        }
    }
    seen.len()
}

/// Highest bits of integers, and exponents of floats and doubles, times 64 lowest bits.
const INTEGERS: usize = 64 * 66;
const FLOATS: usize = 64 * 258;
const DOUBLES: usize = 64 * 2050;

/// Class of an integer by its highest and lowest bit, and the bits that remain.
fn integer_class(value: i64) -> (usize, u32) {
    match value.unsigned_abs() {
        0 => (0, 0),
        size => {
            let (top, low) = (63 - size.leading_zeros(), size.trailing_zeros());
            // One bit more for the sign.
            ((64 * (top + 1) + low) as usize, 1 + top.saturating_sub(low + 1))
        }
    }
}

/// Class of a float by its exponent and the lowest bit of its mantissa, and the bits that remain.
fn float_class(size: u64, mantissa: u32) -> (usize, u32) {
    if size == 0 {
        return (0, 0);
    }
    let rest = size & ((1 << mantissa) - 1);
    let low = if rest == 0 { mantissa } else { rest.trailing_zeros() };
    let exponent = (size >> mantissa) as usize;
    (64 * (exponent + 1) + low as usize, 1 + mantissa.saturating_sub(low + 1))
}

/// Mean bits of a number: the entropy of the classes and what remains within them.
fn class_bits(values: &[i64], classes: usize, class: impl Fn(i64) -> (usize, u32)) -> f64 {
    let mut counts = vec![0u32; classes];
    let mut rest = 0u64;
    for &value in values {
        let (place, more) = class(value);
        counts[place] += 1;
        rest += u64::from(more);
    }
    let all = values.len().max(1) as f64;
    let share = counts.iter().filter(|c| **c > 0).map(|c| f64::from(*c) / all);
    share.map(|p| -p * p.log2()).sum::<f64>() + rest as f64 / all
}

/// Whether floats lie within the octaves of a recording. Zeros say nothing.
fn is_tame(values: &[i64], mantissa: u32, bias: i64) -> bool {
    let exponent = |v: &i64| (v.unsigned_abs() >> mantissa) as i64 - bias;
    let mut all: Vec<i64> = values.iter().filter(|v| **v != 0).map(exponent).collect();
    if all.is_empty() {
        return true;
    }
    all.sort_unstable();
    let middle = all[all.len() / 2];
    let far = |e: &&i64| (**e - middle).abs() > OCTAVES || **e > bias;
    let share = all.iter().filter(far).count() as f64 / all.len() as f64;
    // Numbers near the ends of what the type can hold are integers in disguise.
    share <= WILD_SHARE && middle > 10 - bias && middle < bias - 10
}

fn rms_of_floats(bytes: &[u8], kind: Type) -> f64 {
    let layout = kind.layout(0, bytes.len() as u64, 1, 0);
    let mut all = vec![num_complex::Complex::ZERO; layout.n as usize];
    layout.read_range(bytes, 0, &mut all);
    let parts = if kind.complex { 2.0 } else { 1.0 };
    (all.iter().map(|v| v.norm_sqr()).sum::<f64>() / (parts * all.len().max(1) as f64)).sqrt()
}

/// Whether numbers keep away from zero and become more frequent up to both ends of their range.
fn is_wrapped(values: &[i64], number: Number) -> bool {
    let scale = number.full_scale();
    let share = |low: f64, high: f64| {
        let inside = |v: &&i64| (low..high).contains(&((**v as f64).abs() / scale));
        values.iter().filter(inside).count() as f64 / values.len() as f64
    };
    // The last sixteenth against the three before it, each by its width.
    let (end, before) = (share(0.9375, 1.1), share(0.75, 0.9375) / 3.0);
    // An offset crowds at one end.
    let above = values.iter().filter(|v| **v >= 0).count() as f64 / values.len() as f64;
    share(0.0, CENTRE) < EMPTY && end > before && (BOTH..=1.0 - BOTH).contains(&above)
}
