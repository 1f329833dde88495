//! KV formats by hand, for tests of this crate: what `#[kv_format]` makes, without CUDA text.

use super::{DescribedKvFormat, EncodeRow, KvFormat, KvFormatDesc, Packed, PackedMut, desc::make, extents::Extents};
use crate::VariantParams;
use crate::lang::Tensor2;
use crate::registry::Registry;

/// Eight bits for each element, and one f32 scale for each token and head.
#[derive(Clone, VariantParams)]
pub(crate) struct Int8;

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
            |_, v| {
                if scale == 0.0 { 0 } else { (v / scale).round_ties_even() as i32 as u32 }
            },
        );
    }
    fn decode(&self, codes: Packed<'_>, side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        std::array::from_fn(|i| f32::from(codes.u8(d + i as i32) as u8 as i8) * side.f32(0))
    }
}

/// Eight bits for each element, in steps that the caller measured for each channel; the record begins with `pad` bytes.
#[derive(Clone, VariantParams)]
pub(crate) struct Channels {
    /// Bytes in front of the codes, which nothing reads.
    #[default(8)]
    #[require(pad >= 0 && pad <= head_dim)]
    pub(crate) pad: i32,
    /// The step of each channel.
    #[shape(kv_heads, head_dim)]
    pub(crate) scales: Tensor2<f32>,
}

impl KvFormat for Channels {
    fn code_bytes(&self, dim: i32) -> i32 {
        self.pad + dim
    }
    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, _side: &mut PackedMut<'_>, kv_head: i32) {
        codes.pack8(self.pad, x, 0, x.dim(), |d, v| {
            (v / self.scales[[kv_head, d]]).round_ties_even().clamp(-127.0, 127.0) as i32 as u32
        });
    }
    fn decode(&self, codes: Packed<'_>, _side: Packed<'_>, kv_head: i32, d: i32) -> [f32; 8] {
        let at = |d: i32| f32::from(codes.u8(self.pad + d) as u8 as i8) * self.scales[[kv_head, d]];
        std::array::from_fn(|i| at(d + i as i32))
    }
}

const fn described<F: KvFormat + DescribedKvFormat>(name: &'static str, type_name: &'static str) -> KvFormatDesc {
    KvFormatDesc {
        name,
        type_name,
        doc: "A format of tests.",
        file: file!(),
        line: line!(),
        fields: F::FIELDS,
        encode: "",
        decode: "",
        scale: "",
        zero: "",
        level: "",
        extents: Extents::NOTHING,
        divisors: &[],
        device_fns: &[],
        types: &[],
        consts: &[],
        make: make::<F>,
    }
}

impl DescribedKvFormat for Int8 {
    fn desc() -> &'static KvFormatDesc {
        static DESC: KvFormatDesc = described::<Int8>("int8", "Int8");
        &DESC
    }
}

impl DescribedKvFormat for Channels {
    fn desc() -> &'static KvFormatDesc {
        static DESC: KvFormatDesc = CHANNELS;
        &DESC
    }
}

/// The descriptor of [`Channels`].
pub(crate) const CHANNELS: KvFormatDesc = described::<Channels>("channels", "Channels");

/// A registry with both.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::empty();
    for desc in crate::kv_formats![Int8, Channels] {
        registry.register_kv_format(desc).expect("two names");
    }
    registry
}
