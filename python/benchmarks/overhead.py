"""What a call from Python costs beyond the Rust call that it makes.

For n = 2^22 and k = 50, warm, the median over many calls of the time that Python sees, less the
median of the time that the Rust transform measures itself (``report.elapsed``). Run it on a
release build: ``maturin build --release``, ``pip install``, ``python overhead.py``.
"""

import statistics
import time

import numpy as np

import sparsefft


def median_times(call, repeat):
    """Medians of what Python sees and of what Rust measured, in microseconds."""
    seen, rust = [], []
    for _ in range(repeat):
        start = time.perf_counter()
        spectrum = call()
        indices, values = spectrum
        seen.append(time.perf_counter() - start)
        rust.append(spectrum.report.elapsed)
    return 1e6 * statistics.median(seen), 1e6 * statistics.median(rust)


def main():
    n, k = 1 << 22, 50
    random = np.random.default_rng(1)
    t = np.arange(n)
    x = np.zeros(n, complex)
    for f in random.choice(n, k, replace=False):
        x += np.exp(2j * np.pi * ((f * t + random.integers(n)) % n) / n)
    plan = sparsefft.Plan(n, k)
    calls = {
        "plan.transform(x)": lambda: plan.transform(x),
        "sparsefft.fft(x, k)": lambda: sparsefft.fft(x, k=k),
    }
    print(f"n = {n}, k = {k}: {'call':24} {'seen':>9} {'Rust':>9} {'overhead':>9}  (µs, medians)")
    for name, call in calls.items():
        median_times(call, 500)
        seen, rust = median_times(call, 5000)
        print(f"{'':22} {name:24} {seen:9.2f} {rust:9.2f} {seen - rust:9.2f}")


if __name__ == "__main__":
    main()
