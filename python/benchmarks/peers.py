"""What `find` and its peers make of the same signals: found, false, error, time.

Peers, as people use them for this question:
- hann: scipy.signal.periodogram with a Hann window, a running median as the floor, find_peaks
  20 dB above it, a parabola through three bins;
- plain: numpy.fft, find_peaks with a fixed height of ten times the median, the nearest bin;
- welch: scipy.signal.welch (segments of n/8), otherwise as hann.

    python peers.py [--trials 20] [FILE.npy ...]

Synthetic signals have known lines; a line counts as found within 2 bins, and as false where none
of the signal's lines, bands or bursts is within 5 bins. Of recordings only the numbers and times
are shown. All run in one process on one thread, in turns.
"""

import argparse
import time

import numpy as np
from scipy import signal

import sparsefft

N, RATE = 1 << 16, 48_000.0


def refined(power, peaks):
    """Bins of maxima, by a parabola through the logarithms of three bins."""
    inner = np.clip(peaks, 1, len(power) - 2)
    a, b, c = (np.log(power[inner + d] + 1e-300) for d in (-1, 0, 1))
    curve = a - 2 * b + c
    return inner + np.where(curve < 0, 0.5 * (a - c) / np.minimum(curve, -1e-300), 0)


def above_median(frequencies, power, width=201, db=20):
    """Maxima this far above a running median."""
    whole = len(power) // width
    if whole < 2:
        floor = np.full(len(power), np.median(power))
    else:
        medians = np.median(power[: whole * width].reshape(whole, width), axis=1)
        middles = np.arange(whole) * width + width / 2
        floor = np.interp(np.arange(len(power)), middles, medians)
    peaks, _ = signal.find_peaks(power, height=(floor + 1e-300) * 10 ** (db / 10), distance=5)
    step = frequencies[1] - frequencies[0]
    return refined(power, peaks) * step


def hann(x, rate):
    return above_median(*signal.periodogram(x, rate, window="hann", detrend=False))


def welch(x, rate):
    return above_median(*signal.welch(x, rate, nperseg=len(x) // 8), width=51)


def plain(x, rate):
    power = np.abs(np.fft.rfft(x)) ** 2
    peaks, _ = signal.find_peaks(power, height=10 * np.median(power))
    return peaks * rate / len(x)


def find(x, rate):
    found = sparsefft.find(x, fs=rate)
    return np.array([line.frequency for line in found.lines if line.kind != "offset"])


CALLS = {"find": find, "hann": hann, "welch": welch, "plain": plain}


def coloured(random, n, exponent):
    """Noise whose density falls with this power of the frequency; density 1 at 1/20 of the rate."""
    m = 2 * n
    spectrum = random.normal(size=m // 2 + 1) + 1j * random.normal(size=m // 2 + 1)
    frequency = np.maximum(np.arange(m // 2 + 1), 1) / m
    spectrum *= (20 * frequency) ** (-exponent / 2)
    spectrum[0] = 0
    return np.fft.irfft(spectrum, m)[:n] * np.sqrt(m / 2)


def tone(x, bin_, snr_db, random):
    """A line with this SNR in one bin of the whole record, in noise of density 1."""
    t = np.arange(len(x))
    level = 2 * np.sqrt(10 ** (snr_db / 10) / len(x))
    x += level * np.cos(2 * np.pi * (bin_ * t / len(x) + random.uniform()))


def scene(kind, random):
    """A signal, the bins of its lines, and what else is there as (low, high) in bins."""
    x = coloured(random, N, {"pink": 1.0, "hum in pink": 1.0}.get(kind, 0.0))
    other = []
    bins = np.sort(random.uniform(0.03, 0.47, 6) * N)
    if kind == "noise alone":
        bins = np.array([])
    elif kind == "hum in pink":
        bins = random.uniform(0.012, 0.02) * N * np.arange(1, 11)
        for b in bins:
            tone(x, b, 40 + 10 * np.log10((20 * b / N) ** -1.0), random)
    elif kind == "pairs, 4 bins":
        bins = np.sort(np.concatenate([bins, bins + 4]))
        for b in bins:
            tone(x, b, 40, random)
    elif kind == "100 dB apart":
        bins = np.array([0.2 * N + random.uniform(), 0.2 * N + 30 + random.uniform()])
        for b, snr in zip(bins, (125, 25)):
            tone(x, b, snr, random)
    elif kind == "burst":
        start, length = int(random.uniform(0.1, 0.8) * N), N // 30
        carrier = 0.31 * N
        t = np.arange(length)
        x[start : start + length] += 2 * np.cos(2 * np.pi * carrier / N * t) * signal.windows.tukey(length)
        other, bins = [(carrier - 300, carrier + 300)], bins[:3]
    elif kind == "FM":
        t = np.arange(N) / N
        x += 2 * np.cos(2 * np.pi * (0.31 * N * t + 8 * np.sin(2 * np.pi * 60 * t)))
        other, bins = [(0.31 * N - 4500, 0.31 * N + 4500)], bins[:3]
    if kind in ("white", "pink", "burst", "FM"):
        for b in bins:
            slope = 10 * np.log10((20 * b / N) ** -1.0) if kind == "pink" else 0
            tone(x, b, random.uniform(22, 50) + slope, random)
    return x, bins, other


KINDS = ["noise alone", "white", "pink", "hum in pink", "pairs, 4 bins", "100 dB apart", "burst", "FM"]


def judged(found, bins, other):
    """How many lines were found, their squared errors in bins, and how many are false."""
    found = found / RATE * N
    errors = [np.min(np.abs(found - b)) if len(found) else np.inf for b in bins]
    errors = [e for e in errors if e <= 2]
    near = lambda f: any(abs(f - b) <= 5 for b in bins) or any(a <= f <= b for a, b in other)
    return len(errors), sum(e * e for e in errors), sum(not near(f) for f in found)


def timed(call, x, rate):
    start = time.perf_counter()
    found = call(x, rate)
    return found, time.perf_counter() - start


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--trials", type=int, default=20)
    arguments.add_argument("files", nargs="*")
    options = arguments.parse_args()
    print(f"{'signal':16}{'peer':8}{'lines':>7}{'found':>8}{'false':>8}{'rms bins':>10}{'ms':>8}")
    for kind in KINDS:
        random = np.random.default_rng(7)
        sums = {name: np.zeros(4) for name in CALLS}
        times = {name: [] for name in CALLS}
        for _ in range(options.trials):
            x, bins, other = scene(kind, random)
            for name, call in CALLS.items():
                found, seconds = timed(call, x, RATE)
                sums[name] += [len(bins), *judged(found, bins, other)]
                times[name].append(seconds)
        for name, (lines, found, squares, false) in sums.items():
            error = np.sqrt(squares / found) if found else float("nan")
            ms = 1e3 * np.median(times[name])
            print(f"{kind:16}{name:8}{lines:7.0f}{found:8.0f}{false:8.0f}{error:10.4f}{ms:8.2f}")
    for path in options.files:
        x = np.load(path).astype(float)
        for name, call in CALLS.items():
            runs = [timed(call, x, RATE) for _ in range(5)]
            ms = 1e3 * np.median([seconds for _, seconds in runs])
            print(f"{path[-15:]:16}{name:8}{'':7}{len(runs[0][0]):8}{'':8}{'':10}{ms:8.2f}")


if __name__ == "__main__":
    main()
