//! What the processor does best: branch-free mathematics and the one place where its width is
//! chosen.

pub(crate) mod math;
pub(crate) mod threads;
