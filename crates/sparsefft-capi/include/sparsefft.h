/*
 * sparsefft: the few large Fourier coefficients of a huge signal, each answer with a certificate.
 *
 *     sparsefft_plan *plan = sparsefft_plan_1d(n, k, NULL, NULL);
 *     sparsefft_peak peaks[K];
 *     uint64_t found = K;
 *     sparsefft_certificate certificate = {.size = sizeof certificate};
 *     int error = sparsefft_execute_complex_f64(plan, x, peaks, &found, &certificate);
 *     if (error) puts(sparsefft_last_error());
 *     sparsefft_destroy_plan(plan);
 *
 * What is in a recording: lines, bands, bursts, sweeps, families, against a local floor.
 *
 *     sparsefft_findings *found = sparsefft_find_real_f64(x, n, NULL, NULL);
 *     sparsefft_line lines[40];
 *     uint64_t count = 40;
 *     sparsefft_findings_lines(found, lines, &count);
 *     sparsefft_destroy_findings(found);
 *
 * X[f] = sum over t of x[t] exp(-2 pi i f t / n), unnormalised unless the options say otherwise.
 * Indices run from 0 to n-1. Peaks come sorted by index. The same seed and input give the same
 * answer, whatever the number of threads.
 *
 * A plan may be used from many threads at once; destroy it when no other thread uses it. All
 * arrays are the caller's, from any allocator, with the alignment of their element type. Every
 * function that can fail returns SPARSEFFT_OK (0) or an error code, and then writes no output;
 * sparsefft_last_error() says what was wrong. Doubt about an answer is not an error: it is in the
 * certificate.
 *
 * Link with -lsparsefft, or use `pkg-config --cflags --libs sparsefft` (--static for the static
 * library).
 */

#ifndef SPARSEFFT_H
#define SPARSEFFT_H

/* Made by cbindgen from crates/sparsefft-capi/src; do not edit. */

#include <stddef.h>
#include <stdint.h>

// Success.
#define SPARSEFFT_OK 0

// A pointer that must point to something is NULL.
#define SPARSEFFT_ERROR_NULL 1

// n is 0 or larger than 2^52.
#define SPARSEFFT_ERROR_LENGTH 2

// k is larger than n.
#define SPARSEFFT_ERROR_SPARSITY 3

// An option has a value outside its range, or the size of a struct was not set.
#define SPARSEFFT_ERROR_OPTION 4

// A sample that was read is NaN or infinite.
#define SPARSEFFT_ERROR_NOT_FINITE 5

// The samples are so large that their sums overflow.
#define SPARSEFFT_ERROR_OVERFLOW 6

// The callback returned something else than 0.
#define SPARSEFFT_ERROR_CALLBACK 7

// Memory could not be allocated, or threads could not be started.
#define SPARSEFFT_ERROR_MEMORY 8

// The algorithm that was asked for cannot run for this n and k, or k is too large for any sparse
// one where a dense FFT is not allowed.
#define SPARSEFFT_ERROR_UNSUPPORTED 9

// A bug in the library; please report it.
#define SPARSEFFT_ERROR_INTERNAL 10

// As k: find out how many coefficients there are.
#define SPARSEFFT_UNKNOWN UINT64_MAX

// The cheapest algorithm that can be certified.
#define SPARSEFFT_AUTO 0

// For exactly sparse signals.
#define SPARSEFFT_EXACT 1

// For noisy signals.
#define SPARSEFFT_ROBUST 2

// Voting over flat-window hashes (sFFT v1).
#define SPARSEFFT_VOTE 3

// Voting restricted by an aliasing comb (sFFT v2).
#define SPARSEFFT_COMB_VOTE 4

// The dense FFT and its k largest outputs.
#define SPARSEFFT_DENSE 5

// Nothing is known about the noise; the samples tell.
#define SPARSEFFT_NOISE_UNKNOWN 0

// There is no noise.
#define SPARSEFFT_NOISE_NONE 1

// White noise; `snr` of the options says how strong the weakest wanted coefficient is against it.
#define SPARSEFFT_NOISE_SNR 2

// Unnormalised values.
#define SPARSEFFT_NORM_BACKWARD 0

// Values divided by the square root of n.
#define SPARSEFFT_NORM_ORTHO 1

