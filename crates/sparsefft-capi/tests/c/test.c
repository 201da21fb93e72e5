/* The C interface from C. Prints one line for each group and exits with 0, or says what failed. */
#include <complex.h>
#include <math.h>
#include <pthread.h>
#include <sparsefft.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition, \
                    sparsefft_last_error());                                               \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

enum { N = 1 << 14, K = 3 };
static const uint64_t INDEX[K] = {5, 700, 16000};
static const double SIZE[K] = {1.0, 0.5, 0.25};

static double complex sample(uint64_t t) {
    double complex sum = 0;
    for (int i = 0; i < K; i++)
        sum += SIZE[i] * cexp(I * 2 * acos(-1.0) * (double)(INDEX[i] * t % N) / N);
    return sum;
}

static double complex *signal_f64(void) {
    double complex *x = malloc(N * sizeof *x);
    for (uint64_t t = 0; t < N; t++) x[t] = sample(t);
    return x;
}

static void check_peaks(const sparsefft_peak *peaks, uint64_t found, double scale, double error) {
    CHECK(found == K);
    for (int i = 0; i < K; i++) {
        CHECK(peaks[i].index == INDEX[i]);
        CHECK(fabs(peaks[i].re - SIZE[i] * scale) < error * scale);
        CHECK(fabs(peaks[i].im) < error * scale);
    }
}

static void every_type(void) {
    double complex *x = signal_f64();
    float complex *single = malloc(N * sizeof *single);
    double *real = malloc(N * sizeof *real);
    float *real_single = malloc(N * sizeof *real_single);
    for (int t = 0; t < N; t++) {
        single[t] = (float complex)x[t];
        real[t] = creal(x[t]);
        real_single[t] = (float)real[t];
    }
    int error = -1;
    sparsefft_plan *plan = sparsefft_plan_1d(N, K, NULL, &error);
    CHECK(plan && error == SPARSEFFT_OK);
    sparsefft_peak peaks[2 * K];
    sparsefft_certificate certificate = {.size = sizeof certificate};
    for (int again = 0; again < 3; again++) {
        uint64_t found = K;
        CHECK(!sparsefft_execute_complex_f64(plan, (double *)x, peaks, &found, &certificate));
        check_peaks(peaks, found, N, 1e-9);
        CHECK(certificate.verdict == SPARSEFFT_CERTIFIED);
        CHECK(certificate.algorithm == SPARSEFFT_EXACT);
        CHECK(certificate.samples_read > 0 && certificate.samples_read < N / 4);
        CHECK(certificate.bins_tested > 0 && certificate.bins_unexplained == 0);
        CHECK(certificate.attempts == 1 && certificate.seconds > 0);
        CHECK(certificate.reason[0] == 0);
        found = K;
        CHECK(!sparsefft_execute_complex_f32(plan, (float *)single, peaks, &found, NULL));
        check_peaks(peaks, found, N, 1e-5);
    }
    sparsefft_destroy_plan(plan);

    plan = sparsefft_plan_1d(N, 2 * K, NULL, NULL);
    for (int kind = 0; kind < 2; kind++) {
        uint64_t found = 2 * K;
        CHECK(kind ? !sparsefft_execute_real_f32(plan, real_single, peaks, &found, &certificate)
                   : !sparsefft_execute_real_f64(plan, real, peaks, &found, &certificate));
        CHECK(found == 2 * K);
        for (int i = 0; i < K; i++) {
            /* Conjugate partners, to the last bit. */
            const sparsefft_peak *a = &peaks[i], *b = &peaks[2 * K - 1 - i];
            CHECK(a->index + b->index == N && a->re == b->re && a->im == -b->im);
        }
        CHECK(fabs(peaks[0].re - 0.5 * N) < 1e-4 * N);
    }
    sparsefft_destroy_plan(plan);
    free(x), free(single), free(real), free(real_single);
    puts("every type");
}

