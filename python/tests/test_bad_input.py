"""Bad input gives the exception that its users expect, with a message that names the argument."""

import threading

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
        ("text", TypeError, "x has dtype <U4|single number"),
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
        sparsefft.fft(x, 1)


def test_the_bad_signal_of_a_batch_is_named():
    x = np.ones((2, 3, 64))
    x[1, 2, 7] = np.nan
    with pytest.raises(ValueError, match=r"x, signal \[1, 2\] of the other axes: sample 7 is NaN"):
        sparsefft.fft(x, 1)


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
    assert sparsefft.fft(X, 1).size == 1
    with pytest.raises(TypeError, match="k must be"):
        sparsefft.fft(X, 1.0)


def test_numpy_integers_are_integers():
    assert sparsefft.fft(X, np.int64(1), seed=np.uint8(3)).size == 1
    assert sparsefft.Plan(np.int32(64), np.uint64(1)).transform(X).size == 1


def test_real_transforms_need_real_numbers():
    with pytest.raises(TypeError, match="x is complex"):
        sparsefft.rfft(X.astype(complex), 1)
    with pytest.raises(ValueError, match="k = 34 exceeds the number of coefficients, 33"):
        sparsefft.rfft(X, 34)
    assert sparsefft.rfft(X, 33).size <= 33


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
    assert sparsefft.fft(X, 1).indices.tolist() == [0]


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
                outcomes.add(sparsefft.fft(x, 2).certificate.verdict)
            except ValueError as error:
                assert "x: sample" in str(error)
                outcomes.add("NaN")
    finally:
        stop.set()
        thread.join()
    assert outcomes
    np.testing.assert_array_equal(sparsefft.fft(a, 2).indices, [5, 77])


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
