"""Bad input gives the exception that its users expect, with a message that names the argument."""

import pathlib
import threading
import time

import numpy as np
import pytest
from conftest import tones

import sparsefft
from sparsefft import _native, dense

X = np.ones(64)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ([], ValueError, "x has no samples"),
        (np.zeros((3, 0)), ValueError, "x has no samples along axis -1"),
        (np.float64(3), ValueError, "x is a single number"),
        (7, ValueError, "x is a single number"),
        (np.array([1, 2], object), TypeError, "x has dtype object.*astype"),
        (np.array(["a", "b"]), TypeError, "x has dtype <U1"),
        ("text", TypeError, "x is a str, not samples"),
        (None, TypeError, "x has dtype object|single number"),
        (np.array([1, 2], "m8[s]"), TypeError, "x has dtype timedelta64"),
        (np.zeros(4, "V8"), TypeError, "x has dtype"),
        ([1.0, np.nan] * 64, ValueError, "x: sample 1 is NaN"),
        (np.array([1, 1j * np.inf] * 64), ValueError, "x: sample 1 is .*inf"),
        (np.full(4096, 1e308), OverflowError, "x: .*overflow"),
        ([[1, 2], [3]], ValueError, "inhomogeneous"),
    ],
)
def test_bad_signals(x, error, message):
    with pytest.raises((error, ValueError) if "|" in message else error, match=message):
        sparsefft.fft(x, k=1)


def test_the_bad_signal_of_a_batch_is_named():
    x = np.ones((2, 3, 64))
    x[1, 2, 7] = np.nan
    with pytest.raises(ValueError, match=r"x, signal \[1, 2\] of the other axes: sample 7 is NaN"):
        sparsefft.fft(x, k=1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"k": -1}, ValueError, "k = -1: it must be a non-negative integer or None"),
        ({"k": 65}, ValueError, "k = 65 exceeds the number of coefficients, 64"),
        ({"k": 2**70}, ValueError, "k = "),
        ({"k": 2.0}, TypeError, "k must be a non-negative integer or None, not float"),
        ({"k": "2"}, TypeError, "k must be a non-negative integer or None, not str"),
        ({"k": [2]}, TypeError, "k must be a non-negative integer or None, not list"),
        ({"norm": "unitary"}, ValueError, "norm = 'unitary'"),
        ({"norm": 3}, TypeError, "norm"),
        ({"axis": 1}, IndexError, "axis: axis 1 is out of bounds"),
        ({"axis": -2}, ValueError, "axis: axis -2 is out of bounds"),
        ({"axis": 0.5}, TypeError, "axis must be an integer, not float"),
        ({"workers": 0}, ValueError, "workers = 0"),
        ({"workers": -1000}, ValueError, "workers = -1000"),
        ({"workers": 1.5}, TypeError, "workers must be an integer or None, not float"),
        ({"workers": True}, TypeError, "workers must be an integer or None, not bool"),
        ({"workers": "2"}, TypeError, "workers must be an integer or None, not str"),
        ({"workers": -(10**30)}, ValueError, "workers = -1000"),
        ({"k": True}, TypeError, "k must be a non-negative integer or None, not bool"),
        ({"seed": "any"}, ValueError, "seed = 'any': it must be an integer or 'random'"),
        ({"seed": True}, TypeError, "seed must be an integer"),
        ({"seed": np.arange(2)}, TypeError, "seed"),
        ({"seed": -1}, ValueError, "seed = -1"),
        ({"seed": 1.5}, TypeError, "seed must be an integer"),
        ({"tol": 2.0}, ValueError, "tol = 2 is out of range"),
        ({"tol": "small"}, TypeError, "tol"),
        ({"snr": np.nan}, ValueError, "snr = NaN"),
        ({"snr": 1e9}, ValueError, "snr = 1000000000 is out of range"),
        ({"algorithm": "fast"}, ValueError, "algorithm: unknown algorithm 'fast'"),
        ({"algorithm": 3}, TypeError, "algorithm"),
        ({"device": "gpu"}, ValueError, "device = 'gpu'"),
    ],
)
def test_bad_options(options, error, message):
    for _ in range(2):  # the second time past the cache of plans
        with pytest.raises(error, match=message):
            sparsefft.fft(X, **options)


