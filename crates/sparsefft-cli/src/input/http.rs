//! Recordings behind an address: the header, then only the samples that are asked for.

use super::layout::Layout;
use anyhow::{Result, bail};
use num_complex::Complex;
use sparsefft::{Error, Samples};
use sparsefft_http::Object;
use std::sync::Mutex;

/// Headers are shorter than this.
const HEAD: u64 = 4096;

/// An object and the layout of its samples.
pub(super) struct Remote {
    pub(super) object: Object,
    pub(super) layout: Layout,
}

/// Opens an object.
pub(super) fn open(url: &str) -> Result<Object> {
    if url.starts_with("https://") && !cfg!(feature = "https") {
        bail!("this build has no https; build it with --features https, or use http");
    }
    Ok(Object::open(url)?)
}

/// The first bytes.
pub(super) fn head(object: &Object) -> Result<Vec<u8>> {
    let mut bytes = vec![0; HEAD.min(object.size()) as usize];
    object.read(0, &mut bytes)?;
    Ok(bytes)
}

impl Samples for Remote {
    fn len(&self) -> u64 {
        self.layout.n
    }
    fn read(&self, indices: &[u64], out: &mut [Complex<f64>]) -> Result<(), Error> {
        let Layout { offset, stride, .. } = self.layout;
        let places: Vec<u64> = indices.iter().map(|i| offset + i * stride).collect();
        let single = Layout { offset: 0, n: 1, ..self.layout };
        let out = Mutex::new(out);
        self.object.read_each(&places, self.layout.sample_size(), |i, bytes| {
            let mut value = [Complex::ZERO];
            single.read(bytes, &[0], &mut value);
            out.lock().unwrap_or_else(|e| e.into_inner())[i] = value[0];
        })
    }
}

#[cfg(test)]
mod tests {
    #[cfg(not(feature = "https"))]
    #[test]
    fn builds_without_https_say_so() {
        let error = super::open("https://localhost:1/x.npy").err().unwrap().to_string();
        assert!(error.contains("this build has no https"), "{error}");
    }
}