static void options_and_norms(void) {
    double complex *x = signal_f64();
    const double scale[] = {N, 128.0, 1.0};
    for (int norm = SPARSEFFT_NORM_BACKWARD; norm <= SPARSEFFT_NORM_FORWARD; norm++) {
        sparsefft_options options = {.size = sizeof options};
        options.norm = norm;
        options.seed = 7;
        options.threads = norm;
        options.noise = SPARSEFFT_NOISE_NONE;
        sparsefft_plan *plan = sparsefft_plan_1d(N, SPARSEFFT_UNKNOWN, &options, NULL);
        CHECK(plan);
        sparsefft_peak peaks[K];
        uint64_t found = K;
        CHECK(!sparsefft_execute_complex_f64(plan, (double *)x, peaks, &found, NULL));
        check_peaks(peaks, found, scale[norm], 1e-9);
        sparsefft_destroy_plan(plan);
    }
    for (int algorithm = SPARSEFFT_AUTO; algorithm <= SPARSEFFT_DENSE; algorithm++) {
        sparsefft_options options = {.size = sizeof options};
        options.algorithm = algorithm;
        sparsefft_plan *plan = sparsefft_plan_1d(N, K, &options, NULL);
        CHECK(plan);
        sparsefft_peak peaks[K];
        uint64_t found = K;
        sparsefft_certificate certificate = {.size = sizeof certificate};
        CHECK(!sparsefft_execute_complex_f64(plan, (double *)x, peaks, &found, &certificate));
        check_peaks(peaks, found, N, 1e-6);
        CHECK(algorithm == SPARSEFFT_AUTO || certificate.algorithm == algorithm ||
              certificate.verdict == SPARSEFFT_DENSE_EXACT);
        sparsefft_destroy_plan(plan);
    }
    /* A program that was compiled when the struct was shorter. */
    struct { size_t size; uint64_t seed; } old = {sizeof old, 3};
    sparsefft_plan *plan = sparsefft_plan_1d(N, K, (const sparsefft_options *)(void *)&old, NULL);
    CHECK(plan);
    struct { size_t size; int verdict, canary; } cut = {sizeof(size_t) + sizeof(int), -1, 42};
    sparsefft_peak peaks[K];
    uint64_t found = K;
    CHECK(!sparsefft_execute_complex_f64(plan, (double *)x, peaks, &found,
                                         (sparsefft_certificate *)(void *)&cut));
    CHECK(cut.verdict == SPARSEFFT_CERTIFIED && cut.canary == 42);
    sparsefft_destroy_plan(plan);
    free(x);
    puts("options and norms");
}

static void little_room(void) {
    double complex *x = signal_f64();
    sparsefft_plan *plan = sparsefft_plan_1d(N, K, NULL, NULL);
    sparsefft_peak peaks[K] = {{0, 0, 0}};
    uint64_t found = 2;
    CHECK(!sparsefft_execute_complex_f64(plan, (double *)x, peaks, &found, NULL));
    CHECK(found == K && peaks[0].index == INDEX[0] && peaks[1].index == INDEX[1]);
    CHECK(peaks[2].index == 0);
    found = 0;
    CHECK(!sparsefft_execute_complex_f64(plan, (double *)x, NULL, &found, NULL) && found == K);

    uint64_t count = 0;
    CHECK(!sparsefft_sample_indices(plan, NULL, &count) && count > 0 && count < N);
    uint64_t *indices = malloc((count + 1) * sizeof *indices);
    indices[count] = 99;
    CHECK(!sparsefft_sample_indices(plan, indices, &count) && indices[count] == 99);
    for (uint64_t i = 0; i < count; i++) CHECK(indices[i] < N);
    uint64_t less = 3, few[4] = {0, 0, 0, 77};
    CHECK(!sparsefft_sample_indices(plan, few, &less) && less == count && few[3] == 77);
    CHECK(!memcmp(few, indices, 3 * sizeof *few));
    free(indices);

    char text[64];
    size_t length = sparsefft_explain(plan, text, sizeof text);
    CHECK(length > sizeof text && strlen(text) == sizeof text - 1);
    CHECK(!strncmp(text, "goal: at most 3 of 16384", 24));
    CHECK(sparsefft_explain(plan, NULL, 0) == length);
    sparsefft_destroy_plan(plan);
    free(x);
    puts("little room");
}

struct source {
    uint64_t asked;
    int fail;
};

static int read_samples(void *user, const uint64_t *indices, size_t count, double *samples) {
    struct source *source = user;
    source->asked += count;
    if (source->fail) return source->fail;
    for (size_t i = 0; i < count; i++) {
        double complex v = sample(indices[i]);
        samples[2 * i] = creal(v);
        samples[2 * i + 1] = cimag(v);
    }
    return 0;
}

