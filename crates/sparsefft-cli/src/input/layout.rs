//! Where samples lie in a file and how their bytes become numbers.
//!
//! Sample i starts at byte `offset + i·stride`; a complex sample is two numbers side by side.
//! Integers are taken at face value, less `bias` for formats that store offset binary.

use num_complex::Complex;
use sparsefft::Line;

/// The type of one stored number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// 8-bit signed integer.
    I8,
    /// 8-bit unsigned integer.
    U8,
    /// 16-bit signed integer.
    I16,
    /// 16-bit unsigned integer.
    U16,
    /// 24-bit signed integer, packed in 3 bytes.
    I24,
    /// 32-bit signed integer.
    I32,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit signed integer.
    I64,
    /// 64-bit unsigned integer.
    U64,
    /// 16-bit float.
    F16,
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
}

impl Number {
    /// Size in bytes.
    pub fn size(self) -> u64 {
        match self {
            Number::I8 | Number::U8 => 1,
            Number::I16 | Number::U16 | Number::F16 => 2,
            Number::I24 => 3,
            Number::I32 | Number::U32 | Number::F32 => 4,
            Number::I64 | Number::U64 | Number::F64 => 8,
        }
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, Number::F16 | Number::F32 | Number::F64)
    }

    /// |x| of a full-scale sample: 1 for floats, 2^(b-1) for integers of b bits.
    pub fn full_scale(self) -> f64 {
        if self.is_float() { 1.0 } else { 2f64.powi(8 * self.size() as i32 - 1) }
    }

    /// Its name in messages: `i16`, `f32`.
    pub fn name(self) -> &'static str {
        match self {
            Number::I8 => "i8",
            Number::U8 => "u8",
            Number::I16 => "i16",
            Number::U16 => "u16",
            Number::I24 => "i24",
            Number::I32 => "i32",
            Number::U32 => "u32",
            Number::I64 => "i64",
            Number::U64 => "u64",
            Number::F16 => "f16",
            Number::F32 => "f32",
            Number::F64 => "f64",
        }
    }
}

/// Where samples lie in a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Layout {
    /// Type of the stored numbers.
    pub number: Number,
    /// Whether the most significant byte comes first.
    pub big_endian: bool,
    /// Whether a sample is a pair of numbers.
    pub complex: bool,
    /// Byte at which sample 0 starts.
    pub offset: u64,
    /// Bytes from one sample to the next.
    pub stride: u64,
    /// Number of samples.
    pub n: u64,
    /// Subtracted from every number: the middle of offset-binary formats.
    pub bias: f64,
}

/// Runs `$body` with `$get(bytes, position)` reading one number of the layout's type; the body is
/// compiled once per type so that the match stays outside its loops.
macro_rules! with_reader {
    ($layout:expr, $get:ident => $body:expr) => {{
        macro_rules! fixed {
            ($size:literal, $convert:expr) => {{
                let $get = |bytes: &[u8], at: usize| -> f64 {
                    let mut raw = [0u8; $size];
                    raw.copy_from_slice(&bytes[at..at + $size]);
                    $convert(raw)
                };
                $body
            }};
        }
        match ($layout.number, $layout.big_endian) {
            (Number::I8, _) => fixed!(1, |b: [u8; 1]| b[0] as i8 as f64),
            (Number::U8, _) => fixed!(1, |b: [u8; 1]| b[0] as f64),
            (Number::I16, false) => fixed!(2, |b| i16::from_le_bytes(b) as f64),
            (Number::I16, true) => fixed!(2, |b| i16::from_be_bytes(b) as f64),
            (Number::U16, false) => fixed!(2, |b| u16::from_le_bytes(b) as f64),
            (Number::U16, true) => fixed!(2, |b| u16::from_be_bytes(b) as f64),
            (Number::I24, false) => {
                fixed!(3, |b: [u8; 3]| (i32::from_le_bytes([0, b[0], b[1], b[2]]) >> 8) as f64)
            }
            (Number::I24, true) => {
                fixed!(3, |b: [u8; 3]| (i32::from_be_bytes([b[0], b[1], b[2], 0]) >> 8) as f64)
            }
            (Number::I32, false) => fixed!(4, |b| i32::from_le_bytes(b) as f64),
            (Number::I32, true) => fixed!(4, |b| i32::from_be_bytes(b) as f64),
            (Number::U32, false) => fixed!(4, |b| u32::from_le_bytes(b) as f64),
            (Number::U32, true) => fixed!(4, |b| u32::from_be_bytes(b) as f64),
            (Number::I64, false) => fixed!(8, |b| i64::from_le_bytes(b) as f64),
            (Number::I64, true) => fixed!(8, |b| i64::from_be_bytes(b) as f64),
            (Number::U64, false) => fixed!(8, |b| u64::from_le_bytes(b) as f64),
            (Number::U64, true) => fixed!(8, |b| u64::from_be_bytes(b) as f64),
            (Number::F16, false) => fixed!(2, |b| half(u16::from_le_bytes(b))),
            (Number::F16, true) => fixed!(2, |b| half(u16::from_be_bytes(b))),
            (Number::F32, false) => fixed!(4, |b| f32::from_le_bytes(b) as f64),
            (Number::F32, true) => fixed!(4, |b| f32::from_be_bytes(b) as f64),
            (Number::F64, false) => fixed!(8, f64::from_le_bytes),
            (Number::F64, true) => fixed!(8, f64::from_be_bytes),
        }
    }};
}

