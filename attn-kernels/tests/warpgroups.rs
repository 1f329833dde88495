//! What keeps prefill in warpgroups fast, by the instructions in the cubins: while weights are computed, products run.
//!
//! No GPU is needed, NVRTC is: `cargo xtask test` fetches it.
#![allow(clippy::print_stderr)]

use attn_core::{
    Registry, Variant,
    dtype::Dtypes,
    spec::{KernelKind, PrefillTemplate, ValueRows},
};
use attn_kernels::{
    cell::{Cell, CellRequest},
    compile::nvrtc::Nvrtc,
    jit,
    splice::{KernelSource, has_key_hooks, has_value_hooks},
};
use object::{Object as _, ObjectSection as _};

/// Exponentials of a thread that lie before the wait for values, of 64 for a tile of 64 rows and 128 keys: those of three chunks of 16 keys (`WAIT_AFTER`).
const WEIGHTS: usize = 24;

/// What an instruction of sm_90 is, as far as it matters here. It has 16 bytes: an operation in the lowest 12 bits, details beside and above.
#[derive(Debug, PartialEq)]
enum Instruction {
    /// `WARPGROUP.DEPBAR`: waits until at most so many groups of products are under way.
    WaitProducts(u64),
    /// `MUFU.EX2`.
    Exponential,
    /// `LDL` or `STL`: a register that there was no room for.
    Spilled,
    Other,
}

fn decode(bytes: &[u8]) -> Instruction {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let (low, high) = (word(0), word(8));
    match low & 0xfff {
        0x9c5 if low >> 47 & 1 == 1 => Instruction::WaitProducts(high >> 8 & 0xff),
        0x308 if high >> 8 & 0xff == 0x08 => Instruction::Exponential,
        0x387 | 0x983 => Instruction::Spilled,
        _ => Instruction::Other,
    }
}

fn instructions(expr: &str) -> Vec<Instruction> {
    let mut registry = Registry::empty();
    registry.register_all(attn_variants::variants()).expect("names differ");
    let variant = Variant::parse_with(expr, &registry).expect(expr);
    let request = CellRequest {
        kind: KernelKind::Prefill,
        head_dim: 128,
        values: ValueRows::Same,
        dtypes: Dtypes::bf16(),
        paged: true,
        group: 4,
        key_hooks: has_key_hooks(&variant),
        value_hooks: has_value_hooks(&variant),
        key_lists: false,
        template: PrefillTemplate::Warpgroups,
        arch: "sm_90a".parse().expect("an architecture"),
    };
    let cell = Cell::choose(&request).expect("a cell");
    assert!(cell.in_warpgroups());
    let ready = jit::obtain(KernelSource::build(&variant, &cell).expect("supported")).expect("compiles");
    let file = object::File::parse(&*ready.compiled.cubin).expect("a cubin is an ELF file");
    let code = file.section_by_name(".text.attn_prefill").expect("the kernel").data().expect("code").to_vec();
    code.chunks_exact(16).map(decode).collect()
}

#[test]
fn weights_are_computed_while_products_run() {
    if let Err(error) = Nvrtc::find() {
        eprintln!("SKIPPED: {error}");
        return;
    }
    for expr in [
        "full",
        "causal",
        "causal + soft_cap(cap=30)",
        "causal + alibi",
        "causal + rope",
        "sliding_window(window=1024)",
        "causal + sink",
    ] {
        let code = instructions(expr);
        let position = |what: Instruction| code.iter().position(|instruction| *instruction == what);
        // the loop waits for the logits, with the products of values under way, and then for those; the assembler may move the second wait up
        let logits = position(Instruction::WaitProducts(1)).expect(expr);
        let values = code[logits..].iter().position(|instruction| *instruction == Instruction::WaitProducts(0));
        let beside = &code[logits..][..values.expect(expr)];
        let weights = beside.iter().filter(|instruction| **instruction == Instruction::Exponential).count();
        // what only masked tiles need may have had no room; accumulators and weights have
        let spilled = beside.iter().filter(|instruction| **instruction == Instruction::Spilled).count();
        assert!(
            spilled <= 2,
            "{expr}: {spilled} registers of the loop had no room; those of the copying warpgroup may not"
        );
        assert!(weights >= WEIGHTS, "{expr}: {weights} exponentials before the second wait of the loop");
    }
}
