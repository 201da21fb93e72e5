//! `find` for C: what is in a signal. The findings are kept behind a handle, and each list is copied
//! into the caller's array.

use super::{
    Failure, SPARSEFFT_ERROR_NULL, choice, given, guard, memory, sized, sparsefft_read, threads_of,
};
use sparse::find::{Effort, Find, Findings, Line, LineKind, Outcome};
use sparse::{Complex, Samples};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

/// A sparse search, and all samples if it is not certified.
pub const SPARSEFFT_EFFORT_USUAL: c_int = 0;
/// A sparse search alone.
pub const SPARSEFFT_EFFORT_QUICK: c_int = 1;
/// All samples, without a sparse search.
pub const SPARSEFFT_EFFORT_THOROUGH: c_int = 2;

/// A part of the samples was read, and what the lines leave of them is steady white noise.
pub const SPARSEFFT_OUTCOME_CERTIFIED: c_int = 0;
/// All samples were read: every line above the local floor by `threshold_db` is named, alone or
/// in a band or burst.
pub const SPARSEFFT_OUTCOME_COMPLETE: c_int = 1;
/// Not everything could be examined; the reasons say why.
pub const SPARSEFFT_OUTCOME_PARTIAL: c_int = 2;

/// A sinusoid, perhaps with a drift.
pub const SPARSEFFT_TONE: c_int = 0;
/// A sinusoid whose amplitude decays or grows over the record.
pub const SPARSEFFT_DAMPED: c_int = 1;
/// One peak wider than a sinusoid: a wandering tone or a resonance.
pub const SPARSEFFT_BROAD: c_int = 2;
/// Several tones that are not resolved.
pub const SPARSEFFT_CLUSTER: c_int = 3;
/// The mean of a real signal: stated, not tested against a floor.
pub const SPARSEFFT_OFFSET: c_int = 4;
/// Of sparsefft_tones_...: a narrow-band signal that is no tone.
pub const SPARSEFFT_NARROW_BAND: c_int = 5;

/// How to look for things. Zero means the default everywhere:
///
///     sparsefft_find_options options = {.size = sizeof options};
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sparsefft_find_options {
    /// sizeof(sparsefft_find_options).
    pub size: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// List at most so many lines, the strongest; 0: all. It bounds the list and nothing else.
    pub at_most: u64,
    /// Bytes that reading all samples may take; 0: 4 GiB.
    pub memory: u64,
    /// Accepted probability that noise makes a finding; 0 means 1e-6.
    pub failure_probability: f64,
    /// One of SPARSEFFT_EFFORT_...
    pub effort: c_int,
    /// As in sparsefft_options.
    pub threads: c_int,
    /// Not 0: ignore `seed` and draw one.
    pub draw_seed: c_int,
}

/// Something at one frequency. Frequencies are in cycles per sample, -1/2 to 1/2; times the sample
/// rate they are in Hz. What is not known is NaN.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sparsefft_line {
    /// SPARSEFFT_TONE, SPARSEFFT_DAMPED, SPARSEFFT_BROAD, SPARSEFFT_CLUSTER, SPARSEFFT_OFFSET or
    /// SPARSEFFT_NARROW_BAND.
    pub kind: c_int,
    /// 1 if the samples are real, so that there is a mirror image at the negative frequency: a
    /// cosine then has the level 2 |re + i im|.
    pub mirrored: c_int,
    /// Mean frequency over the record; of sparsefft_tones_... the frequency at the first sample.
    pub frequency: f64,
    /// Its standard deviation.
    pub frequency_std: f64,
    /// The coefficient a of a exp(2 pi i frequency t) at the first sample, t = 0.
    pub re: f64,
    /// Its imaginary part.
    pub im: f64,
    /// Standard deviation of |a|.
    pub amplitude_std: f64,
    /// Level over the local floor in one bin of the whole record, n |a|^2 / density, in dB.
    pub snr_db: f64,
    /// Change of the frequency per sample; 0 where none was seen.
    pub drift: f64,
    /// Its standard deviation.
    pub drift_std: f64,
    /// Width at half power in cycles per sample; 0 where it is not resolved.
    pub width: f64,
    /// Decay of the amplitude per sample: |a(t)| is proportional to exp(-damping t).
    pub damping: f64,
}