def test_an_equal_key_of_another_type_is_no_hit():
    assert sparsefft.fft(X, k=1).size == 1
    with pytest.raises(TypeError, match="k must be"):
        sparsefft.fft(X, k=1.0)


def test_numpy_integers_are_integers():
    assert sparsefft.fft(X, k=np.int64(1), seed=np.uint8(3)).size == 1
    assert sparsefft.Plan(np.int32(64), np.uint64(1)).transform(X).size == 1


def test_real_transforms_need_real_numbers():
    with pytest.raises(TypeError, match="x is complex"):
        sparsefft.rfft(X.astype(complex), k=1)
    with pytest.raises(ValueError, match="k = 34 exceeds the number of coefficients, 33"):
        sparsefft.rfft(X, k=34)
    assert sparsefft.rfft(X, k=33).size <= 33


def test_plans_check_their_arguments():
    for n, error in ((0, ValueError), (-5, ValueError), (2.5, TypeError), (2**60, ValueError)):
        with pytest.raises(error, match="n"):
            sparsefft.Plan(n)
    with pytest.raises(ValueError, match="norm = 'x'"):
        sparsefft.Plan(8, norm="x")
    with pytest.raises(ValueError, match="fallback = 'x'"):
        sparsefft.Plan(8, fallback="x")
    with pytest.raises(ValueError, match="taper = 'x'"):
        sparsefft.Plan(8, taper="x")
    with pytest.raises(TypeError, match="taper"):
        sparsefft.Plan(8, taper=3)
    with pytest.raises(ValueError, match="taper: kaiser beta"):
        sparsefft.Plan(8, taper=("kaiser", -1.0))
    with pytest.raises(ValueError, match="failure_probability"):
        sparsefft.Plan(8, failure_probability=0.9)
    with pytest.raises(ValueError, match="x: the signal has 9 samples but the plan is for n = 8"):
        sparsefft.Plan(8).transform(np.ones(9))


def test_single_precision_values_that_do_not_fit(rng):
    # The sums fit in 64 bits, not in complex64, which the answer has for 32-bit input.
    x = np.full(1 << 20, 1e33, np.float32)
    full = 1e33 * (1 << 20)
    for k in (1, None):
        for call in (sparsefft.fft, sparsefft.rfft):
            with pytest.raises(OverflowError, match=r"x: the coefficient at index 0 .*complex64"):
                call(x, k=k)
    with pytest.raises(OverflowError, match=r"signal \[1\] of the other axes|complex64"):
        sparsefft.fft(np.stack([np.ones_like(x), x]), k=1)
    with pytest.raises(OverflowError, match="complex64"):
        sparsefft.Plan(len(x), 1).transform(x.astype(np.complex64))
    # What the message says to do.
    forward = sparsefft.fft(x, k=1, norm="forward")
    assert forward.values.dtype == np.complex64
    np.testing.assert_allclose(forward.values, 1e33, rtol=1e-6)
    np.testing.assert_allclose(sparsefft.fft(x.astype(float), k=1).values, full, rtol=1e-6)
    # Both parts fit, their magnitude does not: no warning, and the order is right.
    big = sparsefft.fft(tones(4096, {7: 8e34 * (1 + 1j), 9: 1e34}).astype(np.complex64), k=2)
    assert np.isfinite(big.values).all()
    assert big.top(1)[0] == [7]
    assert "inf" not in repr(big)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_double_precision_values_that_do_not_fit(dtype):
    for n in (1000, 1 << 14, 10_007):
        for size in (1e290, 1e300, 1e303, 1e304, 1e305, 1e306, 1e308):
            x = np.full(n, size, dtype)
            for algorithm in ("auto", "exact", "robust", "dense"):
                try:
                    spectrum = sparsefft.fft(x, k=1, algorithm=algorithm)
                except OverflowError as error:
                    assert "overflow" in str(error)
                    continue
                assert np.isfinite(spectrum.values).all()
                if spectrum.certificate.is_reliable:
                    np.testing.assert_allclose(spectrum.values, size * n, rtol=1e-9)


