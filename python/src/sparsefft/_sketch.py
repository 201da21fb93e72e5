"""What a transform needs of a signal that is never in one place."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _native
from ._arguments import check_norm, drawn, host_array, index
from ._fft import Algorithm, Norm, Seed, Taper
from ._spectrum import SparseSpectrum


@functools.lru_cache(maxsize=32, typed=True)
def _plan(**arguments: Any) -> _native.Plan:
    return _native.Plan(**arguments)


def _forget_sketch_plans() -> None:
    _plan.cache_clear()


class Sketch:
    """The samples of a signal that a transform in one pass needs: parts are added and merged.

    A sketch keeps some ten thousand samples, whatever the length of the signal, and knows which
    parts it has seen. Merging loses nothing: the answer is the same to the last bit for any cut
    and any order. Sketches can be pickled.

    Parameters
    ----------
    n : int
        Number of samples of the whole signal.
    k : int
        How many coefficients are wanted, or an upper bound.
    real, norm, seed, tol, snr, algorithm, taper, failure_probability
        As for :class:`Plan`. Without ``snr`` the weakest coefficient may have 6 dB. The parts of
        a signal need one seed: where it is drawn, give :attr:`seed` to the other sketches.

    Examples
    --------
    >>> n = 1 << 16
    >>> x = np.exp(2j * np.pi * 777 * np.arange(n) / n)
    >>> left, right = Sketch(n, 4), Sketch(n, 4)
    >>> left.add(0, x[:20_000])
    >>> right.add(20_000, x[20_000:])
    >>> left.missing
    [(20000, 65536)]
    >>> left.merge(right)
    >>> left.finish().indices
    array([777])
    """

    __slots__ = ("_arguments", "_k", "_n", "_native", "_norm", "_real")

    _real: bool
    _norm: Norm | None

    def __init__(
        self,
        n: int,
        k: int,
        *,
        real: bool = False,
        norm: Norm | None = None,
        seed: Seed = 0,
        tol: float | None = None,
        snr: float | None = None,
        algorithm: Algorithm = "auto",
        taper: Taper | None = None,
        failure_probability: float | None = None,
    ) -> None:
        self._start(
            dict(
                n=n,
                k=k,
                real=real,
                norm=norm,
                seed=drawn(seed),
                tol=tol,
                snr=snr,
                algorithm=algorithm,
                taper=taper,
                failure_probability=failure_probability,
            ),
            None,
        )

    def _start(self, arguments: dict[str, Any], stored: bytes | None) -> None:
        norm = arguments["norm"]
        check_norm(norm)
        planned = {name: value for name, value in arguments.items() if name != "norm"}
        planned.update(fallback="never", one_pass=True)
        try:
            plan = _plan(**planned)
        except TypeError:
            # An argument that cannot be hashed, or is of the wrong type; say which.
            plan = _native.Plan(**planned)
        self._native = _native.Sketch(plan, stored)
        self._arguments = arguments
        self._n, self._k = int(arguments["n"]), int(arguments["k"])
        self._real, self._norm = arguments["real"], norm

    @property
    def n(self) -> int:
        """Number of samples of the whole signal."""
        return self._n

    @property
    def k(self) -> int:
        """How many coefficients are wanted, or an upper bound."""
        return self._k

    @property
    def real(self) -> bool:
        """Whether the signal is real."""
        return self._real

    @property
    def seed(self) -> int:
        """The seed of all random choices; the one that was drawn for ``seed="random"``."""
        return int(self._arguments["seed"])

    @property
    def norm(self) -> Norm | None:
        """Scale of the values."""
        return self._norm

    def add(self, start: int, x: ArrayLike, step: int = 1) -> None:
        """Add the samples start, start + step, ... of the signal.

        Of an array (a memory map too) only what is kept is read.

        Raises
        ------
        ValueError
            A sample was added before, or lies outside the signal. Nothing was added.
        """
        array = host_array(x)
        start, step = index(start, "start", "an integer"), index(step, "step", "an integer")
        if not (0 <= start < 2**64 and 1 <= step < 2**64):
            raise ValueError(
                f"start = {start}, step = {step}: start must be 0 or more, step 1 or more"
            )
        if array.ndim != 1:
            raise ValueError(f"x has {array.ndim} dimensions; a part of a signal has one")
        if self.real and np.iscomplexobj(array):
            raise TypeError("x is complex; a sketch with real=True takes real samples")
        if len(array) > 0:
            self._native.add(array, start, step)

    def merge(self, other: Sketch) -> None:
        """Unite with another sketch of the same signal.

        Raises
        ------
        ValueError
            The sketches were made with other arguments, or have seen the same samples. Nothing
            was merged.
        """
        if not isinstance(other, Sketch):
            raise TypeError(f"other must be a Sketch, not {type(other).__name__}")
        self._native.merge(other._native)

    def finish(self) -> SparseSpectrum:
        """The spectrum of the whole signal.

        Raises
        ------
        ValueError
            Samples are missing; the message lists the ranges.
        """
        return SparseSpectrum(self.n, *self._native.finish(self.norm), self.norm, self.real)

    @property
    def seen(self) -> int:
        """How many samples have been added."""
        return self._native.counts()[0]

    @property
    def kept(self) -> int:
        """How many of them are kept."""
        return self._native.counts()[1]

    @property
    def missing(self) -> list[tuple[int, int]]:
        """The ranges (start, stop) of which samples are missing."""
        return [(start, stop) for start, stop, _ in self._native.missing()]

    def to_bytes(self) -> bytes:
        """The stored form, which ``sparsefft merge`` reads as well."""
        return self._native.to_bytes()

    @staticmethod
    def from_bytes(stored: bytes, *, like: Sketch) -> Sketch:
        """The sketch of these bytes; ``like`` is any sketch of the same signal.

        Raises
        ------
        ValueError
            The bytes are damaged, or belong to a sketch with other arguments.
        """
        if not isinstance(like, Sketch):
            raise TypeError(f"like must be a Sketch, not {type(like).__name__}")
        if not isinstance(stored, (bytes, bytearray, memoryview)):
            raise TypeError(f"stored must be bytes, not {type(stored).__name__}")
        return _restore(like._arguments, bytes(stored))

    def __repr__(self) -> str:
        return f"Sketch(n={self.n}, k={self.k}, seen={self.seen}, kept={self.kept})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._arguments, self.to_bytes())


def _restore(arguments: dict[str, Any], stored: bytes) -> Sketch:
    sketch = object.__new__(Sketch)
    sketch._start(arguments, stored)
    return sketch
