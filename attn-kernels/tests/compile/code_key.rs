//! Texts that compile to the same code have one code key, and two keys in the cache.

use attn_kernels::cache::CubinCache;
use attn_kernels::compile::{Arch, Compiled};
use attn_kernels::splice::Unit;

/// A kernel that scales an array by the numbers of a table.
#[derive(Debug)]
struct Scale(String);

impl Unit for Scale {
    fn text(&self) -> &str {
        &self.0
    }
    fn name(&self) -> &str {
        "scale"
    }
    fn arch(&self) -> Arch {
        Arch::for_device(9, 0)
    }
}

#[test]
fn a_renamed_constant_has_the_same_code_and_another_number_not() {
    let Some(compiler) = crate::stock::compiler() else { return };
    let text = "__device__ constexpr float BY[4] = {1.f, 2.f, 4.f, 7.f};\n\
        extern \"C\" __global__ void scale(float* x) { x[threadIdx.x] *= 3.f * BY[threadIdx.x & 3]; }";
    let scale = Scale(text.to_owned());
    let renamed = Scale(text.replace("BY", "FACTORS"));
    let others = [text.replace("3.f", "5.f"), text.replace("7.f", "8.f")].map(Scale);
    let dir = tempfile::tempdir().expect("a folder");
    let cache = CubinCache::at(dir.path(), u64::MAX);
    let code = |unit: &Scale| {
        let compile = || compiler.compile(unit.name(), unit.text(), unit.arch());
        cache.get_or_compile(&unit.key(), compile).expect("it compiles").0.code_key().expect("a cubin")
    };
    assert_ne!(scale.key(), renamed.key());
    assert_eq!(code(&scale), code(&renamed));
    assert!(others.iter().all(|other| code(other) != code(&scale)));

    let mut entries: Vec<_> = CubinCache::at(dir.path(), u64::MAX).entries().map(|(key, _)| key).collect();
    let mut keys = [&scale, &renamed, &others[0], &others[1]].map(Unit::key);
    entries.sort();
    keys.sort();
    assert_eq!(entries, keys);
}

#[test]
fn what_is_no_cubin_has_no_code_key() {
    let compiled = Compiled { cubin: b"text".as_slice().into(), log: String::new(), compiler: String::new(), ms: 0.0 };
    assert_eq!(compiled.code_key(), None);
}
