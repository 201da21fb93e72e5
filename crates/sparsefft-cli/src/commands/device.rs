//! Where a transform is computed: `--device auto|cpu|cuda[:i]`.

#[cfg(feature = "cuda")]
use crate::output::progress::note;
use anyhow::Result;
use sparsefft::{Plan, Samples, Spectrum};
use std::str::FromStr;

/// A choice of `--device`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A GPU where one is there and the work is worth its start, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// The GPU with this number.
    Cuda(u32),
}

impl FromStr for Target {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Target::Auto),
            "cpu" => Ok(Target::Cpu),
            "cuda" => Ok(Target::Cuda(0)),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|i| i.parse().ok())
                .map(Target::Cuda)
                .ok_or_else(|| format!("unknown device '{text}'; one of auto, cpu, cuda, cuda:1")),
        }
    }
}

/// Whether a GPU would be done sooner with samples in ordinary memory, its opening included. Predictions
/// are rough: it must save half of the time.
#[cfg(feature = "cuda")]
fn worth_a_gpu(plan: &Plan) -> bool {
    let here = plan.recipe().estimates.first().map_or(0.0, |e| e.nanoseconds);
    let there = sparsefft::cuda::predict(plan)
        .and_then(|cost| Some(cost.opening + cost.from_host?))
        .unwrap_or(f64::INFINITY);
    2.0 * there < here
}

impl Target {
    /// Carries a plan out.
    #[cfg(feature = "cuda")]
    pub fn transform<S: Samples>(self, plan: &Plan, signal: &S) -> Result<Spectrum> {
        use sparsefft::cuda::{CudaPlan, Device};
        let on = |i: u32| -> Result<Spectrum> {
            let device = Device::new(i)?;
            let spectrum =
                CudaPlan::new(&device, plan.problem().clone())?.transform_samples(signal)?;
            note(&format!("computed on the {}", spectrum.report().place));
            Ok(spectrum)
        };
        match self {
            Target::Cuda(i) => on(i),
            Target::Auto if worth_a_gpu(plan) && sparsefft::cuda::available().is_ok() => on(0),
            _ => Ok(plan.transform(signal)?),
        }
    }

    /// Carries a plan out.
    #[cfg(not(feature = "cuda"))]
    pub fn transform<S: Samples>(self, plan: &Plan, signal: &S) -> Result<Spectrum> {
        if let Target::Cuda(_) = self {
            anyhow::bail!(
                "this program was built without GPU support; build it with --features cuda"
            );
        }
        Ok(plan.transform(signal)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "cuda")]
    #[test]
    fn short_work_stays_on_the_cpu() {
        use sparsefft::{Noise, Problem};
        let plan =
            |n: u64, k: u64| Plan::new(Problem::new(n).sparsity(k).noise(Noise::Exact)).unwrap();
        assert!(!worth_a_gpu(&plan(1 << 22, 50)));
        assert!(!worth_a_gpu(&plan(1 << 27, 43_000)));
        // A prime length stays there however long it takes.
        assert!(!worth_a_gpu(&plan((1 << 31) - 1, 1_000_000)));
    }

    #[test]
    fn devices_have_names() {
        assert_eq!("auto".parse(), Ok(Target::Auto));
        assert_eq!("cpu".parse(), Ok(Target::Cpu));
        assert_eq!("cuda".parse(), Ok(Target::Cuda(0)));
        assert_eq!("cuda:3".parse(), Ok(Target::Cuda(3)));
        for bad in ["", "gpu", "cuda:", "cuda:x", "cuda:-1"] {
            assert!(bad.parse::<Target>().unwrap_err().contains("one of auto"), "{bad}");
        }
    }
}