def test_synthesis_that_does_not_fit():
    n = 1024
    values = np.full(100, 3e38, np.complex64)
    spectrum = sparsefft.SparseSpectrum(n, np.arange(100), values, None, "forward")
    with pytest.raises(OverflowError, match="do not fit complex64"):
        spectrum.synthesize()


def test_what_no_memory_holds():
    n = 1 << 45
    for algorithm in ("exact", "robust", "vote", "dense"):
        plan = sparsefft.Plan(n, 1 << 36, algorithm=algorithm)
        with pytest.raises(MemoryError, match=f"n = {n} samples needs .* bytes of memory"):
            plan.transform_from(np.ones_like)
    with pytest.raises(ValueError, match="use a smaller k"):
        sparsefft.Sketch(n, 1 << 36)
    with pytest.raises(MemoryError, match=f"n = {n}, do not fit"):
        sparsefft.Plan(n, 1, algorithm="dense").sample_indices()
    with pytest.raises(ValueError, match="too many for a sparse transform"):
        sparsefft.Plan(1 << 40, 1 << 40)


def _threads():
    status = pathlib.Path("/proc/self/status")
    if not status.exists():
        pytest.skip("the number of threads is read from /proc")
    return int(status.read_text().split("Threads:")[1].split()[0])


def test_any_number_of_workers_starts_few_threads():
    most = _native.most_threads()
    x = tones(1 << 12, {5: 1})
    sparsefft.fft(x, k=1, workers=2)
    before = _threads()
    for workers in (10**9, 2**63, 10**30, *range(1, 200)):
        assert sparsefft.fft(x, k=1, workers=workers).indices.tolist() == [5]
        dense.fft(x, workers=workers)
        sparsefft.Plan(1 << 12, 1, workers=workers)
    # A few pools are kept; the threads of the others end on their own.
    deadline = time.monotonic() + 60
    while _threads() > before + 5 * most and time.monotonic() < deadline:
        time.sleep(0.01)
    assert _threads() <= before + 5 * most


@pytest.mark.parametrize(
    "thing",
    [
        sparsefft.Plan(64, 1),
        sparsefft.Sketch(1 << 16, 4),
        sparsefft.fft(X, k=1),
        sparsefft.fft(np.stack([X, X]), k=1),
        sparsefft.fft(X, k=1).certificate,
        sparsefft.fft(X, k=1).report,
        sparsefft.find(X),
        sparsefft.find(X).lines,
        sparsefft.find(X).cost,
        sparsefft.tones(X),
        sparsefft.Signal(X, 1.0),
        _native.Plan(
            64, 1, real=False, tol=None, snr=None, failure_probability=None, algorithm="auto",
            taper=None, fallback="auto", seed=0,
        ),
        sparsefft.fft(X, k=1)._run,
        sparsefft.Sketch(1 << 16, 4)._native,
    ],
    ids=lambda thing: type(thing).__module__ + "." + type(thing).__name__,
)
def test_attributes_cannot_be_written(thing):
    names = [name for name in dir(thing) if not name.startswith("_")]
    assert names
    before = {name: repr(getattr(thing, name)) for name in names if name != "missing"}
    for name in [*names, "no_such_attribute"]:
        with pytest.raises(AttributeError):
            setattr(thing, name, 5)
        with pytest.raises(AttributeError):
            delattr(thing, name)
    assert {name: repr(getattr(thing, name)) for name in before} == before


class Boom(Exception):
    pass


