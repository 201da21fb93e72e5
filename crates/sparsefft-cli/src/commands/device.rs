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

impl Target {
    /// Carries a plan out.
    #[cfg(feature = "cuda")]
    pub fn transform<S: Samples>(self, plan: &Plan, signal: &S) -> Result<Spectrum> {
        use sparsefft::cuda::{CudaPlan, Device, worth_opening};
        let on = |i: u32| -> Result<Spectrum> {
            let device = Device::new(i)?;
            let spectrum =
                CudaPlan::new(&device, plan.problem().clone())?.transform_samples(signal)?;
            note(&format!("computed on the {}", spectrum.report().place));
            Ok(spectrum)
        };
        match self {
            Target::Cuda(i) => on(i),
            Target::Auto if worth_opening(plan) && sparsefft::cuda::available().is_ok() => on(0),
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
