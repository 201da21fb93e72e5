"""Mixed calls from eight threads for as many seconds as the argument says.

Every answer is the one that a single thread gave before, and memory stays flat.
``cargo xtask soak`` runs it.
"""

import os
import pickle
import random
import sys
import threading
import time

import numpy as np

import sparsefft
from sparsefft import dense

THREADS = 8
N = 1 << 15


def tones(n, count):
    t = np.arange(n)
    return sum(np.exp(2j * np.pi * (t * (i * 997 + 5) % n) / n) / (i + 1) for i in range(count))


X = tones(N, 5)
NOISY = X + 0.01 * np.random.default_rng(1).normal(size=(N, 2)) @ [1, 1j]
PLAN = sparsefft.Plan(N, 5)
REAL_PLAN = sparsefft.Plan(N, 5, real=True, workers=2)
BATCH = np.stack([X[: N // 4], X[N // 4 : N // 2]])
PACKETS = np.where(np.arange(N) // 3000 % 3 == 1, 1.0, 0.01) * NOISY.imag
BROKEN = np.where(np.arange(N) % 2, np.nan, 1.0)


def plain(found):
    """What an answer says, in a form that compares by value."""
    if isinstance(found, sparsefft.SparseSpectra):
        return [plain(spectrum) for spectrum in found.flat]
    if isinstance(found, (sparsefft.Findings, sparsefft.Tones)):
        told = found.to_dict()
        return repr([told[name] for name in ("lines", "bands", "bursts", "verdict", "reasons")])
    if isinstance(found, sparsefft.SparseSpectrum):
        return found.indices.tobytes(), found.values.tobytes(), str(found.certificate)
    return found.tobytes()


def sketch():
    parts = [sparsefft.Sketch(N, 5) for _ in range(2)]
    parts[0].add(0, X[:9000])
    parts[1].add(9000, X[9000:])
    parts[0].merge(pickle.loads(pickle.dumps(parts[1])))
    return parts[0].finish()


def refused(call):
    try:
        call()
    except (ValueError, TypeError, OverflowError) as error:
        return str(error).encode()
    raise AssertionError("bad input was accepted")


class Text:
    """An error's text, compared like the other answers."""

    def __init__(self, text):
        self.text = text

    def tobytes(self):
        return self.text


CALLS = [
    lambda: sparsefft.fft(X, k=5),
    lambda: sparsefft.fft(X.astype(np.complex64), k=5, workers=3),
    lambda: sparsefft.fft(NOISY),
    lambda: sparsefft.rfft(X.real, k=5),
    lambda: sparsefft.fft(BATCH, k=5),
    lambda: sparsefft.fft(X[::2], k=5, algorithm="dense"),
    lambda: sparsefft.fft(X[:10007], k=5),
    lambda: PLAN.transform(X),
    lambda: REAL_PLAN.transform(X.real.astype(np.float32)),
    lambda: pickle.loads(pickle.dumps(PLAN)).transform(X),
    lambda: sparsefft.Plan(N, 5, algorithm="vote", snr=np.inf).transform(X),
    lambda: sparsefft.fft_from(lambda i: X[i], N, 5),
    lambda: dense.fft(X[:5000], workers=2),
    lambda: dense.irfft(dense.rfft(X.real)),
    lambda: sparsefft.fft(X, k=5).synthesize(10, 500),
    lambda: sparsefft.find(X, 1e6),
    lambda: sparsefft.find(PACKETS[:5000], workers=2),
    lambda: sparsefft.find(PACKETS, effort="thorough"),
    lambda: sparsefft.tones(NOISY, 1e6),
    lambda: sparsefft.tones(NOISY.real, k=3),
    sketch,
    lambda: Text(refused(lambda: sparsefft.fft(BROKEN, k=5))),
    lambda: Text(refused(lambda: sparsefft.fft(X, k=N + 1))),
    lambda: Text(refused(lambda: sparsefft.find(BROKEN))),
    lambda: Text(refused(lambda: sparsefft.fft_from(lambda i: X[:3], N, 5))),
]


def resident():
    """Megabytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main(seconds):
    expected = [plain(call()) for call in CALLS]
    stop = threading.Event()
    counts, wrong = [0] * THREADS, []

    def work(number):
        chosen = random.Random(number)
        while not stop.is_set():
            i = chosen.randrange(len(CALLS))
            try:
                good = plain(CALLS[i]()) == expected[i]
            except Exception as error:
                good = False
                print(f"call {i}: {error!r}", flush=True)
            if not good:
                wrong.append(i)
            counts[number] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    # Quarters: the first warms up, the second and the last are compared.
    seen = [[], [], [], []]
    start = time.monotonic()
    while (passed := time.monotonic() - start) < seconds:
        seen[int(4 * passed / seconds)].append(resident())
        time.sleep(0.1)
    stop.set()
    for thread in threads:
        thread.join()
    most = [max(quarter) for quarter in seen]
    second, last = np.mean(seen[1]), np.mean(seen[3])
    print(
        f"Python: {sum(counts)} calls from {THREADS} threads in {seconds} s, {len(wrong)} wrong; "
        f"MiB by quarter: at most {' '.join(f'{m:.1f}' for m in most)}, "
        f"mean of the second {second:.1f}, of the last {last:.1f}"
    )
    flat = last < 1.02 * second + 4 and most[3] < 1.1 * max(most[:2]) + 16
    if not flat:
        print("Python: memory is not flat")
    return 0 if flat and not wrong and all(counts) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
