//! The blocks of quantised tensors, as llama.cpp's `ggml-quants.c` defines them, to f32.

use attn::f16;
use gguf_rs_lib::tensor::TensorType;
use rayon::prelude::*;

/// Elements of a block.
const BLOCK: usize = 32;
/// Blocks of a task.
const TASK: usize = 4096;

/// The elements of a tensor in f32; `None` for a type that this program does not read. Bytes past the last whole block
/// are ignored.
pub(super) fn dequantize(kind: TensorType, bytes: &[u8]) -> Option<Vec<f32>> {
    Some(match kind {
        TensorType::F32 => bytes.as_chunks().0.iter().map(|&x| f32::from_le_bytes(x)).collect(),
        TensorType::F16 => bytes.as_chunks::<2>().0.iter().map(|x| half(x)).collect(),
        // f16 scale, then a signed byte each
        TensorType::Q8_0 => blocks::<{ 2 + BLOCK }>(bytes, |block, out| {
            let scale = half(block);
            out.iter_mut().zip(&block[2..]).for_each(|(x, &q)| *x = f32::from(q as i8) * scale);
        }),
        // f16 scale, f16 minimum, then four bits each: the low halves of the bytes are the first elements
        TensorType::Q4_1 => blocks::<{ 4 + BLOCK / 2 }>(bytes, |block, out| {
            let (scale, least) = (half(block), half(&block[2..]));
            let (low, high) = out.split_at_mut(BLOCK / 2);
            for ((low, high), &byte) in low.iter_mut().zip(high).zip(&block[4..]) {
                *low = f32::from(byte & 15) * scale + least;
                *high = f32::from(byte >> 4) * scale + least;
            }
        }),
        _ => return None,
    })
}

fn half(bytes: &[u8]) -> f32 {
    f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

/// The elements of blocks of `BYTES` bytes.
fn blocks<const BYTES: usize>(bytes: &[u8], each: impl Fn(&[u8; BYTES], &mut [f32]) + Sync) -> Vec<f32> {
    let blocks = bytes.as_chunks::<BYTES>().0;
    let mut out = vec![0.0; blocks.len() * BLOCK];
    out.par_chunks_mut(TASK * BLOCK).zip(blocks.par_chunks(TASK)).for_each(|(out, blocks)| {
        out.chunks_exact_mut(BLOCK).zip(blocks).for_each(|(out, block)| each(block, out));
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_those_of_llama_cpp() {
        let mut block = vec![0u8; 34];
        block[..2].copy_from_slice(&f16::from_f32(0.5).to_le_bytes());
        (block[2], block[33]) = (0xff, 100);
        let x = dequantize(TensorType::Q8_0, &block).expect("known");
        assert_eq!((x.len(), x[0], x[1], x[31]), (32, -0.5, 0.0, 50.0));
        let mut block = vec![0u8; 20];
        block[..2].copy_from_slice(&f16::from_f32(0.5).to_le_bytes());
        block[2..4].copy_from_slice(&f16::from_f32(-1.0).to_le_bytes());
        (block[4], block[19]) = (0x3f, 0x20);
        let x = dequantize(TensorType::Q4_1, &block).expect("known");
        assert_eq!((x.len(), x[0], x[16], x[15], x[31], x[1]), (32, 6.5, 0.5, -1.0, 0.0, -1.0));
        assert_eq!(dequantize(TensorType::F32, &1.5f32.to_le_bytes()).expect("known"), [1.5]);
        assert_eq!(dequantize(TensorType::F16, &f16::from_f32(1.5).to_le_bytes()).expect("known"), [1.5]);
        assert_eq!(dequantize(TensorType::Q6_K, &block), None);
    }
}