// Values divided by n: the amplitudes of the tones.
#define SPARSEFFT_NORM_FORWARD 2

// If the sparse answer cannot be certified, run a dense FFT for n up to 2^27.
#define SPARSEFFT_FALLBACK_AUTO 0

// Run a dense FFT, whatever its size.
#define SPARSEFFT_FALLBACK_DENSE 1

// Never read the whole signal; the answer is then uncertified.
#define SPARSEFFT_FALLBACK_NEVER 2

// The plain DFT.
#define SPARSEFFT_TAPER_NONE 0

// The signal is multiplied by a periodic Hann window first.
#define SPARSEFFT_TAPER_HANN 1

// The signal is multiplied by a periodic Blackman window first.
#define SPARSEFFT_TAPER_BLACKMAN 2

// The signal is multiplied by a Kaiser window of shape `kaiser_beta` first.
#define SPARSEFFT_TAPER_KAISER 3

// Every bin is explained by the answer, down to the noise.
#define SPARSEFFT_CERTIFIED 0

// Something was left unexplained; `reason` says what.
#define SPARSEFFT_UNCERTIFIED 1

// A dense FFT was run: every coefficient was computed.
#define SPARSEFFT_DENSE_EXACT 2

// A sparse search, and all samples if it is not certified.
#define SPARSEFFT_EFFORT_USUAL 0

// A sparse search alone.
#define SPARSEFFT_EFFORT_QUICK 1

// All samples, without a sparse search.
#define SPARSEFFT_EFFORT_THOROUGH 2

// A part of the samples was read, and what the lines leave of them is steady white noise.
#define SPARSEFFT_OUTCOME_CERTIFIED 0

// All samples were read: every line above the local floor by `threshold_db` is named, alone or
// in a band or burst.
#define SPARSEFFT_OUTCOME_COMPLETE 1

// Not everything could be examined; the reasons say why.
#define SPARSEFFT_OUTCOME_PARTIAL 2

// A sinusoid, perhaps with a drift.
#define SPARSEFFT_TONE 0

// A sinusoid whose amplitude decays or grows over the record.
#define SPARSEFFT_DAMPED 1

// One peak wider than a sinusoid: a wandering tone or a resonance.
#define SPARSEFFT_BROAD 2

// Several tones that are not resolved.
#define SPARSEFFT_CLUSTER 3

// The mean of a real signal: stated, not tested against a floor.
#define SPARSEFFT_OFFSET 4

// Of sparsefft_tones_...: a narrow-band signal that is no tone.
#define SPARSEFFT_NARROW_BAND 5

// What is in a signal: the answer of sparsefft_find_...
typedef struct sparsefft_findings sparsefft_findings;

// A transform made ready.
typedef struct sparsefft_plan sparsefft_plan;

// How a transform is to be planned. Zero means the default everywhere, so that
//
//     sparsefft_options options = {.size = sizeof options};
//
// is complete; then set what should differ.
typedef struct {
  // sizeof(sparsefft_options): which version of this struct the program was compiled with.
  size_t size;
  // Seed of all random choices.
  uint64_t seed;
  // SPARSEFFT_AUTO or the algorithm to run.
  int algorithm;
  // One of SPARSEFFT_NOISE_...
  int noise;
  // For SPARSEFFT_NOISE_SNR, in dB: |X/n|^2 of the weakest wanted coefficient over the variance
  // of the noise in one sample.
  double snr;
  // Relative L2 residual below which the signal counts as explained although fewer than k
  // coefficients were found; 0 means 1e-6.
  double tolerance;
  // Accepted probability that noise is reported as a coefficient; 0 means 1e-6.
  double failure_probability;
  // One of SPARSEFFT_NORM_...
  int norm;
  // One of SPARSEFFT_FALLBACK_...
  int fallback;
  // One of SPARSEFFT_TAPER_...
  int taper;
  // Number of threads. 0: the calling thread, helped by all cores where that is worth while.
  // Otherwise the plan keeps this many threads of its own, but at most four for each core of the
  // machine. The answer does not depend on it.
  int threads;
  // For SPARSEFFT_TAPER_KAISER.
  double kaiser_beta;
  // Not 0: ignore `seed` and draw one, as sparsefft_random_seed does. The certificate tells it.
  int draw_seed;
} sparsefft_options;

