//! Test tools: a pair of layers over a lossy pipe, oracles, generators.
