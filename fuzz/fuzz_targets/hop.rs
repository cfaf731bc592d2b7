//! Fuzzes `farhop_testkit::fuzz::hop`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| farhop_testkit::fuzz::hop(bytes));
