extern crate attn_core as attn;

use attn::kv_format;
use attn::lang::*;

#[derive(Clone)]
pub struct Bytes;

#[kv_format]
impl KvFormat for Bytes {
    fn code_bytes(&self, dim: i32) -> i32 {
        dim
    }

    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, _side: &mut PackedMut<'_>, _kv_head: i32) {
        codes.pack8(0, x, 0, x.dim(), |_, v| v as u32);
    }

    fn decode(&self, codes: Packed<'_>, _side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        let words = codes.words2(d);
        let mut out = [0.0; 8];
        for i in 0..8 {
            out[i as usize] = (words[(i / 4) as usize] >> (8 * (i % 4)) as u32 & 0xff) as f32;
        }
        out
    }
}

fn main() {}
