//! The C interface. The comments here are the comments of `include/sparsefft.h`, which serves as
//! the manual; `tests/header.rs` writes it and checks that it is current.
//!
//! Order of a call: pointers are checked, the work runs inside [`guard`], which turns errors and
//! panics into codes and keeps the message for [`sparsefft_last_error`].
#![allow(non_camel_case_types)] // C's names

mod find;
mod tones;

pub use find::*;
use sparse::dense::Direction;
use sparse::{
    Algorithm, Certificate, Complex, Error, Fallback, Noise, Norm, Plan, Problem, Samples,
    Spectrum, Taper, Verdict, from_fn,
};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
pub use tones::*;

/// Success.
pub const SPARSEFFT_OK: c_int = 0;
/// A pointer that must point to something is NULL.
pub const SPARSEFFT_ERROR_NULL: c_int = 1;
/// n is 0 or larger than 2^52.
pub const SPARSEFFT_ERROR_LENGTH: c_int = 2;
/// k is larger than n.
pub const SPARSEFFT_ERROR_SPARSITY: c_int = 3;
/// An option has a value outside its range, or the size of a struct was not set.
pub const SPARSEFFT_ERROR_OPTION: c_int = 4;
/// A sample that was read is NaN or infinite.
pub const SPARSEFFT_ERROR_NOT_FINITE: c_int = 5;
/// The samples are so large that their sums overflow.
pub const SPARSEFFT_ERROR_OVERFLOW: c_int = 6;
/// The callback returned something else than 0.
pub const SPARSEFFT_ERROR_CALLBACK: c_int = 7;
/// Memory could not be allocated, or threads could not be started.
pub const SPARSEFFT_ERROR_MEMORY: c_int = 8;
/// The algorithm that was asked for cannot run for this n and k, or k is too large for any sparse
/// one where a dense FFT is not allowed.
pub const SPARSEFFT_ERROR_UNSUPPORTED: c_int = 9;
/// A bug in the library; please report it.
pub const SPARSEFFT_ERROR_INTERNAL: c_int = 10;

/// As k: find out how many coefficients there are.
pub const SPARSEFFT_UNKNOWN: u64 = u64::MAX;

/// The cheapest algorithm that can be certified.
pub const SPARSEFFT_AUTO: c_int = 0;
/// For exactly sparse signals.
pub const SPARSEFFT_EXACT: c_int = 1;
/// For noisy signals.
pub const SPARSEFFT_ROBUST: c_int = 2;
/// Voting over flat-window hashes (sFFT v1).
pub const SPARSEFFT_VOTE: c_int = 3;
/// Voting restricted by an aliasing comb (sFFT v2).
pub const SPARSEFFT_COMB_VOTE: c_int = 4;
/// The dense FFT and its k largest outputs.
pub const SPARSEFFT_DENSE: c_int = 5;

/// Nothing is known about the noise; the samples tell.
pub const SPARSEFFT_NOISE_UNKNOWN: c_int = 0;
/// There is no noise.
pub const SPARSEFFT_NOISE_NONE: c_int = 1;
/// White noise; `snr` of the options says how strong the weakest wanted coefficient is against it.
pub const SPARSEFFT_NOISE_SNR: c_int = 2;

/// Unnormalised values.
pub const SPARSEFFT_NORM_BACKWARD: c_int = 0;
/// Values divided by the square root of n.
pub const SPARSEFFT_NORM_ORTHO: c_int = 1;
/// Values divided by n: the amplitudes of the tones.
pub const SPARSEFFT_NORM_FORWARD: c_int = 2;

/// If the sparse answer cannot be certified, run a dense FFT for n up to 2^27.
pub const SPARSEFFT_FALLBACK_AUTO: c_int = 0;
/// Run a dense FFT, whatever its size.
pub const SPARSEFFT_FALLBACK_DENSE: c_int = 1;
/// Never read the whole signal; the answer is then uncertified.
pub const SPARSEFFT_FALLBACK_NEVER: c_int = 2;

