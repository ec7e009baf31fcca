#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidelog::fuzzing::redo_file(bytes));
