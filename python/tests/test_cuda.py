"""Arrays in the memory of a GPU: they stay there, and the answers are those of the CPU.

Three kinds of arrays: a bare allocation of the driver that shows ``__cuda_array_interface__``, CuPy
and PyTorch (DLPack). Without a GPU all of this is skipped; SPARSEFFT_REQUIRE_CUDA=1 forbids that.
"""

import ctypes
import os
import threading

import numpy as np
import pytest
from conftest import tones

import sparsefft

WHY_NOT = sparsefft._native.no_cuda()
if WHY_NOT and not os.environ.get("SPARSEFFT_REQUIRE_CUDA"):
    pytest.skip(f"no GPU: {WHY_NOT}", allow_module_level=True)

N = 1 << 16
PARTS = {5: 1.0, 999: 0.5j, 40_000: -2.0, 40_001: 0.25}


class Driver:
    """What the tests need of libcuda, on the primary context of GPU 0."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)
        context = ctypes.c_void_p()
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self("cuCtxSetCurrent", context)

    def __call__(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        assert code == 0, f"{name} gave {code}"

    def allocate(self, size):
        at = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
        return at

    def stream(self):
        stream = ctypes.c_void_p()
        self("cuStreamCreate", ctypes.byref(stream), 1)
        return stream

    def free_memory(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value


class Bare:
    """A copy of an array in an allocation of the driver, in C order."""

    def __init__(self, array, version=3, **more):
        self.at, self.driver = None, driver()
        size = array.size * array.itemsize
        self.at = self.driver.allocate(max(size, 1))
        packed = np.ascontiguousarray(array)
        self.driver(
            "cuMemcpyHtoD_v2", self.at, packed.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(size)
        )
        # Such a copy may still be under way when the call returns.
        self.driver("cuCtxSynchronize")
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (self.at.value, False),
            "version": version,
            **more,
        }

    def __del__(self):
        if self.at:
            self.driver.cuda.cuMemFree_v2(self.at)


_DRIVER = None


def driver():
    global _DRIVER
    _DRIVER = _DRIVER or Driver()
    return _DRIVER


def cupy_array(array):
    return pytest.importorskip("cupy").asarray(array)


def torch_array(array):
    torch = pytest.importorskip("torch")
    return torch.tensor(array).cuda()


@pytest.fixture(params=[Bare, cupy_array, torch_array], ids=["interface", "cupy", "torch"])
def on_gpu(request):
    return request.param


def same(found, expected, tolerance=1e-9):
    np.testing.assert_array_equal(found.indices, expected.indices)
    assert found.values.dtype == expected.values.dtype
    np.testing.assert_allclose(found.values, expected.values, atol=tolerance * N)
    assert found.certificate.verdict == expected.certificate.verdict


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_one_signal(on_gpu, dtype):
    x = tones(N, PARTS, dtype)
    tolerance = 1e-9 if dtype == np.complex128 else 1e-5
    there = on_gpu(x)
    for options in ({}, {"device": "auto"}, {"device": "cuda"}, {"device": "cuda:0"}):
        found = sparsefft.fft(there, k=4, **options)
        same(found, sparsefft.fft(x, k=4), tolerance)
        if dtype == np.complex128:
            assert found.report.device == "gpu"
    same(sparsefft.Plan(N, 4, device="cuda").transform(there), sparsefft.fft(x, k=4), tolerance)
    same(sparsefft.fft(there), sparsefft.fft(x), tolerance)
    same(sparsefft.fft(there, k=4, norm="ortho"), sparsefft.fft(x, k=4, norm="ortho"), tolerance)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_real_signals(on_gpu, dtype):
    x = tones(N, PARTS).real.astype(dtype)
    tolerance = 1e-9 if dtype == np.float64 else 1e-5
    same(sparsefft.rfft(on_gpu(x), k=4), sparsefft.rfft(x, k=4), tolerance)
    same(sparsefft.fft(on_gpu(x), k=8), sparsefft.fft(x, k=8), tolerance)


@pytest.mark.parametrize("algorithm", ["exact", "robust", "vote", "comb-vote", "dense"])
def test_algorithms(on_gpu, algorithm):
    x = tones(N, PARTS)
    found = sparsefft.fft(on_gpu(x), k=4, algorithm=algorithm)
    expected = sparsefft.fft(x, k=4, algorithm=algorithm)
    same(found, expected, 1e-6)
    assert "gpu" in found.report.device
    assert found.report.algorithm == expected.report.algorithm


def test_prime_length(on_gpu):
    n = 65_537
    x = tones(n, PARTS)
    found = sparsefft.fft(on_gpu(x), k=4)
    np.testing.assert_array_equal(found.indices, sorted(PARTS))
    assert "gpu" in found.report.device


def test_batches(on_gpu):
    x = np.stack([tones(N, {7 * i + 1: 1.0, 3000 + i: 0.5}) for i in range(6)])
    found = sparsefft.fft(on_gpu(x), k=2)
    assert found.shape == (6,)
    for one, expected in zip(found, sparsefft.fft(x, k=2), strict=True):
        same(one, expected)
        assert one.report.device == "gpu"
    found = sparsefft.fft(on_gpu(x.reshape(2, 3, N)), k=2)
    assert found.shape == (2, 3)
    same(found[1, 2], sparsefft.fft(x[5], k=2))
    assert len(sparsefft.fft(on_gpu(np.empty((0, N), complex)), k=2)) == 0


def test_views():
    """Other axes may have any strides; along the axis samples must lie side by side."""
    cupy = pytest.importorskip("cupy")
    x = np.stack([tones(N, {7 * i + 1: 1.0, 3000 + i: 0.5}) for i in range(6)])
    there = cupy.asarray(x)
    for rows in (slice(None, None, 2), slice(None, None, -1), slice(3, 4)):
        for one, expected in zip(sparsefft.fft(there[rows], k=2), sparsefft.fft(x[rows], k=2), strict=True):
            same(one, expected)
    same(sparsefft.fft(there[3], k=2), sparsefft.fft(x[3], k=2))
    same(sparsefft.fft(there.T, k=2, axis=0)[4], sparsefft.fft(x[4], k=2))
    for view, axis in ((there[:, ::2], -1), (there[:, ::-1], -1), (there, 0), (there.real, -1)):
        with pytest.raises(ValueError, match=r"side by side.*ascontiguousarray.*contiguous"):
            sparsefft.fft(view, k=1, axis=axis)
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="side by side"):
        sparsefft.fft(torch_array(x).t(), k=1)
    # Complex numbers of 16 bytes at an address that is only a multiple of eight.
    off = torch.zeros(2 * N + 1, dtype=torch.float64, device="cuda")[1:].view(torch.float64)
    odd = Bare(np.ones(4, complex))
    odd.__cuda_array_interface__ |= {"shape": (N,), "data": (off.data_ptr(), False)}
    with pytest.raises(ValueError, match="aligned"):
        sparsefft.fft(odd, k=1)


def test_host_arrays():
    x = np.stack([tones(N, PARTS), tones(N, {77: 1.0})])
    found = sparsefft.fft(x[0], k=4, device="cuda")
    same(found, sparsefft.fft(x[0], k=4))
    assert found.report.device == "gpu"
    for one, expected in zip(sparsefft.fft(x, k=4, device="cuda:0"), sparsefft.fft(x, k=4), strict=True):
        same(one, expected)
    plan = sparsefft.Plan(N, 4, device="cuda")
    same(plan.transform(x[0].astype(np.complex64)), sparsefft.fft(x[0].astype(np.complex64), k=4), 1e-5)
    assert sparsefft.fft(x[0], k=4, device="cpu").report.device == "cpu"
    assert sparsefft.fft(x[0], k=4).report.device == "cpu"


def test_streams_are_waited_for():
    """The samples are written late, behind a tenth of a second of work on a stream of its own."""
    x = tones(N, PARTS)
    old, new = Bare(np.ones(N, complex)), Bare(x)
    cuda = driver()
    big = 1 << 30
    room = cuda.allocate(2 * big)
    stream = cuda.stream()
    for _ in range(100):
        half = ctypes.c_uint64(room.value + big)
        cuda("cuMemcpyDtoDAsync_v2", room, half, ctypes.c_size_t(big), stream)
    cuda("cuMemcpyDtoDAsync_v2", old.at, new.at, ctypes.c_size_t(16 * N), stream)
    old.__cuda_array_interface__ |= {"stream": stream.value}
    same(sparsefft.fft(old, k=4), sparsefft.fft(x, k=4))
    cuda("cuMemFree_v2", room)
    cuda("cuStreamDestroy_v2", stream)


def test_streams_of_torch():
    torch = pytest.importorskip("torch")
    x = tones(N, PARTS)
    new, there = torch_array(x), torch.ones(N, dtype=torch.complex128, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(200_000_000)
        there.copy_(new)
        same(sparsefft.fft(there, k=4), sparsefft.fft(x, k=4))
    # A version of the interface that knows no streams: the default stream counts.
    there.fill_(1.0)
    torch.cuda.synchronize()
    torch.cuda._sleep(200_000_000)
    there.copy_(new)
    bare = Bare(np.ones(4, complex), version=2)
    bare.__cuda_array_interface__ |= {"shape": (N,), "data": (there.data_ptr(), False)}
    same(sparsefft.fft(bare, k=4), sparsefft.fft(x, k=4))


def test_threads_share_a_plan(on_gpu):
    plan = sparsefft.Plan(N, 2)
    signals = [tones(N, {100 * i + 7: 1.0, 50_000 + i: 0.5}) for i in range(8)]
    there = [on_gpu(x) for x in signals]
    found = [None] * len(signals)

    def work(i):
        for _ in range(20):
            found[i] = plan.transform(there[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(signals))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x, one in zip(signals, found, strict=True):
        same(one, sparsefft.fft(x, k=2))


def test_memory_is_given_back(on_gpu):
    there = on_gpu(tones(N, PARTS))
    sparsefft.fft(there, k=4)
    before = driver().free_memory()
    for i in range(500):
        sparsefft.fft(there, k=4, seed=i % 40)
        sparsefft.fft(there, k=4)
    sparsefft._fft._forget_plans()
    # Plans that are kept, and the driver's pools, which grow in steps.
    assert before - driver().free_memory() < 256 << 20


def test_bad_arrays(on_gpu):
    for kind in (np.int16, np.float16):
        with pytest.raises(TypeError, match="must be float32, float64, complex64 or complex128"):
            sparsefft.fft(on_gpu(np.ones(N, kind)), k=1)
    with pytest.raises(ValueError, match="no samples"):
        sparsefft.fft(on_gpu(np.empty(0, complex)), k=1)
    with pytest.raises(ValueError, match="must have at least one dimension"):
        sparsefft.fft(on_gpu(np.ones((), complex)), k=1)
    with pytest.raises(np.exceptions.AxisError):
        sparsefft.fft(on_gpu(np.ones(N, complex)), k=1, axis=3)
    with pytest.raises(TypeError, match="x is complex"):
        sparsefft.rfft(on_gpu(np.ones(N, complex)), k=1)
    with pytest.raises(ValueError, match="cuda:7.*lies on cuda:0"):
        sparsefft.fft(on_gpu(np.ones(N, complex)), k=1, device="cuda:7")
    with pytest.raises(ValueError, match=r"device = 'cpu'.*x\.get\(\)"):
        sparsefft.fft(on_gpu(np.ones(N, complex)), k=1, device="cpu")
    with pytest.raises(ValueError, match="NaN|finite"):
        sparsefft.fft(on_gpu(np.full(N, np.nan, complex)), k=1)
    with pytest.raises(ValueError):
        sparsefft.Plan(N, 1).transform(on_gpu(np.ones(N // 2, complex)))


def test_wrong_addresses():
    x = Bare(np.ones(N, complex))
    for change, message in (
        ({"data": (0x7F0000000000, False)}, "no address in the memory of a GPU"),
        ({"shape": (1 << 40,)}, "no address in the memory of a GPU"),
        ({"typestr": ">c16"}, "complex128"),
        ({"mask": x}, "mask"),
        ({"data": None}, "usable 'data'"),
        ({"strides": (16, 16)}, "usable 'strides'"),
        ({"stream": 0}, "usable 'stream'"),
    ):
        bad = Bare(np.ones(N, complex))
        bad.__cuda_array_interface__ |= change
        with pytest.raises((TypeError, ValueError), match=message):
            sparsefft.fft(bad, k=1)
    # The GPU is as usable as before.
    assert sparsefft.fft(x, k=1).indices.tolist() == [0]


def test_no_such_gpu():
    with pytest.raises(RuntimeError, match="there is no GPU number 99"):
        sparsefft.fft(np.ones(N, complex), k=1, device="cuda:99")


def test_a_forked_child_says_no():
    """CUDA does not survive a fork; the child hears so and lives on."""
    sparsefft.fft(Bare(np.ones(N, complex)), k=1)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            sparsefft.fft(np.ones(N, complex), k=1, device="cuda")
        except RuntimeError as error:
            code = 0 if "forked child" in str(error) else 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
