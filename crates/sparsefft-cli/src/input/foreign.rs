//! Files of other programs: recognised by their content and named, with a command that converts
//! them.

use std::path::Path;

/// What starts a file of a kind, where, the kind, and a command that converts it: `{in}` stands for
/// the file, `{out}` for its name with the extension of the command's output.
struct Kind {
    at: usize,
    magic: &'static [u8],
    name: &'static str,
    convert: &'static str,
}

const fn kind(at: usize, magic: &'static [u8], name: &'static str, convert: &'static str) -> Kind {
    Kind { at, magic, name, convert }
}

const HDF5: &str = "python3 -c \"import h5py, numpy; a = []; h5py.File({in}).visititems(lambda k, o: \
     a.append(o) if isinstance(o, h5py.Dataset) else None); numpy.save({npy}, max(a, key=lambda o: \
     o.size)[...].squeeze())\"";
const MAT: &str = "python3 -c \"import numpy, scipy.io; a = scipy.io.loadmat({in}); numpy.save({npy}, \
     max((v for k, v in a.items() if k[0] != '_'), key=numpy.size).squeeze())\"";
const SEED: &str =
    "python3 -c \"import numpy, obspy; numpy.save({npy}, obspy.read({in})[0].data)\"";
const FITS: &str = "python3 -c \"import numpy; from astropy.io import fits; numpy.save({npy}, next(h.data \
     for h in fits.open({in}) if h.data is not None).squeeze().astype(float))\"";
const PARQUET: &str = "python3 -c \"import numpy, pandas; numpy.save({npy}, \
     pandas.read_parquet({in}).select_dtypes('number').iloc[:, -1].to_numpy())\"";
const NPZ: &str = "python3 -c \"import numpy; a = numpy.load({in}); numpy.save({npy}, max(a.values(), \
     key=numpy.size).squeeze())\"";
const NETCDF: &str = "python3 -c \"import numpy, xarray; a = xarray.open_dataset({in}); numpy.save({npy}, \
     max(a.values(), key=lambda v: v.size).to_numpy().squeeze())\"";
const TDMS: &str = "python3 -c \"import nptdms, numpy; numpy.save({npy}, max((c for g in \
     nptdms.TdmsFile.read({in}).groups() for c in g.channels()), key=len)[:])\"";
const EDF: &str = "python3 -c \"import numpy, pyedflib; numpy.save({npy}, \
     pyedflib.EdfReader({in}).readSignal(0))\"";
const FRAME: &str = "python3 -c \"import numpy; from gwpy.timeseries import TimeSeries; \
     numpy.save({npy}, TimeSeries.read({in}, 'CHANNEL').value)\"";
const FFMPEG: &str = "ffmpeg -i {in} {wav}";
const UNPACK: &str = "sparsefft peaks -";

/// The kinds, more special ones first.
const KINDS: &[Kind] = &[
    kind(0, b"MATLAB 7.3 MAT-file", "a Matlab file (v7.3, which is HDF5)", HDF5),
    kind(0, b"MATLAB 5.0 MAT-file", "a Matlab file", MAT),
    kind(0, b"\x89HDF\r\n\x1a\n", "an HDF5 file", HDF5),
    kind(512, b"\x89HDF\r\n\x1a\n", "an HDF5 file", HDF5),
    kind(0, b"SIMPLE  =", "a FITS file", FITS),
    kind(0, b"PAR1", "a Parquet file", PARQUET),
    kind(0, b"CDF\x01", "a netCDF file", NETCDF),
    kind(0, b"CDF\x02", "a netCDF file", NETCDF),
    kind(0, b"TDSm", "a TDMS file of LabVIEW", TDMS),
    kind(0, b"IGWD\0", "a frame file of gravitational-wave detectors", FRAME),
    kind(0, b"MS\x03", "a miniSEED file", SEED),
    kind(0, b"PK\x03\x04", "a zip archive, perhaps .npz", NPZ),
    kind(0, b"\x1f\x8b", "compressed by gzip", "gzip -dc {in} |"),
    kind(0, b"\x28\xb5\x2f\xfd", "compressed by zstd", "zstd -dc {in} |"),
    kind(0, b"\xfd7zXZ\0", "compressed by xz", "xz -dc {in} |"),
    kind(0, b"BZh", "compressed by bzip2", "bzip2 -dc {in} |"),
    kind(0, b"wvpk", "a WavPack file", FFMPEG),
    kind(0, b".snd", "an AU file", FFMPEG),
    kind(0, b"riff\x2e\x91\xcf\x11", "a Wave64 file", FFMPEG),
    kind(0, b"RIFX", "a WAV file of the other byte order", FFMPEG),
    kind(0, b"MAC ", "a Monkey's Audio file", FFMPEG),
    kind(0, b"\x1a\x45\xdf\xa3", "a Matroska or WebM file", FFMPEG),
    kind(4, b"ftyp", "an MP4 file", FFMPEG),
    kind(0, b"fLaC", "a FLAC file", FFMPEG),
    kind(8, b"AIFF", "an AIFF file", FFMPEG),
    kind(8, b"AIFC", "an AIFF file", FFMPEG),
    kind(0, b"caff", "a CAF file", FFMPEG),
    kind(0, b"ID3", "an MP3 file", FFMPEG),
    kind(8, b"AVI ", "an AVI file", FFMPEG),
];

/// Whether an Ogg stream is Opus, which has a decoder of its own.
pub(super) fn is_opus(file: &[u8]) -> bool {
    file.get(28..36) == Some(b"OpusHead")
}

