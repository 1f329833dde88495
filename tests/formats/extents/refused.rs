//! Formats that are refused, each with its message.

use super::{bound, declare};
use attn_core::lang::kv_format::{DescribedKvFormat, KvFormats, LinearCodes};
use attn_core::lang::{Dims, EncodeRow, KvFormat, Packed, PackedMut, Tensor1};
use attn_variants::kv_formats::Int8;

/// What is said of a format of 64 elements, after its name and the dimension.
fn reason<F: KvFormat + DescribedKvFormat>(format: F) -> String {
    let error = bound(format, 64).expect_err("outside of the row");
    let (head, reason) = error.split_once(" cannot be stored so: ").expect(&error);
    assert_eq!(head, format!("in `key_format {}`: rows of head_dim = 64", F::desc().name));
    reason.replace("tests/formats/extents/", "")
}

/// Formats whose `encode` is `|x, codes, side, kv_head| ..`, with 64 bytes of codes for 64 elements and 4 of side data.
macro_rules! encoders {
    ($($name:ident: |$x:ident, $c:ident, $s:ident, $h:ident| { $($encode:tt)* })*) => {$(
        declare!($name, |dim| dim, |_| 4, |$x, $c, $s, $h| { $($encode)* }, |codes, _side, _kv_head, d| {
            [codes.u8(d) as f32; 8]
        });
    )*};
}

/// Formats whose `decode` is `|codes, side, kv_head, d| ..`, likewise.
macro_rules! decoders {
    ($($name:ident: |$c:ident, $s:ident, $h:ident, $d:ident| { $($decode:tt)* })*) => {$(
        declare!($name, |dim| dim, |_| 4, |x, codes, _side, _kv_head| {
            codes.pack8(0, x, 0, x.dim(), |_, v| v as u32);
        }, |$c, $s, $h, $d| { $($decode)* });
    )*};
}

declare!(
    SideLeftOut,
    |dim| dim,
    |_| 0,
    |x, codes, side, _kv_head| {
        side.set_f32(0, x.max_abs(0, x.dim()));
        codes.pack8(0, x, 0, x.dim(), |_, v| v as u32);
    },
    |codes, _side, _kv_head, d| { [codes.u8(d) as f32; 8] }
);
declare!(
    SideIsRead,
    |dim| dim,
    |_| 0,
    |x, codes, _side, _kv_head| {
        codes.pack8(0, x, 0, x.dim(), |_, v| v as u32);
    },
    |_codes, side, _kv_head, _d| { [side.e4m3(0); 8] }
);
declare!(
    TwoBytes,
    |dim| 2 * dim,
    |_| 0,
    |x, codes, _side, _kv_head| {
        codes.pack16(0, x, 0, x.dim(), |_, v| v as u32);
    },
    |codes, _side, _kv_head, d| { [codes.u32(2 * d + 16) as f32; 8] }
);

encoders! {
    Twelve: |x, codes, _side, _kv_head| { codes.pack8(12, x, 0, 12, |_, v| v as u32); }
    FromFour: |x, codes, _side, _kv_head| { codes.pack4(0, x, 4, 8, |_, v| v as u32); }
    TooWide: |x, codes, _side, _kv_head| { codes.pack16(0, x, 0, x.dim(), |_, v| v as u32); }
    PackedBehind: |x, codes, _side, _kv_head| { codes.pack4(40, x, 0, x.dim(), |_, v| v as u32); }
    PackedBefore: |x, codes, _side, _kv_head| { codes.pack8(-8, x, 0, x.dim(), |_, v| v as u32); }
    PackedOfMore: |x, codes, _side, _kv_head| { codes.pack4(0, x, 8, x.dim(), |_, v| v as u32); }
    RowBehind: |x, _codes, side, _kv_head| { side.set_f32(0, x.max_abs(x.dim() - 16, 24)); }
    RowBefore: |x, _codes, side, _kv_head| { side.set_f32(0, x.sum(-1, 8, |_, v| v)); }
    RowOfNegative: |x, _codes, side, _kv_head| { side.set_f32(0, x.min(8, -8)); }
    RowByData: |x, _codes, side, _kv_head| { side.set_f32(0, x.max(x.max(0, 8) as i32, 8)); }
    RowBySome: |x, _codes, side, _kv_head| {
        let first = if x.max(0, 8) > 0.0 { 8 } else { 64 };
        side.set_f32(0, x.sum_sq(first, 8));
    }
    Misaligned: |x, codes, _side, _kv_head| { codes.set_f32(2, x.max_abs(0, x.dim())); }
    LastOfSide: |_x, _codes, side, _kv_head| {
        for i in 0..3 {
            side.set_u16(2 * i, 0);
        }
    }
}

