"""What people use: a numpy FFT with a window and peak interpolation, on the signals of tones_bench.

    cargo run --release -p sparsefft --example tones_bench -- 22 3 FOLDER
    target/venv/bin/python benches/tones_numpy.py FOLDER

Reads FOLDER/tones-K.c128 (complex128 samples) and FOLDER/tones-K.txt (true frequencies in cycles per
sample). It is told k. Prints the best of three times and the root mean square error in bins.
"""

import pathlib
import sys
import time

import numpy as np


def interpolate(x: np.ndarray, window: np.ndarray, k: int) -> np.ndarray:
    """The k strongest peaks of the windowed spectrum, by a parabola through three logarithms."""
    power = np.abs(np.fft.fft(x * window)) ** 2
    peak = power > np.roll(power, -1)
    for shift in (1, 2, -2):
        peak &= power > np.roll(power, shift)
    places = np.flatnonzero(peak)
    places = places[np.argpartition(power[places], -k)[-k:]]
    low, middle, high = (np.log(power[(places + d) % len(x)]) for d in (-1, 0, 1))
    return places + 0.5 * (low - high) / (low - 2 * middle + high)


def best(f, times: int = 3):
    """The best time of a few runs, in microseconds, and what the last returned."""
    least, out = float("inf"), None
    for _ in range(times):
        started = time.perf_counter()
        out = f()
        least = min(least, time.perf_counter() - started)
    return 1e6 * least, out


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    print("| k | numpy FFT alone | with a Hann window and interpolation | rms error (bins) |")
    print("|---|---|---|---|")
    for path in sorted(folder.glob("tones-*.c128"), key=lambda p: int(p.stem.split("-")[1])):
        k = int(path.stem.split("-")[1])
        x = np.fromfile(path, dtype=np.complex128)
        n = len(x)
        truth = np.loadtxt(path.with_suffix(".txt"), ndmin=1)
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)
        alone, _ = best(lambda: np.fft.fft(x))
        whole, found = best(lambda: interpolate(x, window, k))
        away = found[None, :] / n - truth[:, None]
        error = np.abs((away - np.round(away)) * n).min(axis=1)
        rms = np.sqrt(np.mean(np.minimum(error, 0.5) ** 2))
        print(f"| {k} | {alone:.0f} us | {whole:.0f} us | {rms:.1e} |")


if __name__ == "__main__":
    main()