/// miniSEED 2: six digits, a letter of quality, and a blank.
fn is_seed(file: &[u8]) -> bool {
    let number = file.get(..6).is_some_and(|d| d.iter().all(u8::is_ascii_digit));
    number && matches!(file.get(6), Some(b'D' | b'R' | b'Q' | b'M')) && file.get(7) == Some(&b' ')
}

/// EDF and BDF: the version in eight bytes, then the patient.
fn is_edf(file: &[u8]) -> bool {
    file.starts_with(b"0       ") || file.starts_with(b"\xffBIOSEMI")
}

/// Numbers as text: digits, separators, perhaps a heading.
fn is_text(file: &[u8]) -> bool {
    /// Bytes that are looked at.
    const HEAD: usize = 4096;
    let head = &file[..file.len().min(HEAD)];
    let word = |b: &u8| matches!(b, b' '..=b'~' | b'\t' | b'\r' | b'\n');
    let digits = head.iter().filter(|b| b.is_ascii_digit()).count();
    head.len() >= 2 && head.iter().all(word) && 3 * digits > head.len()
}

/// What a file is that no reader here takes, and how it becomes one that is taken.
pub(super) fn name(file: &[u8], path: Option<&Path>) -> Option<String> {
    let (what, convert) = if is_opus(file) {
        ("an Opus file", FFMPEG)
    } else if file.starts_with(b"OggS") {
        ("an Ogg file", FFMPEG)
    } else if is_seed(file) {
        ("a miniSEED file", SEED)
    } else if is_edf(file) {
        ("an EDF or BDF file", EDF)
    } else if is_text(file) {
        let load = "python3 -c \"import numpy; numpy.save({npy}, numpy.genfromtxt({in}, delimiter=DELIMITER, \
                    skip_header=1, usecols=-1))\"";
        let delimiter = match file.iter().take(4096).find(|b| matches!(b, b',' | b';' | b'\t')) {
            Some(b',') => "','",
            Some(b';') => "';'",
            Some(_) => "'\\t'",
            None => "None",
        };
        return Some(sentence("numbers as text", &load.replace("DELIMITER", delimiter), path));
    } else {
        let here = |k: &&Kind| file.get(k.at..).is_some_and(|rest| rest.starts_with(k.magic));
        let found = KINDS.iter().find(here)?;
        (found.name, found.convert)
    };
    Some(sentence(what, convert, path))
}

fn sentence(what: &str, convert: &str, path: Option<&Path>) -> String {
    let name = path.map_or("FILE".to_owned(), |p| p.display().to_string());
    let stem = path.map_or("FILE".to_owned(), |p| p.with_extension("").display().to_string());
    // The shell takes plain names as they are.
    let plain = name.chars().all(|c| c.is_alphanumeric() || "/._-+".contains(c));
    let shell = if plain { "" } else { "'" };
    // In Python the command itself stands in double quotes.
    let (quote, tail) = match convert {
        command if command.ends_with('|') => (shell, format!(" {UNPACK} --format NAME")),
        command if command.starts_with("python3") => ("'", format!(", then give {stem}.npy")),
        _ => (shell, format!(", then give {stem}.wav")),
    };
    let command = convert
        .replace("{in}", &format!("{quote}{name}{quote}"))
        .replace("{npy}", &format!("'{stem}.npy'"))
        .replace("{wav}", &format!("{quote}{stem}.wav{quote}"));
    let verb = if what.starts_with("compressed") { "it is" } else { "this is" };
    format!("{verb} {what}, which is not read here; convert it: {command}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_programs_are_named_with_a_command() {
        let mut opus = b"OggS".to_vec();
        opus.resize(28, 0);
        opus.extend(b"OpusHead");
        let mut late = vec![0; 512];
        late.extend(b"\x89HDF\r\n\x1a\n");
        for (bytes, words) in [
            (&b"MATLAB 5.0 MAT-file, Platform: GLNXA64"[..], &["Matlab", "loadmat('d/x.in')"][..]),
            (b"MATLAB 7.3 MAT-file", &["v7.3", "h5py"]),
            (b"\x89HDF\r\n\x1a\n\0", &["HDF5", "numpy.save('d/x.npy'", "then give d/x.npy"]),
            (&late, &["HDF5"]),
            (b"000001D ANMO", &["miniSEED", "obspy"]),
            (b"SIMPLE  =                    T", &["FITS", "astropy"]),
            (b"PAR1\x15", &["Parquet", "read_parquet('d/x.in')"]),
            (b"\x1f\x8b\x08", &["gzip -dc d/x.in | sparsefft peaks -"]),
            (b"PK\x03\x04", &["zip", "numpy.load('d/x.in')"]),
            (&opus, &["Opus", "ffmpeg -i d/x.in d/x.wav"]),
            (b"0       patient", &["EDF", "pyedflib"]),
            (b"time,value\n0.1,2.25\n0.2,2.50\n0.3,2.75\n", &["text", "delimiter=','"]),
        ] {
            let said = name(bytes, Some(Path::new("d/x.in"))).unwrap();
            words.iter().for_each(|w| assert!(said.contains(w), "{w}: {said}"));
            assert!(said.lines().count() == 1 && !said.contains('{'), "{said}");
        }
        for bytes in [&b""[..], &[0; 600], b"\x01\x02\x03\x04", b"abc def ghi"] {
            assert_eq!(name(bytes, None), None, "{bytes:?}");
        }
    }
}
