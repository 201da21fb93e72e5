"""Memory does not grow with the number of calls."""

import gc
import os

import numpy as np

import sparsefft


def resident():
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_no_growth_over_many_calls():
    x = np.exp(2j * np.pi * (5 * np.arange(4096) % 4096) / 4096)
    batch = np.stack([x.real, x.imag])
    plan = sparsefft.Plan(4096, 1)

    def once():
        spectrum = plan.transform(x)
        indices, values = spectrum
        assert spectrum.certificate.is_certified

    def rarely():
        sparsefft.fft(batch, k=2)
        sparsefft.fft_from(lambda i: x[i], 4096, 1)
        spectrum = sparsefft.rfft(x.real, k=1)
        spectrum.to_dense()
        spectrum.synthesize(0, 10)
        repr(spectrum)
        findings = sparsefft.find(batch[0], fs=1e3, seed="random")
        findings.to_dict(), repr(findings), findings.lines[:]
        repr(sparsefft.tones(x, 1e3))
        sparsefft.find(np.arange(1000.0))
        try:
            sparsefft.fft(x, k=-1)
        except ValueError:
            pass

    for _ in range(5_000):
        once()
    for _ in range(50):
        rarely()
    gc.collect()
    before = resident()
    for _ in range(100_000):
        once()
    for _ in range(1_000):
        rarely()
    gc.collect()
    # One leaked object of 64 bytes per call would be 6.4 MB.
    assert resident() - before < 3 << 20
