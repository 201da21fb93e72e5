"""The answer: a few coefficients, the certificate, and a report of the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np
from numpy.typing import NDArray

from . import _native
from ._arguments import index as integer
from ._arguments import spacing as spacing_of

if TYPE_CHECKING:
    from ._fft import Plan


@dataclass(frozen=True)
class Certificate:
    """What was tested, what was left over, and the verdict. ``str()`` gives it in words.

    Not covered: whoever makes the signal and knows the seed can hide a tone from the samples that
    will be read. Against such a source draw it: ``seed="random"``.
    """

    #: ``"certified"``, ``"uncertified"`` or ``"dense"`` (every coefficient was computed).
    verdict: str
    #: Why the verdict is not ``"certified"``, or what one should know about it.
    reason: str | None
    #: Number of bins whose content was compared with the answer.
    bins_tested: int
    #: Bins that hold more than the answer and the noise floor explain.
    bins_unexplained: int
    #: Estimated share of the signal's energy that the answer does not account for.
    residual_energy: float
    #: Standard deviation of the noise in one sample.
    noise_floor: float
    #: Smallest amplitude abs(X)/n that could not have been overlooked.
    detection_limit: float
    #: Largest share of the signal's power that a steady or slowly moving narrow-band rest (a weak
    #: sweep, a modulated carrier) could hold unnoticed. 1 where nothing was tested, 0 of a dense answer.
    rest_limit: float
    #: Bound on the probability that a certified answer is wrong.
    failure_probability: float
    #: How many attempts were made.
    attempts: int
    #: All of it in words.
    text: str = field(repr=False, compare=False)

    @property
    def is_certified(self) -> bool:
        """Whether a sparse answer passed every test; false for a dense one, which needs none."""
        return self.verdict == "certified"

    @property
    def is_complete(self) -> bool:
        """Whether every coefficient was computed, by a dense FFT."""
        return self.verdict == "dense"

    @property
    def is_reliable(self) -> bool:
        """Whether the answer may be relied on: certified or complete."""
        return self.is_certified or self.is_complete

    def __str__(self) -> str:
        return self.text


def amplitudes(spectrum: SparseSpectrum) -> NDArray[np.float64]:
    """abs(X)/n, whatever the norm; magnitudes of single precision do not fit it."""
    n = float(spectrum.n)
    scale = {"ortho": np.sqrt(n), "forward": 1.0}.get(spectrum.norm or "", n)
    sizes: NDArray[np.float64] = np.abs(spectrum.values.astype(np.complex128) / scale)
    return sizes


@dataclass(frozen=True)
class Report:
    """How a run went; times in seconds."""

    #: The algorithm that produced the answer.
    algorithm: str
    #: Samples read, counted with repetition.
    samples_read: int
    #: Seed of the random choices.
    seed: int
    #: Coefficients that were found but are not among the largest that were asked for, counted
    #: over the whole spectrum.
    left_out: int
    #: Seconds by stage.
    stages: dict[str, float]
    #: Seconds for the whole transform.
    elapsed: float
    #: Where it ran: "cpu", "gpu", or which of both did what, and why.
    device: str


class SparseSpectrum:
    """The large Fourier coefficients of one signal; unpacks as ``(indices, values)``.

    Attributes
    ----------
    n : int
        Number of samples of the signal.
    indices : ndarray of int64
        Frequency indices, ascending: 0 ... n-1, or 0 ... n//2 for :func:`~sparsefft.rfft`.
    values : ndarray of complex128 or complex64
        The coefficients, in the scale that ``norm`` names.
    norm : {None, "backward", "ortho", "forward"}
        That scale.
    half : bool
        Whether this is the spectrum of a real signal without its redundant half.

    Examples
    --------
    >>> import sparsefft
    >>> spectrum = sparsefft.fft(np.tile([1.0, 0.0, 0.0, 0.0], 4096), k=4)
    >>> indices, values = spectrum
    >>> indices
    array([    0,  4096,  8192, 12288])
    >>> spectrum.freqs()
    array([ 0.  ,  0.25, -0.5 , -0.25])
    >>> spectrum.certificate.is_certified
    True
    """

    __slots__ = ("_certificate", "_half", "_indices", "_n", "_norm", "_report", "_run", "_values")

    def __init__(
        self,
        n: int,
        indices: NDArray[np.int64],
        values: NDArray[np.complexfloating[Any, Any]],
        run: _native.Run | None,
        norm: str | None = None,
        half: bool = False,
        certificate: Certificate | None = None,
        report: Report | None = None,
    ) -> None:
        self._n = n
        self._indices = indices
        self._values = values
        self._norm = norm
        self._half = half
        self._run = run
        # Made when first asked for: most callers want only the arrays.
        self._certificate = certificate
        self._report = report

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return iter((self.indices, self.values))

    @property
    def n(self) -> int:
        """Number of samples of the signal."""
        return self._n

    @property
    def indices(self) -> NDArray[np.int64]:
        """Frequency indices, ascending."""
        return self._indices

    @property
    def values(self) -> NDArray[np.complexfloating[Any, Any]]:
        """The coefficients, in the scale that ``norm`` names."""
        return self._values

    @property
    def norm(self) -> str | None:
        """Scale of the values."""
        return self._norm

    @property
    def half(self) -> bool:
        """Whether this is the spectrum of a real signal without its redundant half."""
        return self._half

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return len(self.indices)

    @property
    def certificate(self) -> Certificate:
        """Whether the answer accounts for the whole signal, and the evidence."""
        if self._certificate is None:
            assert self._run is not None
            self._certificate = Certificate(**self._run.certificate())
        return self._certificate

    @property
    def report(self) -> Report:
        """How the run went."""
        if self._report is None:
            assert self._run is not None
            self._report = Report(**self._run.report())
        return self._report

    def freqs(self, d: float = 1.0) -> NDArray[np.float64]:
        """The frequencies of the coefficients for a sample spacing ``d``, as ``fftfreq`` has them.

        Cycles per sample by default, Hz for ``d = 1 / rate``. For :func:`~sparsefft.rfft`, as
        ``rfftfreq`` has them.
        """
        spacing = spacing_of(d, self.n)
        bins = self.indices
        if not self.half:
            bins = np.where(bins < (self.n + 1) // 2, bins, bins - self.n)
        frequencies: NDArray[np.float64] = bins / (self.n * spacing)
        return frequencies

    def value(self, index: int) -> complex:
        """The coefficient at this index, 0 where none was found."""
        index = integer(index, "index", "an integer")
        at = int(np.searchsorted(self.indices, min(max(index, -1), self.n)))
        if at < len(self.indices) and self.indices[at] == index:
            return complex(self.values[at])
        return 0j

    def top(self, k: int) -> tuple[NDArray[np.int64], NDArray[np.complexfloating[Any, Any]]]:
        """Indices and values of the k largest coefficients, the largest first."""
        k = integer(k, "k", "a non-negative integer")
        if k < 0:
            raise ValueError(f"k = {k}: it must be a non-negative integer")
        order = np.argsort(-amplitudes(self), kind="stable")[:k]
        return self.indices[order], self.values[order]

    def snr_db(self) -> NDArray[np.float64]:
        """Signal-to-noise ratio of each coefficient in one bin of the whole record, in dB.

        10 log10(abs(X)**2 / (n sigma**2)), sigma the certificate's ``noise_floor``. NaN where that
        is no measurement of noise: at rounding level, or in an answer that is not reliable.
        """
        certificate = self.certificate
        with np.errstate(divide="ignore"):
            sizes = amplitudes(self)
            decibels = 20 * (
                np.log10(sizes)
                + 0.5 * np.log10(self.n)
                - np.log10(np.float64(certificate.noise_floor))
            )
        noisy = certificate.noise_floor > 1e-9 * sizes
        return np.where(noisy & certificate.is_reliable, decibels, np.nan)

    def to_dense(self) -> NDArray[np.complexfloating[Any, Any]]:
        """All coefficients, mostly zero: what ``numpy.fft.fft`` (or ``rfft``) would return."""
        dense = np.zeros(self.n // 2 + 1 if self.half else self.n, self.values.dtype)
        dense[self.indices] = self.values
        return dense

    def to_scipy(self) -> Any:
        """A ``scipy.sparse.coo_array`` of one dimension."""
        from scipy.sparse import coo_array

        shape = (self.n // 2 + 1 if self.half else self.n,)
        return coo_array((self.values, (self.indices,)), shape=shape)

    def synthesize(self, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Back to the time domain: the samples start ... stop-1 that the coefficients make."""
        start = integer(start, "start", "an integer")
        stop = self.n if stop is None else integer(stop, "stop", "an integer or None")
        if not 0 <= start <= stop <= self.n:
            raise ValueError(
                f"start = {start}, stop = {stop}: the range must lie inside 0 ... {self.n}"
            )
        scale = {"ortho": np.sqrt(self.n), "forward": float(self.n)}.get(self.norm or "", 1.0)
        indices, values = self.indices, self.values.astype(np.complex128) * scale
        if self.half:
            mirrored = (indices > 0) & (2 * indices < self.n)
            indices = np.concatenate([indices, self.n - indices[mirrored]])
            values = np.concatenate([values, values[mirrored].conj()])
        samples: NDArray[Any] = _native.synthesize(self.n, indices, values, start, stop)
        if self.half:
            samples = samples.real.copy()
        if self.values.dtype == np.complex64:
            with np.errstate(over="ignore"):
                narrow = samples.astype(np.float32 if self.half else np.complex64)
            if not np.isfinite(narrow).all():
                largest = np.abs(samples).max()
                raise OverflowError(f"samples of magnitude {largest:g} do not fit {narrow.dtype}")
            samples = narrow
        return samples

    def plot(self, ax: Any = None, *, d: float = 1.0) -> Any:
        """Draw the coefficients with matplotlib; returns the axes.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; without it, on new axes.
        d : float
            Sample spacing, as for :meth:`freqs`.
        """
        from ._plot import plot

        return plot(self, ax, d)

    def __repr__(self) -> str:
        from ._text import describe

        return describe(self)

    def _repr_html_(self) -> str:
        from ._text import describe_html

        return describe_html(self)

    def __reduce__(self) -> tuple[Any, ...]:
        arrays = (self.n, self.indices, self.values, None, self.norm, self.half)
        return SparseSpectrum, (*arrays, self.certificate, self.report)


