//! The SASS of sm90 prefill: the exponentials of the softmax overlap with the PV GEMM, in a kernel of its own and in a
//! mixed kernel.
//!
//! Needs NVRTC (`cargo xtask test` fetches it) and no GPU.

use attn_core::{
    dtype::{Dtype, Dtypes},
    spec::{ComputeType, KernelKind, PrefillBackend},
};
use attn_kernels::{
    cache::CubinCache,
    jit,
    kernel_traits::{KernelTraits, KernelTraitsRequest},
    splice::KernelSource,
};
use object::{Object as _, ObjectSection as _};

/// Exponentials of a thread before the wait for the PV GEMM, of 64 for a tile of 64 rows and 128 keys: those of three
/// chunks of 16 keys (`PV_WAIT_CHUNK`).
const EXPONENTIALS: usize = 24;

/// The instructions of sm_90 that this test distinguishes. An instruction has 16 bytes, with the operation in the
/// lowest 12 bits.
#[derive(Debug, PartialEq)]
enum Instruction {
    /// `WARPGROUP.DEPBAR`: waits until at most this number of WGMMA groups is in flight.
    WaitWgmma(u64),
    /// `MUFU.EX2`.
    Exponential,
    /// `LDL` or `STL`: a register spill.
    Spilled,
    Other,
}

fn decode(bytes: &[u8]) -> Instruction {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let (low, high) = (word(0), word(8));
    match low & 0xfff {
        0x9c5 if low >> 47 & 1 == 1 => Instruction::WaitWgmma(high >> 8 & 0xff),
        0x308 if high >> 8 & 0xff == 0x08 => Instruction::Exponential,
        0x387 | 0x983 => Instruction::Spilled,
        _ => Instruction::Other,
    }
}

/// The request of a kernel with sm90 prefill.
fn request(kind: KernelKind, head_dim: u32, dtypes: Dtypes) -> KernelTraitsRequest {
    KernelTraitsRequest {
        group: 4,
        prefill: PrefillBackend::Sm90,
        ..KernelTraitsRequest::new(kind, head_dim, dtypes, "sm_90a".parse().expect("an architecture"))
    }
}

fn instructions(cache: &CubinCache, expr: &str, request: &KernelTraitsRequest) -> Vec<Instruction> {
    let variant = crate::stock::variant(expr);
    let traits = KernelTraits::choose(&request.with_hooks([&variant])).expect("a traits");
    assert!(traits.is_sm90_prefill());
    let source = KernelSource::build(&variant, &traits).expect("supported");
    let ready = jit::obtain_from(cache, source).expect("compiles");
    let file = object::File::parse(&*ready.compiled.cubin).expect("a cubin is an ELF file");
    let section = if traits.kind() == KernelKind::Mixed { ".text.attn_mixed" } else { ".text.attn_prefill" };
    let code = file.section_by_name(section).expect("the kernel").data().expect("code").to_vec();
    code.chunks_exact(16).map(decode).collect()
}

/// Each expression with one of two kernels, one after the other; with both where tests run as a whole.
fn alternating<K: Copy>(exprs: impl IntoIterator<Item = &'static str>, of: [K; 2]) -> Vec<(&'static str, K)> {
    let one = |nth: usize| of[(nth + attn_needs::seed()) % 2];
    let kernels = |nth| if attn_needs::whole() { of.to_vec() } else { vec![one(nth)] };
    let exprs = exprs.into_iter().enumerate();
    exprs.flat_map(|(nth, expr)| kernels(nth).into_iter().map(move |kernel| (expr, kernel))).collect()
}

#[test]
fn exponentials_overlap_with_the_pv_gemm() {
    let Some(cache) = crate::stock::cache() else { return };
    let exprs = [
        "full",
        "causal",
        "causal + soft_cap(cap=30)",
        "causal + alibi",
        "causal + rope",
        "sliding_window(window=1024)",
        "causal + sink",
    ];
    for (expr, kind) in alternating(exprs, [KernelKind::Prefill, KernelKind::Mixed]) {
        check_overlap(&cache, expr, &request(kind, 128, Dtypes::bf16()));
    }
}

/// ptxas serialises WGMMAs behind a branch that it cannot prove to be the same for all threads of a warp.
#[test]
fn exponentials_overlap_with_the_pv_gemm_where_tiles_are_skipped() {
    let Some(cache) = crate::stock::cache() else { return };
    let exprs = ["full", "causal", "causal + soft_cap(cap=30)", "causal + alibi"];
    for (expr, kind) in alternating(exprs, [KernelKind::Prefill, KernelKind::Mixed]) {
        let of = KernelTraitsRequest { skip_softmax: true, ..request(kind, 128, Dtypes::bf16()) };
        check_overlap(&cache, expr, &of);
    }
}

/// Checks that the mainloop of a kernel computes most exponentials beside the PV GEMM, in registers.
fn check_overlap(cache: &CubinCache, expr: &str, of: &KernelTraitsRequest) {
    let (code, kind) = (instructions(cache, expr, of), of.kind);
    let position = |what: Instruction| code.iter().position(|instruction| *instruction == what);
    // the loop waits for S while the PV GEMM is in flight, and then for the PV GEMM; ptxas may move the second wait up
    let logits = position(Instruction::WaitWgmma(1)).expect(expr);
    let values = code[logits..].iter().position(|instruction| *instruction == Instruction::WaitWgmma(0));
    let beside = &code[logits..][..values.expect(expr)];
    let exponentials = beside.iter().filter(|instruction| **instruction == Instruction::Exponential).count();
    // values that only masked tiles need may spill; accumulators and P do not
    let spilled = beside.iter().filter(|instruction| **instruction == Instruction::Spilled).count();
    assert!(spilled <= 2, "{kind} {expr}: {spilled} registers of the mainloop spill");
    assert!(exponentials >= EXPONENTIALS, "{kind} {expr}: {exponentials} exponentials before the second wait");
}

/// Exponentials of a thread before the wait for the PV GEMM in e4m3, of 64.
const E4M3_EXPONENTIALS: usize = 60;

#[test]
fn gemms_of_e4m3_overlap_with_the_softmax() {
    let Some(cache) = crate::stock::cache() else { return };
    let exprs = ["full", "causal", "causal + soft_cap(cap=30)", "causal + alibi", "causal + sink"];
    for (expr, paged) in alternating(exprs, [false, true]) {
        let of = request(KernelKind::Prefill, 128, Dtypes::new(Dtype::Bf16, Dtype::E4m3));
        let code = instructions(&cache, expr, &KernelTraitsRequest { compute_type: ComputeType::E4m3, paged, ..of });
        let waits = |pending| {
            let is = move |(_, of): &(usize, &Instruction)| **of == Instruction::WaitWgmma(pending);
            code.iter().enumerate().filter(is).map(|(at, _)| at).collect::<Vec<_>>()
        };
        // ptxas waits for each WGMMA of a kernel that it serialises: C7513 if P is written too early
        let (logits, all) = (waits(1), waits(0));
        assert_eq!((logits.len(), all.len()), (1, 3), "{expr}: the first tile, the loop, and the last P V");
        let beside = &code[logits[0]..all[1]];
        let count = |what: Instruction| beside.iter().filter(|instruction| **instruction == what).count();
        let (exponentials, spilled) = (count(Instruction::Exponential), count(Instruction::Spilled));
        assert!(exponentials >= E4M3_EXPONENTIALS, "{expr}: {exponentials} exponentials before the second wait");
        assert_eq!(spilled, 0, "{expr}, paged {paged}: registers of the mainloop spill");
    }
}
