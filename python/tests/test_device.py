"""Arrays of other libraries: in memory they work, on a GPU too, or the message says what to do."""

import numpy as np
import pytest
from conftest import tones

import sparsefft
import sparsefft.dense

N = 1 << 12


class Tensor:
    """A tensor that only knows DLPack."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


class CudaArray:
    """What CuPy, Numba and PyTorch show of an array in CUDA memory."""

    __cuda_array_interface__ = {
        "shape": (N,),
        "typestr": "<c16",
        "data": (0x7F0000000000, False),
        "version": 3,
    }


def test_dlpack_in_memory():
    x = tones(N, {5: 1.0, 99: 0.5})
    expected = sparsefft.fft(x, k=2)
    for device in ("auto", "cpu"):
        spectrum = sparsefft.fft(Tensor(x), k=2, device=device)
        np.testing.assert_array_equal(spectrum.values, expected.values)
    np.testing.assert_array_equal(
        sparsefft.Plan(N, 2).transform(Tensor(x)).values, expected.values
    )
    np.testing.assert_array_equal(sparsefft.dense.fft(Tensor(x)), sparsefft.dense.fft(x))


without_cuda = pytest.mark.skipif(
    sparsefft._native.no_cuda() is None, reason="there is a GPU; test_cuda.py uses it"
)
# Of a machine without a driver, without a GPU, and of a build without the backend.
WHY = r"(driver|no sparse CUDA backend).*x\.get\(\).*x\.cpu\(\).*device='cpu'"


@without_cuda
@pytest.mark.parametrize("device", ["auto", "cpu"])
@pytest.mark.parametrize("x", [CudaArray(), Tensor(np.ones(N), (2, 0))])
def test_cuda_arrays_without_a_gpu(x, device):
    with pytest.raises(RuntimeError, match="x lies in CUDA memory, but .*" + WHY):
        sparsefft.fft(x, k=1, device=device)
    with pytest.raises(RuntimeError, match=WHY):
        sparsefft.Plan(N).transform(x)


@without_cuda
@pytest.mark.parametrize("device", ["cuda", "cuda:3"])
def test_asking_for_cuda_without_a_gpu(device):
    for call in (
        lambda: sparsefft.fft(np.ones(N), k=1, device=device),
        lambda: sparsefft.Plan(N, device=device),
    ):
        with pytest.raises(RuntimeError, match=f"device='{device}'.*" + WHY):
            call()


def test_other_devices():
    with pytest.raises(RuntimeError, match=r"DLPack device 10.*x\.cpu\(\)"):
        sparsefft.fft(Tensor(np.ones(N), (10, 0)), k=1)
    with pytest.raises(RuntimeError, match=r"this function cannot read it.*x\.get\(\)"):
        sparsefft.dense.fft(CudaArray())
    for device in ("cuda:", "cuda:x", "cuda:-1", "cuda:1:2", "gpu", "", None, 0):
        with pytest.raises(ValueError, match="'auto', 'cpu', 'cuda'"):
            sparsefft.fft(np.ones(N), k=1, device=device)