class SparseSpectra:
    """The spectra of many signals, by their place along the other axes.

    ``spectra[i]`` is one of them, or of more axes a part; ``spectra.flat`` goes through all. A
    batch does not unpack, since two spectra would pass for indices and values.

    Attributes
    ----------
    n : int
        Number of samples of each signal.
    shape : tuple of int
        Lengths of the other axes.
    axis : int
        Where the signals lay in the array.

    Examples
    --------
    >>> import sparsefft
    >>> x = np.exp(2j * np.pi * np.outer([5, 7], np.arange(4096)) / 4096)
    >>> spectra = sparsefft.fft(x, k=1)
    >>> [spectrum.indices[0].item() for spectrum in spectra.flat]
    [5, 7]
    >>> spectra.to_dense().shape
    (2, 4096)
    >>> spectra
    SparseSpectra: 2 signals of n = 4096, 2 coefficients, all certified
    """

    __slots__ = ("_array", "_axis", "_n")

    def __init__(self, array: NDArray[np.object_], n: int, axis: int) -> None:
        self._array = array
        self._n = n
        self._axis = axis

    @classmethod
    def _from_list(
        cls, spectra: list[SparseSpectrum], shape: tuple[int, ...], axis: int, plan: Plan
    ) -> SparseSpectra:
        array = np.empty(len(spectra), object)
        # One by one: numpy would unpack each into its arrays.
        for i, spectrum in enumerate(spectra):
            array[i] = spectrum
        return cls(array.reshape(shape), plan.n, axis)

    @property
    def n(self) -> int:
        """Number of samples of each signal."""
        return self._n

    @property
    def axis(self) -> int:
        """Where the signals lay in the array."""
        return self._axis

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the other axes."""
        return self._array.shape

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> NoReturn:
        raise TypeError(
            f"a batch of {' x '.join(map(str, self.shape))} spectra does not unpack into indices "
            "and values; take one, indices, values = spectra[0], or go through all, for spectrum "
            "in spectra.flat"
        )

    @property
    def flat(self) -> tuple[SparseSpectrum, ...]:
        """All spectra one after the other, the last axis fastest."""
        return tuple(self._array.ravel().tolist())

    @overload
    def __getitem__(self, key: slice) -> SparseSpectra: ...
    @overload
    def __getitem__(self, key: Any) -> Any: ...
    def __getitem__(self, key: Any) -> Any:
        part = self._array[key]
        if isinstance(part, np.ndarray):
            return SparseSpectra(part, self.n, self.axis)
        return part

    def to_array(self) -> NDArray[np.object_]:
        """The spectra as an array of objects, with the shape of the other axes."""
        return self._array.copy()

    def to_dense(self) -> NDArray[np.complexfloating[Any, Any]]:
        """All coefficients, mostly zero: what ``numpy.fft.fft`` (or ``rfft``) would return."""
        spectra = [spectrum.to_dense() for spectrum in self._array.ravel()]
        if not spectra:
            # Nothing says which type there would be.
            return np.moveaxis(np.zeros((*self.shape, self.n), complex), -1, self.axis)
        stacked = np.stack(spectra).reshape(*self.shape, -1)
        return np.moveaxis(stacked, -1, min(self.axis, stacked.ndim - 1))

    def __repr__(self) -> str:
        spectra: list[SparseSpectrum] = list(self._array.ravel())
        signals = " x ".join(str(length) for length in self.shape)
        found = sum(spectrum.size for spectrum in spectra)
        verdicts = [spectrum.certificate.verdict for spectrum in spectra]
        counts = {name: verdicts.count(name) for name in ("certified", "dense", "uncertified")}
        told = [f"{count} {name}" for name, count in counts.items() if count]
        if len(told) == 1:
            told = [f"all {verdicts[0]}"]
        heading = f"{signals} signals of n = {self.n}, {found} coefficients"
        return f"SparseSpectra: {', '.join([heading, *told])}"

    def __reduce__(self) -> tuple[Any, ...]:
        return SparseSpectra, (self._array, self.n, self.axis)
