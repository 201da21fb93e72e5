//! NumPy's `.npy`: any numeric dtype, C order, one or two dimensions.
//!
//! The file is the magic `\x93NUMPY`, two version bytes, the length of the header (2 bytes in
//! version 1, 4 in versions 2 and 3), and the header: a Python dictionary with `descr`,
//! `fortran_order` and `shape`. The samples follow.

use super::layout::{Layout, Number};
use anyhow::{Context, Result, bail, ensure};

/// The six bytes every `.npy` file starts with.
pub const MAGIC: &[u8] = b"\x93NUMPY";

/// What the header says.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    number: Number,
    big_endian: bool,
    complex: bool,
    fortran_order: bool,
    shape: Vec<u64>,
    /// Byte at which the data start.
    offset: u64,
}

/// Which line of a two-dimensional array is the signal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pick {
    /// x\[row, :\].
    pub row: Option<u64>,
    /// x\[:, channel\].
    pub channel: Option<u64>,
    /// Pairs along the last axis are real and imaginary parts.
    pub iq: bool,
}

/// Reads the header.
///
/// # Errors
/// One sentence that says what is wrong and what to do.
pub fn parse(file: &[u8]) -> Result<Header> {
    ensure!(
        file.starts_with(MAGIC),
        "it does not start like a .npy file; save it with numpy.save, or name its --format"
    );
    let truncated = "the .npy header is cut off; copy the file again";
    let major = *file.get(6).context(truncated)?;
    let (length, start) = match major {
        1 => (file.get(8..10).map(|b| u64::from(u16::from_le_bytes([b[0], b[1]]))), 10),
        2 | 3 => {
            (file.get(8..12).map(|b| u64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))), 12)
        }
        v => bail!("the .npy version {v} is not known; save it with version 1, 2 or 3"),
    };
    let offset = start + length.context(truncated)?;
    let text = file.get(start as usize..offset as usize).context(truncated)?;
    let text = String::from_utf8_lossy(text);
    let mut header = Dictionary::parse(&text)
        .context("the .npy header is damaged; save the array again with numpy.save")?;
    let descr = header.descr.take().context("the .npy header has no 'descr'; save it again")?;
    let (number, big_endian, complex) = dtype(&descr)?;
    Ok(Header {
        number,
        big_endian,
        complex,
        fortran_order: header.fortran_order,
        shape: header.shape.take().context("the .npy header has no 'shape'; save it again")?,
        offset,
    })
}

impl Header {
    /// Where the samples lie in a file of this many bytes.
    ///
    /// # Errors
    /// One sentence that says what is wrong and what to do.
    pub fn layout(&self, file_size: u64, pick: Pick) -> Result<Layout> {
        let item = self.number.size() * if self.complex { 2 } else { 1 };
        let total = self.shape.iter().try_fold(1u64, |a, &b| a.checked_mul(b));
        let bytes = total.and_then(|t| t.checked_mul(item));
        let held = file_size.saturating_sub(self.offset);
        match bytes {
            Some(0) => bail!("the array is empty; give one with at least one sample"),
            Some(bytes) if bytes <= held => {}
            _ => bail!(
                "the header promises an array of shape {} but only {} follow; \
                 the file is truncated or its header is wrong, copy it again",
                self.shape_text(),
                crate::units::bytes(held)
            ),
        }
        let mut layout = Layout {
            number: self.number,
            big_endian: self.big_endian,
            complex: self.complex,
            offset: self.offset,
            stride: item,
            n: 1,
            bias: 0.0,
        };
        let mut shape = self.shape.clone();
        if pick.iq {
            ensure!(!self.complex, "the array is complex already; leave out --iq");
            ensure!(
                shape.last() == Some(&2),
                "--iq needs a real array whose last axis has length 2, not shape {}",
                self.shape_text()
            );
            ensure!(!self.fortran_order, "{}", FORTRAN);
            shape.pop();
            layout.complex = true;
            layout.stride = 2 * item;
        }
        // Axes of length 1 hold no choice.
        if shape.len() > 1 && pick.row.is_none() && pick.channel.is_none() {
            shape.retain(|&s| s != 1);
        }
        match shape[..] {
            [] => {}
            [n] => {
                ensure!(
                    pick.row.is_none() && pick.channel.is_none(),
                    "--row and --channel need a two-dimensional array, not shape {}",
                    self.shape_text()
                );
                layout.n = n;
            }
            [rows, columns] => {
                ensure!(!self.fortran_order, "{}", FORTRAN);
                match (pick.row, pick.channel) {
                    (Some(row), None) => {
                        ensure!(
                            row < rows,
                            "--row {row} does not exist; rows are 0 to {}",
                            rows - 1
                        );
                        layout.n = columns;
                        layout.offset += row * columns * layout.stride;
                    }
                    (None, Some(channel)) => {
                        ensure!(
                            channel < columns,
                            "--channel {channel} does not exist; channels are 0 to {}",
                            columns - 1
                        );
                        layout.n = rows;
                        layout.offset += channel * layout.stride;
                        layout.stride *= columns;
                    }
                    _ => bail!(
                        "the array has shape {}; pick a signal with --row or --channel",
                        self.shape_text()
                    ),
                }
            }
            _ => bail!(
                "the array has {} dimensions; save a one- or two-dimensional part of it",
                shape.len()
            ),
        }
        Ok(layout)
    }

