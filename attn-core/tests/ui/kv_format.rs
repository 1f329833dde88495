extern crate attn_core as attn;

use attn::lang::{EncodeRow, KvFormat, Packed, PackedMut, approx};
use attn::{VariantParams, device_fn, kv_format};

#[device_fn]
fn squeezed(x: f32) -> f32 {
    x.tanh()
}

#[derive(Clone, VariantParams)]
struct Inexact;

#[kv_format]
impl KvFormat for Inexact {
    fn code_bytes(&self, dim: i32) -> i32 {
        dim
    }
    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, side: &mut PackedMut<'_>, _kv_head: i32) {
        let most = x.max_abs(0, x.dim());
        side.set_f32(0, most.exp());
        codes.pack8(0, x, 0, x.dim(), |_, v| (v * approx::recip(x.max_abs(0, x.dim()))) as u32);
    }
    fn decode(&self, codes: Packed<'_>, side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        let words = codes.words2(d);
        [words[2] as f32 * side.f32(at.kv_pos); 8]
    }
}

#[derive(Clone, VariantParams)]
struct InexactHelper;

#[kv_format]
impl KvFormat for InexactHelper {
    fn code_bytes(&self, dim: i32) -> i32 {
        dim
    }
    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, _side: &mut PackedMut<'_>, _kv_head: i32) {
        codes.pack8(0, x, 0, x.dim(), |_, v| squeezed(v) as u32);
    }
    fn decode(&self, codes: Packed<'_>, _side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        [codes.u8(d) as f32; 8]
    }
}

#[derive(Clone, VariantParams)]
struct Four;

#[kv_format(name = "Four")]
impl KvFormat for Four {
    fn code_bytes(&self, dim: i32) -> i32 {
        dim
    }
    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, side: &mut PackedMut<'_>, _kv_head: i32) {
        codes.pack12(0, x, 0, x.dim(), |_, v| v as u32);
        side.set_f32(0, x.at(0));
    }
    fn decode(&self, codes: Packed<'_>, _side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 4] {
        [codes.u8(d) as f32; 4]
    }
}

fn main() {}