/// A part of the spectrum that stands above its surroundings.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sparsefft_band {
    /// Lower edge in cycles per sample.
    pub low: f64,
    /// Upper edge.
    pub high: f64,
    /// Where it is strongest.
    pub peak: f64,
    /// Mean power |x|^2 between the edges, mirror image included.
    pub power: f64,
    /// How far it stands above its surroundings, in dB.
    pub above_db: f64,
    /// Share of the time during which something happens in it; NaN where that is not known.
    pub busy: f64,
}

/// Something that is there only part of the time.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sparsefft_burst {
    /// First sample.
    pub start: u64,
    /// Number of samples.
    pub length: u64,
    /// Lower edge in cycles per sample.
    pub low: f64,
    /// Upper edge.
    pub high: f64,
    /// Mean power |x|^2 while it lasts, mirror image included.
    pub power: f64,
    /// Its strongest tile of time and frequency over the floor, in dB.
    pub above_db: f64,
}

/// A line whose frequency moves across the band.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sparsefft_sweep {
    /// First sample.
    pub start: u64,
    /// Number of samples.
    pub length: u64,
    /// Frequency at its first sample, in cycles per sample.
    pub from: f64,
    /// Frequency at its last sample.
    pub to: f64,
    /// Change of the frequency per sample.
    pub rate: f64,
    /// Mean power |x|^2 while it lasts, mirror image included.
    pub power: f64,
    /// Its strongest tile of time and frequency over the floor, in dB.
    pub above_db: f64,
}

/// Lines with a common spacing.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sparsefft_family {
    /// The spacing in cycles per sample; of harmonics the fundamental.
    pub spacing: f64,
    /// The frequency that sidebands lie around; NaN for harmonics.
    pub carrier: f64,
    /// Number of multiples of the spacing that are there.
    pub orders: u64,
    /// The lowest and the highest of them.
    pub lowest: i64,
    /// See `lowest`.
    pub highest: i64,
}

/// The local floor at one frequency.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sparsefft_floor {
    /// Frequency in cycles per sample.
    pub frequency: f64,
    /// Density: white noise of power s^2 per sample has the density s^2 everywhere.
    pub density: f64,
    /// Its standard deviation in dB.
    pub std_db: f64,
    /// SNR in dB from which on a line there could not have been overlooked.
    pub threshold_db: f64,
}

/// The findings as a whole. Set `size` first:
///
///     sparsefft_summary summary = {.size = sizeof summary};
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sparsefft_summary {
    /// sizeof(sparsefft_summary), set by the caller.
    pub size: usize,
    /// One of SPARSEFFT_OUTCOME_...
    pub outcome: c_int,
    /// 1 if the samples are real: only frequencies from 0 to 1/2 are listed.
    pub real: c_int,
    /// Number of samples of the signal.
    pub n: u64,
    /// Number of lines.
    pub lines: u64,
    /// Lines that were found but are not among those asked for.
    pub left_out: u64,
    /// Number of bands.
    pub bands: u64,
    /// Number of bursts.
    pub bursts: u64,
    /// Number of sweeps.
    pub sweeps: u64,
    /// Number of families.
    pub families: u64,
    /// Number of frequencies at which the floor is stated.
    pub floor: u64,
    /// Number of reasons.
    pub reasons: u64,
    /// SNR in dB from which on a line could not have been overlooked, in nine tenths of the band.
    pub threshold_db: f64,
    /// Probability that noise alone makes a finding.
    pub failure_probability: f64,
    /// Samples read by all attempts, counted with repetition.
    pub samples_read: u64,
    /// Wall-clock time of all attempts.
    pub seconds: f64,
    /// Memory that reading all samples has taken, in bytes; 0 if only a part was read.
    pub memory: u64,
    /// Seed of the random choices.
    pub seed: u64,
}

