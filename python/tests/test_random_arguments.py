"""Random arguments to every function: an answer, or a documented exception with a sentence.

The seeds are fixed. ``SPARSEFFT_ATTACK=100000 pytest tests/test_random_arguments.py`` tries more.
"""

import faulthandler
import json
import os
import pickle
import random
import re
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest

import sparsefft
from sparsefft import dense

TRIALS = int(os.environ.get("SPARSEFFT_ATTACK", "700"))

# What docs/python.md lists. AxisError is a ValueError.
DOCUMENTED = (ValueError, TypeError, OverflowError, MemoryError)


class Boom(Exception):
    """What a callable raises."""


class Liar:
    """Says that it is an index and is none."""

    def __index__(self):
        raise Boom("no index after all")


class Chooser(random.Random):
    """Half of all trials give sensible arguments nearly everywhere, and compute something."""

    def __init__(self, seed):
        super().__init__(seed)
        self.sane = self.random() < 0.5

    def wild(self):
        return self.random() < (0.03 if self.sane else 0.5)


def broken(indices):
    raise Boom("no samples")


def numbers(chosen):
    if not chosen.wild():
        return chosen.choice([0, 1, 2, 5, 64])
    return chosen.choice(
        [0, 1, 2, 3, 5, 7, 64, 100, 1000, 4096, 4097, 1 << 14, 1 << 16, -1, -2, -1000, 2**31, 2**32]
        + [2**40, 2**52, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, -(10**30), True, False, 0.0, 2.5]
        + [1e300, np.nan, np.inf, None, "8", "", b"8", [3], (), {}, object(), np.int8(5), 3 + 0j]
        + [np.uint64(2**63), np.float32(4), np.bool_(True), np.array(5), np.arange(3), Liar()]
    )


def lengths(chosen):
    """Mostly sensible."""
    usual = [1, 2, 3, 100, 512, 600, 1009, 4096, 10_000, 1 << 16, 2**40, 2**52]
    return numbers(chosen) if chosen.wild() else chosen.choice(usual)


def signals(chosen):
    n = chosen.choice([0, 1, 2, 3, 64, 100, 600, 1009, 4096, 1 << 14])
    t = np.arange(n)
    x = np.exp(2j * np.pi * (t * 3 % max(n, 1)) / max(n, 1)) * chosen.choice([1, 1e-300, 1e33])
    if chosen.random() < 0.3:
        x = x + np.random.default_rng(n).normal(size=n)
    kind = chosen.randrange(12 if chosen.wild() else 7)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            lambda: x,
            lambda: x.real,
            lambda: x.astype(np.complex64),
            lambda: x.real.astype(
                chosen.choice(["f2", ">f4", ">f8", "i1", "u2", ">i4", "u8", "?"])
            ),
            lambda: np.stack([x, x[::-1]]),
            lambda: np.stack([x, x], axis=-1)[:, :1],
            lambda: x[:: chosen.choice([-1, 2, -3])],
            lambda: np.where(np.arange(n) % 7, x, chosen.choice([np.nan, np.inf, 1e308])),
            lambda: list(x[:50]),
            lambda: np.broadcast_to(np.float64(3), (n,)),
            lambda: np.frombuffer(b"\x01" * (8 * n + 1), np.uint8)[1:].view("f8"),
            lambda: chosen.choice(
                [None, "text", b"bytes", 3, [], [[]], [[1], [2, 3]], object(), {1: 2}, [None]]
                + [np.zeros(4, "V8"), np.zeros(3, "m8[s]"), np.zeros((2, 0)), np.zeros((0, 4))]
                + [np.zeros(3, object), np.zeros(5, np.longdouble), np.zeros((1,) * 20)]
                + [np.float64(1)]
            ),
        ][kind]()


def callables(chosen):
    if not chosen.wild():
        return chosen.choice([np.ones_like, lambda i: np.exp(2j * np.pi * (i % 64) / 64)])
    return chosen.choice(
        [np.zeros_like, np.ones_like, broken, lambda i: np.exp(2j * np.pi * (i % 64) / 64), len]
        + [lambda i: i[:-1], lambda i: None, lambda i: np.full(len(i), np.nan), lambda: 0, None, 3]
        + [lambda i: np.full(len(i), 1e308), lambda i: ["a"] * len(i), lambda i: i.astype(object)]
    )


def text(*good):
    bad = [None, 3, "", "x", [], b"hann", np.arange(2)]
    return lambda chosen: chosen.choice(bad if chosen.wild() else good)