def test_what_a_callable_raises_arrives():
    def broken(indices):
        raise Boom("no line to the instrument")

    with pytest.raises(Boom, match="no line"):
        sparsefft.fft_from(broken, 1 << 20, 3)


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda i: np.ones(len(i) + 1), ValueError, r"f returned an array of shape \(\d+,\)"),
        (lambda i: np.ones((len(i), 1)), ValueError, r"f returned an array of shape \(\d+, 1\)"),
        (lambda i: 1.0, ValueError, r"f returned an array of shape \(\)"),
        (lambda i: None, ValueError, "f returned an array of shape"),
        (lambda i: ["a"] * len(i), TypeError, "f's result has dtype"),
        (lambda i: np.full(len(i), np.nan), ValueError, "f: sample .* is NaN"),
        (lambda: None, TypeError, "argument"),
        (3, TypeError, "f must be callable"),
    ],
)
def test_bad_callables(f, error, message):
    with pytest.raises(error, match=message):
        sparsefft.fft_from(f, 1 << 20, 3)


def test_a_real_plan_wants_real_samples():
    with pytest.raises(TypeError, match="f returned complex samples"):
        sparsefft.fft_from(lambda i: np.ones(len(i), complex), 1 << 20, 3, real=True)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_panic_is_a_runtime_error(workers, capfd):
    with pytest.raises(RuntimeError, match="sparsefft has a bug.*asked for"):
        _native._panic_for_tests(workers)
    assert "asked for" in capfd.readouterr().err
    # And everything goes on.
    assert sparsefft.fft(X, k=1).indices.tolist() == [0]


def test_an_array_changed_meanwhile_does_no_harm():
    n = 1 << 16
    a, b = tones(n, {5: 1, 77: 1}), tones(n, {9: 1})
    x = a.copy()
    stop = threading.Event()

    def change():
        while not stop.is_set():
            x[:] = b
            x[::7] = np.nan
            x[:] = a

    thread = threading.Thread(target=change)
    thread.start()
    outcomes = set()
    try:
        for _ in range(100):
            try:
                outcomes.add(sparsefft.fft(x, k=2).certificate.verdict)
            except ValueError as error:
                assert "x: sample" in str(error)
                outcomes.add("NaN")
    finally:
        stop.set()
        thread.join()
    assert outcomes
    np.testing.assert_array_equal(sparsefft.fft(a, k=2).indices, [5, 77])


def test_findings_of_an_array_changed_meanwhile():
    n = 1 << 13
    a = tones(n, {5: 1}).real + np.random.default_rng(2).normal(size=n)
    x = a.copy()
    stop = threading.Event()

    def change():
        while not stop.is_set():
            x[::7] = np.nan
            x[::3] = 1e300
            x[:] = 0
            x[:] = a

    thread = threading.Thread(target=change)
    thread.start()
    outcomes = set()
    try:
        for _ in range(100):
            try:
                outcomes.add(sparsefft.find(x, effort="thorough").verdict)
            except (ValueError, OverflowError) as error:
                assert str(error).startswith("x: ")
                outcomes.add("refused")
    finally:
        stop.set()
        thread.join()
    assert outcomes <= {"complete", "refused"}
    assert sparsefft.find(a, effort="thorough").is_complete


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_dense_bad_input(name):
    transform = getattr(dense, name)
    for x, error in (
        (np.array([1, None]), TypeError),
        (["a"], TypeError),
        (np.zeros(4, np.longdouble), TypeError),
        (3.0, ValueError),
        ([], ValueError),
    ):
        with pytest.raises(error, match="x|n ="):
            transform(x)
    with pytest.raises(ValueError, match="n = 0|n = -2"):
        transform(X, n=0)
    with pytest.raises(TypeError, match="n must be"):
        transform(X, n=2.0)
    with pytest.raises(IndexError, match="axis"):
        transform(X, axis=1)
    with pytest.raises(ValueError, match="norm"):
        transform(X, norm="x")
    with pytest.raises(ValueError, match="workers"):
        transform(X, workers=0)
    if name == "rfft":
        with pytest.raises(TypeError, match="x has dtype complex128; real"):
            transform(X.astype(complex))