/// What is in a signal: the answer of sparsefft_find_...
pub struct sparsefft_findings {
    findings: Findings,
    /// Code and text of each reason.
    reasons: Vec<(CString, CString)>,
}

impl sparsefft_find_options {
    /// The findings of a signal.
    fn run<S: Samples + ?Sized>(&self, signal: &S) -> Result<Findings, Failure> {
        let seed = if self.draw_seed != 0 { sparse::random_seed() } else { self.seed };
        let efforts = [Effort::Usual, Effort::Quick, Effort::Thorough];
        let mut find = Find::new().seed(seed).effort(choice(&efforts, self.effort, "effort")?);
        if self.at_most != 0 {
            find = find.at_most(self.at_most);
        }
        if self.memory != 0 {
            find = find.memory(self.memory);
        }
        if self.failure_probability != 0.0 {
            find = find.failure_probability(self.failure_probability);
        }
        Ok(match threads_of(self.threads)? {
            None => find.run(signal)?,
            Some(pool) => pool.install(|| find.run(signal))?,
        })
    }
}

/// Runs a search; NULL and an error code if it fails.
///
/// # Safety
/// `options` is NULL or points to as many bytes as its size says; `error` is NULL or writable.
unsafe fn find(
    options: *const sparsefft_find_options,
    error: *mut c_int,
    signal: impl FnOnce() -> Result<Box<dyn Samples>, Failure>,
) -> *mut sparsefft_findings {
    let mut out = null_mut();
    let code = guard(|| {
        let options = if options.is_null() {
            // SAFETY: all fields are numbers, for which zero is valid, and the default.
            unsafe { std::mem::zeroed() }
        } else {
            // SAFETY: as promised by the caller.
            unsafe { sized(options, "sparsefft_find_options")? }
        };
        let findings = options.run(&signal()?)?;
        let text = |s: &str| CString::new(s).unwrap_or_default();
        let reasons = findings.reasons.iter().map(|r| (text(r.code), text(&r.text))).collect();
        out = Box::into_raw(Box::new(sparsefft_findings { findings, reasons }));
        Ok(())
    });
    if !error.is_null() {
        // SAFETY: as promised by the caller.
        unsafe { *error = code };
    }
    out
}

/// What is in n complex numbers? x holds 2 n values, real and imaginary parts in turn. `options` may
/// be NULL: all defaults. Returns NULL if it fails, with the error code in `error` unless that is NULL.
///
/// A part of the samples is searched first; if that does not settle it, all of them are read. Free the
/// answer with sparsefft_destroy_findings.
///
/// # Safety
/// `x` points to 2 n numbers; `options` and `error` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_find_complex_f64(
    x: *const f64,
    n: u64,
    options: *const sparsefft_find_options,
    error: *mut c_int,
) -> *mut sparsefft_findings {
    // SAFETY: as promised by the caller; pairs of numbers are laid out as complex ones.
    unsafe { find(options, error, || memory(x.cast::<Complex<f64>>(), n)) }
}

/// As sparsefft_find_complex_f64, for single precision input.
///
/// # Safety
/// As sparsefft_find_complex_f64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_find_complex_f32(
    x: *const f32,
    n: u64,
    options: *const sparsefft_find_options,
    error: *mut c_int,
) -> *mut sparsefft_findings {
    // SAFETY: as promised by the caller; pairs of numbers are laid out as complex ones.
    unsafe { find(options, error, || memory(x.cast::<Complex<f32>>(), n)) }
}

/// As sparsefft_find_complex_f64, for n real numbers. Mirror images are not listed.
///
/// # Safety
/// `x` points to n numbers; `options` and `error` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_find_real_f64(
    x: *const f64,
    n: u64,
    options: *const sparsefft_find_options,
    error: *mut c_int,
) -> *mut sparsefft_findings {
    // SAFETY: as promised by the caller.
    unsafe { find(options, error, || memory(x, n)) }
}