    fn shape_text(&self) -> String {
        let sides: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        format!("({})", sides.join(", "))
    }
}

const FORTRAN: &str =
    "the array is in Fortran order; save it as numpy.save(path, numpy.ascontiguousarray(array))";

/// Number type, byte order and complexity of a dtype such as `<c8`.
fn dtype(descr: &str) -> Result<(Number, bool, bool)> {
    let unsupported = || {
        format!(
            "the dtype '{}' is not supported; convert it with array.astype to a float, \
             complex or integer type of at most 64 bits per number",
            descr.escape_debug()
        )
    };
    let (order, kind) = match descr.as_bytes().first() {
        Some(b'<' | b'>' | b'|' | b'=') => descr.split_at(1),
        _ => ("=", descr),
    };
    let big_endian = order == ">" || (order == "=" && cfg!(target_endian = "big"));
    let (number, complex) = match kind {
        "i1" => (Number::I8, false),
        "u1" | "b1" => (Number::U8, false),
        "i2" => (Number::I16, false),
        "u2" => (Number::U16, false),
        "i4" => (Number::I32, false),
        "u4" => (Number::U32, false),
        "i8" => (Number::I64, false),
        "u8" => (Number::U64, false),
        "f2" => (Number::F16, false),
        "f4" => (Number::F32, false),
        "f8" => (Number::F64, false),
        "c8" => (Number::F32, true),
        "c16" => (Number::F64, true),
        _ => bail!(unsupported()),
    };
    Ok((number, big_endian, complex))
}

/// The three entries of the header.
#[derive(Default)]
struct Dictionary {
    descr: Option<String>,
    fortran_order: bool,
    shape: Option<Vec<u64>>,
}

impl Dictionary {
    /// Parses the small part of Python's syntax that headers use.
    fn parse(text: &str) -> Result<Self> {
        let mut at = Cursor { rest: text };
        let mut found = Dictionary::default();
        at.expect('{')?;
        while !at.eat('}') {
            let key = at.string()?;
            at.expect(':')?;
            match key {
                "descr" if at.peek() != Some('\'') && at.peek() != Some('"') => {
                    bail!("structured dtypes are not supported; save one field of the array")
                }
                "descr" => found.descr = Some(at.string()?.to_owned()),
                "fortran_order" => found.fortran_order = at.boolean()?,
                "shape" => found.shape = Some(at.tuple()?),
                other => bail!("unknown entry '{}'", other.escape_debug()),
            }
            if !at.eat(',') {
                at.expect('}')?;
                break;
            }
        }
        Ok(found)
    }
}

struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.rest = &self.rest[c.len_utf8()..];
        }
        found
    }

    fn expect(&mut self, c: char) -> Result<()> {
        ensure!(self.eat(c), "'{c}' is missing");
        Ok(())
    }

    fn string(&mut self) -> Result<&'a str> {
        let quote =
            self.peek().filter(|c| matches!(c, '\'' | '"')).context("a quote is missing")?;
        let (text, rest) = self.rest[1..].split_once(quote).context("a quote is missing")?;
        self.rest = rest;
        Ok(text)
    }

    fn boolean(&mut self) -> Result<bool> {
        self.peek();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        bail!("True or False is missing")
    }

    fn tuple(&mut self) -> Result<Vec<u64>> {
        self.expect('(')?;
        let mut items = Vec::new();
        while !self.eat(')') {
            self.peek();
            let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
            items.push(self.rest[..end].parse().context("a side of the shape is not a number")?);
            self.rest = &self.rest[end..];
            // Python 2 wrote long integers with a suffix.
            self.eat('L');
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        ensure!(items.len() <= 32, "the shape has {} sides", items.len());
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: usize) -> Vec<u8> {
        let mut f = MAGIC.to_vec();
        f.extend([1, 0]);
        f.extend((header.len() as u16).to_le_bytes());
        f.extend(header.as_bytes());
        f.resize(f.len() + data, 0);
        f
    }

    fn layout(header: &str, data: usize, pick: Pick) -> Result<Layout> {
        let f = file(header, data);
        parse(&f)?.layout(f.len() as u64, pick)
    }

    #[test]
    fn rows_channels_and_pairs() {
        let h = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5), }";
        let start = 10 + h.len() as u64;
        let row = layout(h, 60, Pick { row: Some(2), ..Pick::default() }).unwrap();
        assert_eq!((row.n, row.offset, row.stride), (5, start + 40, 4));
        let channel = layout(h, 60, Pick { channel: Some(4), ..Pick::default() }).unwrap();
        assert_eq!((channel.n, channel.offset, channel.stride), (3, start + 16, 20));
        let h = "{'descr': '>i2', 'fortran_order': False, 'shape': (7, 2)}";
        let iq = layout(h, 28, Pick { iq: true, ..Pick::default() }).unwrap();
        assert_eq!((iq.n, iq.stride, iq.complex, iq.big_endian), (7, 4, true, true));
        let h = "{\"descr\": \"|u1\", 'fortran_order': True, 'shape': (9L,)}";
        assert_eq!(layout(h, 9, Pick::default()).unwrap().n, 9);
        let h = "{'descr': '<c16', 'fortran_order': False, 'shape': ()}";
        assert_eq!(layout(h, 16, Pick::default()).unwrap().n, 1);
    }

    #[test]
    fn dtypes_and_byte_orders() {
        for (descr, number, complex) in [
            ("i1", Number::I8, false),
            ("b1", Number::U8, false),
            ("u1", Number::U8, false),
            ("i2", Number::I16, false),
            ("u2", Number::U16, false),
            ("i4", Number::I32, false),
            ("u4", Number::U32, false),
            ("i8", Number::I64, false),
            ("u8", Number::U64, false),
            ("f2", Number::F16, false),
            ("f4", Number::F32, false),
            ("f8", Number::F64, false),
            ("c8", Number::F32, true),
            ("c16", Number::F64, true),
        ] {
            let native = cfg!(target_endian = "big");
            for (order, big_endian) in
                [("<", false), (">", true), ("=", native), ("|", false), ("", native)]
            {
                let found = dtype(&format!("{order}{descr}")).unwrap();
                assert_eq!(found, (number, big_endian, complex), "{order}{descr}");
            }
        }
    }

    /// A complex sample is two numbers, and all of them must be there.
    #[test]
    fn complex_samples_have_twice_the_bytes() {
        let h = "{'descr': '<c8', 'fortran_order': False, 'shape': (3,)}";
        let all = layout(h, 24, Pick::default()).unwrap();
        assert_eq!((all.n, all.stride, all.complex), (3, 8, true));
        let error = layout(h, 23, Pick::default()).unwrap_err().to_string();
        assert!(error.contains("shape (3)") && error.contains("23 bytes"), "{error}");
    }

    #[test]
    fn axes_of_length_one_hold_no_choice() {
        let row = |row| Pick { row: Some(row), ..Pick::default() };
        let channel = |channel| Pick { channel: Some(channel), ..Pick::default() };
        // Shape, what is picked, and the length, first number and distance that come out.
        for (shape, pick, expected) in [
            ("(1, 5)", Pick::default(), (5, 0, 4)),
            ("(5, 1)", Pick::default(), (5, 0, 4)),
            ("(1, 5, 1)", Pick::default(), (5, 0, 4)),
            ("(1,)", Pick::default(), (1, 0, 4)),
            ("(1, 1)", Pick::default(), (1, 0, 4)),
            ("(1, 5)", row(0), (5, 0, 4)),
            ("(1, 5)", channel(3), (1, 12, 20)),
            ("(5, 1)", row(3), (1, 12, 4)),
            ("(5, 1)", channel(0), (5, 0, 4)),
        ] {
            let h = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}");
            let found = layout(&h, 20, pick).unwrap();
            let place = found.offset - 10 - h.len() as u64;
            assert_eq!((found.n, place, found.stride), expected, "{shape} {pick:?}");
        }
        let h = "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 5)}";
        assert_eq!(layout(h, 20, Pick::default()).unwrap().n, 5);
        let h = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5)}";
        let error = layout(h, 60, Pick::default()).unwrap_err().to_string();
        assert!(error.contains("shape (3, 5)"), "{error}");
    }

    #[test]
    fn damaged_headers_are_refused_in_words() {
        let none = Pick::default();
        let cases = [
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5)}", "--row"),
            ("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 5)}", "Fortran"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999,)}", "truncated"),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999)}",
                "truncated",
            ),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}", "empty"),
            ("{'descr': '<f16', 'fortran_order': False, 'shape': (1,)}", "astype"),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "structured"),
            ("{'descr': '<f4', 'shape': (1", "damaged"),
            ("{'descr': '<f4'}", "shape"),
            ("{'descr': '<f4', 'fortran_order': Perhaps, 'shape': (1,)}", "damaged"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "damaged"),
            ("{}", "descr"),
            ("", "damaged"),
        ];
        for (header, word) in cases {
            let error = format!("{:#}", layout(header, 60, none).unwrap_err());
            assert!(error.contains(word), "{header}: {error}");
        }
        let bytes = file("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4);
        for cut in 0..bytes.len() - 4 {
            assert!(parse(&bytes[..cut]).is_err(), "{cut}");
        }
    }
}