def real_numbers(chosen):
    if not chosen.wild():
        return chosen.choice([None, 0.5, 1e-3])
    return chosen.choice(
        [None, 0, 1, 0.5, 1e-6, 1e-15, -1.0, 2, 20, -30, 400, 1e9, np.nan, np.inf, -np.inf]
        + ["1", True, np.float32(0.1), 10**400, [], 1j]
    )


def tapers(chosen):
    if not chosen.wild():
        return chosen.choice([None, "hann", ("kaiser", 8.0)])
    return chosen.choice(
        [None, "hann", "blackman", "box", ("kaiser", 8.0), ("kaiser", -1), ("kaiser",)]
        + [("hann", 1.0), ("kaiser", np.nan), ("kaiser", 1e308), 3, (), ("kaiser", "8")]
    )


SHARED = {
    "seed": lambda c: numbers(c) if c.wild() else c.choice([0, 7, 2**64 - 1, "random"]),
    "tol": real_numbers,
    "snr": real_numbers,
    "algorithm": text("auto", "exact", "robust", "vote", "comb-vote", "dense"),
}
ARRAYS = {
    **SHARED,
    "k": lambda c: numbers(c) if c.wild() else c.choice([None, 0, 1]),
    "norm": text(None, "backward", "ortho", "forward"),
    "axis": lambda c: numbers(c) if c.wild() else c.choice([-1, 0]),
    "workers": lambda c: numbers(c) if c.wild() else c.choice([None, 1, 2, -1]),
    "device": text("auto", "cpu"),
}
PLANS = {
    **{name: value for name, value in ARRAYS.items() if name != "axis"},
    "real": lambda c: numbers(c) if c.wild() else c.choice([True, False]),
    "taper": tapers,
    "fallback": text("auto", "dense", "never"),
    "failure_probability": real_numbers,
}
SKETCHES = {
    name: value
    for name, value in PLANS.items()
    if name not in ("k", "workers", "device", "fallback")
}
FROM = {name: PLANS[name] for name in (*SHARED, "k", "norm", "real", "workers")}


def some(chosen, options):
    names = [name for name in options if chosen.random() < chosen.choice([0.05, 0.2, 0.5])]
    return {name: options[name](chosen) for name in names}


def affordable(made):
    """Whether a plan reads little, or so much that it must be refused; not what takes minutes."""
    if "vote" in made.algorithm and made.n > 1 << 20:
        # Votes are cast among n/B candidates, and retries have more of them.
        return False
    cost = rf"(?:cost: |; ){made.algorithm} [^(]*\((?:(\d+) = |all samples)"
    told = re.search(cost, made.explain()).group(1)
    samples = int(told or made.n)
    return samples < 1 << 20 or samples >= 1 << 40


def use(chosen, spectrum):
    """What one does with an answer."""
    if isinstance(spectrum, sparsefft.SparseSpectra):
        repr(spectrum)
        pickle.loads(pickle.dumps(spectrum))
        return spectrum.to_array()
    assert np.isfinite(spectrum.values).all()
    assert (np.diff(spectrum.indices) > 0).all()
    repr(spectrum), spectrum._repr_html_(), spectrum.snr_db(), spectrum.freqs()
    step = chosen.randrange(6)
    if step == 0:
        return spectrum.value(numbers(chosen))
    if step == 1:
        return spectrum.top(numbers(chosen))
    if step == 2:
        return spectrum.synthesize(numbers(chosen), numbers(chosen))
    if step == 3 and spectrum.n < 1 << 20:
        return spectrum.to_dense()
    if step == 4:
        return spectrum.freqs(real_numbers(chosen))
    return pickle.loads(pickle.dumps(spectrum))


def transform(chosen):
    call = chosen.choice([sparsefft.fft, sparsefft.rfft])
    return use(chosen, call(signals(chosen), **some(chosen, ARRAYS)))


def plan(chosen):
    x = signals(chosen)
    n = np.shape(x)[-1] if isinstance(x, np.ndarray) and x.ndim else lengths(chosen)
    if chosen.wild():
        n = lengths(chosen)
    made = sparsefft.Plan(n, **some(chosen, PLANS))
    repr(made), str(made), pickle.loads(pickle.dumps(made))
    step = chosen.randrange(4)
    if step < 2:
        return use(chosen, made.transform(x, **some(chosen, {"axis": ARRAYS["axis"]})))
    if step == 2 and affordable(made):
        return made.sample_indices()
    if affordable(made):
        return use(chosen, made.transform_from(callables(chosen)))
    return made.explain()


