//! Raw samples without a header, named like `cf32`, `cs16_be` or, as SigMF has it, `ci16_le`.

use super::layout::{Layout, Number};
use anyhow::{Result, bail, ensure};

/// The type of raw samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Type {
    /// Type of the stored numbers.
    pub number: Number,
    /// Whether a sample is an interleaved pair of numbers.
    pub complex: bool,
    /// Whether the most significant byte comes first.
    pub big_endian: bool,
}

/// The names that help texts and errors give as examples.
pub const NAMES: &str = "cf32 cf64 cs8 cu8 cs16 cu16 cs32 cu32 f32 f64 s8 u8 s16 u16 s32 u32";

impl Type {
    /// The type of this name: an optional `c` (complex) or `r` (real), `f`, `s`, `i` or `u`, the
    /// number of bits, and an optional `_le` or `_be` (little endian if not given).
    pub fn parse(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let (rest, big_endian) = match lower.rsplit_once('_') {
            Some((rest, "be")) => (rest, true),
            Some((rest, "le")) => (rest, false),
            Some(_) => return None,
            None => (lower.as_str(), false),
        };
        // The names of GNU Radio and UHD.
        let rest = match rest {
            "cfile" | "fc32" => "cf32",
            "fc64" => "cf64",
            "sc8" => "cs8",
            "sc16" => "cs16",
            other => other,
        };
        let (complex, rest) = match rest.strip_prefix('c') {
            Some(rest) => (true, rest),
            None => (false, rest.strip_prefix('r').unwrap_or(rest)),
        };
        let number = match rest {
            "f32" => Number::F32,
            "f64" => Number::F64,
            "s8" | "i8" => Number::I8,
            "u8" => Number::U8,
            "s16" | "i16" => Number::I16,
            "u16" => Number::U16,
            "s32" | "i32" => Number::I32,
            "u32" => Number::U32,
            _ => return None,
        };
        Some(Type { number, complex, big_endian })
    }

    /// Bytes of one sample.
    pub fn size(&self) -> u64 {
        self.number.size() * if self.complex { 2 } else { 1 }
    }

    /// The middle of the range, where unsigned numbers mean zero; 0 for signed ones.
    pub fn bias(&self) -> f64 {
        match self.number {
            Number::U8 | Number::U16 | Number::U32 => self.number.full_scale() - 0.5,
            _ => 0.0,
        }
    }

    /// The name SigMF uses: `cf32_le`, `ri16_be`, `cu8`.
    pub fn sigmf_name(&self) -> String {
        let kind = if self.complex { 'c' } else { 'r' };
        let order = match (self.number.size(), self.big_endian) {
            (1, _) => "",
            (_, true) => "_be",
            (_, false) => "_le",
        };
        format!("{kind}{}{order}", self.number.name())
    }

    /// Samples of `channels` interleaved channels in `size` bytes from `offset` on.
    pub fn layout(&self, offset: u64, size: u64, channels: u64, channel: u64) -> Layout {
        let stride = self.size() * channels;
        Layout {
            number: self.number,
            big_endian: self.big_endian,
            complex: self.complex,
            offset: offset + channel * self.size(),
            stride,
            n: size / stride,
            bias: self.bias(),
        }
    }
}

/// The layout of a whole file of raw samples; a part of it may be cut out by skip and count.
///
/// # Errors
/// A size that is not a whole number of samples, unless only a part is read.
pub fn layout(kind: Type, size: u64, partial: bool) -> Result<Layout> {
    let step = kind.size();
    ensure!(size >= step, "its {size} bytes are less than one {step}-byte sample; check --format");
    if !size.is_multiple_of(step) && !partial {
        bail!(
            "its {size} bytes are not a whole number of {step}-byte samples; check --format, \
             or read its whole samples with --count {}",
            size / step
        );
    }
    Ok(kind.layout(0, size, 1, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_tools() {
        let t = |number, complex, big_endian| Some(Type { number, complex, big_endian });
        assert_eq!(Type::parse("cf32"), t(Number::F32, true, false));
        assert_eq!(Type::parse("ci16_be"), t(Number::I16, true, true));
        assert_eq!(Type::parse("rf64_le"), t(Number::F64, false, false));
        assert_eq!(Type::parse("CU8"), t(Number::U8, true, false));
        assert_eq!(Type::parse("s32_be"), t(Number::I32, false, true));
        assert_eq!(Type::parse("fc32"), t(Number::F32, true, false));
        for bad in ["", "c", "cf16", "cf32_xe", "f32_", "rcf32", "npy", "wav"] {
            assert_eq!(Type::parse(bad), None, "{bad}");
        }
        for name in NAMES.split(' ') {
            let kind = Type::parse(name).unwrap();
            assert_eq!(Type::parse(&kind.sigmf_name()), Some(kind), "{name}");
        }
    }

    #[test]
    fn sizes_must_divide() {
        let kind = Type::parse("cs16").unwrap();
        assert_eq!(layout(kind, 400, false).unwrap().n, 100);
        assert!(layout(kind, 402, false).unwrap_err().to_string().contains("--count"));
        assert_eq!(layout(kind, 402, true).unwrap().n, 100);
        assert!(layout(kind, 3, true).is_err());
        assert_eq!(Type::parse("cu8").unwrap().bias(), 127.5);
    }
    #[test]
    fn channels_lie_side_by_side() {
        let kind = Type::parse("cs16").unwrap();
        let found = kind.layout(16, 125, 3, 2);
        assert_eq!((found.offset, found.stride, found.n), (16 + 2 * 4, 12, 10));
        assert_eq!(found.end(), Some(16 + 120));
    }
}
