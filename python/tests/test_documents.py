"""Everything that a reader may copy runs: doctests, the guides, the notebook; the types hold."""

import doctest
import importlib
import pathlib
import re
import subprocess
import sys

import nbclient
import nbformat
import numpy as np
import pytest

import sparsefft

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = [
    "", "._buffer", "._fft", "._find", "._findings", "._read", "._record", "._spectrum", "._tones",
    ".dense", ".dask",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    module = importlib.import_module("sparsefft" + name)
    result = doctest.testmod(module, extraglobs={"np": np, "sparsefft": sparsefft})
    assert result.attempted > 0
    assert result.failed == 0


def blocks(path):
    return re.findall(r"^```python\n(.*?)^```", path.read_text(), re.S | re.M)


GUIDES = ["README.md", "python/README.md", "docs/python.md", "docs/distributed.md"]


@pytest.mark.parametrize("name", GUIDES)
def test_guides(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = blocks(ROOT / name)
    assert found, f"{name} has no Python examples"
    names = {}
    for number, block in enumerate(found):
        exec(compile(block, f"{name}, block {number + 1}", "exec"), names)  # noqa: S102


def test_notebook(tmp_path):
    path = ROOT / "python" / "examples" / "peaks.ipynb"
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("text/html" in output.get("data", {}) for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs)
    # The stored notebook shows what a reader would see.
    stored = nbformat.read(path, as_version=4)
    assert any(cell.get("outputs") for cell in stored.cells)


def run_mypy(*arguments):
    command = [sys.executable, "-m", "mypy", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT / "python")


def test_types():
    done = run_mypy("--config-file", "pyproject.toml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_that_users_see(tmp_path):
    (tmp_path / "user.py").write_text(
        """
import numpy as np
import sparsefft
x = np.ones(8)
indices, values = sparsefft.fft(x, k=1)
reveal_type(sparsefft.fft(x, k=1))
two: np.ndarray[tuple[int, int], np.dtype[np.float64]] = np.ones((2, 8))
reveal_type(sparsefft.rfft(two, k=1, norm="ortho"))
sparsefft.fft(np.asarray([[1.0]]), k=1)[0]
reveal_type(sparsefft.Plan(8, 1).transform(x).certificate.is_certified)
reveal_type(sparsefft.fft_from(lambda i: np.ones(len(i)), 8, 1).freqs())
reveal_type(sparsefft.fft([1.0, 2.0]))
reveal_type(sparsefft.fft([[1.0, 2.0], [3.0, 4.0]]))
signal = sparsefft.read("x.wav")
reveal_type(sparsefft.fft(signal))
found = sparsefft.find(signal, at_most=3)
reveal_type(found.lines.frequency)
reveal_type(found.lines[0].frequency)
reveal_type(found.lines[:2])
reveal_type(found.bursts[0].span)
between = sparsefft.tones(x, fs=1e3)
reveal_type(between.snr_db)
reveal_type(between[0].phase)
reveal_type(sparsefft.fft(two).flat[0])
sparsefft.fft(x, k="1")
sparsefft.fft(x, k=1, algorithm="fast")
sparsefft.fft(x, 1)
sparsefft.find(x, effort="some")
"""
    )
    done = run_mypy("--strict", str(tmp_path / "user.py"), "--cache-dir", str(tmp_path / "cache"))
    shown = re.findall(r'Revealed type is "(.*?)"', done.stdout)
    expected = (
        "SparseSpectrum SparseSpectra bool float64 SparseSpectrum SparseSpectra SparseSpectrum "
        "float64 float Lines slice float64 float SparseSpectrum"
    ).split()
    assert len(shown) == len(expected), done.stdout
    assert all(word in name for word, name in zip(expected, shown, strict=True)), done.stdout
    assert done.stdout.count("error:") == 4, done.stdout


def test_the_package_says_that_it_is_typed():
    assert (pathlib.Path(sparsefft.__file__).parent / "py.typed").exists()
    assert sparsefft.__version__.count(".") == 2