static void callbacks(void) {
    sparsefft_plan *plan = sparsefft_plan_1d(N, K, NULL, NULL);
    struct source source = {0, 0};
    sparsefft_peak peaks[K];
    uint64_t found = K;
    sparsefft_certificate certificate = {.size = sizeof certificate};
    CHECK(!sparsefft_execute_callback(plan, read_samples, &source, peaks, &found, &certificate));
    check_peaks(peaks, found, N, 1e-9);
    CHECK(source.asked == certificate.samples_read);
    source.fail = -17;
    found = K;
    CHECK(sparsefft_execute_callback(plan, read_samples, &source, peaks, &found, NULL) ==
          SPARSEFFT_ERROR_CALLBACK);
    CHECK(strstr(sparsefft_last_error(), "-17"));
    CHECK(found == K);
    CHECK(sparsefft_execute_callback(plan, NULL, NULL, peaks, &found, NULL) == SPARSEFFT_ERROR_NULL);
    CHECK(strstr(sparsefft_last_error(), "read is NULL"));
    sparsefft_destroy_plan(plan);
    puts("callbacks");
}

static void refused(uint64_t n, uint64_t k, const sparsefft_options *options, int code,
                    const char *word) {
    int error = 0;
    CHECK(!sparsefft_plan_1d(n, k, options, &error));
    CHECK(error == code);
    CHECK(strstr(sparsefft_last_error(), word));
    CHECK(strlen(sparsefft_error_string(code)) > 5);
}

static void bad_input(void) {
    refused(0, 0, NULL, SPARSEFFT_ERROR_LENGTH, "n is 0");
    refused((uint64_t)1 << 60, 1, NULL, SPARSEFFT_ERROR_LENGTH, "too large");
    refused(8, 9, NULL, SPARSEFFT_ERROR_SPARSITY, "k = 9");
    CHECK(!sparsefft_plan_1d(0, 0, NULL, NULL));
#define REFUSE(field, value, word)                                    \
    do {                                                              \
        sparsefft_options options = {.size = sizeof options};                 \
        options.noise = SPARSEFFT_NOISE_SNR;                          \
        options.taper = SPARSEFFT_TAPER_KAISER;                       \
        options.field = value;                                        \
        refused(N, K, &options, SPARSEFFT_ERROR_OPTION, word);        \
    } while (0)
    REFUSE(size, 0, "set it to sizeof(sparsefft_options)");
    REFUSE(size, (size_t)-1, "set it to sizeof(sparsefft_options)");
    REFUSE(algorithm, 6, "options->algorithm = 6");
    REFUSE(algorithm, -1, "options->algorithm = -1");
    REFUSE(noise, 3, "options->noise = 3");
    REFUSE(norm, 3, "options->norm = 3");
    REFUSE(fallback, 9, "options->fallback = 9");
    REFUSE(taper, 4, "options->taper = 4");
    REFUSE(threads, -1, "options->threads = -1");
    REFUSE(snr, NAN, "snr");
    REFUSE(tolerance, 2, "tolerance = 2");
    REFUSE(failure_probability, 0.9, "failure probability");
    REFUSE(kaiser_beta, -1, "kaiser beta");
    struct { sparsefft_options options; uint64_t more; } newer = {{.size = sizeof newer}, 0};
    sparsefft_plan *plan = sparsefft_plan_1d(N, K, &newer.options, NULL);
    CHECK(plan && !*sparsefft_last_error());
    sparsefft_destroy_plan(plan);
    newer.more = 1;
    refused(N, K, &newer.options, SPARSEFFT_ERROR_OPTION, "does not know");

    plan = sparsefft_plan_1d(N, K, NULL, NULL);
    double complex *x = signal_f64();
    sparsefft_peak peaks[K] = {{123, 4, 5}};
    uint64_t found = K;
    sparsefft_certificate certificate = {.size = sizeof certificate};
    certificate.verdict = 77;
#define FAILS(code, word, plan, x, peaks, found, certificate)                                       \
    CHECK(sparsefft_execute_complex_f64(plan, x, peaks, found, certificate) == code);               \
    CHECK(strstr(sparsefft_last_error(), word))
    FAILS(SPARSEFFT_ERROR_NULL, "plan is NULL", NULL, (double *)x, peaks, &found, &certificate);
    FAILS(SPARSEFFT_ERROR_NULL, "x is NULL", plan, NULL, peaks, &found, &certificate);
    FAILS(SPARSEFFT_ERROR_NULL, "peaks is NULL", plan, (double *)x, NULL, &found, &certificate);
    FAILS(SPARSEFFT_ERROR_NULL, "count is NULL", plan, (double *)x, peaks, NULL, &certificate);
    for (int t = 0; t < N; t++) x[t] = NAN;
    FAILS(SPARSEFFT_ERROR_NOT_FINITE, "NaN", plan, (double *)x, peaks, &found, &certificate);
    for (int t = 0; t < N; t++) x[t] = 1e308;
    FAILS(SPARSEFFT_ERROR_OVERFLOW, "overflow", plan, (double *)x, peaks, &found, &certificate);
    /* No output was written. */
    CHECK(found == K && peaks[0].index == 123 && certificate.verdict == 77);
    certificate.size = 0;
    FAILS(SPARSEFFT_ERROR_OPTION, "sizeof(sparsefft_certificate)", plan, (double *)x, peaks, &found,
          &certificate);
    CHECK(sparsefft_sample_indices(NULL, NULL, &found) == SPARSEFFT_ERROR_NULL);
    CHECK(sparsefft_sample_indices(plan, NULL, &found) == SPARSEFFT_ERROR_NULL);
    CHECK(sparsefft_explain(NULL, NULL, 0) == 0);
    sparsefft_destroy_plan(plan);
    sparsefft_destroy_plan(NULL);
    CHECK(!strcmp(sparsefft_error_string(12345), "unknown error code"));
    CHECK(!strcmp(sparsefft_error_string(SPARSEFFT_OK), "no error"));
    CHECK(strchr(sparsefft_version(), '.'));
    free(x);
    puts("bad input");
}