impl Layout {
    /// The smallest and the largest value that a number can have; floats have none.
    pub fn range(&self) -> Option<(f64, f64)> {
        let scale = self.number.full_scale();
        let signed = !matches!(self.number, Number::U8 | Number::U16 | Number::U32 | Number::U64);
        let (low, high) = if signed { (-scale, scale - 1.0) } else { (0.0, 2.0 * scale - 1.0) };
        (!self.number.is_float()).then_some((low - self.bias, high - self.bias))
    }

    /// Bytes of one sample.
    pub fn sample_size(&self) -> u64 {
        self.number.size() * if self.complex { 2 } else { 1 }
    }

    /// One past the last byte that is read, if it can be counted.
    pub fn end(&self) -> Option<u64> {
        match self.n.checked_sub(1) {
            None => Some(self.offset),
            Some(last) => last
                .checked_mul(self.stride)?
                .checked_add(self.offset)?
                .checked_add(self.sample_size()),
        }
    }

    /// The samples in words: `4 194 304 complex f32 samples`.
    pub fn describe(&self) -> String {
        let kind = if self.complex { "complex" } else { "real" };
        format!("{} {kind} {} samples", crate::units::grouped(self.n), self.number.name())
    }

    /// Sample i; the file is at least [`end`](Layout::end) bytes long and i < n.
    #[inline(always)] // monomorphised per number type into the loops below
    fn sample(&self, bytes: &[u8], i: u64, get: impl Fn(&[u8], usize) -> f64) -> Complex<f64> {
        let at = (self.offset + i * self.stride) as usize;
        let re = get(bytes, at) - self.bias;
        let im = if self.complex {
            get(bytes, at + self.number.size() as usize) - self.bias
        } else {
            0.0
        };
        Complex::new(re, im)
    }

    /// Reads the samples at these indices.
    pub fn read(&self, bytes: &[u8], indices: &[u64], out: &mut [Complex<f64>]) {
        with_reader!(self, get => {
            for (o, &i) in out.iter_mut().zip(indices) {
                *o = self.sample(bytes, i, get);
            }
        });
    }

    /// Reads consecutive samples.
    pub fn read_range(&self, bytes: &[u8], start: u64, out: &mut [Complex<f64>]) {
        with_reader!(self, get => {
            for (i, o) in out.iter_mut().enumerate() {
                *o = self.sample(bytes, start + i as u64, get);
            }
        });
    }

    /// Reads lines of four neighbours: lane τ of `out[j]` is sample (start + j·step + τ) mod n.
    pub fn read_lines(&self, bytes: &[u8], start: u64, step: u64, out: &mut [Line]) {
        let n = self.n;
        let step = step % n;
        let mut first = start % n;
        with_reader!(self, get => {
            for line in out {
                for tau in 0..4 {
                    let i = first + tau as u64;
                    let i = if i < n { i } else { i % n };
                    line.set_lane(tau, self.sample(bytes, i, get));
                }
                first += step;
                if first >= n {
                    first -= n;
                }
            }
        });
    }
}

