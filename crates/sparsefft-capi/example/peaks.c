/* Two tones in a signal of 2^20 samples, found by reading a few hundred of them. */
#include <complex.h>
#include <math.h>
#include <sparsefft.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    const uint64_t n = 1 << 20;
    const double turn = 6.283185307179586476925;
    double complex *x = malloc(n * sizeof *x);
    for (uint64_t t = 0; x && t < n; t++)
        x[t] = cexp(I * turn * (77 * t % n) / n) + 0.25 * cexp(I * turn * (900001 * t % n) / n);

    sparsefft_plan *plan = sparsefft_plan_1d(n, 2, NULL, NULL); /* planned once, used often */
    sparsefft_peak peaks[2];
    uint64_t found = 2;
    sparsefft_certificate certificate = {.size = sizeof certificate};
    if (sparsefft_execute_complex_f64(plan, (const double *)x, peaks, &found, &certificate)) {
        fprintf(stderr, "%s\n", sparsefft_last_error());
        return EXIT_FAILURE;
    }
    for (uint64_t i = 0; i < found; i++)
        printf("bin %llu = %.3f%+.3fi\n", (unsigned long long)peaks[i].index, peaks[i].re, peaks[i].im);
    const char *verdict = certificate.verdict == SPARSEFFT_CERTIFIED     ? "certified"
                          : certificate.verdict == SPARSEFFT_DENSE_EXACT ? "every coefficient computed"
                                                                         : certificate.reason;
    printf("%s, %llu of %llu samples read\n", verdict,
           (unsigned long long)certificate.samples_read, (unsigned long long)n);
    sparsefft_destroy_plan(plan);
    free(x);
    return EXIT_SUCCESS;
}
