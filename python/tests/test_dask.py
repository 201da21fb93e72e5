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
        sparsefft.dask.fft(x, k=1)
    with pytest.raises(TypeError, match="x must be a dask array"):
        sparsefft.dask.fft(np.ones(4), k=1)
    with pytest.raises(IndexError, match="axis"):
        sparsefft.dask.fft(x, k=1, axis=2)
    with pytest.raises(TypeError, match="k must be"):
        sparsefft.dask.fft(x.rechunk({1: -1}), k=1.5)


def noisy(n):
    rng = np.random.default_rng(3)
    x = tones(n, {77: 1.0, 40_000: 0.5, n - 9: 0.25j})
    return x + 0.01 * (rng.standard_normal(n) + 1j * rng.standard_normal(n))


def single(x, k):
    sketch = sparsefft.Sketch(len(x), k)
    sketch.add(0, x)
    return sketch.finish()


def same(found, expected):
    assert found.indices.tolist() == expected.indices.tolist()
    assert found.values.tobytes() == expected.values.tobytes()
    assert found.certificate.is_certified


def test_one_signal_over_many_chunks(client):
    x = noisy(1 << 16)
    expected = single(x, 6)
    assert expected.indices.tolist() == [77, 40_000, (1 << 16) - 9]
    for chunks in (1 << 16, 5000, (1, 60_000, 0, 5535)):
        same(sparsefft.dask.fft_sharded(da.from_array(x, chunks=(chunks,)), 6).compute(), expected)
    real = sparsefft.dask.rfft_sharded(da.from_array(x.real, chunks=9999), 3, norm="forward")
    assert real.compute().indices.tolist() == [9, 77, 25_536]


def test_from_files(client, tmp_path):
    x = noisy(1 << 16)
    expected = single(x, 6)
    parts = []
    for i, part in enumerate(np.array_split(x, 5)):
        np.save(tmp_path / f"{i}.npy", part)
        there = np.load(tmp_path / f"{i}.npy", mmap_mode="r")
        parts.append(da.from_array(there, chunks=7000))
    same(sparsefft.dask.fft_sharded(da.concatenate(parts), 6).compute(), expected)
    zarr = pytest.importorskip("zarr")
    store = zarr.open(
        str(tmp_path / "x.zarr"), mode="w", shape=x.shape, chunks=(8192,), dtype=x.dtype
    )
    store[:] = x
    lazy = da.from_zarr(str(tmp_path / "x.zarr"))
    same(sparsefft.dask.fft_sharded(lazy, 6).compute(), expected)


def die_once(block, marker, block_info=None):
    import os
    import signal
    from pathlib import Path

    if block_info[0]["chunk-location"] == (7,) and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return block


def test_a_worker_that_is_killed(client, tmp_path):
    x = noisy(1 << 16)
    marker = tmp_path / "killed"
    before = set(client.run(lambda: __import__("os").getpid()).values())
    lazy = da.from_array(x, chunks=4096).map_blocks(die_once, str(marker), dtype=x.dtype)
    same(sparsefft.dask.fft_sharded(lazy, 6).compute(), single(x, 6))
    assert marker.exists()
    client.wait_for_workers(2)
    assert set(client.run(lambda: __import__("os").getpid()).values()) != before


def test_bad_shards_are_seen_at_once():
    with pytest.raises(TypeError, match="x must be a dask array"):
        sparsefft.dask.fft_sharded(np.ones(4), 1)
    with pytest.raises(ValueError, match="x has 2 dimensions"):
        sparsefft.dask.fft_sharded(da.ones((4, 4096)), 1)
    x = da.ones(1 << 16, chunks=999)
    with pytest.raises(ValueError, match="unknown size"):
        sparsefft.dask.fft_sharded(x[x > 0], 1)
    for k in (0, None):
        with pytest.raises(ValueError, match="give k"):
            sparsefft.dask.fft_sharded(x, k)


def test_one_drawn_seed_serves_all_chunks():
    n = 1 << 16
    x = tones(n, {77: 1.0})
    long = da.from_array(x, chunks=10_000)
    found = sparsefft.dask.fft_sharded(long, k=4, seed="random").compute(scheduler="threads")
    assert found.indices.tolist() == [77]
    many = da.from_array(np.stack([x, x, x]), chunks=(1, n))
    spectra = sparsefft.dask.fft(many, k=1, seed="random").compute(scheduler="threads")
    assert len({spectrum.report.seed for spectrum in spectra}) == 1
    assert spectra[0].report.seed != found.report.seed