/* What is too large is refused with a sentence, whatever was asked for. */
static void limits(void) {
    const uint64_t huge = (uint64_t)1 << 40;
    /* No sparse transform, and too long for a dense one. */
    refused(huge, huge, NULL, SPARSEFFT_ERROR_UNSUPPORTED, "too many for a sparse transform");
    /* Planned, since planning costs nothing; but there is no room for it. */
    for (int algorithm = SPARSEFFT_EXACT; algorithm <= SPARSEFFT_DENSE; algorithm++) {
        if (algorithm == SPARSEFFT_COMB_VOTE) continue;
        sparsefft_options options = {.size = sizeof options};
        options.algorithm = algorithm;
        options.threads = 1;
        sparsefft_plan *plan = sparsefft_plan_1d(huge << 5, huge >> 4, &options, NULL);
        CHECK(plan);
        struct source source = {0, 0};
        sparsefft_peak peak;
        uint64_t found = 1;
        CHECK(sparsefft_execute_callback(plan, read_samples, &source, &peak, &found, NULL) ==
              SPARSEFFT_ERROR_MEMORY);
        CHECK(strstr(sparsefft_last_error(), "bytes of memory"));
        CHECK(source.asked == 0 && found == 1);
        if (algorithm == SPARSEFFT_DENSE) {
            /* They are not counted one by one. */
            uint64_t few[3] = {9, 9, 9}, count = 2;
            CHECK(!sparsefft_sample_indices(plan, few, &count));
            CHECK(count == huge << 5 && few[0] == 0 && few[1] == 1 && few[2] == 9);
        }
        sparsefft_destroy_plan(plan);
    }
    /* Any number of threads: as many are started as make sense. */
    sparsefft_options options = {.size = sizeof options};
    options.threads = 1000000000;
    sparsefft_plan *plan = sparsefft_plan_1d(N, K, &options, NULL);
    CHECK(plan);
    double complex *x = signal_f64();
    sparsefft_peak peaks[K];
    uint64_t found = K;
    CHECK(!sparsefft_execute_complex_f64(plan, (double *)x, peaks, &found, NULL));
    check_peaks(peaks, found, N, 1e-9);
    sparsefft_destroy_plan(plan);
    /* Samples near the largest number: a right answer or an error, nothing that is no number. */
    float *large = malloc(N * sizeof *large);
    for (int t = 0; t < N; t++) large[t] = 3e38f;
    plan = sparsefft_plan_1d(N, 1, NULL, NULL);
    found = K;
    CHECK(!sparsefft_execute_real_f32(plan, large, peaks, &found, NULL));
    CHECK(found == 1 && fabs(peaks[0].re / ((double)3e38f * N) - 1) < 1e-9);
    double *larger = malloc(N * sizeof *larger);
    for (int t = 0; t < N; t++) larger[t] = 1.7e308;
    CHECK(sparsefft_execute_real_f64(plan, larger, peaks, &found, NULL) ==
          SPARSEFFT_ERROR_OVERFLOW);
    sparsefft_destroy_plan(plan);
    free(x), free(large), free(larger);
    puts("limits");
}

