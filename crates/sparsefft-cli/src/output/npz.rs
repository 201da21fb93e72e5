//! The peaks as NumPy's `.npz`: a zip archive of `.npy` members, not compressed.

use super::View;
use super::recorder::npy;

/// The archive: `index`, `frequency` (cycles per sample), `hertz` (where the rate is known),
/// `value`, `bin`, `bin_std`, all sorted by index, and the scalars `n`, `noise_floor`, `seed`,
/// `samples_read` (by all attempts). Times are left out: equal runs give equal files.
pub fn npz(view: &View<'_>) -> Vec<u8> {
    let spectrum = view.spectrum;
    let (n, peaks) = (spectrum.n(), spectrum.peaks());
    let shape = format!("({},)", peaks.len());
    let column = |descr: &str, bytes: Vec<u8>| [npy(descr, &shape), bytes].concat();
    let floats = |f: &dyn Fn(&sparsefft::Peak) -> f64| {
        peaks.iter().flat_map(|p| f(p).to_le_bytes()).collect::<Vec<u8>>()
    };
    let scalar = |descr: &str, bytes: &[u8]| [npy(descr, "()"), bytes.to_vec()].concat();
    let pair = |p: &sparsefft::Peak| [p.value.re.to_le_bytes(), p.value.im.to_le_bytes()].concat();
    let mut members = vec![
        ("index", column("<u8", peaks.iter().flat_map(|p| p.index.to_le_bytes()).collect())),
        ("frequency", column("<f8", floats(&|p| view.cycles(p)))),
        ("value", column("<c16", peaks.iter().flat_map(pair).collect())),
        ("bin", column("<f8", floats(&|p| view.bin(p).0))),
        ("bin_std", column("<f8", floats(&|p| view.bin(p).1))),
        ("n", scalar("<u8", &n.to_le_bytes())),
        ("seed", scalar("<u8", &spectrum.report().seed.to_le_bytes())),
        ("samples_read", scalar("<u8", &view.cost.samples_read().to_le_bytes())),
        ("noise_floor", scalar("<f8", &spectrum.certificate().noise_floor.to_le_bytes())),
    ];
    if view.rate.is_some() {
        members.push(("hertz", column("<f8", floats(&|p| view.frequency(p)))));
    }
    zip(&members)
}

/// A zip archive of stored members named `NAME.npy`. Sizes stay far below 4 GiB here.
fn zip(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in members {
        let name = format!("{name}.npy");
        // Version, flags, method, time, date (1980-01-01), checksum, sizes, name.
        let mut common = Vec::new();
        common.extend(20u16.to_le_bytes());
        common.extend([0; 4]);
        common.extend(0u16.to_le_bytes());
        common.extend(0x21u16.to_le_bytes());
        common.extend(crc32fast::hash(bytes).to_le_bytes());
        common.extend((bytes.len() as u32).to_le_bytes());
        common.extend((bytes.len() as u32).to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend(0u16.to_le_bytes());
        directory.extend(b"PK\x01\x02");
        directory.extend(20u16.to_le_bytes());
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend((out.len() as u32).to_le_bytes());
        directory.extend(name.as_bytes());
        out.extend(b"PK\x03\x04");
        out.extend(&common);
        out.extend(name.as_bytes());
        out.extend(bytes);
    }
    let (start, count) = (out.len() as u32, members.len() as u16);
    let size = directory.len() as u32;
    out.extend(directory);
    out.extend(b"PK\x05\x06");
    out.extend([0; 4]);
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(size.to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0; 2]);
    out
}
