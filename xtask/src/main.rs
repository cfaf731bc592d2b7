//! Checks and measurements that are not tests.

fn main() {}