// One Fourier coefficient: X[index] = re + i im.
typedef struct {
  // Frequency index, 0 to n-1; those from n/2 on are the negative frequencies index - n.
  uint64_t index;
  // Real part.
  double re;
  // Imaginary part.
  double im;
} sparsefft_peak;

// Whether an answer accounts for the whole signal, and what it took to get it. Set `size` first:
//
//     sparsefft_certificate certificate = {.size = sizeof certificate};
//
// Not covered: whoever makes the signal and knows the seed can hide a tone from the samples that
// will be read; against such a source draw the seed (sparsefft_options.draw_seed).
//
// The signal-to-noise ratio of a coefficient of an answer that may be relied on, in one bin of the
// whole record: |X|^2 / (n noise_floor^2), with X unnormalised.
typedef struct {
  // sizeof(sparsefft_certificate), set by the caller.
  size_t size;
  // SPARSEFFT_CERTIFIED, SPARSEFFT_UNCERTIFIED or SPARSEFFT_DENSE_EXACT. An answer may be relied
  // on unless this is SPARSEFFT_UNCERTIFIED.
  int verdict;
  // The algorithm that produced the answer.
  int algorithm;
  // Number of bins whose content was compared with the answer.
  uint64_t bins_tested;
  // Bins that hold more than the answer and the noise explain.
  uint64_t bins_unexplained;
  // Estimated share of the signal's energy that the answer does not account for.
  double residual_energy;
  // Standard deviation of the noise in one sample.
  double noise_floor;
  // Smallest amplitude |X|/n that could not have been overlooked.
  double detection_limit;
  // Bound on the probability that a certified answer is wrong.
  double failure_probability;
  // Samples read, counted with repetition.
  uint64_t samples_read;
  // Wall-clock time of the transform.
  double seconds;
  // How many attempts were made.
  uint32_t attempts;
  // Why the verdict is not SPARSEFFT_CERTIFIED, or an empty string; cut to fit.
  char reason[252];
  // Seed of the random choices.
  uint64_t seed;
  // Largest share of the signal's power that a steady or slowly moving narrow-band rest (a weak
  // sweep, a modulated carrier) could hold unnoticed. 1 where nothing was tested, 0 of a dense
  // answer.
  double rest_limit;
} sparsefft_certificate;

// Asks for samples: writes the real part of sample indices[i] to samples[2 i] and its imaginary
// part to samples[2 i + 1], for i below count, and returns 0. Anything else ends the transform
// with SPARSEFFT_ERROR_CALLBACK. `user` is what was given to sparsefft_execute_callback. It is
// called by one thread at a time, which need not be the one that started the transform.
typedef int (*sparsefft_read)(void *user, const uint64_t *indices, size_t count, double *samples);

// How to look for things. Zero means the default everywhere:
//
//     sparsefft_find_options options = {.size = sizeof options};
typedef struct {
  // sizeof(sparsefft_find_options).
  size_t size;
  // Seed of all random choices.
  uint64_t seed;
  // List at most so many lines, the strongest; 0: all. It bounds the list and nothing else.
  uint64_t at_most;
  // Bytes that reading all samples may take; 0: 4 GiB.
  uint64_t memory;
  // Accepted probability that noise makes a finding; 0 means 1e-6.
  double failure_probability;
  // One of SPARSEFFT_EFFORT_...
  int effort;
  // As in sparsefft_options.
  int threads;
  // Not 0: ignore `seed` and draw one.
  int draw_seed;
} sparsefft_find_options;

// The findings as a whole. Set `size` first:
//
//     sparsefft_summary summary = {.size = sizeof summary};
typedef struct {
  // sizeof(sparsefft_summary), set by the caller.
  size_t size;
  // One of SPARSEFFT_OUTCOME_...
  int outcome;
  // 1 if the samples are real: only frequencies from 0 to 1/2 are listed.
  int real;
  // Number of samples of the signal.
  uint64_t n;
  // Number of lines.
  uint64_t lines;
  // Lines that were found but are not among those asked for.
  uint64_t left_out;
  // Number of bands.
  uint64_t bands;
  // Number of bursts.
  uint64_t bursts;
  // Number of sweeps.
  uint64_t sweeps;
  // Number of families.
  uint64_t families;
  // Number of frequencies at which the floor is stated.
  uint64_t floor;
  // Number of reasons.
  uint64_t reasons;
  // SNR in dB from which on a line could not have been overlooked, in nine tenths of the band.
  double threshold_db;
  // Probability that noise alone makes a finding.
  double failure_probability;
  // Samples read by all attempts, counted with repetition.
  uint64_t samples_read;
  // Wall-clock time of all attempts.
  double seconds;
  // Memory that reading all samples has taken, in bytes; 0 if only a part was read.
  uint64_t memory;
  // Seed of the random choices.
  uint64_t seed;
} sparsefft_summary;