/// The plain DFT.
pub const SPARSEFFT_TAPER_NONE: c_int = 0;
/// The signal is multiplied by a periodic Hann window first.
pub const SPARSEFFT_TAPER_HANN: c_int = 1;
/// The signal is multiplied by a periodic Blackman window first.
pub const SPARSEFFT_TAPER_BLACKMAN: c_int = 2;
/// The signal is multiplied by a Kaiser window of shape `kaiser_beta` first.
pub const SPARSEFFT_TAPER_KAISER: c_int = 3;

/// Every bin is explained by the answer, down to the noise.
pub const SPARSEFFT_CERTIFIED: c_int = 0;
/// Something was left unexplained; `reason` says what.
pub const SPARSEFFT_UNCERTIFIED: c_int = 1;
/// A dense FFT was run: every coefficient was computed.
pub const SPARSEFFT_DENSE_EXACT: c_int = 2;

/// How a transform is to be planned. Zero means the default everywhere, so that
///
///     sparsefft_options options = {.size = sizeof options};
///
/// is complete; then set what should differ.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sparsefft_options {
    /// sizeof(sparsefft_options): which version of this struct the program was compiled with.
    pub size: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// SPARSEFFT_AUTO or the algorithm to run.
    pub algorithm: c_int,
    /// One of SPARSEFFT_NOISE_...
    pub noise: c_int,
    /// For SPARSEFFT_NOISE_SNR, in dB: |X/n|^2 of the weakest wanted coefficient over the variance
    /// of the noise in one sample.
    pub snr: f64,
    /// Relative L2 residual below which the signal counts as explained although fewer than k
    /// coefficients were found; 0 means 1e-6.
    pub tolerance: f64,
    /// Accepted probability that noise is reported as a coefficient; 0 means 1e-6.
    pub failure_probability: f64,
    /// One of SPARSEFFT_NORM_...
    pub norm: c_int,
    /// One of SPARSEFFT_FALLBACK_...
    pub fallback: c_int,
    /// One of SPARSEFFT_TAPER_...
    pub taper: c_int,
    /// Number of threads. 0: the calling thread, helped by all cores where that is worth while.
    /// Otherwise the plan keeps this many threads of its own, but at most four for each core of the
    /// machine. The answer does not depend on it.
    pub threads: c_int,
    /// For SPARSEFFT_TAPER_KAISER.
    pub kaiser_beta: f64,
    /// Not 0: ignore `seed` and draw one, as sparsefft_random_seed does. The certificate tells it.
    pub draw_seed: c_int,
}

/// One Fourier coefficient: X[index] = re + i im.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sparsefft_peak {
    /// Frequency index, 0 to n-1; those from n/2 on are the negative frequencies index - n.
    pub index: u64,
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

/// Whether an answer accounts for the whole signal, and what it took to get it. Set `size` first:
///
///     sparsefft_certificate certificate = {.size = sizeof certificate};
///
/// Not covered: whoever makes the signal and knows the seed can hide a tone from the samples that
/// will be read; against such a source draw the seed (sparsefft_options.draw_seed).
///
/// The signal-to-noise ratio of a coefficient of an answer that may be relied on, in one bin of the
/// whole record: |X|^2 / (n noise_floor^2), with X unnormalised.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sparsefft_certificate {
    /// sizeof(sparsefft_certificate), set by the caller.
    pub size: usize,
    /// SPARSEFFT_CERTIFIED, SPARSEFFT_UNCERTIFIED or SPARSEFFT_DENSE_EXACT. An answer may be relied
    /// on unless this is SPARSEFFT_UNCERTIFIED.
    pub verdict: c_int,
    /// The algorithm that produced the answer.
    pub algorithm: c_int,
    /// Number of bins whose content was compared with the answer.
    pub bins_tested: u64,
    /// Bins that hold more than the answer and the noise explain.
    pub bins_unexplained: u64,
    /// Estimated share of the signal's energy that the answer does not account for.
    pub residual_energy: f64,
    /// Standard deviation of the noise in one sample.
    pub noise_floor: f64,
    /// Smallest amplitude |X|/n that could not have been overlooked.
    pub detection_limit: f64,
    /// Bound on the probability that a certified answer is wrong.
    pub failure_probability: f64,
    /// Samples read, counted with repetition.
    pub samples_read: u64,
    /// Wall-clock time of the transform.
    pub seconds: f64,
    /// How many attempts were made.
    pub attempts: u32,
    /// Why the verdict is not SPARSEFFT_CERTIFIED, or an empty string; cut to fit.
    pub reason: [c_char; 252],
    /// Seed of the random choices.
    pub seed: u64,
    /// Largest share of the signal's power that a steady or slowly moving narrow-band rest (a weak
    /// sweep, a modulated carrier) could hold unnoticed. 1 where nothing was tested, 0 of a dense
    /// answer.
    pub rest_limit: f64,
}

