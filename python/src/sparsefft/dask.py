"""Many signals in a chunked array: every block is transformed where it lies.

>>> import dask.array as da
>>> import sparsefft.dask
>>> x = np.exp(2j * np.pi * np.outer([5, 7, 9, 11], np.arange(4096)) / 4096)
>>> spectra = sparsefft.dask.fft(da.from_array(x, chunks=(2, 4096)), k=1)
>>> spectra
dask.array<_transform, shape=(4,), dtype=object, chunksize=(2,), chunktype=numpy.ndarray>
>>> [spectrum.indices[0].item() for spectrum in spectra.compute(scheduler="threads")]
[5, 7, 9, 11]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _fft

__all__ = ["fft", "rfft"]


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
    k: int | None = None,
    *,
    norm: _fft.Norm | None = None,
    axis: int = -1,
    workers: int | None = None,
    seed: int = 0,
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
    k: int | None = None,
    *,
    norm: _fft.Norm | None = None,
    axis: int = -1,
    workers: int | None = None,
    seed: int = 0,
    tol: float | None = None,
    snr: float | None = None,
    algorithm: _fft.Algorithm = "auto",
    device: _fft.Device = "auto",
) -> Any:
    """As :func:`sparsefft.rfft` for every signal along an axis of a dask array."""
    arguments = dict(k=k, norm=norm, workers=workers, seed=seed, tol=tol, snr=snr)
    return _map(x, axis, True, {**arguments, "algorithm": algorithm, "device": device})
