#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| farhop_testkit::fuzz::ieee80211(bytes));