/// A transform made ready.
pub struct sparsefft_plan {
    plan: Plan,
    norm: Norm,
    pool: Option<rayon::ThreadPool>,
}

/// Asks for samples: writes the real part of sample indices[i] to samples[2 i] and its imaginary
/// part to samples[2 i + 1], for i below count, and returns 0. Anything else ends the transform
/// with SPARSEFFT_ERROR_CALLBACK. `user` is what was given to sparsefft_execute_callback. It is
/// called by one thread at a time, which need not be the one that started the transform.
pub type sparsefft_read = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        indices: *const u64,
        count: usize,
        samples: *mut f64,
    ) -> c_int,
>;

/// An error code and a message for the person who made the mistake.
struct Failure {
    code: c_int,
    message: String,
}

impl Failure {
    fn new(code: c_int, message: impl Into<String>) -> Self {
        Failure { code, message: message.into() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::ZeroLength | Error::LengthTooLarge { .. } => SPARSEFFT_ERROR_LENGTH,
            Error::SparsityTooLarge { .. } => SPARSEFFT_ERROR_SPARSITY,
            Error::InvalidOption { .. } => SPARSEFFT_ERROR_OPTION,
            Error::NonFinite { .. } => SPARSEFFT_ERROR_NOT_FINITE,
            Error::Overflow { .. } => SPARSEFFT_ERROR_OVERFLOW,
            Error::Source(_) => SPARSEFFT_ERROR_CALLBACK,
            Error::OutOfMemory { .. } => SPARSEFFT_ERROR_MEMORY,
            Error::Unsupported { .. } | Error::NotSparse { .. } => SPARSEFFT_ERROR_UNSUPPORTED,
            _ => SPARSEFFT_ERROR_INTERNAL,
        };
        Failure { code, message: error.to_string() }
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Runs the body of a function: its code, with the message kept; a panic goes no further.
fn guard(body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    // Plans stay valid whatever a panic interrupts; outputs are written after the last step that
    // can fail.
    let done = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_else(|| "a panic without a message".into());
        Err(Failure::new(SPARSEFFT_ERROR_INTERNAL, format!("sparsefft has a bug: {text}")))
    });
    let (code, message) = match done {
        Ok(()) => (SPARSEFFT_OK, String::new()),
        Err(Failure { code, message }) => (code, message),
    };
    let message = CString::new(message).unwrap_or_default();
    // Fails only while the thread ends, when nobody can ask any more.
    let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = message);
    code
}

/// What a pointer points to, or an error that names the argument.
///
/// # Safety
/// Anything but NULL must be valid for the lifetime.
unsafe fn given<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }
        .ok_or_else(|| Failure::new(SPARSEFFT_ERROR_NULL, format!("{name} is NULL")))
}

/// The size that the caller's version of a struct has: its first field.
///
/// # Safety
/// The first field must be readable.
unsafe fn caller_size<T>(pointer: *const T, what: &str) -> Result<usize, Failure> {
    // SAFETY: the caller's promise.
    let size = unsafe { pointer.cast::<usize>().read() };
    // Anything else is a field that was not set.
    if (size_of::<usize>()..=1 << 16).contains(&size) {
        return Ok(size);
    }
    let message = format!("the size of {what} is {size}; set it to sizeof({what})");
    Err(Failure::new(SPARSEFFT_ERROR_OPTION, message))
}