decoders! {
    Behind: |codes, _side, _kv_head, d| { [(codes.u32(d + 4) + codes.u32(d + 8)) as f32; 8] }
    Before: |codes, _side, _kv_head, d| { [codes.u8(d - 1) as f32; 8] }
    Word: |codes, _side, _kv_head, _d| { [codes.u32(2) as f32; 8] }
    Words: |codes, _side, _kv_head, d| { [codes.words2(d / 2)[0] as f32; 8] }
    Scaled: |codes, _side, _kv_head, d| { codes.scaled_e4m3(d + 8, 2.0) }
    Half: |_codes, side, _kv_head, _d| { [side.bf16(3); 8] }
    Overflow: |codes, _side, _kv_head, d| { [codes.u8(d * 536_870_912) as f32; 8] }
    GuardedTooFar: |codes, _side, _kv_head, d| {
        if d <= 56 && d % 16 == 8 { [codes.u8(d + 8) as f32; 8] } else { [0.0; 8] }
    }
    ByData: |codes, _side, _kv_head, _d| { [codes.u8(codes.u8(0) as i32) as f32; 8] }
    ByWord: |codes, _side, _kv_head, _d| { [codes.u8(codes.u32(0) as i32) as f32; 8] }
    ByMask: |codes, _side, _kv_head, _d| { [codes.u8((codes.u32(0) & 127) as i32) as f32; 8] }
    ByMaskedWord: |codes, _side, _kv_head, _d| { [codes.u32((codes.u32(0) & 62) as i32) as f32; 8] }
    ByFloat: |codes, side, _kv_head, _d| { [codes.u8(side.f32(0) as i32) as f32; 8] }
    ByLoop: |codes, _side, _kv_head, _d| {
        let mut sum = 0;
        for i in 0..codes.u8(0) as i32 {
            sum += codes.u8(i);
        }
        [sum as f32; 8]
    }
    ByBreak: |codes, _side, _kv_head, _d| {
        let mut at = 0;
        for i in 0..80 {
            at = i;
            if codes.u8(i.min(63)) == 0 {
                break;
            }
        }
        [codes.u8(at) as f32; 8]
    }
    ByBranch: |codes, _side, _kv_head, _d| {
        let mut at = 0;
        if codes.u8(0) > 7 {
            at = 64;
        }
        [codes.u8(at) as f32; 8]
    }
    ByShortCircuit: |codes, _side, _kv_head, _d| {
        let at = if codes.u8(0) == 1 && codes.u8(64) == 1 { 1 } else { 0 };
        [codes.u8(at) as f32; 8]
    }
    ByMatch: |codes, _side, _kv_head, _d| {
        [codes.u8(match codes.u8(0) { 0 => 0, 1..=9 => 9, _ => 70 }) as f32; 8]
    }
    ByArray: |codes, _side, _kv_head, d| {
        let of = [0, 8, 16, 24, 32, 40, 48, 64];
        [codes.u8(of[((d / 8) & 7) as usize]) as f32; 8]
    }
    ByHead: |codes, _side, kv_head, d| { [codes.u8(d + 4 * kv_head) as f32; 8] }
    Long: |codes, _side, _kv_head, _d| {
        let mut sum = 0;
        for i in 0..60_000 {
            for j in 0..60_000 {
                sum += codes.u8(i * j % 64);
            }
        }
        [sum as f32; 8]
    }
}

