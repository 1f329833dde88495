//! WGMMA instructions for `arch/wgmma.cuh`. They are generated, because the number of operands depends on the tile.

use attn_core::spec::ComputeType;

use crate::kernel_traits::KernelTraits;

/// `wgmma_qk` (S = Q K^T) and `wgmma_pv` (O += P V) for each element type.
pub(super) fn text(traits: &KernelTraits) -> String {
    let mut text = String::from("\n#line 1 \"wgmma\"\n");
    let e4m3 = traits.facts().wgmma == Some(ComputeType::E4m3);
    let column_warps = traits.facts().column_warps;
    // with e4m3 operands a column of ones gives the sum of the rounded probabilities
    let value_columns = traits.common.value_dim / column_warps + if e4m3 { 8 } else { 0 };
    // Q of e4m3 compute is rounded in registers, and stays there
    let queries = if e4m3 { Operand::RegistersFromZero } else { Operand::Shared };
    let mut products =
        vec![("wgmma_qk", traits.facts().tile_keys, queries), ("wgmma_pv", value_columns, Operand::Registers)];
    if column_warps > 1 {
        // warpgroups that share rows exchange P
        products.push(("wgmma_pv", value_columns, Operand::Shared));
    }
    for (name, columns, a) in products {
        let (depth, by) = if e4m3 { (32, "columns") } else { (16, "rows") };
        let what = match a {
            Operand::Shared => format!(
                "c (64 x {columns}, f32) += a (64 x {depth}) * b ({depth} x {columns}), both in shared memory; = \
                instead of += unless it accumulates."
            ),
            Operand::Registers | Operand::RegistersFromZero => format!(
                "c (64 x {columns}, f32) += a (64 x {depth}, in registers) * b ({depth} x {columns}, by {by}, in \
                shared memory){}.",
                if matches!(a, Operand::Registers) { "" } else { "; = instead of += unless it accumulates" }
            ),
        };
        text += &format!("// {what}\ntemplate <class E>\ninline void {name}({});\n", parameters(a, columns));
        let elements: &[_] = if e4m3 { &["e4m3"] } else { &["bf16", "f16"] };
        for element in elements {
            text += &instruction(name, element, columns, a);
        }
    }
    text
}

/// The memory of operand A.
#[derive(Clone, Copy)]
enum Operand {
    Shared,
    Registers,
    /// In registers, too. The instruction writes the accumulators, unless it is told to add to them.
    RegistersFromZero,
}

fn parameters(a: Operand, columns: u32) -> String {
    let c = format!("float (&c)[{}][4]", columns / 8);
    match a {
        Operand::Shared => format!("{c}, unsigned long long a, unsigned long long b, bool accumulate"),
        Operand::Registers => format!("{c}, const unsigned (&a)[4], unsigned long long b"),
        Operand::RegistersFromZero => format!("{c}, const unsigned (&a)[4], unsigned long long b, bool accumulate"),
    }
}

fn instruction(name: &str, element: &str, columns: u32, a: Operand) -> String {
    let (count, by_rows) = (columns / 2, u32::from(name == "wgmma_pv"));
    let list = |range: std::ops::Range<u32>| range.map(|i| format!("%{i}")).collect::<Vec<_>>().join(", ");
    let outputs: Vec<_> = (0..count).map(|i| format!("\"+f\"(c[{}][{}])", i / 4, i % 4)).collect();
    // operands of 8 bits have no transposed form, and no operand that says so
    let (depth, transposes) = match (element, a) {
        ("e4m3", _) => (32, String::new()),
        (_, Operand::Shared) => (16, format!(", 0, {by_rows}")),
        (_, Operand::Registers | Operand::RegistersFromZero) => (16, ", 1".to_owned()),
    };
    let shape = format!("wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.f32.{element}.{element}");
    let (body, inputs) = match a {
        Operand::Shared => (
            format!(
                "\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{}, 0;\\n\"\n      \"{shape} {{{}}}, %{}, %{}, \
                 p, 1, 1{transposes};\\n}}\"",
                count + 2,
                list(0..count),
                count,
                count + 1
            ),
            "\"l\"(a), \"l\"(b), \"r\"((int)accumulate)".to_owned(),
        ),
        Operand::Registers => (
            format!(
                "\"{shape} {{{}}}, {{{}}}, %{}, 1, 1, 1{transposes};\"",
                list(0..count),
                list(count..count + 4),
                count + 4
            ),
            "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b)".to_owned(),
        ),
        Operand::RegistersFromZero => (
            format!(
                "\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{}, 0;\\n\"\n      \"{shape} {{{}}}, {{{}}}, %{}, p, 1, \
                 1{transposes};\\n}}\"",
                count + 5,
                list(0..count),
                list(count..count + 4),
                count + 4
            ),
            "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b), \"r\"((int)accumulate)".to_owned(),
        ),
    };
    format!(
        "template <>\ninline void {name}<{element}>({}) {{\n  asm volatile(\n      {body}\n      : {}\n      \
         : {inputs});\n}}\n",
        parameters(a, columns),
        outputs.join(", ")
    )
}
