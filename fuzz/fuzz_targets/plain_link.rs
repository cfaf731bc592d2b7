#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| farhop_testkit::fuzz::plain_link(bytes));