/// The part of a struct that the caller has, the rest zero.
///
/// # Safety
/// `pointer` must be valid for as many bytes as its first field, the size, says.
unsafe fn sized<T: Copy>(pointer: *const T, what: &str) -> Result<T, Failure> {
    let ours = size_of::<T>();
    // SAFETY: the caller's promise.
    let size = unsafe { caller_size(pointer, what)? };
    // SAFETY: all fields are numbers, for which zero is valid.
    let mut value: T = unsafe { std::mem::zeroed() };
    // SAFETY: the caller has `size` readable bytes, and `value` has room for `ours`.
    unsafe {
        let bytes = pointer.cast::<u8>();
        std::ptr::copy_nonoverlapping(bytes, (&raw mut value).cast::<u8>(), size.min(ours));
        // Fields that only a newer header knows must ask for nothing.
        if (ours..size).any(|i| *bytes.add(i) != 0) {
            return Err(Failure::new(
                SPARSEFFT_ERROR_OPTION,
                format!("{what} asks for something that this version of the library does not know"),
            ));
        }
    }
    Ok(value)
}

/// The entry of a table that a constant of the header stands for.
fn choice<T: Copy>(table: &[T], value: c_int, name: &str) -> Result<T, Failure> {
    usize::try_from(value).ok().and_then(|i| table.get(i)).copied().ok_or_else(|| {
        let largest = table.len() - 1;
        let message = format!("options->{name} = {value}; it must be from 0 to {largest}");
        Failure::new(SPARSEFFT_ERROR_OPTION, message)
    })
}

impl sparsefft_options {
    fn plan(&self, n: u64, k: u64) -> Result<sparsefft_plan, Failure> {
        let seed = if self.draw_seed != 0 { sparse::random_seed() } else { self.seed };
        let mut problem = Problem::new(n)
            .seed(seed)
            .algorithm(choice(&Algorithm::ALL, self.algorithm, "algorithm")?)
            .noise(choice(
                &[Noise::Unknown, Noise::Exact, Noise::Snr(self.snr)],
                self.noise,
                "noise",
            )?)
            .fallback(choice(
                &[Fallback::Auto, Fallback::Dense, Fallback::Never],
                self.fallback,
                "fallback",
            )?)
            .taper(choice(
                &[Taper::None, Taper::Hann, Taper::Blackman, Taper::Kaiser(self.kaiser_beta)],
                self.taper,
                "taper",
            )?);
        if k != SPARSEFFT_UNKNOWN {
            problem = problem.sparsity(k);
        }
        if self.tolerance != 0.0 {
            problem = problem.tolerance(self.tolerance);
        }
        if self.failure_probability != 0.0 {
            problem = problem.failure_probability(self.failure_probability);
        }
        let norm = choice(&[Norm::Backward, Norm::Ortho, Norm::Forward], self.norm, "norm")?;
        let plan = Plan::new(problem)?;
        let pool = threads_of(self.threads)?;
        Ok(sparsefft_plan { plan, norm, pool })
    }
}

/// The pool that an option asks for: none for 0, and never more than the machine makes use of.
fn threads_of(threads: c_int) -> Result<Option<rayon::ThreadPool>, Failure> {
    let threads = usize::try_from(threads).map_err(|_| {
        let message = format!("options->threads = {threads}; it must be 0 or more");
        Failure::new(SPARSEFFT_ERROR_OPTION, message)
    })?;
    if threads == 0 {
        return Ok(None);
    }
    let threads = threads.min(sparse::most_threads());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    Ok(Some(pool.map_err(|e| {
        let message = format!("options->threads: {threads} cannot be started: {e}");
        Failure::new(SPARSEFFT_ERROR_MEMORY, message)
    })?))
}

impl sparsefft_plan {
    /// Runs work with the plan, by its own threads if it has some.
    fn run<T: Send>(
        &self,
        work: impl FnOnce(&Plan) -> Result<T, Error> + Send,
    ) -> Result<T, Failure> {
        Ok(match &self.pool {
            None => work(&self.plan)?,
            Some(pool) => pool.install(|| work(&self.plan))?,
        })
    }
}