/// What is said of each, but for the call and its place at the end.
#[test]
fn messages() {
    let table = [
        // the side data that a format declares by default
        (reason(SideLeftOut), "`encode` writes bytes 0 .. 4 of `side`, and `side_bytes` gives 0", "side.set_f32"),
        (
            reason(SideIsRead),
            "`decode` for elements 0 .. 8 reads bytes 0 .. 1 of `side`, and `side_bytes` gives 0",
            "side.e4m3",
        ),
        (
            reason(TwoBytes),
            "`decode` for elements 56 .. 64 reads bytes 128 .. 132 of `codes`, and `code_bytes` gives 128",
            "codes.u32",
        ),
        (
            reason(Twelve),
            "`encode` packs elements 0 .. 12, and the first and their number are multiples of 8",
            "codes.pack8",
        ),
        (
            reason(FromFour),
            "`encode` packs elements 4 .. 12, and the first and their number are multiples of 8",
            "codes.pack4",
        ),
        (reason(TooWide), "`encode` writes bytes 0 .. 128 of `codes`, and `code_bytes` gives 64", "codes.pack16"),
        (reason(PackedBehind), "`encode` writes bytes 40 .. 72 of `codes`, and `code_bytes` gives 64", "codes.pack4"),
        (reason(PackedBefore), "`encode` writes bytes -8 .. 56 of `codes`, and `code_bytes` gives 64", "codes.pack8"),
        (reason(PackedOfMore), "`encode` packs elements 8 .. 72, and the row has 64", "codes.pack4"),
        (reason(RowBehind), "`encode` reads elements 48 .. 72, and the row has 64", "x.max_abs"),
        (reason(RowBefore), "`encode` reads elements -1 .. 7, and the row has 64", "x.sum"),
        (reason(RowOfNegative), "`encode` reads elements 8 .. 0, and the row has 64", "x.min"),
        (
            reason(RowByData),
            "`encode` reads elements from one that nothing bounds on, their number 8, and the row has 64",
            "x.max",
        ),
        (
            reason(RowBySome),
            "`encode` reads elements from one from 8 to 64 on, their number 8, and the row has 64",
            "x.sum_sq",
        ),
        (
            reason(Misaligned),
            "`encode` writes bytes 2 .. 6 of `codes`, and a number of 4 bytes lies at a multiple of 4",
            "codes.set_f32",
        ),
        (reason(LastOfSide), "`encode` writes bytes 4 .. 6 of `side`, and `side_bytes` gives 4", "side.set_u16"),
        (
            reason(Behind),
            "`decode` for elements 56 .. 64 reads bytes 64 .. 68 of `codes`, and `code_bytes` gives 64",
            "codes.u32",
        ),
        (
            reason(Before),
            "`decode` for elements 0 .. 8 reads bytes -1 .. 0 of `codes`, and `code_bytes` gives 64",
            "codes.u8",
        ),
        (
            reason(Word),
            "`decode` for elements 0 .. 8 reads bytes 2 .. 6 of `codes`, and a number of 4 bytes lies at a multiple \
             of 4",
            "codes.u32",
        ),
        (
            reason(Words),
            "`decode` for elements 8 .. 16 reads bytes 4 .. 12 of `codes`, and a number of 8 bytes lies at a multiple \
             of 8",
            "codes.words2",
        ),
        (
            reason(Scaled),
            "`decode` for elements 56 .. 64 reads bytes 64 .. 72 of `codes`, and `code_bytes` gives 64",
            "codes.scaled_e4m3",
        ),
        (
            reason(Half),
            "`decode` for elements 0 .. 8 reads bytes 3 .. 5 of `side`, and `side_bytes` gives 4",
            "side.bf16",
        ),
        (
            reason(GuardedTooFar),
            "`decode` for elements 56 .. 64 reads bytes 64 .. 65 of `codes`, and `code_bytes` gives 64",
            "codes.u8",
        ),
        (
            reason(ByMaskedWord),
            "`decode` for elements 0 .. 8 reads 4 bytes of `codes` at an offset from 0 to 62, and `code_bytes` gives \
             64. An offset that depends on stored bytes, on the row or on a tensor is bounded where it is used, as by \
             `.clamp(0, 60)`; one that overflows counts as any",
            "codes.u32",
        ),
        (
            reason(ByHead),
            "`decode` for elements 56 .. 64 of KV head 2 reads bytes 64 .. 65 of `codes`, and `code_bytes` gives 64",
            "codes.u8",
        ),
        (
            reason(ByArray),
            "`decode` for elements 56 .. 64 reads bytes 64 .. 65 of `codes`, and `code_bytes` gives 64",
            "codes.u8",
        ),
    ];
    for (got, want, call) in table {
        assert_eq!(got, format!("{want} (`{call}`, refused.rs)"));
    }
}

