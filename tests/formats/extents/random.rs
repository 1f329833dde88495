//! Random formats: what binds touches nothing around a row, on the CPU and as generated C++, which nothing bounds; and
//! what is refused for a number would have been outside.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::bound;
use super::probe::{Guarded, bytes, stays_within};
use attn_core::lang::kv_format::{ErasedKvFormat, KvFormats, RowBytes};
use attn_core::lang::{Dims, EncodeRow, KvFormat, Packed, PackedMut};
use attn_tests::kv_format_host::HostFormats;
use rand::{Rng, SeedableRng, rngs::SmallRng};

const KV_HEADS: i32 = 3;

/// Calls at places that parameters say. Scalars are known when a format is bound, so each choice is another format.
#[derive(Clone, Debug, attn_core::VariantParams)]
struct Placed {
    /// Bytes of codes.
    codes: i32,
    /// Bytes of side data.
    side: i32,
    /// Bits of codes that are packed.
    bits: i32,
    /// Runs that are packed, where they begin, and how far each is from the one before.
    runs: i32,
    first: i32,
    len: i32,
    first_step: i32,
    pack_at: i32,
    pack_step: i32,
    /// What is written into the side data, where, and of which elements.
    write: i32,
    write_at: i32,
    row_first: i32,
    row_len: i32,
    /// What is read, how often, and where.
    read: i32,
    steps: i32,
    read_at: i32,
    of_d: i32,
    of_head: i32,
    step: i32,
    /// The elements for which nothing is read, and the step at which the loop ends.
    below: i32,
    leave: i32,
}

#[attn_core::kv_format(name = "placed_at_random")]
impl KvFormat for Placed {
    fn code_bytes(&self, _dim: i32) -> i32 {
        self.codes
    }
    fn side_bytes(&self, _dim: i32) -> i32 {
        self.side
    }
    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, side: &mut PackedMut<'_>, kv_head: i32) {
        for i in 0..self.runs {
            let (first, at) = (self.first + i * self.first_step, self.pack_at + i * self.pack_step);
            match self.bits {
                4 => codes.pack4(at, x, first, self.len, |d, v| (d + v as i32) as u32),
                8 => codes.pack8(at, x, first, self.len, |d, v| (d + v as i32) as u32),
                _ => codes.pack16(at, x, first, self.len, |d, v| (d + v as i32) as u32),
            }
        }
        let at = self.write_at + kv_head * self.of_head;
        match self.write {
            0 => {}
            1 => side.set_u8(at, 3),
            2 => side.set_bf16(at, x.max(self.row_first, self.row_len)),
            3 => side.set_f32(at, x.sum(self.row_first, self.row_len, |_, v| v)),
            _ => codes.set_u16(at, x.max_abs(self.row_first, self.row_len) as u32),
        }
    }
    fn decode(&self, codes: Packed<'_>, side: Packed<'_>, kv_head: i32, d: i32) -> [f32; 8] {
        let mut out = [0.0; 8];
        if d < self.below {
            return out;
        }
        for i in 0..self.steps {
            if i == self.leave {
                break;
            }
            let at = self.read_at + d * self.of_d / 8 + i * self.step + kv_head * self.of_head;
            out[(i & 7) as usize] = match self.read {
                0 => codes.u8(at) as f32,
                1 => codes.u16(at) as f32,
                2 => codes.f32(at),
                3 => codes.words2(at)[1] as f32,
                4 => side.f32(at),
                5 => side.f16(at),
                6 => side.e8m0(at),
                _ => codes.e4m3(at),
            };
        }
        out
    }
}

fn placed(rng: &mut SmallRng) -> Placed {
    let eights = |rng: &mut SmallRng, of: std::ops::Range<i32>| {
        8 * rng.random_range(of) + if rng.random_range(0..30) == 0 { 4 } else { 0 }
    };
    // mostly what a row needs, and a little less or more
    let near =
        |rng: &mut SmallRng, x: i32| (x + *[0, 0, 0, 4, 8, -1, -4].get(rng.random_range(0..7)).unwrap_or(&0)).max(1);
    let (runs, len, bits) = (rng.random_range(0..5), eights(rng, 0..3), [4, 8, 16][rng.random_range(0..3)]);
    let few = |rng: &mut SmallRng| *[0, 0, 0, 1, 2, 4, 8].get(rng.random_range(0..7)).unwrap_or(&0);
    let (of_head, steps) = (few(rng), rng.random_range(0..6));
    let codes = near(rng, 32 * bits / 8);
    Placed {
        codes,
        side: rng.random_range(0..5) * 4,
        bits,
        runs,
        first: eights(rng, 0..2),
        len,
        first_step: eights(rng, 0..2),
        pack_at: few(rng),
        pack_step: len * bits / 8,
        write: rng.random_range(0..5),
        write_at: few(rng),
        row_first: few(rng),
        row_len: rng.random_range(0..33),
        read: rng.random_range(0..8),
        steps,
        read_at: few(rng) - i32::from(rng.random_range(0..20) == 0),
        of_d: *[0, 1, 2, 4, 8, 16].get(rng.random_range(0..6)).unwrap_or(&0),
        of_head,
        step: few(rng),
        below: 8 * rng.random_range(0..5),
        leave: rng.random_range(0..6),
    }
}

/// Whether no KV head touches a byte or an element outside of a row of 32 elements.
fn runs_within(format: &dyn ErasedKvFormat) -> bool {
    catch_unwind(AssertUnwindSafe(|| stays_within(format, 32, KV_HEADS))).is_ok()
}