static void drawn_seeds(void) {
    uint64_t one = sparsefft_random_seed(), two = sparsefft_random_seed();
    CHECK(one != two && one >> 53 == 0 && two >> 53 == 0);
    double complex *x = signal_f64();
    uint64_t seeds[3];
    for (int i = 0; i < 3; i++) {
        sparsefft_options options = {.size = sizeof options};
        options.seed = 5;
        options.draw_seed = i > 0;
        sparsefft_plan *plan = sparsefft_plan_1d(N, K, &options, NULL);
        sparsefft_peak peaks[K];
        uint64_t found = K;
        sparsefft_certificate certificate = {.size = sizeof certificate};
        CHECK(!sparsefft_execute_complex_f64(plan, (double *)x, peaks, &found, &certificate));
        check_peaks(peaks, found, N, 1e-9);
        seeds[i] = certificate.seed;
        sparsefft_destroy_plan(plan);
    }
    CHECK(seeds[0] == 5 && seeds[1] != 5 && seeds[1] != seeds[2]);
    free(x);
    puts("drawn seeds");
}

static void doubt(void) {
    /* A click has a flat spectrum: nothing sparse about it. */
    double *x = calloc(N, sizeof *x);
    for (int t = 0; t < N; t += 3) x[t] = (double)(t * 7919 % 1009) - 500;
    sparsefft_options options = {.size = sizeof options};
    options.algorithm = SPARSEFFT_EXACT;
    options.fallback = SPARSEFFT_FALLBACK_NEVER;
    sparsefft_plan *plan = sparsefft_plan_1d(N, K, &options, NULL);
    sparsefft_peak peaks[K];
    uint64_t found = K;
    sparsefft_certificate certificate = {.size = sizeof certificate};
    CHECK(!sparsefft_execute_real_f64(plan, x, peaks, &found, &certificate));
    CHECK(certificate.verdict == SPARSEFFT_UNCERTIFIED);
    CHECK(strlen(certificate.reason) > 5);
    sparsefft_destroy_plan(plan);
    free(x);
    puts("doubt");
}

struct job {
    const sparsefft_plan *plan;
    const double complex *x;
    int wrong;
};

static void *work(void *argument) {
    struct job *job = argument;
    for (int i = 0; i < 20; i++) {
        sparsefft_peak peaks[K];
        uint64_t found = K;
        if (sparsefft_execute_complex_f64(job->plan, (const double *)job->x, peaks, &found, NULL) ||
            found != K || peaks[2].index != INDEX[2])
            job->wrong++;
        /* Messages belong to a thread. */
        if (sparsefft_execute_complex_f64(NULL, NULL, NULL, NULL, NULL) != SPARSEFFT_ERROR_NULL ||
            !strstr(sparsefft_last_error(), "plan"))
            job->wrong++;
    }
    return NULL;
}

static void threads(void) {
    double complex *x = signal_f64();
    for (int own = 0; own <= 2; own++) {
        sparsefft_options options = {.size = sizeof options};
        options.threads = own;
        sparsefft_plan *plan = sparsefft_plan_1d(N, K, &options, NULL);
        pthread_t thread[4];
        struct job job[4];
        for (int i = 0; i < 4; i++) {
            job[i] = (struct job){plan, x, 0};
            CHECK(!pthread_create(&thread[i], NULL, work, &job[i]));
        }
        for (int i = 0; i < 4; i++) {
            CHECK(!pthread_join(thread[i], NULL));
            CHECK(job[i].wrong == 0);
        }
        CHECK(!*sparsefft_last_error());
        sparsefft_destroy_plan(plan);
    }
    free(x);
    puts("threads");
}