/// Offsets that are not one number, and the bounds that are known of them.
#[test]
fn offsets_that_depend_on_data() {
    let table = [
        (reason(Overflow), "elements 8 .. 16", "that nothing bounds"),
        (reason(ByData), "elements 0 .. 8", "from 0 to 255"),
        (reason(ByWord), "elements 0 .. 8", "that nothing bounds"),
        (reason(ByMask), "elements 0 .. 8", "from 0 to 127"),
        (reason(ByFloat), "elements 0 .. 8", "that nothing bounds"),
        (reason(ByLoop), "elements 0 .. 8", "from 0 to 254"),
        (reason(ByBreak), "elements 0 .. 8", "from 0 to 79"),
        (reason(ByBranch), "elements 0 .. 8", "from 0 to 64"),
        (reason(ByMatch), "elements 0 .. 8", "from 0 to 70"),
    ];
    for (got, of, bounds) in table {
        let head =
            format!("`decode` for {of} reads a byte of `codes` at an offset {bounds}, and `code_bytes` gives 64.");
        assert!(got.starts_with(&head) && got.contains("`.clamp(0, 63)`"), "{head}: {got}");
    }
    // the right operand of `&&` runs for some bytes
    let got = reason(ByShortCircuit);
    assert!(got.starts_with("`decode` for elements 0 .. 8 reads bytes 64 .. 65 of `codes`"), "{got}");
    let got = reason(Long);
    assert!(got.starts_with("`decode` for elements 0 .. 8 takes too many steps to follow"), "{got}");
}

/// Places and sizes that parameters say.
#[derive(Clone, Debug, attn_core::VariantParams)]
struct Placed {
    /// Bytes of codes.
    bytes: i32,
    /// Bytes of side data.
    side: i32,
    /// Elements of a group.
    group: i32,
    /// Where eight elements begin.
    #[shape(head_dim / 8)]
    #[default(|_: &Placed, dims: &Dims| (0..dims.head_dim.unwrap_or(0) as i32 / 8).map(|i| 8 * i).collect())]
    starts: Tensor1<i32>,
    /// Whether `starts` are bounded where they are used.
    bounded: bool,
}

#[attn_core::kv_format]
impl KvFormat for Placed {
    fn code_bytes(&self, _dim: i32) -> i32 {
        self.bytes
    }
    fn side_bytes(&self, _dim: i32) -> i32 {
        self.side
    }
    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, side: &mut PackedMut<'_>, _kv_head: i32) {
        codes.pack8(0, x, 0, x.dim(), |_, v| v as i32 as u32);
        if self.side >= 4 {
            side.set_f32(0, 1.0);
        }
    }
    fn decode(&self, codes: Packed<'_>, _side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        let at = if self.bounded { self.starts[d / 8].clamp(0, 56) } else { self.starts[d / 8] };
        let mut out = [0.0; 8];
        for i in 0..8 {
            out[i as usize] = ((codes.u8(at + i) << 24) as i32 >> 24) as f32;
        }
        out
    }
    fn linear(&self) -> Option<LinearCodes> {
        Some(LinearCodes::signed(8, self.group))
    }
    fn scale(&self, side: Packed<'_>, _kv_head: i32, group: i32) -> f32 {
        if self.group == 0 { 1.0 } else { side.f32(4 * group) * 0.0 + 1.0 }
    }
    // signed codes have none, and nothing calls it
    fn zero(&self, side: Packed<'_>, _kv_head: i32, group: i32) -> f32 {
        side.f32(1024 * group)
    }
}

