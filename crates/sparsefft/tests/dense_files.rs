//! Transforms of files, with so little memory that they need two passes and many panels.

use sparsefft::dense::{Direction, Fft, FileFft, FilePart, Real};
use sparsefft::{Complex, Error, Norm};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::PathBuf;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sparsefft-{}-{name}", std::process::id()));
        Scratch(path)
    }
    fn open(&self) -> File {
        File::options().read(true).write(true).create(true).truncate(true).open(&self.0).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn bytes<T: Real>(x: &[Complex<T>]) -> Vec<u8> {
    let mut out = Vec::new();
    for v in x {
        for part in [v.re, v.im] {
            let wide = part.to_f64().unwrap();
            if size_of::<T>() == 8 {
                out.extend(wide.to_le_bytes());
            } else {
                out.extend((wide as f32).to_le_bytes());
            }
        }
    }
    out
}

fn signal<T: Real>(n: usize) -> Vec<Complex<T>> {
    let real = |v: f64| T::from_f64(v).unwrap();
    let value = |t: usize| (real((t as f64 * 1.3).sin()), real((t as f64 * t as f64 * 0.7).cos()));
    (0..n).map(value).map(|(re, im)| Complex::new(re, im)).collect()
}

fn conform<T: Real>(n: usize, memory: u64, name: &str) {
    let x = signal::<T>(n);
    let [input, output, scratch] =
        ["in", "out", "scratch"].map(|f| Scratch::new(&format!("{name}-{}-{n}-{f}", T::NAME)));
    let (mut source, mut target, scratch_file) = (input.open(), output.open(), scratch.open());
    source.write_all(b"header").unwrap();
    source.write_all(&bytes(&x)).unwrap();
    for direction in [Direction::Forward, Direction::Inverse] {
        let plan = FileFft::<T>::new(n as u64, memory).unwrap().norm(Norm::Ortho);
        assert_eq!(plan.needs_scratch(), memory < 2 * (n * 2 * size_of::<T>()) as u64);
        let from = FilePart { file: &source, offset: 6 };
        let to = FilePart { file: &target, offset: 16 };
        plan.run(direction, from, to, Some(&scratch_file)).unwrap();
        let mut expected = x.clone();
        let fft = Fft::<T>::new(n as u64).unwrap().norm(Norm::Ortho);
        fft.batch(direction, &mut expected, &mut Default::default()).unwrap();
        let mut got = Vec::new();
        target.rewind().unwrap();
        target.read_to_end(&mut got).unwrap();
        assert_eq!(got.len(), 16 + n * 2 * size_of::<T>());
        let float = |b: &[u8]| match b.len() {
            8 => f64::from_le_bytes(b.try_into().unwrap()),
            _ => f32::from_le_bytes(b.try_into().unwrap()) as f64,
        };
        let got = got[16..].chunks_exact(size_of::<T>()).map(float);
        let expected = expected.iter().flat_map(|v| [v.re, v.im]).map(|v| v.to_f64().unwrap());
        let (mut off, mut size) = (0.0, 0.0);
        for (g, e) in got.zip(expected) {
            off += (g - e) * (g - e);
            size += e * e;
        }
        let error: f64 = (off / size).sqrt();
        let epsilon = T::epsilon().to_f64().unwrap();
        assert!(error <= 3.0 * epsilon * (n as f64).log2().sqrt(), "n = {n}: {error:e}");
    }
}

#[test]
fn files_larger_than_memory_are_transformed_in_two_passes() {
    conform::<f64>(1 << 16, 1 << 17, "small");
    conform::<f32>(1 << 17, 1 << 17, "small");
    // Panels that do not divide the length.
    conform::<f64>(300 * 210, 200_000, "ragged");
    conform::<f64>(1 << 12, 1 << 20, "fits");
}

#[test]
fn what_cannot_work_is_said_before_anything_is_written() {
    // A prime that does not fit.
    let error = FileFft::<f64>::new(1_000_003, 1 << 20).unwrap_err();
    assert!(matches!(error, Error::Unsupported { algorithm: "out-of-core", .. }), "{error}");
    // A prime whose data fit, but not the padded convolution that it takes.
    let (n, size) = (1_048_583, 16);
    let error = FileFft::<f64>::new(n, 4 * n * size).unwrap_err();
    assert!(matches!(error, Error::Unsupported { algorithm: "out-of-core", .. }), "{error}");
    assert!(!FileFft::<f64>::new(n, 10 * n * size).unwrap().needs_scratch());
    let error = FileFft::<f64>::new(1 << 20, 1 << 16).unwrap_err();
    assert!(matches!(error, Error::InvalidOption { name: "memory", .. }), "{error}");
    assert_eq!(FileFft::<f64>::new(0, 1 << 20).unwrap_err(), Error::ZeroLength);
    // A file that is too short.
    let short = Scratch::new("short");
    let mut file = short.open();
    file.write_all(&[0; 100]).unwrap();
    let plan = FileFft::<f64>::new(64, 1 << 20).unwrap();
    let part = FilePart { file: &file, offset: 0 };
    let error = plan.run(Direction::Forward, part, part, None).unwrap_err();
    assert!(matches!(error, Error::Source(_)), "{error}");
    // No scratch file where one is needed.
    let plan = FileFft::<f64>::new(1 << 16, 1 << 17).unwrap();
    assert!(plan.run(Direction::Forward, part, part, None).is_err());
}
