//! The library's own file `team.rs`, compiled with loom's atomics; its tests under `cfg(loom)` are the models.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --manifest-path models/Cargo.toml`, or `cargo xtask sanitize`.
#![allow(dead_code)] // the models use a part

#[path = "../../crates/sparsefft/src/cpu/team.rs"]
mod team;
#[path = "../../crates/sparsefft/src/cpu/ticks.rs"]
mod ticks;