/// A 16-bit float (IEEE binary16).
fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 31);
    let fraction = f64::from(bits & 1023) / 1024.0;
    sign * match exponent {
        0 => fraction * 2f64.powi(-14),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        e => (1.0 + fraction) * 2f64.powi(e - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(number: Number, big_endian: bool, bytes: &[u8]) -> f64 {
        let layout = Layout {
            number,
            big_endian,
            complex: false,
            offset: 1,
            stride: number.size(),
            n: 1,
            bias: 0.0,
        };
        let mut file = vec![0xEE];
        file.extend_from_slice(bytes);
        assert_eq!(layout.end(), Some(file.len() as u64));
        let mut out = [Complex::ZERO];
        layout.read(&file, &[0], &mut out);
        out[0].re
    }

    #[test]
    fn every_type_and_byte_order() {
        assert_eq!(one(Number::I8, false, &[0x80]), -128.0);
        assert_eq!(one(Number::U8, false, &[0xFF]), 255.0);
        assert_eq!(one(Number::I24, false, &[0xFE, 0xFF, 0xFF]), -2.0);
        assert_eq!(one(Number::I24, true, &[0x01, 0x02, 0x03]), 66051.0);
        assert_eq!(one(Number::F16, false, &[0x00, 0xC0]), -2.0);
        assert_eq!(one(Number::F16, true, &[0x00, 0x01]), 2f64.powi(-24));
        assert!(one(Number::F16, true, &[0x7C, 0x01]).is_nan());
        assert_eq!(one(Number::F16, true, &[0x3E, 0x00]), 1.5);
        assert_eq!(one(Number::F16, true, &[0x7B, 0xFF]), 65_504.0);
        assert_eq!(one(Number::F16, true, &[0x7C, 0x00]), f64::INFINITY);
        assert_eq!(one(Number::F16, true, &[0xFC, 0x00]), f64::NEG_INFINITY);
        macro_rules! both {
            ($variant:ident, $value:expr) => {
                let value = $value;
                assert_eq!(one(Number::$variant, false, &value.to_le_bytes()), value as f64);
                assert_eq!(one(Number::$variant, true, &value.to_be_bytes()), value as f64);
            };
        }
        both!(I16, -12345i16);
        both!(U16, 54321u16);
        both!(I32, -123_456_789i32);
        both!(U32, 3_123_456_789u32);
        both!(I64, -1_234_567_890_123i64);
        both!(U64, 1_234_567_890_123u64);
        both!(F32, -1.5f32);
        both!(F64, 2.25f64);
    }

    #[test]
    fn lines_wrap_around_the_end() {
        let layout = Layout {
            number: Number::U8,
            big_endian: false,
            complex: true,
            offset: 0,
            stride: 2,
            n: 5,
            bias: 0.5,
        };
        let bytes: Vec<u8> = (0..10).collect();
        let mut lines = [Line::ZERO; 3];
        layout.read_lines(&bytes, 3, 7, &mut lines);
        for (j, line) in lines.iter().enumerate() {
            for tau in 0..4 {
                let i = ((3 + 7 * j + tau) % 5) as f64;
                assert_eq!(line.lane(tau), Complex::new(2.0 * i - 0.5, 2.0 * i + 0.5));
            }
        }
    }

    #[test]
    fn ranges_and_scattered_samples_are_the_same() {
        let layout = Layout {
            number: Number::I16,
            big_endian: true,
            complex: true,
            offset: 3,
            stride: 6,
            n: 20,
            bias: 0.0,
        };
        let bytes: Vec<u8> = (0..layout.end().unwrap() as u8).collect();
        assert_eq!(bytes.len(), 3 + 19 * 6 + 4);
        let (mut range, mut some) = ([Complex::ZERO; 9], [Complex::ZERO; 9]);
        layout.read_range(&bytes, 11, &mut range);
        let indices: Vec<u64> = (11..20).collect();
        layout.read(&bytes, &indices, &mut some);
        assert_eq!(range, some);
        // Bytes 3 + 6·11 and the next three.
        assert_eq!(range[0], Complex::new(69.0 * 256.0 + 70.0, 71.0 * 256.0 + 72.0));
    }

    #[test]
    fn full_scale_and_words() {
        for (number, full, name) in [
            (Number::I8, 128.0, "i8"),
            (Number::U16, 32_768.0, "u16"),
            (Number::I24, 8_388_608.0, "i24"),
            (Number::U32, 2_147_483_648.0, "u32"),
            (Number::F16, 1.0, "f16"),
            (Number::F64, 1.0, "f64"),
        ] {
            assert_eq!((number.full_scale(), number.is_float()), (full, full == 1.0), "{name}");
            let mut layout = Layout {
                number,
                big_endian: false,
                complex: true,
                offset: 0,
                stride: 99,
                n: 12,
                bias: 0.0,
            };
            assert_eq!(layout.describe(), format!("12 complex {name} samples"));
            layout.complex = false;
            assert_eq!(layout.describe(), format!("12 real {name} samples"));
        }
    }

    #[test]
    fn a_length_that_overflows_has_no_end() {
        let layout = Layout {
            number: Number::F64,
            big_endian: false,
            complex: true,
            offset: 128,
            stride: 16,
            n: u64::MAX / 4,
            bias: 0.0,
        };
        assert_eq!(layout.end(), None);
    }
}