/// Plans a transform of n samples for the k largest coefficients, or, with SPARSEFFT_UNKNOWN, for
/// all that stand above the noise. `options` may be NULL: all defaults. Planning takes
/// microseconds, whatever n.
///
/// Returns NULL if that fails, with the error code in `error` unless that is NULL.
///
/// # Safety
/// `options` is NULL or points to as many bytes as its size says; `error` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_plan_1d(
    n: u64,
    k: u64,
    options: *const sparsefft_options,
    error: *mut c_int,
) -> *mut sparsefft_plan {
    let mut plan = null_mut();
    let code = guard(|| {
        let options = if options.is_null() {
            // SAFETY: all fields are numbers, for which zero is valid, and the default.
            unsafe { std::mem::zeroed() }
        } else {
            // SAFETY: as promised by the caller.
            unsafe { sized(options, "sparsefft_options")? }
        };
        plan = Box::into_raw(Box::new(options.plan(n, k)?));
        Ok(())
    });
    if !error.is_null() {
        // SAFETY: as promised by the caller.
        unsafe { *error = code };
    }
    plan
}

/// Frees a plan; NULL is allowed.
///
/// # Safety
/// `plan` is NULL or comes from sparsefft_plan_1d and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_destroy_plan(plan: *mut sparsefft_plan) {
    if !plan.is_null() {
        guard(|| {
            // SAFETY: made by `Box::into_raw` and, by the caller's promise, not freed before.
            drop(unsafe { Box::from_raw(plan) });
            Ok(())
        });
    }
}

/// Where the caller wants the answer.
struct Output {
    peaks: *mut sparsefft_peak,
    count: *mut u64,
    certificate: *mut sparsefft_certificate,
}

impl Output {
    /// Transforms and writes the answer.
    ///
    /// # Safety
    /// `plan` and the outputs must be as the public functions ask for.
    unsafe fn fill(
        &self,
        plan: *const sparsefft_plan,
        signal: impl FnOnce(u64) -> Result<Box<dyn Samples>, Failure>,
    ) -> c_int {
        guard(|| {
            // SAFETY: as promised by the caller, here and below.
            let plan = unsafe { given(plan, "plan")? };
            // SAFETY: as above.
            let room = *unsafe { given(self.count, "count")? };
            if self.peaks.is_null() && room > 0 {
                let message = format!("peaks is NULL, but *count says that it has room for {room}");
                return Err(Failure::new(SPARSEFFT_ERROR_NULL, message));
            }
            // SAFETY: as above.
            let evidence = unsafe { Evidence::to(self.certificate)? };
            let signal = signal(plan.plan.problem().n())?;
            let spectrum = plan.run(|plan| plan.transform(&signal))?;
            // SAFETY: as above.
            unsafe { self.write(plan, &spectrum, room) };
            let r = spectrum.report();
            let (c, read) = (spectrum.certificate(), r.samples_read);
            // SAFETY: as above.
            unsafe { evidence.write(c, r.algorithm, read, r.elapsed, r.seed) };
            Ok(())
        })
    }

    /// Writes the peaks.
    ///
    /// # Safety
    /// `peaks` has room for `room` peaks.
    unsafe fn write(&self, plan: &sparsefft_plan, spectrum: &Spectrum, room: u64) {
        let factor = plan.norm.factor(spectrum.n(), Direction::Forward);
        let found = spectrum.peaks().len() as u64;
        let largest;
        let peaks = if found <= room {
            spectrum.peaks()
        } else {
            let mut top = spectrum.top(room as usize);
            top.sort_unstable_by_key(|p| p.index);
            largest = top;
            &largest[..]
        };
        for (i, peak) in peaks.iter().enumerate() {
            let Complex { re, im } = peak.value * factor;
            // SAFETY: there are at most `room` peaks.
            unsafe { self.peaks.add(i).write(sparsefft_peak { index: peak.index, re, im }) };
        }
        // SAFETY: checked not to be NULL.
        unsafe { *self.count = found };
    }
}

