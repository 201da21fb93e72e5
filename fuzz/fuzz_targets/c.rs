//! The C interface with any arguments over valid buffers: an error code with a message, or an answer; never
//! `SPARSEFFT_ERROR_INTERNAL`, which is a panic or an error that has no code, and no byte outside the buffers.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/sparsefft-capi/src/lib.rs"]
mod capi;

use capi::*;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::{null, null_mut};

/// Samples that a callback gives before it fails: sources are slow.
const PATIENCE: usize = 1 << 18;
/// Longest signal in memory.
const LONGEST: u64 = 1 << 13;
/// Longest signal that is answered by voting.
const LONGEST_VOTED: u64 = 1 << 32;
/// What stands behind every buffer.
const GUARD: u64 = 0x5a5a_5a5a_5a5a_5a5a;

/// Numbers from the front; zeros when there are none left.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let count = N.min(self.0.len());
        out[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        out
    }
    fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }
    fn word(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
    fn float(&mut self) -> f64 {
        f64::from_bits(self.word())
    }
    /// Mostly small, and now and then anything.
    fn choice(&mut self) -> c_int {
        let value = self.byte();
        if value < 250 { c_int::from(value % 7) } else { c_int::from_le_bytes(self.take()) }
    }
    /// Any size: so many bits of a word.
    fn size(&mut self) -> u64 {
        let bits = u32::from(self.byte() % 65);
        self.word().checked_shr(64 - bits).unwrap_or(0)
    }
}

/// What a callback works with.
struct Source {
    left: usize,
    seed: u64,
    values: [f64; 4],
}

unsafe extern "C" fn read(
    user: *mut c_void,
    indices: *const u64,
    count: usize,
    samples: *mut f64,
) -> c_int {
    // SAFETY: `main` gives a source that nobody else uses, and the library `count` places.
    unsafe {
        let source = &mut *user.cast::<Source>();
        let Some(left) = source.left.checked_sub(count) else { return 7 };
        source.left = left;
        for i in 0..2 * count {
            let t = (*indices.add(i / 2)).wrapping_mul(source.seed);
            samples.add(i).write(source.values[(t >> 60) as usize % 4]);
        }
    }
    0
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut from = Bytes(data);
    let (n, k) = (from.size(), if from.byte() % 4 == 0 { SPARSEFFT_UNKNOWN } else { from.size() });
    let size = match from.byte() {
        0..=199 => size_of::<sparsefft_options>(),
        // A caller's older struct, and nonsense that is smaller than ours.
        small => usize::from(small) % (size_of::<sparsefft_options>() + 1),
    };
    let mut options = sparsefft_options {
        size,
        seed: from.word(),
        algorithm: from.choice(),
        noise: from.choice(),
        snr: from.float(),
        tolerance: from.float(),
        failure_probability: from.float(),
        norm: from.choice(),
        fallback: from.choice(),
        taper: from.choice(),
        // Starting threads is slow, and the number of them makes no difference.
        threads: from.choice().min(2),
        kaiser_beta: from.float(),
        draw_seed: i32::from(from.byte() == 7),
    };
    // What would take longer than an answer is worth here.
    if n > LONGEST && options.fallback == SPARSEFFT_FALLBACK_DENSE {
        options.fallback = SPARSEFFT_FALLBACK_NEVER;
    }
    // A voting window has some sqrt(n k) taps: gigabytes, which the fuzzer would take for a leak.
    let voting = [SPARSEFFT_VOTE, SPARSEFFT_COMB_VOTE];
    if n > LONGEST_VOTED && voting.contains(&options.algorithm) {
        options.algorithm = SPARSEFFT_AUTO;
    }
    let mut error = -1;
    let given = if from.byte() % 8 == 0 { null() } else { &raw const options };
    // SAFETY: every pointer is null or points to what the header asks for, here and below.
    let plan = unsafe { sparsefft_plan_1d(n, k, given, &raw mut error) };
    checked(error);
    assert_eq!(plan.is_null(), error != SPARSEFFT_OK);

    let mut text = [0x5a_i8; 64];
    let room = usize::from(from.byte()) % 60;
    // SAFETY: as above.
    let length = unsafe { sparsefft_explain(plan, text.as_mut_ptr().cast(), room) };
    assert!(text[room..].iter().all(|&c| c == 0x5a) && (length > 0) == !plan.is_null());

    let most = u64::from(from.byte()) % 40;
    let guard = sparsefft_peak { index: GUARD, re: 0.0, im: 0.0 };
    let mut peaks = [guard; 41];
    let mut count = most;
    let mut certificate: sparsefft_certificate = unsafe { std::mem::zeroed() };
    certificate.size = match from.byte() {
        0..=199 => size_of::<sparsefft_certificate>(),
        small => usize::from(small) % size_of::<sparsefft_certificate>(),
    };
    let to_peaks = if from.byte() % 8 == 0 { null_mut() } else { peaks.as_mut_ptr() };
    let to_count = if from.byte() % 16 == 0 { null_mut() } else { &raw mut count };
    let to_certificate = if from.byte() % 4 == 0 { null_mut() } else { &raw mut certificate };
    let way = from.byte() % 6;
    let values = [from.float(), from.float(), from.float(), from.float()];
    let seed = from.word() | 1;
    // SAFETY: as above; signals in memory have room for every n that is tried.
    let code = unsafe {
        match way {
            0..4 if n <= LONGEST => {
                let value = |i: usize| values[((i as u64).wrapping_mul(seed) >> 60) as usize % 4];
                let wide: Vec<f64> = (0..2 * LONGEST as usize).map(value).collect();
                let narrow: Vec<f32> = wide.iter().map(|&v| v as f32).collect();
                let (wide, narrow) = (wide.as_ptr(), narrow.as_ptr());
                let (p, c, to) = (to_peaks, to_count, to_certificate);
                match way {
                    0 => sparsefft_execute_complex_f64(plan, wide, p, c, to),
                    1 => sparsefft_execute_complex_f32(plan, narrow, p, c, to),
                    2 => sparsefft_execute_real_f64(plan, wide, p, c, to),
                    _ => sparsefft_execute_real_f32(plan, narrow, p, c, to),
                }
            }
            // So many are listed one by one.
            4 if k <= 1 << 16 && n <= 1 << 20 => {
                let mut indices = vec![GUARD; most as usize + 1];
                let code = sparsefft_sample_indices(plan, indices.as_mut_ptr(), to_count);
                assert_eq!(indices[most as usize], GUARD);
                count = 0;
                code
            }
            _ if k <= 1 << 16 || k == SPARSEFFT_UNKNOWN => {
                let mut source = Source { left: PATIENCE, seed, values };
                let user = (&raw mut source).cast();
                let read = if seed % 32 == 1 { None } else { Some(read as _) };
                sparsefft_execute_callback(plan, read, user, to_peaks, to_count, to_certificate)
            }
            // Nothing is called, but what follows holds.
            _ => sparsefft_sample_indices(null(), null_mut(), null_mut()),
        }
    };
    checked(code);
    assert!(peaks[most as usize..].iter().all(|p| p.index == GUARD), "a peak too many");
    if code == SPARSEFFT_OK {
        let written = count.min(most) as usize;
        assert!(plan.is_null() || peaks[..written].iter().all(|p| p.index < n || p.index == GUARD));
    }
    find_and_tones(plan, n, &mut from, values, seed);
    // SAFETY: made above and freed once.
    unsafe { sparsefft_destroy_plan(plan) };
});

