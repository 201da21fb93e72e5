//! Tones for C: frequencies between the bins, by a plan.

use super::find::{
    SPARSEFFT_CLUSTER, SPARSEFFT_NARROW_BAND, SPARSEFFT_TONE, room_of, sparsefft_line, write_list,
};
use super::{
    Evidence, Failure, given, guard, memory, sparsefft_certificate, sparsefft_plan, sparsefft_read,
};
use sparse::{Algorithm, Complex, Samples, Tones};
use std::ffi::{c_int, c_void};

/// Searches and writes the answer.
///
/// # Safety
/// As the public functions ask for.
unsafe fn fill(
    plan: *const sparsefft_plan,
    tones: *mut sparsefft_line,
    count: *mut u64,
    certificate: *mut sparsefft_certificate,
    signal: impl FnOnce(u64) -> Result<Box<dyn Samples>, Failure>,
) -> c_int {
    guard(|| {
        // SAFETY: as promised by the caller, here and below.
        let plan = unsafe { given(plan, "plan")? };
        // SAFETY: as above. Both are checked before the work is done in vain.
        let evidence = unsafe { Evidence::to(certificate)? };
        // SAFETY: as above.
        unsafe { room_of(tones, count)? };
        let signal = signal(plan.plan.problem().n())?;
        let found = plan.run(|plan| plan.tones(&signal))?;
        // SAFETY: as above.
        unsafe { write_list(list(&found), tones, count)? };
        let r = found.report();
        let (read, time) = (r.samples_read, r.elapsed);
        // SAFETY: as above.
        unsafe { evidence.write(found.certificate(), Algorithm::Auto, read, time, r.seed) };
        Ok(())
    })
}

/// Tones by frequency, then clusters, then bands.
fn list(found: &Tones) -> Vec<sparsefft_line> {
    let unknown = f64::NAN;
    let empty = sparsefft_line {
        kind: SPARSEFFT_TONE,
        mirrored: 0,
        frequency: 0.0,
        frequency_std: unknown,
        re: 0.0,
        im: 0.0,
        amplitude_std: unknown,
        snr_db: unknown,
        drift: 0.0,
        drift_std: 0.0,
        width: 0.0,
        damping: 0.0,
    };
    let tones = found.tones().iter().map(|t| sparsefft_line {
        frequency: t.frequency,
        frequency_std: t.frequency_std,
        re: t.amplitude.re,
        im: t.amplitude.im,
        amplitude_std: t.amplitude_std,
        snr_db: t.snr_db().unwrap_or(unknown),
        drift: t.drift.map_or(0.0, |d| d.rate),
        drift_std: t.drift.map_or(0.0, |d| d.std),
        ..empty
    });
    let clusters = found.clusters().iter().map(|c| sparsefft_line {
        kind: SPARSEFFT_CLUSTER,
        frequency: c.centre,
        width: c.width,
        re: c.power.sqrt(),
        ..empty
    });
    let bands = found.bands().iter().map(|b| sparsefft_line {
        kind: SPARSEFFT_NARROW_BAND,
        frequency: b.centre(),
        width: b.width(),
        re: b.power.sqrt(),
        ..empty
    });
    tones.chain(clusters).chain(bands).collect()
}

/// The tones of n complex numbers, at frequencies between the bins: x holds 2 n values, real and
/// imaginary parts in turn. The plan says how many to expect and how the noise is.
///
/// `count` points to the number that `tones` has room for, and then to the number that was found.
/// Tones come first, sorted by frequency; after them SPARSEFFT_CLUSTER, several that are not
/// resolved, and SPARSEFFT_NARROW_BAND, both with their width and, as `re`, the square root of their
/// mean power. Of real samples both mirror images are listed. `certificate` may be NULL.
///
/// # Safety
/// `plan` comes from sparsefft_plan_1d; all other pointers have the room described.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_tones_complex_f64(
    plan: *const sparsefft_plan,
    x: *const f64,
    tones: *mut sparsefft_line,
    count: *mut u64,
    certificate: *mut sparsefft_certificate,
) -> c_int {
    // SAFETY: as promised by the caller; pairs of numbers are laid out as complex ones.
    unsafe { fill(plan, tones, count, certificate, |n| memory(x.cast::<Complex<f64>>(), n)) }
}

/// As sparsefft_tones_complex_f64, for single precision input.
///
/// # Safety
/// As sparsefft_tones_complex_f64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_tones_complex_f32(
    plan: *const sparsefft_plan,
    x: *const f32,
    tones: *mut sparsefft_line,
    count: *mut u64,
    certificate: *mut sparsefft_certificate,
) -> c_int {
    // SAFETY: as promised by the caller; pairs of numbers are laid out as complex ones.
    unsafe { fill(plan, tones, count, certificate, |n| memory(x.cast::<Complex<f32>>(), n)) }
}

/// As sparsefft_tones_complex_f64, for n real numbers.
///
/// # Safety
/// As sparsefft_tones_complex_f64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_tones_real_f64(
    plan: *const sparsefft_plan,
    x: *const f64,
    tones: *mut sparsefft_line,
    count: *mut u64,
    certificate: *mut sparsefft_certificate,
) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe { fill(plan, tones, count, certificate, |n| memory(x, n)) }
}

/// As sparsefft_tones_real_f64, for single precision input.
///
/// # Safety
/// As sparsefft_tones_complex_f64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_tones_real_f32(
    plan: *const sparsefft_plan,
    x: *const f32,
    tones: *mut sparsefft_line,
    count: *mut u64,
    certificate: *mut sparsefft_certificate,
) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe { fill(plan, tones, count, certificate, |n| memory(x, n)) }
}

/// As sparsefft_tones_complex_f64, for samples that `read` computes or fetches on demand.
///
/// # Safety
/// As sparsefft_tones_complex_f64; `read` as in sparsefft_execute_callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_tones_callback(
    plan: *const sparsefft_plan,
    read: sparsefft_read,
    user: *mut c_void,
    tones: *mut sparsefft_line,
    count: *mut u64,
    certificate: *mut sparsefft_certificate,
) -> c_int {
    // SAFETY: as promised by the caller.
    unsafe { fill(plan, tones, count, certificate, |n| super::called_back(read, user, n)) }
}