#[test]
fn sizes_and_places_that_parameters_say() {
    let placed = |bytes, side, group, bounded| Placed { bytes, side, group, starts: Tensor1::default(), bounded };
    bound(placed(64, 0, 0, true), 64).expect("within");
    bound(placed(64, 32, 8, true), 64).expect("within");
    assert_eq!(
        reason(placed(63, 0, 0, true)),
        "`encode` writes bytes 0 .. 64 of `codes`, and `code_bytes` gives 63 (`codes.pack8`, refused.rs)"
    );
    assert_eq!(
        reason(placed(64, 28, 8, true)),
        "`scale` for group 7 reads bytes 28 .. 32 of `side`, and `side_bytes` gives 28 (`side.f32`, refused.rs)"
    );
    // any tensor may replace the one that is there
    let got = reason(placed(64, 0, 0, false));
    let head =
        "`decode` for elements 0 .. 8 reads a byte of `codes` at an offset that nothing bounds, and `code_bytes`";
    assert!(got.starts_with(head), "{got}");
    for side in [-4, i32::MIN] {
        let got = reason(placed(64, side, 0, true));
        assert!(got.starts_with(&format!("`code_bytes` is 64 and `side_bytes` {side}")), "{got}");
    }
}

/// Numbers of so many bytes, one for each element.
#[derive(Clone, attn_core::VariantParams)]
struct Wide<const BYTES: i32>;

#[attn_core::kv_format(name = "wide", instances(1, 2))]
impl<const BYTES: i32> KvFormat for Wide<BYTES> {
    fn code_bytes(&self, dim: i32) -> i32 {
        dim
    }
    fn encode<R: EncodeRow>(&self, x: &R, codes: &mut PackedMut<'_>, _side: &mut PackedMut<'_>, _kv_head: i32) {
        for i in 0..x.dim() {
            codes.set_u8(BYTES * i, 0);
        }
    }
    fn decode(&self, codes: Packed<'_>, _side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        [codes.u8(BYTES * d) as f32; 8]
    }
}

#[test]
fn each_instance_is_proven_by_itself() {
    bound(Wide::<1>, 64).expect("within");
    assert_eq!(
        reason(Wide::<2>),
        "`encode` writes bytes 64 .. 65 of `codes`, and `code_bytes` gives 64 (`codes.set_u8`, refused.rs)"
    );
}

/// The whole text, with the file and the line.
#[derive(Clone, attn_core::VariantParams)]
struct Here;

#[attn_core::kv_format]
impl KvFormat for Here {
    fn code_bytes(&self, dim: i32) -> i32 {
        dim
    }
    fn encode<R: EncodeRow>(&self, _x: &R, codes: &mut PackedMut<'_>, _side: &mut PackedMut<'_>, _kv_head: i32) {
        codes.set_u8(0, 0);
    }
    fn decode(&self, codes: Packed<'_>, _side: Packed<'_>, _kv_head: i32, d: i32) -> [f32; 8] {
        [codes.u8(d + LAST) as f32; 8]
    }
}

const LAST: i32 = 64;
const LINE: u32 = line!() - 5;

#[test]
fn errors_say_which_part_and_which_line() {
    let dims = Dims { head_dim: Some(64), value_dim: Some(32), kv_heads: Some(2), ..Dims::default() };
    let error = KvFormats::new(Int8, Here).bind(&dims).expect_err("behind the codes");
    assert_eq!(
        error.to_string(),
        format!(
            "in `value_format here`: rows of head_dim = 32 cannot be stored so: `decode` for elements 0 .. 8 reads \
             bytes 64 .. 65 of `codes`, and `code_bytes` gives 32 (`codes.u8`, {}:{LINE})",
            file!()
        )
    );
    // values that are the first elements of keys have the format of keys
    let error = KvFormats::new(Here, Int8).bind(&dims).expect_err("behind the codes").to_string();
    assert!(error.starts_with("in `key_format here`: rows of head_dim = 64"), "{error}");
}
