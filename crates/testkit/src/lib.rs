//! What tests and benches share: signals, oracles, norms, tolerances, seeds.