/// Of formats whose offsets are numbers exactly those bind that stay within their rows.
#[test]
fn what_binds_is_what_stays_within_a_row() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut rng = SmallRng::seed_from_u64(11);
    let mut counts = [0; 2];
    for _ in 0..3_000 {
        let format = placed(&mut rng);
        let (binds, runs) = (bound(format.clone(), 32), runs_within(&format));
        if binds.is_ok() != runs {
            std::panic::set_hook(hook);
            panic!("{format:?} binds: {binds:?}, and stays within its row: {runs}");
        }
        counts[usize::from(runs)] += 1;
    }
    std::panic::set_hook(hook);
    assert!(counts[0] > 300 && counts[1] > 300, "{counts:?}");
}

/// The generated C++ has no bounds: guards around the row and its bytes are neither written nor read.
#[test]
fn generated_cpp_leaves_guards_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let host = HostFormats::compile(attn_core::kv_formats![Placed, Looked], folder.path());
    let mut rng = SmallRng::seed_from_u64(12);
    let formats = (0..3_000).map(|i| -> Box<dyn ErasedKvFormat> {
        if i % 2 == 0 { Box::new(placed(&mut rng)) } else { Box::new(looked(&mut rng)) }
    });
    let mut accepted = 0;
    for format in formats.collect::<Vec<_>>() {
        let dims = Dims { head_dim: Some(32), kv_heads: Some(KV_HEADS.into()), ..Dims::default() };
        if KvFormats::of(format.clone(), format.clone()).bind(&dims).is_err() {
            continue;
        }
        accepted += 1;
        let (cpp, row) = (host.of(&*format), RowBytes::of(&*format, 32));
        let x: Vec<f32> = (0..32).map(|_| rng.random_range(-9.0..9.0)).collect();
        for kv_head in 0..KV_HEADS {
            let (codes, side) = (bytes(row.codes, &mut rng), bytes(row.side, &mut rng));
            let run = |guard: u8, of_row: f32| {
                let x = Guarded::new(&x, of_row);
                let mut codes = Guarded::new(&codes, guard);
                let mut side = Guarded::new(&side, guard);
                cpp.encode(x.row(), codes.row_mut(), side.row_mut(), kv_head);
                let mut read = Guarded::new(&[0.0; 32], 0.5);
                cpp.decode(codes.row(), side.row(), kv_head, read.row_mut());
                assert!(codes.is_whole() && side.is_whole() && read.is_whole(), "{format}");
                let read: Vec<u32> = read.row().iter().map(|x| x.to_bits()).collect();
                (codes.row().to_vec(), side.row().to_vec(), read)
            };
            // what is read of a guard shows in the results
            assert_eq!(run(0xa5, 1e30), run(0x5a, -1e30), "{format}");
        }
    }
    assert!(accepted > 300, "{accepted}");
}

/// Reads at places that stored bytes say.
#[derive(Clone, Debug, attn_core::VariantParams)]
struct Looked {
    /// Bytes of codes.
    codes: i32,
    /// How a byte becomes an offset, and by which number.
    how: i32,
    by: i32,
    low: i32,
    high: i32,
    times: i32,
}

#[attn_core::kv_format(name = "looked_up_at_random")]
impl KvFormat for Looked {
    fn code_bytes(&self, _dim: i32) -> i32 {
        self.codes
    }
    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, _side: &mut PackedMut<'_>, _kv_head: i32) {
        codes.set_u8((x.max(0, x.dim()) as i32).clamp(self.low, self.high), 0);
    }
    fn decode(&self, codes: Packed<'_>, _side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        let x = codes.u8(d / 8) as i32;
        let at = match self.how {
            0 => x,
            1 => x & self.by,
            2 => x % self.by,
            3 => x.clamp(self.low, self.high),
            4 => (x * self.times - self.by).max(self.low).min(self.high),
            5 => x / self.by + self.low,
            6 => {
                if x < self.by {
                    self.low
                } else {
                    self.high
                }
            }
            7 => {
                let mut at = self.low;
                for i in 0..x {
                    at = i;
                    if at == self.high {
                        break;
                    }
                }
                at.min(self.high)
            }
            8 => (x << (self.by & 7) as u32) >> (self.times & 7) as u32,
            _ => (x ^ self.by) | self.low,
        };
        let (mut out, low) = ([0.0; 8], at & !3);
        out[0] = codes.u8(at) as f32;
        if self.times == 4 && low + 4 <= self.codes {
            out[1] = codes.u32(low) as f32;
        }
        out
    }
}

fn looked(rng: &mut SmallRng) -> Looked {
    let low = rng.random_range(0..8);
    Looked {
        codes: *[4, 8, 32, 64, 128, 256].get(rng.random_range(0..6)).unwrap_or(&4),
        how: rng.random_range(0..10),
        by: *[1, 3, 7, 8, 15, 31, 64, 127].get(rng.random_range(0..8)).unwrap_or(&1),
        low,
        high: low + *[0, 3, 24, 50, 120, 250].get(rng.random_range(0..6)).unwrap_or(&0),
        times: rng.random_range(0..8),
    }
}

/// Whatever bytes say, what binds stays within its row; and that is not little.
#[test]
fn what_depends_on_bytes_stays_within_a_row() {
    let mut rng = SmallRng::seed_from_u64(13);
    let mut accepted = [0; 10];
    for _ in 0..3_000 {
        let format = looked(&mut rng);
        if bound(format.clone(), 32).is_ok() {
            accepted[format.how as usize] += 1;
            stays_within(&format, 32, 1);
        }
    }
    assert!(accepted.iter().all(|&count| count > 10), "{accepted:?}");
}
