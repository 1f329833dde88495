//! Kernels over rows of KV formats compile.

extern crate attn_core as attn;

use attn::{
    dtype::{Dtype, Dtypes},
    expr::Variant,
    lang::{
        KvFormat, Packed, PackedMut,
        kv_format::{DescribedKvFormat, EncodeRow, KvFormatDesc, KvFormats, desc},
    },
    spec::{DecodeBackend, HeadDimVo, KernelKind, PrefillBackend},
};
use attn_kernels::{
    compile::Compiler,
    kernel_traits::{KernelTraits, KernelTraitsRequest},
    splice::{KernelSource, OpSource, Unit},
};
use attn_variants as _;

/// Eight bits for each element, and one f32 scale for each token and head.
#[derive(Clone, attn_macros::VariantParams)]
pub struct Int8;

impl KvFormat for Int8 {
    fn code_bytes(&self, dim: i32) -> i32 {
        dim
    }
    fn side_bytes(&self, _dim: i32) -> i32 {
        4
    }
    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, side: &mut PackedMut<'_>, _kv_head: i32) {
        let scale = x.max_abs(0, x.dim()) / 127.0;
        side.set_f32(0, scale);
        codes.pack8(
            0,
            x,
            0,
            x.dim(),
            |_, v| if scale == 0.0 { 0 } else { (v / scale).round_ties_even() as i32 as u32 },
        );
    }
    fn decode(&self, codes: Packed<'_>, side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        let (words, scale) = (codes.words2(d), side.f32(0));
        let mut out = [0.0; 8];
        for i in 0..8 {
            out[i as usize] = ((words[(i / 4) as usize] << (24 - 8 * (i % 4)) as u32) as i32 >> 24) as f32 * scale;
        }
        out
    }
}

static INT8: KvFormatDesc = KvFormatDesc {
    name: "int8",
    type_name: "Int8",
    doc: "",
    file: "",
    line: 0,
    fields: &[],
    encode: "template <class R, class C, class S>
ATTN_FN void encode(const R& x, C& codes, S& side, int kv_head) const {
  const float scale = x.max_abs(0, x.dim()) / 127.0f;
  side.set_f32(0, scale);
  codes.pack8(0, x, 0, x.dim(), [&](int d, float v) { return scale == 0.0f ? 0u : u32(int(round_ties_even(v / scale))); });
}
",
    decode: "template <class C, class S>
ATTN_FN Array<float, 8> decode(C codes, S side, int kv_head, int d) const {
  Array<u32, 2> words = codes.words2(d);
  float scale = side.f32_at(0);
  Array<float, 8> out = {};
  ATTN_UNROLL
  for (int i = 0; i < 8; ++i) out.set(i, mul_rn(float(int(words[i / 4] << (24 - 8 * (i % 4))) >> 24), scale));
  return out;
}
",
    divisors: &[],
    device_fns: &[],
    types: &[],
    consts: &[],
    make: desc::make::<Int8>,
};

impl DescribedKvFormat for Int8 {
    fn desc() -> &'static KvFormatDesc {
        &INT8
    }
}

#[test]
fn int8() {
    attn::registry::register(attn_variants::variants());
    let only = std::env::var("ONLY").unwrap_or_default();
    let formats = KvFormats::both(Int8);
    let dtypes = Dtypes { format: Some(formats.id()), ..Dtypes::new(Dtype::Bf16, Dtype::U8) };
    for (arch, expr, kind, prefill, decode, dim) in [
        ("90a", "causal", KernelKind::Decode, PrefillBackend::Sm80, None, 128),
        ("90a", "causal + rope + soft_cap(cap=30)", KernelKind::Decode, PrefillBackend::Sm80, None, 64),
        ("75", "causal", KernelKind::Decode, PrefillBackend::CudaCores, Some(DecodeBackend::CudaCores), 128),
        ("75", "causal + rope", KernelKind::Prefill, PrefillBackend::CudaCores, Some(DecodeBackend::CudaCores), 128),
        ("80", "causal + rope", KernelKind::Prefill, PrefillBackend::Sm80, None, 128),
        ("90a", "causal", KernelKind::Prefill, PrefillBackend::Sm90, None, 128),
        ("90a", "causal + rope", KernelKind::Mixed, PrefillBackend::Sm80, None, 128),
    ] {
        let variant = Variant::parse(expr).unwrap().with_kv_formats(formats.clone());
        let request = KernelTraitsRequest {
            head_dim_vo: HeadDimVo::Same,
            prefill,
            decode,
            ..KernelTraitsRequest::new(kind, dim, dtypes, arch.parse().unwrap()).with_hooks([&variant])
        };
        let traits = KernelTraits::choose(&request).unwrap();
        let source = KernelSource::build(&variant, &traits).unwrap();
        if !only.is_empty() && !source.name.contains(&only) {
            continue;
        }
        std::fs::write("/tmp/unit.cu", &source.text).unwrap();
        let compiled = Compiler::find().unwrap().compile(&source.name, &source.text, source.arch());
        match compiled {
            Ok(compiled) => eprintln!("{}: {:?} smem {}", source.name, compiled.resources(), traits.smem_bytes()),
            Err(error) => panic!("{}: {error}", source.name),
        }
    }
    let variant = Variant::parse("causal + rope").unwrap().with_kv_formats(formats.clone());
    for source in [
        OpSource::encode(&variant, Dtype::Bf16, "90a".parse().unwrap()).unwrap(),
        OpSource::gather_packed(&variant, Dtype::Bf16, "90a".parse().unwrap()).unwrap(),
    ] {
        let compiled = Compiler::find().unwrap().compile(&source.name, &source.text, source.arch());
        match compiled {
            Ok(compiled) => eprintln!("{}: {:?}", source.name, compiled.resources()),
            Err(error) => panic!("{}: {error}", source.name),
        }
    }
}
