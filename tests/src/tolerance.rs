//! How far results of ops may be from those of the CPU.

use attn_core::dtype::Dtype;

/// The unit in the last place of values near 1.
pub fn ulp(dtype: Dtype) -> f32 {
    match dtype {
        Dtype::F16 => 1.0 / 1024.0,
        Dtype::Bf16 => 1.0 / 128.0,
        Dtype::F32 => 1e-5,
        Dtype::E4m3 => 1.0 / 8.0,
        Dtype::E5m2 => 1.0 / 4.0,
        Dtype::U8 => 1.0,
    }
}

/// Checks that results are near those of the CPU, within a tolerance relative to the value.
///
/// # Panics
/// One differs, or there are more or fewer. The message begins with `what`.
pub fn agree(what: &str, got: &[f32], want: &[f32], tolerance: f32) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let near = (got - want).abs() <= tolerance * want.abs().max(1.0);
        assert!(got == want || got.is_nan() && want.is_nan() || near, "{what}: element {i} is {got}, not {want}");
    }
}