// Something at one frequency. Frequencies are in cycles per sample, -1/2 to 1/2; times the sample
// rate they are in Hz. What is not known is NaN.
typedef struct {
  // SPARSEFFT_TONE, SPARSEFFT_DAMPED, SPARSEFFT_BROAD, SPARSEFFT_CLUSTER, SPARSEFFT_OFFSET or
  // SPARSEFFT_NARROW_BAND.
  int kind;
  // 1 if the samples are real, so that there is a mirror image at the negative frequency: a
  // cosine then has the level 2 |re + i im|.
  int mirrored;
  // Mean frequency over the record; of sparsefft_tones_... the frequency at the first sample.
  double frequency;
  // Its standard deviation.
  double frequency_std;
  // The coefficient a of a exp(2 pi i frequency t) at the first sample, t = 0.
  double re;
  // Its imaginary part.
  double im;
  // Standard deviation of |a|.
  double amplitude_std;
  // Level over the local floor in one bin of the whole record, n |a|^2 / density, in dB.
  double snr_db;
  // Change of the frequency per sample; 0 where none was seen.
  double drift;
  // Its standard deviation.
  double drift_std;
  // Width at half power in cycles per sample; 0 where it is not resolved.
  double width;
  // Decay of the amplitude per sample: |a(t)| is proportional to exp(-damping t).
  double damping;
} sparsefft_line;

// A part of the spectrum that stands above its surroundings.
typedef struct {
  // Lower edge in cycles per sample.
  double low;
  // Upper edge.
  double high;
  // Where it is strongest.
  double peak;
  // Mean power |x|^2 between the edges, mirror image included.
  double power;
  // How far it stands above its surroundings, in dB.
  double above_db;
  // Share of the time during which something happens in it; NaN where that is not known.
  double busy;
} sparsefft_band;

// Something that is there only part of the time.
typedef struct {
  // First sample.
  uint64_t start;
  // Number of samples.
  uint64_t length;
  // Lower edge in cycles per sample.
  double low;
  // Upper edge.
  double high;
  // Mean power |x|^2 while it lasts, mirror image included.
  double power;
  // Its strongest tile of time and frequency over the floor, in dB.
  double above_db;
} sparsefft_burst;

// A line whose frequency moves across the band.
typedef struct {
  // First sample.
  uint64_t start;
  // Number of samples.
  uint64_t length;
  // Frequency at its first sample, in cycles per sample.
  double from;
  // Frequency at its last sample.
  double to;
  // Change of the frequency per sample.
  double rate;
  // Mean power |x|^2 while it lasts, mirror image included.
  double power;
  // Its strongest tile of time and frequency over the floor, in dB.
  double above_db;
} sparsefft_sweep;

// Lines with a common spacing.
typedef struct {
  // The spacing in cycles per sample; of harmonics the fundamental.
  double spacing;
  // The frequency that sidebands lie around; NaN for harmonics.
  double carrier;
  // Number of multiples of the spacing that are there.
  uint64_t orders;
  // The lowest and the highest of them.
  int64_t lowest;
  // See `lowest`.
  int64_t highest;
} sparsefft_family;

// The local floor at one frequency.
typedef struct {
  // Frequency in cycles per sample.
  double frequency;
  // Density: white noise of power s^2 per sample has the density s^2 everywhere.
  double density;
  // Its standard deviation in dB.
  double std_db;
  // SNR in dB from which on a line there could not have been overlooked.
  double threshold_db;
} sparsefft_floor;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Plans a transform of n samples for the k largest coefficients, or, with SPARSEFFT_UNKNOWN, for
// all that stand above the noise. `options` may be NULL: all defaults. Planning takes
// microseconds, whatever n.
//
// Returns NULL if that fails, with the error code in `error` unless that is NULL.
sparsefft_plan *sparsefft_plan_1d(uint64_t n,
                                  uint64_t k,
                                  const sparsefft_options *options,
                                  int *error);