/// The caller's certificate, or NULL, and its size.
struct Evidence(*mut sparsefft_certificate, usize);

impl Evidence {
    /// Checks that the size was set.
    ///
    /// # Safety
    /// Anything but NULL must be readable for its first field.
    unsafe fn to(certificate: *mut sparsefft_certificate) -> Result<Self, Failure> {
        if certificate.is_null() {
            return Ok(Evidence(certificate, 0));
        }
        // SAFETY: the caller's promise.
        Ok(Evidence(certificate, unsafe { caller_size(certificate, "sparsefft_certificate")? }))
    }

    /// Writes the part of the certificate that the caller's version of the struct has.
    ///
    /// # Safety
    /// The caller's struct has as many bytes as its size says.
    unsafe fn write(
        &self,
        c: &Certificate,
        algorithm: Algorithm,
        samples_read: u64,
        elapsed: Duration,
        seed: u64,
    ) {
        let size = self.1;
        if size == 0 {
            return;
        }
        let mut reason = [0 as c_char; 252];
        // The last byte stays zero.
        let text = c.reason.as_deref().unwrap_or_default().bytes();
        for (to, byte) in reason[..251].iter_mut().zip(text) {
            *to = byte as c_char;
        }
        let algorithm = Algorithm::ALL.iter().position(|a| *a == algorithm).unwrap_or_default();
        let ours = sparsefft_certificate {
            size,
            verdict: match c.verdict {
                Verdict::Certified => SPARSEFFT_CERTIFIED,
                Verdict::Uncertified => SPARSEFFT_UNCERTIFIED,
                Verdict::Dense => SPARSEFFT_DENSE_EXACT,
            },
            algorithm: algorithm as c_int,
            bins_tested: c.bins_tested,
            bins_unexplained: c.bins_unexplained,
            residual_energy: c.residual_energy,
            noise_floor: c.noise_floor,
            detection_limit: c.detection_limit,
            failure_probability: c.failure_probability,
            samples_read,
            seconds: elapsed.as_secs_f64(),
            attempts: c.attempts,
            reason,
            seed,
            rest_limit: c.rest_limit,
        };
        // SAFETY: the caller's struct has `size` bytes and ours at least as many as are copied.
        unsafe {
            let from = (&raw const ours).cast::<u8>();
            let count = size.min(size_of::<sparsefft_certificate>());
            std::ptr::copy_nonoverlapping(from, self.0.cast::<u8>(), count);
        }
    }
}

/// n values at `x` as a signal.
///
/// # Safety
/// `x` is NULL or points to n values that stay valid while the signal is used.
unsafe fn memory<T>(x: *const T, n: u64) -> Result<Box<dyn Samples>, Failure>
where
    [T]: Samples,
    T: 'static,
{
    // SAFETY: the caller's promise.
    let first = unsafe { given(x, "x")? };
    let most = isize::MAX as usize / size_of::<T>();
    let count = usize::try_from(n).ok().filter(|n| *n <= most).ok_or_else(|| {
        let message = format!("n = {n}, but an array has at most {most} of these samples");
        Failure::new(SPARSEFFT_ERROR_LENGTH, message)
    })?;
    // SAFETY: as above.
    let values: &'static [T] = unsafe { std::slice::from_raw_parts(first, count) };
    Ok(Box::new(values))
}

/// Transforms n complex numbers: x holds 2 n values, real and imaginary parts in turn, as arrays
/// of double complex, fftw_complex and std::complex<double> do; cast their address.
///
/// `count` points to the number of peaks that `peaks` has room for, and then to the number that
/// was found, at most k. If there was too little room, the largest that fit were written.
/// `certificate` may be NULL.
///
/// # Safety
/// `plan` comes from sparsefft_plan_1d; all other pointers have the room described.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_execute_complex_f64(
    plan: *const sparsefft_plan,
    x: *const f64,
    peaks: *mut sparsefft_peak,
    count: *mut u64,
    certificate: *mut sparsefft_certificate,
) -> c_int {
    let output = Output { peaks, count, certificate };
    // SAFETY: as promised by the caller; pairs of numbers are laid out as complex ones.
    unsafe { output.fill(plan, |n| memory(x.cast::<Complex<f64>>(), n)) }
}