/* White noise of variance 1 by a linear congruential generator: the sum of twelve uniform numbers. */
static double noise(void) {
    static uint64_t state = 1;
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(state >> 40) / (1 << 24);
    }
    return sum;
}

enum { M = 1 << 16 };

/* Two tones between the bins in coloured noise, and a burst at a third of the record. */
static double *recording(void) {
    double *x = malloc(M * sizeof *x), colour = 0;
    for (int t = 0; t < M; t++) {
        colour = 0.9 * colour + 0.1 * noise();
        x[t] = colour + 0.5 * cos(0.2513 * t) + 0.25 * cos(1.7731 * t + 1);
        if (t >= M / 3 && t < M / 3 + 2000) x[t] += 2 * cos(2.5 * t);
    }
    return x;
}

static void find_everything(void) {
    double *x = recording();
    float *single = malloc(M * sizeof *single);
    for (int t = 0; t < M; t++) single[t] = (float)x[t];
    for (int kind = 0; kind < 2; kind++) {
        int error = -1;
        sparsefft_find_options options = {.size = sizeof options, .threads = kind};
        sparsefft_findings *found = kind ? sparsefft_find_real_f32(single, M, &options, &error)
                                         : sparsefft_find_real_f64(x, M, NULL, &error);
        CHECK(found && error == SPARSEFFT_OK);
        sparsefft_summary summary = {.size = sizeof summary};
        CHECK(!sparsefft_findings_summary(found, &summary));
        CHECK(summary.outcome == SPARSEFFT_OUTCOME_COMPLETE && summary.real && summary.n == M);
        CHECK(summary.samples_read >= M && summary.seconds > 0 && summary.memory > 0);
        CHECK(summary.threshold_db > 5 && summary.threshold_db < 40);
        CHECK(summary.lines >= 2 && summary.bursts == 1 && summary.reasons >= 1);

        sparsefft_line lines[2];
        uint64_t count = 2;
        CHECK(!sparsefft_findings_lines(found, lines, &count));
        CHECK(count == summary.lines);
        const double expected[2] = {0.2513, 1.7731}, level[2] = {0.25, 0.125};
        for (int i = 0; i < 2; i++) {
            double nu = expected[i] / (2 * acos(-1.0));
            CHECK(lines[i].kind == SPARSEFFT_TONE && lines[i].mirrored);
            CHECK(lines[i].frequency_std > 0 && lines[i].frequency_std < 1e-6);
            CHECK(fabs(lines[i].frequency - nu) < 6 * lines[i].frequency_std);
            CHECK(fabs(hypot(lines[i].re, lines[i].im) - level[i]) < 0.01);
            CHECK(lines[i].snr_db > 30);
        }
        sparsefft_burst burst;
        count = 1;
        CHECK(!sparsefft_findings_bursts(found, &burst, &count));
        CHECK(count == 1 && burst.start + 200 > M / 3 && burst.start < M / 3 + 200);
        CHECK(burst.length > 1600 && burst.length < 2400 && fabs(burst.power - 2) < 1);
        CHECK(burst.low < 2.5 / 6.2832 && burst.high > 2.5 / 6.2832);
        sparsefft_floor *floor = malloc(summary.floor * sizeof *floor);
        count = summary.floor;
        CHECK(count > 10 && !sparsefft_findings_floor(found, floor, &count));
        /* The noise is coloured: far stronger at low frequencies. */
        CHECK(floor[2].density > 30 * floor[count - 1].density);
        free(floor);
        const char *code = NULL, *text = sparsefft_findings_reason(found, 0, &code);
        CHECK(text && code && !strcmp(code, "not_sparse") && strlen(text) > 20);
        CHECK(!sparsefft_findings_reason(found, summary.reasons, &code) && !code);
        for (int list = 0; list < 3; list++) {
            count = 0;
            CHECK(!(list == 0   ? sparsefft_findings_bands(found, NULL, &count)
                    : list == 1 ? sparsefft_findings_sweeps(found, NULL, &count)
                                : sparsefft_findings_families(found, NULL, &count)));
            CHECK(count == (list == 0 ? summary.bands : list == 1 ? summary.sweeps : summary.families));
        }
        count = 1;
        CHECK(sparsefft_findings_lines(found, NULL, &count) == SPARSEFFT_ERROR_NULL);
        CHECK(sparsefft_family_members(found, 1000, NULL, &count) == SPARSEFFT_ERROR_OPTION);
        sparsefft_destroy_findings(found);
    }
    int error = 0;
    sparsefft_find_options options = {.size = sizeof options, .effort = 3};
    CHECK(!sparsefft_find_real_f64(x, M, &options, &error) && error == SPARSEFFT_ERROR_OPTION);
    CHECK(strstr(sparsefft_last_error(), "effort"));
    CHECK(!sparsefft_find_real_f64(x, 0, NULL, &error) && error == SPARSEFFT_ERROR_LENGTH);
    CHECK(!sparsefft_find_real_f64(x, UINT64_MAX, NULL, &error) && error == SPARSEFFT_ERROR_LENGTH);
    CHECK(!sparsefft_find_real_f64(NULL, M, NULL, &error) && error == SPARSEFFT_ERROR_NULL);
    sparsefft_destroy_findings(NULL);
    free(x), free(single);
    puts("find");
}

