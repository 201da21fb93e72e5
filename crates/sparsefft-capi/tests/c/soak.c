/* Mixed calls from eight threads for as many seconds as the argument says: every answer is the one
 * that a single thread gave before, and memory stays flat. `cargo xtask soak` runs it. */
#include <complex.h>
#include <math.h>
#include <pthread.h>
#include <sparsefft.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8, JOBS = 12, ROOM = 64, LONGEST = 1 << 16 };

/* One call: which plan, which input, and whether the plan is made anew each time. */
struct job {
    uint64_t n, k;
    int kind, algorithm, noise, threads, fresh;
    const sparsefft_plan *plan;
    int code;
    uint64_t found;
    sparsefft_peak peaks[ROOM];
};

static double complex wide[LONGEST];
static float complex narrow[LONGEST];
static double real[LONGEST];
static atomic_bool stop;
static atomic_ulong calls, wrong;

static const struct job JOB[JOBS] = {
    {.n = 1 << 16, .k = 5, .kind = 0},
    {.n = 1 << 16, .k = 5, .kind = 1, .threads = 2},
    {.n = 1 << 15, .k = 10, .kind = 2},
    {.n = 1 << 14, .k = SPARSEFFT_UNKNOWN, .kind = 0, .fresh = 1},
    {.n = 10007, .k = 5, .kind = 0},
    {.n = 10000, .k = 5, .kind = 3, .fresh = 1},
    {.n = 300, .k = 7, .kind = 0},
    {.n = 4096, .k = 3, .kind = 0, .algorithm = SPARSEFFT_DENSE},
    {.n = 1 << 14, .k = 5, .kind = 0, .algorithm = SPARSEFFT_VOTE},
    {.n = 1 << 16, .k = 5, .kind = 3, .noise = SPARSEFFT_NOISE_NONE, .threads = 3, .fresh = 1},
    {.n = 1 << 16, .k = 5, .kind = 4},              /* an error: NULL */
    {.n = 1 << 10, .k = 5, .kind = 5, .fresh = 1},  /* an error: the callback fails */
};

static int fetch(void *user, const uint64_t *indices, size_t count, double *samples) {
    for (size_t i = 0; i < count; i++) {
        samples[2 * i] = creal(wide[indices[i]]);
        samples[2 * i + 1] = cimag(wide[indices[i]]);
    }
    return user != NULL;
}

static sparsefft_plan *plan_of(const struct job *job) {
    sparsefft_options options = {.size = sizeof options};
    options.algorithm = job->algorithm;
    options.noise = job->noise;
    options.threads = job->threads;
    return sparsefft_plan_1d(job->n, job->k, &options, NULL);
}

/* Runs a job and writes its answer into it. */
static void run(struct job *job) {
    sparsefft_plan *own = job->fresh ? plan_of(job) : NULL;
    const sparsefft_plan *plan = own ? own : job->plan;
    sparsefft_certificate certificate = {.size = sizeof certificate};
    memset(job->peaks, 0, sizeof job->peaks);
    job->found = ROOM;
    switch (job->kind) {
    case 0:
        job->code = sparsefft_execute_complex_f64(plan, (const double *)wide, job->peaks,
                                                  &job->found, &certificate);
        break;
    case 1:
        job->code = sparsefft_execute_complex_f32(plan, (const float *)narrow, job->peaks,
                                                  &job->found, &certificate);
        break;
    case 2:
        job->code = sparsefft_execute_real_f64(plan, real, job->peaks, &job->found, &certificate);
        break;
    case 4:
        job->code = sparsefft_execute_real_f64(plan, NULL, job->peaks, &job->found, &certificate);
        break;
    default:
        job->code = sparsefft_execute_callback(plan, fetch, job->kind == 5 ? job : NULL, job->peaks,
                                               &job->found, &certificate);
    }
    if (job->code && !*sparsefft_last_error()) atomic_fetch_add(&wrong, 1);
    sparsefft_destroy_plan(own);
}

static void *work(void *argument) {
    const struct job *expected = argument;
    uint64_t random = (uint64_t)(size_t)&random;
    while (!atomic_load(&stop)) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const struct job *want = &expected[(random >> 33) % JOBS];
        struct job mine = *want;
        run(&mine);
        atomic_fetch_add(&calls, 1);
        if (mine.code != want->code || mine.found != want->found ||
            memcmp(mine.peaks, want->peaks, sizeof mine.peaks))
            atomic_fetch_add(&wrong, 1);
    }
    return NULL;
}

/* Megabytes of this process that are in memory. */
static double resident(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%*s %ld", &pages) != 1) pages = 0;
        fclose(file);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576.0;
}

int main(int count, char **arguments) {
    const int seconds = count > 1 ? atoi(arguments[1]) : 60;
    if (seconds < 8) return puts("usage: soak SECONDS (8 or more)"), 2;
    for (int t = 0; t < LONGEST; t++) {
        double complex sum = 0;
        for (int i = 0; i < 5; i++)
            sum += cexp(6.283185307179586 * I * ((long)t * (i * 997 + 5) % LONGEST) / LONGEST) / (i + 1);
        wide[t] = sum, narrow[t] = (float complex)sum, real[t] = creal(sum);
    }
    struct job expected[JOBS];
    for (int i = 0; i < JOBS; i++) {
        expected[i] = JOB[i];
        expected[i].plan = plan_of(&expected[i]);
        if (!expected[i].plan) return printf("job %d: %s\n", i, sparsefft_last_error()), 1;
        run(&expected[i]);
        if ((expected[i].code != 0) != (JOB[i].kind > 3))
            return printf("job %d: %s\n", i, sparsefft_last_error()), 1;
    }
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, work, expected)) return puts("no thread"), 1;
    /* Quarters: the first warms up, the second and the last are compared. */
    double most[4] = {0}, sum[4] = {0};
    int taken[4] = {0};
    const time_t start = time(NULL);
    for (long passed; (passed = (long)(time(NULL) - start)) < seconds;) {
        const int quarter = (int)(4 * passed / seconds);
        const double now = resident();
        most[quarter] = fmax(most[quarter], now);
        sum[quarter] += now, taken[quarter]++;
        usleep(100000);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < JOBS; i++) sparsefft_destroy_plan((sparsefft_plan *)expected[i].plan);
    const double second = sum[1] / taken[1], last = sum[3] / taken[3];
    printf("C: %lu calls from %d threads in %d s, %lu wrong; MiB by quarter: at most %.1f %.1f %.1f "
           "%.1f, mean of the second %.1f, of the last %.1f\n",
           atomic_load(&calls), THREADS, seconds, atomic_load(&wrong), most[0], most[1], most[2],
           most[3], second, last);
    const int flat = last < 1.02 * second + 4 && most[3] < 1.1 * fmax(most[0], most[1]) + 16;
    if (!flat) puts("C: memory is not flat");
    return !flat || atomic_load(&wrong) != 0 || atomic_load(&calls) == 0;
}
