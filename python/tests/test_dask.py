"""Chunked arrays on a real local cluster."""

import dask.array as da
import numpy as np
import pytest
from conftest import tones
from dask.distributed import Client, LocalCluster

import sparsefft.dask


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dask")
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            local_directory=str(folder),
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def signals(n):
    return np.stack(
        [[tones(n, {10 * i + j + 1: 1.0, n - 3: 0.5}) for j in range(2)] for i in range(4)]
    )


def test_two_processes(client):
    n = 1 << 14
    x = signals(n)
    spectra = sparsefft.dask.fft(da.from_array(x, chunks=(1, 1, n)), k=2, norm="forward")
    assert spectra.shape == (4, 2)
    assert spectra.numblocks == (4, 2)
    done = spectra.compute()
    for i in range(4):
        for j in range(2):
            assert done[i, j].indices.tolist() == [10 * i + j + 1, n - 3]
            assert done[i, j].certificate.is_certified
    pids = client.run(lambda: __import__("os").getpid())
    assert len(set(pids.values())) == 2


def test_the_axis_may_be_any(client):
    n = 1 << 12
    x = np.moveaxis(signals(n), -1, 0)
    lazy = da.from_array(x, chunks=(n, 2, 2))
    done = sparsefft.dask.fft(lazy, k=2, axis=0).compute()
    assert done.shape == (4, 2)
    assert done[3, 1].indices.tolist() == [32, n - 3]
    real = sparsefft.dask.rfft(lazy.real, k=1, axis=0, workers=1).compute()
    assert real[0, 0].indices.tolist() == [1]
    assert real[0, 0].half
    single = sparsefft.dask.fft(da.from_array(x[:, 0, 0], chunks=n), k=2).compute()
    assert single.item().indices.tolist() == [1, n - 3]


def test_bad_arguments_are_seen_at_once():
    x = da.ones((4, 64), chunks=(2, 32))
    with pytest.raises(ValueError, match=r"x has 2 chunks along axis 1.*rechunk\({1: -1}\)"):
        sparsefft.dask.fft(x, 1)
    with pytest.raises(TypeError, match="x must be a dask array"):
        sparsefft.dask.fft(np.ones(4), 1)
    with pytest.raises(IndexError, match="axis"):
        sparsefft.dask.fft(x, 1, axis=2)
    with pytest.raises(TypeError, match="k must be"):
        sparsefft.dask.fft(x.rechunk({1: -1}), 1.5)