/// As sparsefft_execute_complex_f64, for single precision input. Results are double.
///
/// # Safety
/// As sparsefft_execute_complex_f64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_execute_complex_f32(
    plan: *const sparsefft_plan,
    x: *const f32,
    peaks: *mut sparsefft_peak,
    count: *mut u64,
    certificate: *mut sparsefft_certificate,
) -> c_int {
    let output = Output { peaks, count, certificate };
    // SAFETY: as promised by the caller; pairs of numbers are laid out as complex ones.
    unsafe { output.fill(plan, |n| memory(x.cast::<Complex<f32>>(), n)) }
}

/// As sparsefft_execute_complex_f64, for n real numbers. A real tone has two coefficients, at f
/// and n - f; both count towards k.
///
/// # Safety
/// As sparsefft_execute_complex_f64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_execute_real_f64(
    plan: *const sparsefft_plan,
    x: *const f64,
    peaks: *mut sparsefft_peak,
    count: *mut u64,
    certificate: *mut sparsefft_certificate,
) -> c_int {
    let output = Output { peaks, count, certificate };
    // SAFETY: as promised by the caller.
    unsafe { output.fill(plan, |n| memory(x, n)) }
}

/// As sparsefft_execute_real_f64, for single precision input. Results are double.
///
/// # Safety
/// As sparsefft_execute_complex_f64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_execute_real_f32(
    plan: *const sparsefft_plan,
    x: *const f32,
    peaks: *mut sparsefft_peak,
    count: *mut u64,
    certificate: *mut sparsefft_certificate,
) -> c_int {
    let output = Output { peaks, count, certificate };
    // SAFETY: as promised by the caller.
    unsafe { output.fill(plan, |n| memory(x, n)) }
}

/// The caller's pointer, which travels to whichever thread calls back.
struct User(*mut c_void);

// SAFETY: it is only handed back to the caller's function, by one thread at a time.
unsafe impl Send for User {}

/// n samples that the caller's function gives.
///
/// # Safety
/// `read` must do what sparsefft_read describes, from any thread, while the signal is used.
unsafe fn called_back(
    read: sparsefft_read,
    user: *mut c_void,
    n: u64,
) -> Result<Box<dyn Samples>, Failure> {
    let read = read.ok_or_else(|| Failure::new(SPARSEFFT_ERROR_NULL, "read is NULL"))?;
    let user = Mutex::new(User(user));
    Ok(Box::new(from_fn(n, move |indices: &[u64]| {
        let mut samples = vec![Complex::ZERO; indices.len()];
        let user = user.lock().unwrap_or_else(PoisonError::into_inner);
        let out = samples.as_mut_ptr().cast();
        // SAFETY: the caller's promise; the indices are readable and the samples writable for their
        // count.
        match unsafe { read(user.0, indices.as_ptr(), indices.len(), out) } {
            0 => Ok(samples),
            code => Err(Error::Source(format!("the callback returned {code}"))),
        }
    })))
}

/// As sparsefft_execute_complex_f64, for samples that `read` computes or fetches on demand.
///
/// # Safety
/// As sparsefft_execute_complex_f64; `read` must do what sparsefft_read describes, must not unwind,
/// and may be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_execute_callback(
    plan: *const sparsefft_plan,
    read: sparsefft_read,
    user: *mut c_void,
    peaks: *mut sparsefft_peak,
    count: *mut u64,
    certificate: *mut sparsefft_certificate,
) -> c_int {
    let output = Output { peaks, count, certificate };
    // SAFETY: as promised by the caller.
    unsafe { output.fill(plan, |n| called_back(read, user, n)) }
}

