//! The GPU of the tests.

use sparsefft::cuda::Device;
use std::io::Write;

/// GPU number 0, or `None` where there is none; with `SPARSEFFT_REQUIRE_CUDA=1` that is a failure.
pub fn device() -> Option<Device> {
    match Device::new(0) {
        Ok(device) => Some(device),
        Err(error) => {
            let required = std::env::var("SPARSEFFT_REQUIRE_CUDA").is_ok_and(|v| v == "1");
            assert!(!required, "SPARSEFFT_REQUIRE_CUDA=1, but: {error}");
            // Past the test harness, which hides what passing tests print.
            let _ = writeln!(std::io::stderr(), "SKIPPED, no GPU: {error}");
            None
        }
    }
}
