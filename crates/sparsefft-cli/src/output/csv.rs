//! Comma-separated values, one peak per line, sorted by index.

use super::View;

/// The peaks as CSV with a header line. The columns `hertz` and `snr_db` are empty where the sample
/// rate or the noise floor is not known. `level_db` is that of the sinusoid, as in the table:
/// 2|X|/n of a real tone, |X|/n otherwise.
pub fn csv(view: &View<'_>) -> String {
    let mut out =
        String::from("index,frequency,hertz,re,im,magnitude,phase,level_db,snr_db,bin,bin_std\n");
    for p in view.spectrum.peaks() {
        let hertz = view.rate.map_or(String::new(), |_| view.frequency(p).to_string());
        let snr = view.snr(p).map_or(String::new(), |s| format!("{s:.3}"));
        out += &format!(
            "{},{},{hertz},{},{},{},{},{:.3},{snr},{},{}\n",
            p.index,
            view.cycles(p),
            p.value.re,
            p.value.im,
            p.magnitude(),
            p.phase(),
            view.tone_level(p),
            view.bin(p).0,
            view.bin(p).1,
        );
    }
    out
}