/// The samples that the first pass reads, in reading order, so that an instrument can record only
/// these. Later passes (retries, and the ladder against unknown noise) may read more.
///
/// `count` points to the room that `indices` has, and then to the number there are; `indices` may
/// be NULL if that room is 0. If there was too little room, as many as fit were written.
///
/// # Safety
/// `plan` comes from sparsefft_plan_1d; `count` is valid and `indices` has the room it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_sample_indices(
    plan: *const sparsefft_plan,
    indices: *mut u64,
    count: *mut u64,
) -> c_int {
    guard(|| {
        // SAFETY: as promised by the caller, here and below.
        let plan = unsafe { given(plan, "plan")? };
        // SAFETY: as above.
        let room = *unsafe { given(count, "count")? };
        if indices.is_null() && room > 0 {
            let message = format!("indices is NULL, but *count says that it has room for {room}");
            return Err(Failure::new(SPARSEFFT_ERROR_NULL, message));
        }
        let mut all = plan.plan.sample_indices();
        let mut total = 0;
        for index in all.by_ref().take(usize::try_from(room).unwrap_or(usize::MAX)) {
            // SAFETY: below the room that there is.
            unsafe { indices.add(total as usize).write(index) };
            total += 1;
        }
        // A dense transform reads up to 2^52 samples, which must not be counted one by one.
        total += match all.size_hint() {
            (least, Some(most)) if least == most => least as u64,
            _ => all.count() as u64,
        };
        // SAFETY: checked not to be NULL.
        unsafe { *count = total };
        Ok(())
    })
}

/// Writes what a plan will do, and why, in words; as snprintf, at most `size` bytes with the final
/// zero, and returns how many bytes the whole text has without it.
///
/// # Safety
/// `plan` comes from sparsefft_plan_1d; `text` has room for `size` bytes, or `size` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sparsefft_explain(
    plan: *const sparsefft_plan,
    text: *mut c_char,
    size: usize,
) -> usize {
    let mut length = 0;
    guard(|| {
        // SAFETY: as promised by the caller.
        let words = unsafe { given(plan, "plan")? }.plan.to_string();
        length = words.len();
        if size > 0 && !text.is_null() {
            let count = length.min(size - 1);
            // SAFETY: count + 1 bytes fit in the caller's buffer.
            unsafe {
                std::ptr::copy_nonoverlapping(words.as_ptr(), text.cast::<u8>(), count);
                *text.add(count) = 0;
            }
        }
        Ok(())
    });
    length
}

/// A seed that nobody could foretell, drawn from the operating system's randomness, below 2^53.
#[unsafe(no_mangle)]
pub extern "C" fn sparsefft_random_seed() -> u64 {
    sparse::random_seed()
}

/// What an error code means, in general.
#[unsafe(no_mangle)]
pub extern "C" fn sparsefft_error_string(error: c_int) -> *const c_char {
    let text: &CStr = match error {
        SPARSEFFT_OK => c"no error",
        SPARSEFFT_ERROR_NULL => c"a pointer is NULL",
        SPARSEFFT_ERROR_LENGTH => c"n is 0 or too large",
        SPARSEFFT_ERROR_SPARSITY => c"k is larger than n",
        SPARSEFFT_ERROR_OPTION => c"an option is out of range",
        SPARSEFFT_ERROR_NOT_FINITE => c"a sample is NaN or infinite",
        SPARSEFFT_ERROR_OVERFLOW => c"the samples are too large",
        SPARSEFFT_ERROR_CALLBACK => c"the callback failed",
        SPARSEFFT_ERROR_MEMORY => c"memory or threads could not be had",
        SPARSEFFT_ERROR_UNSUPPORTED => c"the algorithm cannot run for this n and k",
        SPARSEFFT_ERROR_INTERNAL => c"a bug in the library",
        _ => c"unknown error code",
    };
    text.as_ptr()
}

/// What was wrong with this thread's last call, with names and values; empty if it succeeded. The
/// text stays valid until this thread's next call.
#[unsafe(no_mangle)]
pub extern "C" fn sparsefft_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The library's version, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn sparsefft_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"unknown",
        };
    VERSION.as_ptr()
}
