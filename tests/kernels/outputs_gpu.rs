//! Outputs of another type than queries on a GPU, whole grids of them. Skipped without one.

use attn_testing::check;
use attn_tests::gpu::gpu;

use crate::outputs;

#[test]
fn every_kernel_family_writes_other_types() {
    attn::registry::register(attn::stock::variants()).expect("no two share a name");
    let Some(engine) = gpu() else { return };
    for case in outputs::cases() {
        let result = check(&case, &engine).expect("it runs");
        assert!(result.passed, "{}: {}", case.title(), result.why());
    }
}
