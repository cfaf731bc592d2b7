//! Fuzzes `farhop_testkit::fuzz::harq_link`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| farhop_testkit::fuzz::harq_link(bytes));