def source(chosen):
    n, options = lengths(chosen), some(chosen, FROM)
    f = callables(chosen) if affordable(sparsefft.Plan(n, **options)) else broken
    return use(chosen, sparsefft.fft_from(f, n, **options))


def indices(chosen):
    n, options = lengths(chosen), some(chosen, {**SHARED, "k": ARRAYS["k"]})
    if affordable(sparsefft.Plan(n, **options)):
        return sparsefft.sample_indices(n, **options)
    return None


def sketch(chosen):
    n = lengths(chosen) if chosen.wild() else chosen.choice([4096, 10_007, 1 << 16])
    k = numbers(chosen) if chosen.wild() else 4
    options = some(chosen, SKETCHES)
    made = sparsefft.Sketch(n, k, **options)
    like = {**options, "seed": made.seed}
    other = sparsefft.Sketch(n, k, **(like | some(chosen, SHARED) if chosen.wild() else like))
    repr(made), made.seen, made.kept
    for _ in range(chosen.randrange(4) if chosen.wild() else 0):
        step = numbers(chosen) if chosen.wild() else 1
        made.add(numbers(chosen) if chosen.wild() else 0, signals(chosen), step)
    if not chosen.wild() and n <= 1 << 16:
        other.add(0, np.ones(n // 2))
        made.add(n // 2, np.ones(n - n // 2))
    made.merge(numbers(chosen) if chosen.wild() else other)
    if chosen.wild():
        stored = bytearray(made.to_bytes())
        if chosen.random() < 0.7:
            stored[chosen.randrange(len(stored))] ^= 1 << chosen.randrange(8)
        sparsefft.Sketch.from_bytes(
            bytes(stored[: chosen.choice([None, None, 10])]), like=chosen.choice([made, made, 3])
        )
    return use(chosen, made.finish())


def all_of_it(chosen):
    call = chosen.choice([dense.fft, dense.ifft, dense.rfft, dense.irfft])
    bad = [0, -3, 2.5, "8", True, 2**60, Liar()]
    options = {"n": lambda c: c.choice(bad if c.wild() else [None, 1, 5, 100, 5000])}
    options |= {name: ARRAYS[name] for name in ("norm", "axis", "workers")}
    return call(signals(chosen), **some(chosen, options))


def memory(chosen):
    kinds = ["f8", "c8", "i2", "U3", object, None, 7]
    return sparsefft.buffer(numbers(chosen), chosen.choice(kinds))


RECORDS = {
    "fs": real_numbers,
    "center": real_numbers,
    "seed": SHARED["seed"],
    "failure_probability": real_numbers,
    "workers": ARRAYS["workers"],
}
EFFORTS = text("usual", "quick", "thorough")
FINDS = {**RECORDS, "at_most": ARRAYS["k"], "effort": EFFORTS, "memory": numbers}
TONES = {**RECORDS, "k": ARRAYS["k"], "snr": real_numbers}


def told(chosen, answer):
    """What one does with findings and tones."""
    json.dumps(answer.to_dict(), allow_nan=False)
    copied = pickle.loads(pickle.dumps(answer))
    assert repr(copied) == repr(answer)
    assert answer._repr_html_().count("<div") == answer._repr_html_().count("</div>")
    if chosen.random() < 0.02:
        plt.close(answer.plot().figure)


def find(chosen):
    told(chosen, sparsefft.find(signals(chosen), **some(chosen, FINDS)))


def between(chosen):
    told(chosen, sparsefft.tones(signals(chosen), **some(chosen, TONES)))


CALLS = [transform, plan, source, indices, sketch, all_of_it, memory, find, between]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_random_arguments(call):
    outcomes = set()
    for trial in range(TRIALS):
        chosen = Chooser(f"{call.__name__} {trial}")
        # A call that hangs ends the run, and says where.
        faulthandler.dump_traceback_later(120, exit=True)
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                try:
                    call(chosen)
                    outcomes.add("answered")
                except Boom:
                    outcomes.add("Boom")
                except DOCUMENTED as error:
                    outcomes.add(type(error).__name__)
                    said = str(error)
                    assert len(said.split()) >= 4 and "bug" not in said, f"trial {trial}: {error!r}"
                except RuntimeError as error:
                    outcomes.add("RuntimeError")
                    # Only what a GPU would have had to do.
                    assert "device" in str(error), f"trial {trial}: {error!r}"
        finally:
            faulthandler.cancel_dump_traceback_later()
        warned = [w for w in warned if w.category is not sparsefft.OffGridWarning]
        assert not warned, f"trial {trial}: {[str(w.message) for w in warned]}"
    assert "answered" in outcomes and "TypeError" in outcomes, outcomes
