#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| attn_fuzz::specs(data));