/// The lists of findings, and tones, of a signal in memory, with any options.
fn find_and_tones(
    plan: *const sparsefft_plan,
    n: u64,
    from: &mut Bytes<'_>,
    values: [f64; 4],
    seed: u64,
) {
    // They take a hundred times as long as the rest.
    if n > LONGEST || from.byte() % 8 != 7 {
        return;
    }
    let options = sparsefft_find_options {
        size: size_of::<sparsefft_find_options>(),
        seed,
        at_most: from.size(),
        memory: from.size(),
        failure_probability: from.float(),
        effort: from.choice(),
        threads: from.choice().min(2),
        draw_seed: 0,
    };
    let value = |i: usize| values[((i as u64).wrapping_mul(seed) >> 60) as usize % 4];
    let x: Vec<f64> = (0..2 * LONGEST as usize).map(value).collect();
    let guard = sparsefft_burst {
        start: GUARD,
        length: GUARD,
        low: 0.0,
        high: 0.0,
        power: 0.0,
        above_db: 0.0,
    };
    let (room, mut bursts) = (usize::from(from.byte() % 8), [guard; 8]);
    // SAFETY: all fields are numbers, for which zero is valid, here and below.
    let line: sparsefft_line = unsafe { std::mem::zeroed() };
    let mut lines = [line; 8];
    // SAFETY: as above.
    let mut certificate: sparsefft_certificate = unsafe { std::mem::zeroed() };
    certificate.size = size_of::<sparsefft_certificate>();
    let (mut error, mut count) = (-1, room as u64);
    // SAFETY: every pointer is null or points to what the header asks for.
    unsafe {
        let found = if from.byte() % 2 == 0 {
            sparsefft_find_complex_f64(x.as_ptr(), n, &options, &raw mut error)
        } else {
            sparsefft_find_real_f64(x.as_ptr(), n, &options, &raw mut error)
        };
        checked(error);
        assert_eq!(found.is_null(), error != SPARSEFFT_OK);
        checked(sparsefft_findings_bursts(found, bursts.as_mut_ptr(), &raw mut count));
        assert!(bursts[room..].iter().all(|b| b.start == GUARD), "a burst too many");
        count = 8;
        checked(sparsefft_findings_lines(found, lines.as_mut_ptr(), &raw mut count));
        checked(sparsefft_family_members(found, from.size(), null_mut(), &raw mut count));
        sparsefft_destroy_findings(found);
        count = 8;
        let (to, evidence) = (lines.as_mut_ptr(), &raw mut certificate);
        checked(sparsefft_tones_complex_f64(plan, x.as_ptr(), to, &raw mut count, evidence));
    }
}

/// A code of the header, and a message where there is something to say.
fn checked(code: c_int) {
    // SAFETY: the text stays valid until the next call.
    let message = unsafe { CStr::from_ptr(sparsefft_last_error()) }.to_str().expect("text");
    assert!((SPARSEFFT_OK..SPARSEFFT_ERROR_INTERNAL).contains(&code), "{code}: {message}");
    assert_eq!(code == SPARSEFFT_OK, message.is_empty(), "{code}: {message}");
    assert!(!message.contains('\n'), "{message}");
}
