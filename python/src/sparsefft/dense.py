"""All coefficients: the dense FFT of any length, over threads, with the signatures of ``scipy.fft``.

>>> from sparsefft import dense
>>> x = np.arange(6.0)
>>> np.allclose(dense.fft(x), np.fft.fft(x))
True
>>> np.allclose(dense.irfft(dense.rfft(x, workers=2)), x)
True

32-bit floats (and 16-bit ones) are transformed in single precision, everything else in double.
The result is the same to the last bit for every number of workers.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native
from ._arguments import check_norm, host_array, index, worker_count

__all__ = ["fft", "ifft", "irfft", "rfft"]

Norm: TypeAlias = Literal["backward", "ortho", "forward"]
Complex: TypeAlias = NDArray[np.complexfloating[Any, Any]]


def _prepare(
    x: ArrayLike,
    n: int | None,
    axis: int,
    norm: Any,
    real: bool,
    given: int | None = None,
) -> tuple[NDArray[Any], int, int]:
    """``x`` with its axis last, cut or filled up with zeros to ``given`` values, and contiguous."""
    check_norm(norm)
    array = host_array(x)
    kind = array.dtype.kind
    if kind not in ("biuf" if real else "biufc") or array.dtype.char in "gG":
        expected = "real" if real else "real or complex"
        raise TypeError(f"x has dtype {array.dtype}; {expected} numbers up to 64 bits are needed")
    if array.ndim == 0:
        raise ValueError("x is a single number; it must have at least one dimension")
    axis = index(axis, "axis", "an integer")
    if not -array.ndim <= axis < array.ndim:
        raise np.exceptions.AxisError(axis, array.ndim, "axis")
    array = np.moveaxis(array, axis, -1)
    if n is not None:
        n = _length(n)
    length = array.shape[-1] if n is None else n
    if length < 1:
        raise ValueError(f"n = {length}: at least 1 value is needed along the axis")
    wanted = length if given is None else given
    single = array.dtype.char in "efF"
    if real:
        dtype: Any = np.float32 if single else np.float64
    else:
        dtype = np.complex64 if single else np.complex128
    have = array.shape[-1]
    values = wanted * int(np.prod(array.shape[:-1], dtype=object))
    if values * np.dtype(dtype).itemsize > np.iinfo(np.intp).max:
        raise MemoryError(f"n = {length}: {values} values do not fit in memory")
    if have < wanted:
        padded = np.zeros((*array.shape[:-1], wanted), dtype)
        padded[..., :have] = array
        array = padded
    elif have > wanted:
        array = array[..., :wanted]
    return np.require(array, dtype, ["C", "A"]), length, axis


def _length(n: Any) -> int:
    return index(n, "n", "an integer or None")


def _complex(
    x: ArrayLike,
    n: int | None,
    axis: int,
    norm: Norm | None,
    inverse: bool,
    overwrite_x: bool,
    workers: int | None,
) -> Complex:
    array, length, axis = _prepare(x, n, axis, norm, real=False)
    out = np.empty_like(array)
    _native.dense(array, out, length, inverse, norm, worker_count(workers))
    return np.moveaxis(out, -1, axis)


def fft(
    x: ArrayLike,
    n: int | None = None,
    axis: int = -1,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
) -> Complex:
    """The DFT along an axis, as ``scipy.fft.fft``.

    ``overwrite_x`` is accepted for compatibility and never needed.
    """
    return _complex(x, n, axis, norm, False, overwrite_x, workers)


def ifft(
    x: ArrayLike,
    n: int | None = None,
    axis: int = -1,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
) -> Complex:
    """The inverse DFT along an axis, as ``scipy.fft.ifft``."""
    return _complex(x, n, axis, norm, True, overwrite_x, workers)


def rfft(
    x: ArrayLike,
    n: int | None = None,
    axis: int = -1,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
) -> Complex:
    """The coefficients 0 ... n//2 of real values along an axis, as ``scipy.fft.rfft``."""
    array, length, axis = _prepare(x, n, axis, norm, real=True)
    dtype = np.complex64 if array.dtype == np.float32 else np.complex128
    out = np.empty((*array.shape[:-1], length // 2 + 1), dtype)
    _native.dense(array, out, length, False, norm, worker_count(workers))
    return np.moveaxis(out, -1, axis)


def irfft(
    x: ArrayLike,
    n: int | None = None,
    axis: int = -1,
    norm: Norm | None = None,
    overwrite_x: bool = False,
    workers: int | None = None,
) -> NDArray[np.floating[Any]]:
    """n real values from the coefficients 0 ... n//2, as ``scipy.fft.irfft``.

    Without ``n``, 2·(m - 1) values for m coefficients.
    """
    if n is None:
        array = host_array(x)
        axis = index(axis, "axis", "an integer")
        if array.ndim and -array.ndim <= axis < array.ndim:
            n = 2 * (array.shape[axis] - 1)
    else:
        n = _length(n)
    given = None if n is None else n // 2 + 1
    array, length, axis = _prepare(x, n, axis, norm, real=False, given=given)
    out = np.empty(
        (*array.shape[:-1], length), np.float32 if array.dtype == np.complex64 else np.float64
    )
    _native.dense(array, out, length, True, norm, worker_count(workers))
    return np.moveaxis(out, -1, axis)