/// As sparsefft_find_real_f64, for single precision input.
///
/// # Safety
/// As sparsefft_find_real_f64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_find_real_f32(
    x: *const f32,
    n: u64,
    options: *const sparsefft_find_options,
    error: *mut c_int,
) -> *mut sparsefft_findings {
    // SAFETY: as promised by the caller.
    unsafe { find(options, error, || memory(x, n)) }
}

/// As sparsefft_find_complex_f64, for n complex samples that `read` computes or fetches on demand.
///
/// # Safety
/// `read` must do what sparsefft_read describes, must not unwind, and may be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_find_callback(
    read: sparsefft_read,
    user: *mut c_void,
    n: u64,
    options: *const sparsefft_find_options,
    error: *mut c_int,
) -> *mut sparsefft_findings {
    // SAFETY: as promised by the caller.
    unsafe { find(options, error, || super::called_back(read, user, n)) }
}

/// Frees findings; NULL is allowed.
///
/// # Safety
/// `findings` is NULL or comes from sparsefft_find_... and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_destroy_findings(findings: *mut sparsefft_findings) {
    if !findings.is_null() {
        guard(|| {
            // SAFETY: made by `Box::into_raw` and, by the caller's promise, not freed before.
            drop(unsafe { Box::from_raw(findings) });
            Ok(())
        });
    }
}

/// The findings as a whole: outcome, numbers of lines and the like, cost of all attempts.
///
/// # Safety
/// `findings` comes from sparsefft_find_...; `summary` has as many bytes as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_findings_summary(
    findings: *const sparsefft_findings,
    summary: *mut sparsefft_summary,
) -> c_int {
    guard(|| {
        // SAFETY: as promised by the caller, here and below.
        let f = &unsafe { given(findings, "findings")? }.findings;
        // SAFETY: as above.
        unsafe { given(summary, "summary")? };
        // SAFETY: as above.
        let size = unsafe { super::caller_size(summary, "sparsefft_summary")? };
        let out = summary_of(f, size);
        // SAFETY: the caller's struct has `size` bytes and ours at least as many as are copied.
        unsafe {
            let count = size.min(size_of::<sparsefft_summary>());
            std::ptr::copy_nonoverlapping((&raw const out).cast::<u8>(), summary.cast(), count);
        }
        Ok(())
    })
}

fn summary_of(f: &Findings, size: usize) -> sparsefft_summary {
    sparsefft_summary {
        size,
        outcome: match f.outcome {
            Outcome::Certified => SPARSEFFT_OUTCOME_CERTIFIED,
            Outcome::Complete => SPARSEFFT_OUTCOME_COMPLETE,
            _ => SPARSEFFT_OUTCOME_PARTIAL,
        },
        real: c_int::from(f.real),
        n: f.n,
        lines: f.lines.len() as u64,
        left_out: f.left_out,
        bands: f.bands.len() as u64,
        bursts: f.bursts.len() as u64,
        sweeps: f.sweeps.len() as u64,
        families: f.families.len() as u64,
        floor: f.floor.frequency.len() as u64,
        reasons: f.reasons.len() as u64,
        threshold_db: f.threshold_db,
        failure_probability: f.failure_probability,
        samples_read: f.cost.samples_read(),
        seconds: f.cost.elapsed().as_secs_f64(),
        memory: f.cost.memory,
        seed: f.seed,
    }
}

/// Copies a list into the caller's array: `count` holds its room before, the length of the list after.
///
/// # Safety
/// `findings` is NULL or valid, `count` NULL or writable, and `to` has the room that it says.
unsafe fn copy<T>(
    findings: *const sparsefft_findings,
    to: *mut T,
    count: *mut u64,
    list: impl FnOnce(&Findings) -> Vec<T>,
) -> c_int {
    guard(|| {
        // SAFETY: as promised by the caller, here and below.
        let findings = unsafe { given(findings, "findings")? };
        // SAFETY: as above.
        unsafe { write_list(list(&findings.findings), to, count) }
    })
}

