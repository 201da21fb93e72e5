"""Plans: reuse, pickling, callables, threads, processes."""

import multiprocessing
import pickle
import re
import threading
import time

import numpy as np
import pytest
from conftest import tones

import sparsefft

N = 1 << 16
PARTS = {5: 1.0, 77: -0.5j, 60_000: 0.25}


def test_reuse():
    plan = sparsefft.Plan(N, 3, norm="forward")
    for shift in range(4):
        x = tones(N, {f + shift: a for f, a in PARTS.items()})
        spectrum = plan.transform(x)
        np.testing.assert_array_equal(spectrum.indices, np.array(list(PARTS)) + shift)
        np.testing.assert_allclose(spectrum.values, list(PARTS.values()), atol=1e-10)
    assert plan.transform(np.stack([x, x]), axis=1).shape == (2,)
    assert plan.transform(np.stack([x, x], axis=1), axis=0).shape == (2,)
    assert (plan.n, plan.k, plan.real) == (N, 3, False)


def test_words():
    plan = sparsefft.Plan(N, 3, snr=20.0, seed=4, taper="hann")
    assert repr(plan) == f"Plan(n={N}, k=3, seed=4, snr=20.0, taper='hann')"
    assert plan.algorithm == "robust"
    assert str(plan) == plan.explain()
    assert re.match(rf"goal: (at most 3|the 3 largest) of {N} Fourier coefficients", plan.explain())


def test_tapers():
    x = tones(N, PARTS)
    t = np.arange(N)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * t / N)
    expected = np.fft.fft(x * hann)
    spectrum = sparsefft.Plan(N, 9, taper="hann").transform(x)
    np.testing.assert_allclose(spectrum.to_dense(), expected, atol=1e-6)
    assert sparsefft.Plan(N, 9, taper=("kaiser", 3.0)).transform(x).size == 9


def test_pickle():
    plan = sparsefft.Plan(
        N, 3, real=True, norm="ortho", workers=2, seed=9, tol=1e-5, snr=30.0,
        algorithm="robust", taper=("kaiser", 2.0), fallback="never", failure_probability=1e-4,
    )
    again = pickle.loads(pickle.dumps(plan))
    assert repr(again) == repr(plan)
    assert again.explain() == plan.explain()
    x = tones(N, PARTS).real
    np.testing.assert_array_equal(again.transform(x).values, plan.transform(x).values)


def test_callable():
    x = tones(N, PARTS)
    asked = []

    def samples(indices):
        assert indices.dtype == np.int64
        asked.append(indices.copy())
        return x[indices]

    spectrum = sparsefft.fft_from(samples, N, 3)
    np.testing.assert_array_equal(spectrum.indices, list(PARTS))
    assert sum(map(len, asked)) == spectrum.report.samples_read
    np.testing.assert_array_equal(spectrum.values, sparsefft.fft(x, k=3).values)
    # The first pass asks for what sample_indices said.
    first = sparsefft.sample_indices(N, 3)
    assert first.dtype == np.int64
    everything = np.concatenate(asked)
    assert set(first.tolist()) <= set(everything.tolist())
    assert len(first) < N / 10


def test_callables_may_return_lists_and_strided_arrays():
    x = np.repeat(tones(N, PARTS), 2)
    for f in (lambda i: x[::2][i].tolist(), lambda i: np.stack([x[2 * i]] * 2, axis=1)[:, 1]):
        spectrum = sparsefft.fft_from(f, N, 3)
        np.testing.assert_array_equal(spectrum.indices, list(PARTS))


def test_real_callable():
    x = tones(N, {5: 1, N - 5: 1}).real
    spectrum = sparsefft.fft_from(lambda i: x[i], N, 1, real=True)
    assert spectrum.half
    assert spectrum.indices.tolist() == [5]


def test_a_callable_may_transform_something_itself():
    x = tones(N, PARTS)

    def samples(indices):
        assert sparsefft.fft(np.ones(256), k=1, workers=2).size == 1
        return x[indices]

    for workers in (None, 2):
        spectrum = sparsefft.fft_from(samples, N, 3, workers=workers)
        np.testing.assert_array_equal(spectrum.indices, list(PARTS))


