"""Chunked arrays: many signals, or one signal over many chunks.

Many signals: every block is transformed where it lies.

>>> import dask.array as da
>>> import sparsefft.dask
>>> x = np.exp(2j * np.pi * np.outer([5, 7, 9, 11], np.arange(4096)) / 4096)
>>> spectra = sparsefft.dask.fft(da.from_array(x, chunks=(2, 4096)), k=1)
>>> spectra
dask.array<_transform, shape=(4,), dtype=object, chunksize=(2,), chunktype=numpy.ndarray>
>>> [spectrum.indices[0].item() for spectrum in spectra.compute(scheduler="threads")]
[5, 7, 9, 11]

One long signal: every chunk is reduced to a sketch of some hundred KB where it lies, and the
sketches are merged. The signal itself is never moved or held as a whole.

>>> long = da.from_array(np.exp(2j * np.pi * 77 * np.arange(1 << 16) / (1 << 16)), chunks=5000)
>>> sparsefft.dask.fft_sharded(long, k=4).compute(scheduler="threads").indices
array([77])
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _fft
from ._arguments import drawn
from ._sketch import Sketch

__all__ = ["fft", "fft_sharded", "rfft", "rfft_sharded"]

# Sketches that one task merges: enough to keep the tree flat, few enough to spread the work.
_FAN_IN = 8


def _transform(block: NDArray[Any], *, axis: int, real: bool, arguments: Any) -> NDArray[Any]:
    found = (_fft.rfft if real else _fft.fft)(block, axis=axis, **arguments)
    if block.ndim > 1:
        return np.asarray(found.to_array())
    single = np.empty((), object)
    single[()] = found
    return single


def _map(x: Any, axis: int, real: bool, arguments: dict[str, Any]) -> Any:
    import dask.array as da

    if not isinstance(x, da.Array):
        raise TypeError(f"x must be a dask array, not {type(x).__name__}; use sparsefft.fft")
    if not -x.ndim <= axis < x.ndim:
        raise np.exceptions.AxisError(axis, x.ndim, "axis")
    axis %= x.ndim
    if x.numblocks[axis] != 1:
        raise ValueError(
            f"x has {x.numblocks[axis]} chunks along axis {axis}; a signal must lie in one: "
            f"x.rechunk({{{axis}: -1}})"
        )
    # One seed for all blocks, whoever transforms them.
    arguments["seed"] = drawn(arguments["seed"])
    # A plan says at once what is wrong with the arguments.
    planned = {k: v for k, v in arguments.items() if k not in ("workers", "device")}
    _fft.Plan(x.shape[axis], real=real, **planned)
    array: Any = x
    return array.map_blocks(
        _transform,
        axis=axis,
        real=real,
        arguments=arguments,
        drop_axis=axis,
        dtype=object,
        meta=np.empty((0,) * (x.ndim - 1), object),
    )


def fft(
    x: Any,
    *,
    k: int | None = None,
    norm: _fft.Norm | None = None,
    axis: int = -1,
    workers: int | None = None,
    seed: _fft.Seed = 0,
    tol: float | None = None,
    snr: float | None = None,
    algorithm: _fft.Algorithm = "auto",
    device: _fft.Device = "auto",
) -> Any:
    """As :func:`sparsefft.fft` for every signal along an axis of a dask array.

    Returns a lazy dask array of :class:`~sparsefft.SparseSpectrum` objects with the shape of the
    other axes. The axis must be one chunk.
    """
    arguments = dict(k=k, norm=norm, workers=workers, seed=seed, tol=tol, snr=snr)
    return _map(x, axis, False, {**arguments, "algorithm": algorithm, "device": device})


def rfft(
    x: Any,
    *,
    k: int | None = None,
    norm: _fft.Norm | None = None,
    axis: int = -1,
    workers: int | None = None,
    seed: _fft.Seed = 0,
    tol: float | None = None,
    snr: float | None = None,
    algorithm: _fft.Algorithm = "auto",
    device: _fft.Device = "auto",
) -> Any:
    """As :func:`sparsefft.rfft` for every signal along an axis of a dask array."""
    arguments = dict(k=k, norm=norm, workers=workers, seed=seed, tol=tol, snr=snr)
    return _map(x, axis, True, {**arguments, "algorithm": algorithm, "device": device})


def _sketch(block: NDArray[Any], start: int, arguments: dict[str, Any]) -> Sketch:
    sketch = Sketch(**arguments)
    sketch.add(start, block)
    return sketch


def _merge(sketches: list[Sketch]) -> Sketch:
    # Tasks must not change what other tasks may read again.
    merged = Sketch.from_bytes(sketches[0].to_bytes(), like=sketches[0])
    for sketch in sketches[1:]:
        merged.merge(sketch)
    return merged


def _sharded(x: Any, arguments: dict[str, Any]) -> Any:
    import dask.array as da
    from dask.delayed import delayed

    if not isinstance(x, da.Array):
        raise TypeError(f"x must be a dask array, not {type(x).__name__}; use sparsefft.fft")
    if x.ndim != 1:
        raise ValueError(
            f"x has {x.ndim} dimensions; one signal has one: ravel it, or use sparsefft.dask.fft "
            "for many signals"
        )
    sizes = x.chunks[0]
    if any(size != size for size in sizes):
        raise ValueError("x has chunks of unknown size; call x.compute_chunk_sizes() first")
    arguments["n"] = int(sum(sizes))
    # One seed for all chunks.
    arguments["seed"] = drawn(arguments["seed"])
    # A sketch says at once what is wrong with the arguments.
    Sketch(**arguments)
    array: Any = x
    level: list[Any] = []
    start = 0
    for block, size in zip(array.to_delayed().ravel(), sizes, strict=True):
        level.append(delayed(_sketch)(block, start, arguments))
        start += int(size)
    while len(level) > 1:
        groups = [level[i : i + _FAN_IN] for i in range(0, len(level), _FAN_IN)]
        level = [delayed(_merge)(group) if len(group) > 1 else group[0] for group in groups]
    return level[0].finish()


def fft_sharded(
    x: Any,
    k: int,
    *,
    norm: _fft.Norm | None = None,
    seed: _fft.Seed = 0,
    tol: float | None = None,
    snr: float | None = None,
    algorithm: _fft.Algorithm = "auto",
) -> Any:
    """The k largest Fourier coefficients of one long signal, chunk by chunk.

    Each worker reduces its chunks to sketches, which are merged as a tree; the answer is the same
    to the last bit however the signal is chunked, and when a worker is lost. One pass over the
    samples is all there is: what they do not settle is answered ``uncertified``.

    Parameters
    ----------
    x : dask.array.Array
        One dimension, chunks of any size: from Zarr, from a list of ``.npy`` files, computed.
    k : int
        How many coefficients are wanted, or an upper bound.
    norm, seed, tol, snr, algorithm
        As for :class:`sparsefft.Sketch`.

    Returns
    -------
    dask.delayed.Delayed
        ``.compute()`` gives a :class:`~sparsefft.SparseSpectrum`.
    """
    arguments = dict(k=k, norm=norm, seed=seed, tol=tol, snr=snr, algorithm=algorithm)
    return _sharded(x, arguments)


def rfft_sharded(
    x: Any,
    k: int,
    *,
    norm: _fft.Norm | None = None,
    seed: _fft.Seed = 0,
    tol: float | None = None,
    snr: float | None = None,
    algorithm: _fft.Algorithm = "auto",
) -> Any:
    """As :func:`fft_sharded` for a real signal: the coefficients 0 ... n//2, ``k`` of them."""
    arguments = dict(k=k, norm=norm, seed=seed, tol=tol, snr=snr, algorithm=algorithm)
    return _sharded(x, {**arguments, "real": True})