/// Writes as many as there is room for, and how many there are.
///
/// # Safety
/// As [`copy`].
pub(super) unsafe fn write_list<T>(
    list: Vec<T>,
    to: *mut T,
    count: *mut u64,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let room = unsafe { room_of(to, count)? };
    let total = list.len() as u64;
    let most = usize::try_from(room).unwrap_or(usize::MAX);
    for (i, value) in list.into_iter().take(most).enumerate() {
        // SAFETY: below the room that there is.
        unsafe { to.add(i).write(value) };
    }
    // SAFETY: checked not to be NULL.
    unsafe { *count = total };
    Ok(())
}

/// The room that the caller has, if there is an array for it.
///
/// # Safety
/// `count` is NULL or valid.
pub(super) unsafe fn room_of<T>(to: *const T, count: *const u64) -> Result<u64, Failure> {
    // SAFETY: the caller's promise.
    let room = *unsafe { given(count, "count")? };
    if to.is_null() && room > 0 {
        let message = format!("the array is NULL, but *count says that it has room for {room}");
        return Err(Failure::new(SPARSEFFT_ERROR_NULL, message));
    }
    Ok(room)
}

fn line_of(l: &Line) -> sparsefft_line {
    sparsefft_line {
        kind: match l.kind {
            LineKind::Tone => SPARSEFFT_TONE,
            LineKind::Damped => SPARSEFFT_DAMPED,
            LineKind::Cluster => SPARSEFFT_CLUSTER,
            LineKind::Offset => SPARSEFFT_OFFSET,
            _ => SPARSEFFT_BROAD,
        },
        mirrored: c_int::from(l.mirrored),
        frequency: l.frequency,
        frequency_std: l.frequency_std,
        re: l.amplitude.re,
        im: l.amplitude.im,
        amplitude_std: l.amplitude_std,
        snr_db: l.snr_db.unwrap_or(f64::NAN),
        drift: l.drift.map_or(0.0, |d| d.rate),
        drift_std: l.drift.map_or(0.0, |d| d.std),
        width: l.width.unwrap_or(0.0),
        damping: l.damping.unwrap_or(0.0),
    }
}

/// The lines, strongest first. `count` points to the number that `lines` has room for, and then to
/// the number that there is; `lines` may be NULL if that room is 0. The other lists are read alike.
///
/// # Safety
/// `findings` comes from sparsefft_find_...; `count` is valid and `lines` has the room it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_findings_lines(
    findings: *const sparsefft_findings,
    lines: *mut sparsefft_line,
    count: *mut u64,
) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe { copy(findings, lines, count, |f| f.lines.iter().map(line_of).collect()) }
}

/// The bands, those that stand out most first.
///
/// # Safety
/// As sparsefft_findings_lines.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_findings_bands(
    findings: *const sparsefft_findings,
    bands: *mut sparsefft_band,
    count: *mut u64,
) -> c_int {
    let list = |f: &Findings| {
        let of = |b: &sparse::find::FoundBand| sparsefft_band {
            low: b.low,
            high: b.high,
            peak: b.peak,
            power: b.power,
            above_db: b.above_db,
            busy: b.busy.unwrap_or(f64::NAN),
        };
        f.bands.iter().map(of).collect()
    };
    // SAFETY: as promised by the caller.
    unsafe { copy(findings, bands, count, list) }
}

/// The bursts in order of time.
///
/// # Safety
/// As sparsefft_findings_lines.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_findings_bursts(
    findings: *const sparsefft_findings,
    bursts: *mut sparsefft_burst,
    count: *mut u64,
) -> c_int {
    let list = |f: &Findings| {
        let of = |b: &sparse::find::Burst| sparsefft_burst {
            start: b.start,
            length: b.length,
            low: b.low,
            high: b.high,
            power: b.power,
            above_db: b.above_db,
        };
        f.bursts.iter().map(of).collect()
    };
    // SAFETY: as promised by the caller.
    unsafe { copy(findings, bursts, count, list) }
}