// Frees a plan; NULL is allowed.
void sparsefft_destroy_plan(sparsefft_plan *plan);

// Transforms n complex numbers: x holds 2 n values, real and imaginary parts in turn, as arrays
// of double complex, fftw_complex and std::complex<double> do; cast their address.
//
// `count` points to the number of peaks that `peaks` has room for, and then to the number that
// was found, at most k. If there was too little room, the largest that fit were written.
// `certificate` may be NULL.
int sparsefft_execute_complex_f64(const sparsefft_plan *plan,
                                  const double *x,
                                  sparsefft_peak *peaks,
                                  uint64_t *count,
                                  sparsefft_certificate *certificate);

// As sparsefft_execute_complex_f64, for single precision input. Results are double.
int sparsefft_execute_complex_f32(const sparsefft_plan *plan,
                                  const float *x,
                                  sparsefft_peak *peaks,
                                  uint64_t *count,
                                  sparsefft_certificate *certificate);

// As sparsefft_execute_complex_f64, for n real numbers. A real tone has two coefficients, at f
// and n - f; both count towards k.
int sparsefft_execute_real_f64(const sparsefft_plan *plan,
                               const double *x,
                               sparsefft_peak *peaks,
                               uint64_t *count,
                               sparsefft_certificate *certificate);

// As sparsefft_execute_real_f64, for single precision input. Results are double.
int sparsefft_execute_real_f32(const sparsefft_plan *plan,
                               const float *x,
                               sparsefft_peak *peaks,
                               uint64_t *count,
                               sparsefft_certificate *certificate);

// As sparsefft_execute_complex_f64, for samples that `read` computes or fetches on demand.
int sparsefft_execute_callback(const sparsefft_plan *plan,
                               sparsefft_read read,
                               void *user,
                               sparsefft_peak *peaks,
                               uint64_t *count,
                               sparsefft_certificate *certificate);

// The samples that the first pass reads, in reading order, so that an instrument can record only
// these. Later passes (retries, and the ladder against unknown noise) may read more.
//
// `count` points to the room that `indices` has, and then to the number there are; `indices` may
// be NULL if that room is 0. If there was too little room, as many as fit were written.
int sparsefft_sample_indices(const sparsefft_plan *plan, uint64_t *indices, uint64_t *count);

// Writes what a plan will do, and why, in words; as snprintf, at most `size` bytes with the final
// zero, and returns how many bytes the whole text has without it.
size_t sparsefft_explain(const sparsefft_plan *plan, char *text, size_t size);

// A seed that nobody could foretell, drawn from the operating system's randomness, below 2^53.
uint64_t sparsefft_random_seed(void);

// What an error code means, in general.
const char *sparsefft_error_string(int error);

// What was wrong with this thread's last call, with names and values; empty if it succeeded. The
// text stays valid until this thread's next call.
const char *sparsefft_last_error(void);

// The library's version, such as "0.1.0".
const char *sparsefft_version(void);

// What is in n complex numbers? x holds 2 n values, real and imaginary parts in turn. `options` may
// be NULL: all defaults. Returns NULL if it fails, with the error code in `error` unless that is NULL.
//
// A part of the samples is searched first; if that does not settle it, all of them are read. Free the
// answer with sparsefft_destroy_findings.
sparsefft_findings *sparsefft_find_complex_f64(const double *x,
                                               uint64_t n,
                                               const sparsefft_find_options *options,
                                               int *error);

// As sparsefft_find_complex_f64, for single precision input.
sparsefft_findings *sparsefft_find_complex_f32(const float *x,
                                               uint64_t n,
                                               const sparsefft_find_options *options,
                                               int *error);

// As sparsefft_find_complex_f64, for n real numbers. Mirror images are not listed.
sparsefft_findings *sparsefft_find_real_f64(const double *x,
                                            uint64_t n,
                                            const sparsefft_find_options *options,
                                            int *error);

