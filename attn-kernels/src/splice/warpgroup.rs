//! The instructions of `arch/wgmma.cuh`, which have as many operands as a tile is wide.

use crate::cell::Cell;

/// `multiply_logits` and `multiply_outputs`, of the types that tensor cores multiply.
pub(super) fn text(cell: &Cell) -> String {
    let mut text = String::from("\n#line 1 \"products of a warpgroup\"\n");
    for (name, columns, a) in
        [("multiply_logits", cell.tile_keys, Operand::Shared), ("multiply_outputs", cell.value_dim, Operand::Registers)]
    {
        let what = match a {
            Operand::Shared => format!(
                "c (64 x {columns}, f32) += a (64 x 16) * b (16 x {columns}), both in shared memory; or = where it does not accumulate."
            ),
            Operand::Registers => format!(
                "c (64 x {columns}, f32) += a (64 x 16, in registers) * b (16 x {columns}, by rows, in shared memory)."
            ),
        };
        text += &format!("// {what}\ntemplate <class E>\ninline void {name}({});\n", parameters(a, columns));
        for element in ["bf16", "f16"] {
            text += &product(name, element, columns, a);
        }
    }
    text
}

/// Where the left operand is.
#[derive(Clone, Copy)]
enum Operand {
    Shared,
    Registers,
}

fn parameters(a: Operand, columns: u32) -> String {
    let c = format!("float (&c)[{}][4]", columns / 8);
    match a {
        Operand::Shared => format!("{c}, unsigned long long a, unsigned long long b, bool accumulate"),
        Operand::Registers => format!("{c}, const unsigned (&a)[4], unsigned long long b"),
    }
}

fn product(name: &str, element: &str, columns: u32, a: Operand) -> String {
    let count = columns / 2;
    let list = |range: std::ops::Range<u32>| range.map(|i| format!("%{i}")).collect::<Vec<_>>().join(", ");
    let outputs: Vec<_> = (0..count).map(|i| format!("\"+f\"(c[{}][{}])", i / 4, i % 4)).collect();
    let shape = format!("wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{element}.{element}");
    let (body, inputs) = match a {
        Operand::Shared => (
            format!(
                "\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{}, 0;\\n\"\n      \"{shape} {{{}}}, %{}, %{}, p, 1, 1, 0, 0;\\n}}\"",
                count + 2,
                list(0..count),
                count,
                count + 1
            ),
            "\"l\"(a), \"l\"(b), \"r\"((int)accumulate)".to_owned(),
        ),
        Operand::Registers => (
            format!("\"{shape} {{{}}}, {{{}}}, %{}, 1, 1, 1, 1;\"", list(0..count), list(count..count + 4), count + 4),
            "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b)".to_owned(),
        ),
    };
    format!(
        "template <>\ninline void {name}<{element}>({}) {{\n  asm volatile(\n      {body}\n      : {}\n      : {inputs});\n}}\n",
        parameters(a, columns),
        outputs.join(", ")
    )
}