/// The sweeps in order of time.
///
/// # Safety
/// As sparsefft_findings_lines.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_findings_sweeps(
    findings: *const sparsefft_findings,
    sweeps: *mut sparsefft_sweep,
    count: *mut u64,
) -> c_int {
    let list = |f: &Findings| {
        let of = |s: &sparse::find::Sweep| sparsefft_sweep {
            start: s.start,
            length: s.length,
            from: s.from,
            to: s.to,
            rate: s.rate,
            power: s.power,
            above_db: s.above_db,
        };
        f.sweeps.iter().map(of).collect()
    };
    // SAFETY: as promised by the caller.
    unsafe { copy(findings, sweeps, count, list) }
}

/// The families of lines, the surest first; sparsefft_family_members lists their lines.
///
/// # Safety
/// As sparsefft_findings_lines.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_findings_families(
    findings: *const sparsefft_findings,
    families: *mut sparsefft_family,
    count: *mut u64,
) -> c_int {
    let list = |f: &Findings| {
        let of = |family: &sparse::find::Family| sparsefft_family {
            spacing: family.spacing,
            carrier: family.carrier.unwrap_or(f64::NAN),
            orders: family.orders.len() as u64,
            lowest: family.orders.iter().copied().min().unwrap_or(0),
            highest: family.orders.iter().copied().max().unwrap_or(0),
        };
        f.families.iter().map(of).collect()
    };
    // SAFETY: as promised by the caller.
    unsafe { copy(findings, families, count, list) }
}

/// Places, in the list of lines, of the members of a family.
///
/// # Safety
/// As sparsefft_findings_lines.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_family_members(
    findings: *const sparsefft_findings,
    family: u64,
    members: *mut u64,
    count: *mut u64,
) -> c_int {
    guard(|| {
        // SAFETY: as promised by the caller, here and below.
        let families = &unsafe { given(findings, "findings")? }.findings.families;
        let found =
            usize::try_from(family).ok().and_then(|i| families.get(i)).ok_or_else(|| {
                let message =
                    format!("family = {family}, but there are {} families", families.len());
                Failure::new(super::SPARSEFFT_ERROR_OPTION, message)
            })?;
        let list = found.members.iter().map(|m| *m as u64).collect();
        // SAFETY: as above.
        unsafe { write_list(list, members, count) }
    })
}

/// The local floor over frequency.
///
/// # Safety
/// As sparsefft_findings_lines.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_findings_floor(
    findings: *const sparsefft_findings,
    floor: *mut sparsefft_floor,
    count: *mut u64,
) -> c_int {
    let list = |f: &Findings| {
        let f = &f.floor;
        let at = |i: usize| sparsefft_floor {
            frequency: f.frequency[i],
            density: f.density[i],
            std_db: f.std_db[i],
            threshold_db: f.threshold_db[i],
        };
        (0..f.frequency.len()).map(at).collect()
    };
    // SAFETY: as promised by the caller.
    unsafe { copy(findings, floor, count, list) }
}

/// The text of one reason, a sentence, and in `code`, unless that is NULL, its code, which does not
/// change between versions: "quick", "too_long", "not_sparse", "unsteady", ... NULL beyond the last
/// reason. Both stay valid as long as the findings.
///
/// # Safety
/// `findings` is NULL or comes from sparsefft_find_...; `code` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_findings_reason(
    findings: *const sparsefft_findings,
    index: u64,
    code: *mut *const c_char,
) -> *const c_char {
    let mut text = null();
    guard(|| {
        // SAFETY: as promised by the caller.
        let reasons = &unsafe { given(findings, "findings")? }.reasons;
        let reason = usize::try_from(index).ok().and_then(|i| reasons.get(i));
        if !code.is_null() {
            // SAFETY: as promised by the caller.
            unsafe { *code = reason.map_or(null(), |(code, _)| code.as_ptr()) };
        }
        text = reason.map_or(null(), |(_, text)| text.as_ptr());
        Ok(())
    });
    text
}
