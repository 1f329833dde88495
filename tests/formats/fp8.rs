//! fp8 conversions of ops on GPUs without fp8 instructions (`attn-kernels/cuda/ops/fp8.cuh`), compiled for the host,
//! against Rust.

use attn_core::lang::{F8E4M3, F8E5M2};
use attn_core::tensor::Element;
use attn_tests::host;
use libloading::Library;

const INTERFACE: &str = "
extern \"C\" {
unsigned to_e4m3(float x) { return e4m3_of_float(x); }
unsigned to_e5m2(float x) { return e5m2_of_float(x); }
float from_e4m3(unsigned x) { return lang::float_of_e4m3(x); }
}
";

#[test]
fn fp8_conversions_equal_rust() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = host::templates(&["lang/lang.cuh", "ops/fp8.cuh"]);
    let library = host::library(folder.path(), &format!("{text}\n{INTERFACE}"));
    let convert = |library: &Library, name: &str, x: f32| {
        // SAFETY: `INTERFACE` defines the name with this signature.
        unsafe { library.get::<unsafe extern "C" fn(f32) -> u32>(name.as_bytes()).expect(name)(x) }
    };
    // every value of the upper 20 bits and its neighbours, which include all ties
    for upper in 0..1u32 << 20 {
        for x in [upper << 12, upper << 12 | 1, (upper << 12).wrapping_sub(1)].map(f32::from_bits) {
            let (e4m3, e5m2) = (<F8E4M3 as Element>::from_f32(x), <F8E5M2 as Element>::from_f32(x));
            for (name, want, nan) in
                [("to_e4m3", e4m3.0, e4m3.to_f32().is_nan()), ("to_e5m2", e5m2.0, e5m2.to_f32().is_nan())]
            {
                let got = convert(&library, name, x) as u8;
                assert!(got == want || nan && got == 0x7f, "{name}({x:e}) is {got:#x}, not {want:#x}");
            }
        }
    }
    for code in 0..=255u8 {
        // SAFETY: `INTERFACE` defines the name with this signature.
        let got = unsafe { library.get::<unsafe extern "C" fn(u32) -> f32>(b"from_e4m3").expect("there")(code.into()) };
        let want = F8E4M3(code).to_f32();
        assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{code:#x} is {got}, not {want}");
    }
}