static void find_families(void) {
    double *x = malloc(M * sizeof *x);
    for (int t = 0; t < M; t++) {
        x[t] = noise();
        for (int h = 1; h <= 8; h++) x[t] += cos(0.0731 * h * t) / h;
    }
    sparsefft_find_options options = {.size = sizeof options, .effort = SPARSEFFT_EFFORT_THOROUGH};
    sparsefft_findings *found = sparsefft_find_real_f64(x, M, &options, NULL);
    CHECK(found);
    sparsefft_family family;
    uint64_t count = 1, members[8], room = 8;
    CHECK(!sparsefft_findings_families(found, &family, &count) && count == 1);
    CHECK(fabs(family.spacing - 0.0731 / (2 * acos(-1.0))) < 1e-6 && isnan(family.carrier));
    CHECK(family.orders == 8 && family.lowest == 1 && family.highest == 8);
    CHECK(!sparsefft_family_members(found, 0, members, &room) && room == 8 && members[0] == 0);
    sparsefft_destroy_findings(found);
    free(x);
    puts("families");
}

static void tones_between_the_bins(void) {
    const double nu[2] = {0.123456789, -0.31};
    double complex *x = malloc(M * sizeof *x);
    float complex *single = malloc(M * sizeof *single);
    for (int t = 0; t < M; t++) {
        x[t] = 0.01 * (noise() + I * noise());
        for (int i = 0; i < 2; i++)
            x[t] += (i + 1) * cexp(I * 2 * acos(-1.0) * fmod(nu[i] * t, 1.0));
        single[t] = (float complex)x[t];
    }
    sparsefft_plan *plan = sparsefft_plan_1d(M, 2, NULL, NULL);
    for (int kind = 0; kind < 2; kind++) {
        sparsefft_line tones[2];
        uint64_t count = 2;
        sparsefft_certificate certificate = {.size = sizeof certificate};
        CHECK(kind ? !sparsefft_tones_complex_f32(plan, (float *)single, tones, &count, &certificate)
                   : !sparsefft_tones_complex_f64(plan, (double *)x, tones, &count, &certificate));
        CHECK(count == 2 && certificate.verdict == SPARSEFFT_CERTIFIED);
        CHECK(certificate.samples_read > 0 && certificate.samples_read < M);
        for (int i = 0; i < 2; i++) {
            const sparsefft_line *tone = &tones[1 - i];
            CHECK(tone->kind == SPARSEFFT_TONE && tone->frequency_std > 0);
            CHECK(fabs(tone->frequency - nu[i]) < 6 * tone->frequency_std);
            CHECK(fabs(hypot(tone->re, tone->im) - (i + 1)) < 6 * tone->amplitude_std);
        }
    }
    uint64_t count = 1;
    CHECK(sparsefft_tones_complex_f64(plan, (double *)x, NULL, &count, NULL) == SPARSEFFT_ERROR_NULL);
    CHECK(sparsefft_tones_complex_f64(NULL, (double *)x, NULL, &count, NULL) == SPARSEFFT_ERROR_NULL);
    sparsefft_destroy_plan(plan);
    free(x), free(single);
    puts("tones");
}

int main(void) {
    every_type();
    options_and_norms();
    little_room();
    callbacks();
    bad_input();
    limits();
    drawn_seeds();
    doubt();
    threads();
    find_everything();
    find_families();
    tones_between_the_bins();
    puts("all passed");
    return 0;
}
