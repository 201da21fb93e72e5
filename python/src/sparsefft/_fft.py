"""The sparse transforms and the plan behind them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native
from ._arguments import check_norm, drawn, gpu_number, index, samples, worker_count
from ._mistakes import MANY_BINS, misplaced, warn_off_grid
from ._record import Signal
from ._spectrum import SparseSpectra, SparseSpectrum

Norm: TypeAlias = Literal["backward", "ortho", "forward"]
Algorithm: TypeAlias = Literal["auto", "exact", "robust", "vote", "comb-vote", "dense"]
# "auto", "cpu", "cuda" or "cuda:1".
Device: TypeAlias = str
Taper: TypeAlias = Literal["hann", "blackman"] | tuple[Literal["kaiser"], float]
Fallback: TypeAlias = Literal["auto", "dense", "never"]
Seed: TypeAlias = int | Literal["random"]
# Only an array whose number of dimensions is not known matches this.
Unknown: TypeAlias = np.ndarray[
    tuple[NoReturn, NoReturn, NoReturn, NoReturn, NoReturn], np.dtype[Any]
]
One: TypeAlias = np.ndarray[tuple[int], np.dtype[Any]]
Many: TypeAlias = (
    np.ndarray[tuple[int, int], np.dtype[Any]]
    | np.ndarray[tuple[int, int, int], np.dtype[Any]]
    | np.ndarray[tuple[int, int, int, int], np.dtype[Any]]
)
# Lists of numbers; NumPy's own count as numbers of Python.
Numbers: TypeAlias = Sequence[complex] | Sequence[float] | Sequence[int]


class Plan:
    """A transform made ready: planned once, used often, from many threads.

    Parameters
    ----------
    n : int
        Number of samples.
    k : int, optional
        How many coefficients are wanted. Without it, all that stand above the noise.
    real : bool
        The signal is real: only the coefficients 0 ... n//2 are given, as by :func:`rfft`, and
        ``k`` counts these.
    norm : {"backward", "ortho", "forward"}, optional
        Scale of the values, as in ``numpy.fft``.
    workers : int, optional
        Number of threads; negative numbers count from all cores, as in ``scipy.fft``. At most
        four for each core are started. Without it, as many as are worth while. The answer does
        not depend on it.
    seed : int or "random"
        Decides all random choices. ``"random"`` draws one, which :attr:`seed` and the report
        tell: whoever makes the signal and knows the seed can hide a tone from the samples that
        will be read.
    tol : float, optional
        Relative L2 residual below which the signal counts as explained although fewer than ``k``
        coefficients were found (default 1e-6).
    snr : float, optional
        Signal-to-noise ratio in dB of the weakest wanted coefficient, abs(X/n)**2 over the
        variance of the noise in one sample. ``inf``: no noise. Without it, the samples tell.
    algorithm : {"auto", "exact", "robust", "vote", "comb-vote", "dense"}
        Run this one; ``"auto"`` chooses.
    device : str
        Where to run: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, or ``"auto"``: where the samples are.
        Arrays in CUDA memory stay there; of an array in ordinary memory, ``"cuda"`` sends the
        samples that the transform reads.
    taper : {"hann", "blackman"} or ("kaiser", beta), optional
        Multiplies the signal before it is transformed.
    fallback : {"auto", "dense", "never"}
        What to do if the sparse answer cannot be certified: run a dense FFT if n <= 2**27,
        always, or never.
    failure_probability : float, optional
        Accepted probability that noise is reported as a coefficient (default 1e-6).

    Examples
    --------
    >>> plan = Plan(4096, k=1)
    >>> x = np.exp(2j * np.pi * 77 * np.arange(4096) / 4096)
    >>> plan.transform(x).indices
    array([77])
    >>> plan.algorithm
    'robust'
    """

    __slots__ = (
        "_arguments",
        "_device",
        "_gpu",
        "_k",
        "_n",
        "_native",
        "_norm",
        "_real",
        "_seed",
        "_workers",
    )

    def __init__(
        self,
        n: int,
        k: int | None = None,
        *,
        real: bool = False,
        norm: Norm | None = None,
        workers: int | None = None,
        seed: Seed = 0,
        tol: float | None = None,
        snr: float | None = None,
        algorithm: Algorithm = "auto",
        device: Device = "auto",
        taper: Taper | None = None,
        fallback: Fallback = "auto",
        failure_probability: float | None = None,
    ) -> None:
        self._device = device
        self._gpu = gpu_number(device)
        number: int = drawn(seed)
        check_norm(norm)
        self._native = _native.Plan(
            n,
            k,
            real=real,
            tol=tol,
            snr=snr,
            failure_probability=failure_probability,
            algorithm=algorithm,
            taper=taper,
            fallback=fallback,
            seed=number,
        )
        self._n = int(n)
        self._k = None if k is None else int(k)
        self._real = real
        self._seed = int(number)
        self._norm = norm
        self._workers = worker_count(workers)
        self._arguments = {
            "n": self.n,
            "k": self.k,
            "real": real,
            "norm": norm,
            "workers": workers,
            "seed": self._seed,
            "tol": tol,
            "snr": snr,
            "algorithm": algorithm,
            "device": device,
            "taper": taper,
            "fallback": fallback,
            "failure_probability": failure_probability,
        }

    @property
    def n(self) -> int:
        """Number of samples."""
        return self._n

    @property
    def k(self) -> int | None:
        """How many coefficients are wanted, if it was said."""
        return self._k

    @property
    def real(self) -> bool:
        """Whether the signal is real."""
        return self._real

    @property
    def seed(self) -> int:
        """The seed of all random choices; the one that was drawn for ``seed="random"``."""
        return self._seed

    @property
    def algorithm(self) -> str:
        """The algorithm that runs first."""
        return self._native.algorithm

    @overload
    def transform(self, x: Unknown, axis: int = -1) -> Any: ...
    @overload
    def transform(self, x: One, axis: int = -1) -> SparseSpectrum: ...
    @overload
    def transform(self, x: Many, axis: int = -1) -> SparseSpectra: ...
    @overload
    def transform(self, x: Numbers | Signal, axis: int = -1) -> SparseSpectrum: ...
    @overload
    def transform(self, x: Sequence[Numbers], axis: int = -1) -> SparseSpectra: ...
    @overload
    def transform(self, x: ArrayLike, axis: int = -1) -> Any: ...
    def transform(self, x: Any, axis: int = -1) -> Any:
        """Transform a signal, or all signals along an axis of an array.

        The array is read in place, a few samples of it, whatever its number type, byte order,
        strides or size; the interpreter lock is released meanwhile. An array in CUDA memory must
        hold float32, float64, complex64 or complex128, side by side along the axis.

        Returns
        -------
        SparseSpectrum
            For an array of one dimension.
        SparseSpectra
            For more dimensions, one spectrum for each signal.
        """
        if type(x) is not np.ndarray:
            x = samples(x, self._device)
        axis = index(axis, "axis", "an integer")
        return self._run(x, axis, self._norm, self._workers, self._gpu)

    def _run(self, x: Any, axis: int, norm: str | None, workers: int, gpu: int | None) -> Any:
        found = self._native.transform(x, axis, norm, workers, gpu)
        if x.ndim == 1:
            indices, values, run = found
            spectrum = SparseSpectrum(self._n, indices, values, run, norm, self._real)
            if len(indices) >= MANY_BINS:
                self._warn_off_grid([spectrum])
            return spectrum
        spectra = [
            SparseSpectrum(self._n, indices, values, run, norm, self._real)
            for indices, values, run in found
        ]
        self._warn_off_grid(spectra)
        shape = list(x.shape)
        del shape[axis]
        return SparseSpectra._from_list(spectra, tuple(shape), axis % x.ndim, self)

    def _warn_off_grid(self, spectra: list[SparseSpectrum]) -> None:
        """Warns where the bins are those of something else, unless they were asked for."""
        if self._k is None and self._arguments["algorithm"] != "dense":
            warn_off_grid(spectra)

    def transform_from(self, f: Callable[[NDArray[np.int64]], ArrayLike]) -> SparseSpectrum:
        """Transform a signal that a function computes or fetches; see :func:`fft_from`."""
        found = self._native.transform_from(f, self._norm, self._workers)
        return SparseSpectrum(self._n, *found, self._norm, self._real)

    def sample_indices(self) -> NDArray[np.int64]:
        """The samples that the first pass reads, in reading order.

        An instrument can record only these. Later passes (retries, and the ladder against noise
        where ``snr`` is not given) may read more.
        """
        return self._native.sample_indices()

    def explain(self) -> str:
        """What will be done, why, and what it costs, in words."""
        return self._native.explain()

    def __repr__(self) -> str:
        default = {
            "workers": None,
            "norm": None,
            "seed": 0,
            "algorithm": "auto",
            "device": "auto",
            "fallback": "auto",
        }
        words = [f"n={self.n}", f"k={self.k}"]
        for name, value in self._arguments.items():
            if name not in ("n", "k") and value not in (default.get(name), None, False):
                words.append(f"{name}={value!r}")
        return f"Plan({', '.join(words)})"

    def __str__(self) -> str:
        return self.explain()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._arguments,)


def _restore(arguments: dict[str, Any]) -> Plan:
    return Plan(**arguments)


@functools.lru_cache(maxsize=32, typed=True)
def _plan(
    n: int,
    k: int | None,
    real: bool,
    seed: Seed,
    tol: float | None,
    snr: float | None,
    algorithm: Algorithm,
) -> Plan:
    return Plan(n, k, real=real, seed=seed, tol=tol, snr=snr, algorithm=algorithm)


def _forget_plans() -> None:
    _plan.cache_clear()


def _transform(
    x: Any,
    k: int | None,
    real: bool,
    norm: Norm | None,
    axis: int,
    workers: int | None,
    seed: Seed,
    tol: float | None,
    snr: float | None,
    algorithm: Algorithm,
    device: Device,
) -> Any:
    gpu = None
    if type(x) is not np.ndarray or device != "auto":
        gpu = gpu_number(device)
        x = samples(x, device)
    try:
        n = x.shape[axis]
    except IndexError:
        if x.ndim == 0:
            raise ValueError("x is a single number; it must have at least one dimension") from None
        raise np.exceptions.AxisError(axis, x.ndim, "axis") from None
    except TypeError:
        raise TypeError(f"axis must be an integer, not {type(axis).__name__}") from None
    if norm is not None:
        check_norm(norm)
    if n == 0:
        raise ValueError(f"x has no samples along axis {axis}; at least 1 is needed")
    try:
        # A seed that was drawn serves one call: its plan would only push others out of the cache.
        make = _plan.__wrapped__ if isinstance(seed, str) else _plan
        plan = make(n, k, real, seed, tol, snr, algorithm)
    except TypeError:
        # An argument that cannot be hashed, or is of the wrong type; say which.
        plan = _plan.__wrapped__(n, k, real, seed, tol, snr, algorithm)
    return plan._run(x, axis, norm, 0 if workers is None else worker_count(workers), gpu)


# fmt: off
@overload
def fft(
    x: Unknown, *, k: int | None = None, norm: Norm | None = None, axis: int = -1,
    workers: int | None = None, seed: Seed = 0, tol: float | None = None, snr: float | None = None,
    algorithm: Algorithm = "auto", device: Device = "auto",
) -> Any: ...
@overload
def fft(
    x: One, *, k: int | None = None, norm: Norm | None = None, axis: int = -1,
    workers: int | None = None, seed: Seed = 0, tol: float | None = None, snr: float | None = None,
    algorithm: Algorithm = "auto", device: Device = "auto",
) -> SparseSpectrum: ...
@overload
def fft(
    x: Many, *, k: int | None = None, norm: Norm | None = None, axis: int = -1,
    workers: int | None = None, seed: Seed = 0, tol: float | None = None, snr: float | None = None,
    algorithm: Algorithm = "auto", device: Device = "auto",
) -> SparseSpectra: ...
@overload
def fft(
    x: Numbers | Signal, *, k: int | None = None, norm: Norm | None = None, axis: int = -1,
    workers: int | None = None, seed: Seed = 0, tol: float | None = None, snr: float | None = None,
    algorithm: Algorithm = "auto", device: Device = "auto",
) -> SparseSpectrum: ...
@overload
def fft(
    x: Sequence[Numbers], *, k: int | None = None, norm: Norm | None = None, axis: int = -1,
    workers: int | None = None, seed: Seed = 0, tol: float | None = None, snr: float | None = None,
    algorithm: Algorithm = "auto", device: Device = "auto",
) -> SparseSpectra: ...
@overload
def fft(
    x: ArrayLike, *, k: int | None = None, norm: Norm | None = None, axis: int = -1,
    workers: int | None = None, seed: Seed = 0, tol: float | None = None, snr: float | None = None,
    algorithm: Algorithm = "auto", device: Device = "auto",
) -> Any: ...
def fft(
    x: Any, *others: Any, k: int | None = None, norm: Norm | None = None, axis: int = -1,
    workers: int | None = None, seed: Seed = 0, tol: float | None = None, snr: float | None = None,
    algorithm: Algorithm = "auto", device: Device = "auto",
) -> Any:
    """The largest Fourier coefficients of a signal.

    Parameters
    ----------
    x : array_like
        Real or complex numbers. An array (``np.memmap`` too) is read in place, whatever its
        number type, byte order and strides. Tensors come through DLPack or
        ``__cuda_array_interface__``; those in CUDA memory are transformed there.
    k : int, optional
        How many coefficients are wanted. Without it, all that stand above the noise. A real tone
        has two, at f and n - f; see :func:`rfft`.
    norm : {"backward", "ortho", "forward"}, optional
        Scale of the values, as in ``numpy.fft``.
    axis : int
        The axis along which the signals lie; the other axes make a batch.
    workers, seed, tol, snr, algorithm, device
        As for :class:`Plan`.

    Returns
    -------
    SparseSpectrum
        Unpacks as ``(indices, values)``; for more than one dimension a :class:`SparseSpectra`.

    Raises
    ------
    ValueError
        No samples, NaN or infinite samples among those read, ``k`` negative or larger than n.
    TypeError
        ``x`` holds no numbers; ``k`` is no integer.

    Examples
    --------
    >>> t = np.arange(65536)
    >>> x = 3 + np.cos(2 * np.pi * 1000 * t / 65536)
    >>> indices, values = fft(x, k=3, norm="forward")
    >>> indices
    array([    0,  1000, 64536])
    >>> values.real.round(6)
    array([3. , 0.5, 0.5])
    """
    if others:
        raise misplaced("fft", others)
    return _transform(x, k, False, norm, axis, workers, seed, tol, snr, algorithm, device)


@overload
def rfft(
    x: Unknown, *, k: int | None = None, norm: Norm | None = None, axis: int = -1,
    workers: int | None = None, seed: Seed = 0, tol: float | None = None, snr: float | None = None,
    algorithm: Algorithm = "auto", device: Device = "auto",
) -> Any: ...
@overload
def rfft(
    x: One, *, k: int | None = None, norm: Norm | None = None, axis: int = -1,
    workers: int | None = None, seed: Seed = 0, tol: float | None = None, snr: float | None = None,
    algorithm: Algorithm = "auto", device: Device = "auto",
) -> SparseSpectrum: ...
@overload
def rfft(
    x: Many, *, k: int | None = None, norm: Norm | None = None, axis: int = -1,
    workers: int | None = None, seed: Seed = 0, tol: float | None = None, snr: float | None = None,
    algorithm: Algorithm = "auto", device: Device = "auto",
) -> SparseSpectra: ...
@overload
def rfft(
    x: Numbers | Signal, *, k: int | None = None, norm: Norm | None = None, axis: int = -1,
    workers: int | None = None, seed: Seed = 0, tol: float | None = None, snr: float | None = None,
    algorithm: Algorithm = "auto", device: Device = "auto",
) -> SparseSpectrum: ...
@overload
def rfft(
    x: Sequence[Numbers], *, k: int | None = None, norm: Norm | None = None, axis: int = -1,
    workers: int | None = None, seed: Seed = 0, tol: float | None = None, snr: float | None = None,
    algorithm: Algorithm = "auto", device: Device = "auto",
) -> SparseSpectra: ...
@overload
def rfft(
    x: ArrayLike, *, k: int | None = None, norm: Norm | None = None, axis: int = -1,
    workers: int | None = None, seed: Seed = 0, tol: float | None = None, snr: float | None = None,
    algorithm: Algorithm = "auto", device: Device = "auto",
) -> Any: ...
def rfft(
    x: Any, *others: Any, k: int | None = None, norm: Norm | None = None, axis: int = -1,
    workers: int | None = None, seed: Seed = 0, tol: float | None = None, snr: float | None = None,
    algorithm: Algorithm = "auto", device: Device = "auto",
) -> Any:
    """The largest Fourier coefficients of a real signal among 0 ... n//2.

    As :func:`fft`, for real numbers. The other coefficients are conjugates of these, so ``k``
    counts tones.

    Examples
    --------
    >>> t = np.arange(65536)
    >>> spectrum = rfft(np.sin(2 * np.pi * 1000 * t / 65536), k=1)
    >>> spectrum.indices
    array([1000])
    >>> spectrum.freqs(d=1 / 44100)
    array([672.91259766])
    """
    if others:
        raise misplaced("rfft", others)
    return _transform(x, k, True, norm, axis, workers, seed, tol, snr, algorithm, device)
# fmt: on


def fft_from(
    f: Callable[[NDArray[np.int64]], ArrayLike],
    n: int,
    k: int | None = None,
    *,
    real: bool = False,
    norm: Norm | None = None,
    workers: int | None = None,
    seed: Seed = 0,
    tol: float | None = None,
    snr: float | None = None,
    algorithm: Algorithm = "auto",
) -> SparseSpectrum:
    """The largest Fourier coefficients of a signal that is computed or fetched on demand.

    Parameters
    ----------
    f : callable
        ``f(indices)`` gets an int64 array of indices and returns as many samples. What it raises
        ends the transform and is raised here.
    n : int
        Number of samples.
    k, real, norm, workers, seed, tol, snr, algorithm
        As for :class:`Plan`.

    Examples
    --------
    Of 2**40 samples a few hundred are asked for.

    >>> n = 1 << 40
    >>> def samples(t):
    ...     return np.exp(2j * np.pi * (t * 5 % n) / n)
    >>> spectrum = fft_from(samples, n, k=1)
    >>> spectrum.indices
    array([5])
    >>> spectrum.report.samples_read < 1000
    True
    """
    plan = Plan(
        n,
        k,
        real=real,
        norm=norm,
        workers=workers,
        seed=seed,
        tol=tol,
        snr=snr,
        algorithm=algorithm,
    )
    return plan.transform_from(f)


def sample_indices(
    n: int,
    k: int | None = None,
    *,
    seed: int = 0,
    tol: float | None = None,
    snr: float | None = None,
    algorithm: Algorithm = "auto",
) -> NDArray[np.int64]:
    """The samples that the first pass of a transform reads; see :meth:`Plan.sample_indices`.

    A transform reads them if it is called with the same arguments, the seed among them; so the
    seed cannot be ``"random"`` here. Draw one with :func:`random_seed`, or ask a :class:`Plan`.

    Examples
    --------
    >>> wanted = sample_indices(1 << 30, k=10)
    >>> len(wanted) < 1000
    True
    """
    if isinstance(seed, str):
        raise ValueError(
            f"seed = {seed!r}: it must be an integer here, or the samples could not be asked for "
            "again; draw one with random_seed()"
        )
    plan = Plan(n, k, seed=seed, tol=tol, snr=snr, algorithm=algorithm)
    return plan.sample_indices()


def random_seed() -> int:
    """A seed that nobody could foretell, drawn from the operating system's randomness.

    Examples
    --------
    >>> seed = random_seed()
    >>> 0 <= seed < 2**53
    True
    >>> Plan(4096, k=1, seed=seed).seed == seed
    True
    """
    return _native.random_seed()