def test_many_threads_share_a_plan(rng):
    plan = sparsefft.Plan(N, 3)
    signals = [tones(N, {f + i: a for f, a in PARTS.items()}) for i in range(8)]
    expected = [plan.transform(x) for x in signals]
    wrong = []
    start = threading.Barrier(8)

    def work(i):
        start.wait()
        for _ in range(50):
            spectrum = plan.transform(signals[i])
            if not np.array_equal(spectrum.values, expected[i].values):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("name", ["fft", "find"])
def test_the_interpreter_lock_is_released(name):
    if name == "fft":
        x, call = np.ones(1 << 22, complex), lambda: sparsefft.fft(x, k=1, algorithm="dense")
    else:
        x, call = np.zeros(1 << 21), lambda: sparsefft.find(x, effort="thorough")
        x[:1000] = 1
    ticks, done = 0, False

    def count():
        nonlocal ticks
        while not done:
            ticks += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=count)
    thread.start()
    before = ticks
    call()
    during = ticks - before
    done = True
    thread.join()
    # Some hundred milliseconds; with the lock held the thread would have moved once at most.
    assert during >= 5


def _work():
    x = tones(N, PARTS)
    first = sparsefft.fft(np.stack([x] * 4), k=3)
    noise = np.random.default_rng(1).normal(size=N)
    second = sparsefft.fft(noise, k=40, workers=2)
    third = sparsefft.find(noise, effort="thorough"), sparsefft.tones(x)
    floor, frequencies = third[0].floor.density, third[1].frequency
    return first[3].indices.tolist(), second.values.tolist(), floor.tolist(), frequencies.tolist()


def _child(queue):
    queue.put(_work())


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_child_processes(method):
    # The parent's threads exist before the fork; the child must not wait for them.
    sparsefft.fft(np.random.default_rng(1).normal(size=(8, N)), k=40)
    expected = _work()
    assert expected[0] == list(PARTS) and len(expected[3]) == len(PARTS)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=_child, args=(queue,))
    process.start()
    assert queue.get(timeout=60) == expected
    process.join(60)
    assert process.exitcode == 0


def test_drawn_seeds_are_recorded():
    x = tones(1 << 14, {3: 1.0, 700: 0.5j})
    seeds = {sparsefft.fft(x, k=2, seed="random").report.seed for _ in range(20)}
    seeds |= {sparsefft.Plan(1 << 14, 2, seed="random").seed for _ in range(20)}
    seeds |= {sparsefft.random_seed() for _ in range(20)}
    assert len(seeds) == 60
    assert all(0 <= seed < 2**53 for seed in seeds)
    plan = sparsefft.Plan(1 << 14, 2, seed="random")
    assert plan.transform(x).report.seed == plan.seed
    assert pickle.loads(pickle.dumps(plan)).seed == plan.seed
    assert f"seed={plan.seed}" in repr(plan)
    found = sparsefft.fft_from(lambda i: x[i], 1 << 14, 2, seed="random")
    again = sparsefft.fft(x, k=2, seed=found.report.seed)
    np.testing.assert_array_equal(again.values, found.values)
    assert sparsefft.Plan(8).seed == 0


def test_a_seed_that_is_lost_is_not_drawn():
    with pytest.raises(ValueError, match="could not be asked for again; draw one"):
        sparsefft.sample_indices(1 << 14, 2, seed="random")


def test_sketches_share_a_drawn_seed():
    n = 1 << 16
    x = tones(n, {777: 1.0})
    left = sparsefft.Sketch(n, 4, seed="random")
    right = sparsefft.Sketch(n, 4, seed=left.seed)
    left.add(0, x[:20_000])
    right.add(20_000, x[20_000:])
    left.merge(right)
    stored = sparsefft.Sketch.from_bytes(left.to_bytes(), like=left)
    assert stored.seed == left.seed
    assert stored.finish().report.seed == left.seed
    other = sparsefft.Sketch(n, 4, seed="random")
    with pytest.raises(ValueError, match="do not belong together"):
        other.merge(left)