// As sparsefft_find_real_f64, for single precision input.
sparsefft_findings *sparsefft_find_real_f32(const float *x,
                                            uint64_t n,
                                            const sparsefft_find_options *options,
                                            int *error);

// As sparsefft_find_complex_f64, for n complex samples that `read` computes or fetches on demand.
sparsefft_findings *sparsefft_find_callback(sparsefft_read read,
                                            void *user,
                                            uint64_t n,
                                            const sparsefft_find_options *options,
                                            int *error);

// Frees findings; NULL is allowed.
void sparsefft_destroy_findings(sparsefft_findings *findings);

// The findings as a whole: outcome, numbers of lines and the like, cost of all attempts.
int sparsefft_findings_summary(const sparsefft_findings *findings, sparsefft_summary *summary);

// The lines, strongest first. `count` points to the number that `lines` has room for, and then to
// the number that there is; `lines` may be NULL if that room is 0. The other lists are read alike.
int sparsefft_findings_lines(const sparsefft_findings *findings,
                             sparsefft_line *lines,
                             uint64_t *count);

// The bands, those that stand out most first.
int sparsefft_findings_bands(const sparsefft_findings *findings,
                             sparsefft_band *bands,
                             uint64_t *count);

// The bursts in order of time.
int sparsefft_findings_bursts(const sparsefft_findings *findings,
                              sparsefft_burst *bursts,
                              uint64_t *count);

// The sweeps in order of time.
int sparsefft_findings_sweeps(const sparsefft_findings *findings,
                              sparsefft_sweep *sweeps,
                              uint64_t *count);

// The families of lines, the surest first; sparsefft_family_members lists their lines.
int sparsefft_findings_families(const sparsefft_findings *findings,
                                sparsefft_family *families,
                                uint64_t *count);

// Places, in the list of lines, of the members of a family.
int sparsefft_family_members(const sparsefft_findings *findings,
                             uint64_t family,
                             uint64_t *members,
                             uint64_t *count);

// The local floor over frequency.
int sparsefft_findings_floor(const sparsefft_findings *findings,
                             sparsefft_floor *floor,
                             uint64_t *count);

// The text of one reason, a sentence, and in `code`, unless that is NULL, its code, which does not
// change between versions: "quick", "too_long", "not_sparse", "unsteady", ... NULL beyond the last
// reason. Both stay valid as long as the findings.
const char *sparsefft_findings_reason(const sparsefft_findings *findings,
                                      uint64_t index,
                                      const char **code);

// The tones of n complex numbers, at frequencies between the bins: x holds 2 n values, real and
// imaginary parts in turn. The plan says how many to expect and how the noise is.
//
// `count` points to the number that `tones` has room for, and then to the number that was found.
// Tones come first, sorted by frequency; after them SPARSEFFT_CLUSTER, several that are not
// resolved, and SPARSEFFT_NARROW_BAND, both with their width and, as `re`, the square root of their
// mean power. Of real samples both mirror images are listed. `certificate` may be NULL.
int sparsefft_tones_complex_f64(const sparsefft_plan *plan,
                                const double *x,
                                sparsefft_line *tones,
                                uint64_t *count,
                                sparsefft_certificate *certificate);

// As sparsefft_tones_complex_f64, for single precision input.
int sparsefft_tones_complex_f32(const sparsefft_plan *plan,
                                const float *x,
                                sparsefft_line *tones,
                                uint64_t *count,
                                sparsefft_certificate *certificate);

// As sparsefft_tones_complex_f64, for n real numbers.
int sparsefft_tones_real_f64(const sparsefft_plan *plan,
                             const double *x,
                             sparsefft_line *tones,
                             uint64_t *count,
                             sparsefft_certificate *certificate);

// As sparsefft_tones_real_f64, for single precision input.
int sparsefft_tones_real_f32(const sparsefft_plan *plan,
                             const float *x,
                             sparsefft_line *tones,
                             uint64_t *count,
                             sparsefft_certificate *certificate);

// As sparsefft_tones_complex_f64, for samples that `read` computes or fetches on demand.
int sparsefft_tones_callback(const sparsefft_plan *plan,
                             sparsefft_read read,
                             void *user,
                             sparsefft_line *tones,
                             uint64_t *count,
                             sparsefft_certificate *certificate);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SPARSEFFT_H */
