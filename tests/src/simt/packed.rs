//! Keys and values of a case in rows of KV formats.

use attn::lang::kv_format::{ErasedKvFormat, KvFormats, RowBytes};
use attn_kernels::launch::{KvSides, Strided};
use attn_testing::{Host, Inputs};

/// The rows of keys, or of values.
#[derive(Debug)]
struct Rows {
    codes: Vec<u64>,
    side: Vec<u64>,
    /// Strides of codes and of side data.
    strides: [Vec<i64>; 2],
}

/// Encoded keys and values.
#[derive(Debug)]
pub(super) struct PackedKv([Rows; 2]);

impl PackedKv {
    /// Encodes the keys and values of a case in f32, and replaces them by what the rows decode to, rounded to f16 where
    /// `rounds`, as kernels round rows of which no hook computes. Rows that nothing may read are NaN in every format.
    pub(super) fn of(formats: &KvFormats, inputs: &mut Inputs, rounds: [bool; 2]) -> PackedKv {
        let keys = Rows::of(formats.keys(), &mut inputs.k, (&inputs.kv_shape, &inputs.kv_strides), rounds[0]);
        let values = Rows::of(formats.values(), &mut inputs.v, (&inputs.v_shape, &inputs.v_strides), rounds[1]);
        PackedKv([keys, values])
    }

    /// The rows of keys and of values, as kernels take them.
    pub(super) fn strided(&self) -> [Strided; 2] {
        self.0.each_ref().map(|rows| strided(&rows.codes, &rows.strides[0]))
    }

    /// Their side data.
    pub(super) fn sides(&self) -> KvSides {
        let [k, v] = self.0.each_ref().map(|rows| strided(&rows.side, &rows.strides[1]));
        KvSides { k, v }
    }
}

impl Rows {
    fn of(format: &dyn ErasedKvFormat, host: &mut Host, (shape, strides): (&[usize], &[i64]), rounds: bool) -> Rows {
        let (dim, mut data) = (shape[shape.len() - 1], host.to_f32());
        let RowBytes { codes: code_bytes, side: side_bytes } = RowBytes::of(format, dim as u32);
        let [mut codes, mut side] =
            [code_bytes, side_bytes].map(|bytes| vec![u64::MAX; (data.len() / dim * bytes).div_ceil(8)]);
        let of_codes: &mut [u8] = bytemuck::cast_slice_mut(&mut codes);
        let of_side: &mut [u8] = bytemuck::cast_slice_mut(&mut side);
        let outer = &shape[..shape.len() - 1];
        for number in 0..outer.iter().product::<usize>() {
            let (mut rest, mut at, mut head) = (number, 0, 0);
            for (axis, (&extent, &stride)) in outer.iter().zip(strides).enumerate().rev() {
                at += rest % extent * stride as usize;
                head = if axis == outer.len() - 1 { rest % extent } else { head };
                rest /= extent;
            }
            let row = &mut data[at..at + dim];
            if row.iter().any(|x| x.is_nan()) {
                continue;
            }
            let code = &mut of_codes[at / dim * code_bytes..][..code_bytes];
            let scales = &mut of_side[at / dim * side_bytes..][..side_bytes];
            format.encode_row(row, code, scales, head as i32);
            format.decode_row(code, scales, head as i32, row);
            if rounds {
                row.iter_mut().for_each(|x| *x = half::f16::from_f32(*x).to_f32());
            }
        }
        *host = Host::F32(data);
        let strides_of = |bytes: usize| strides.iter().map(|stride| stride / dim as i64 * bytes as i64).collect();
        Rows { codes, side, strides: [strides_of(code_bytes), strides_of(side_bytes)] }
    }
}

fn strided(data: &[u64], strides: &[i64]) -> Strided {
    let rank = strides.len();
    let page = if rank == 4 { strides[0] } else { 0 };
    Strided { data: data.as_ptr() as u64, token: strides[rank - 3], head: strides[rank - 2], page }
}
