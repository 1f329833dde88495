//! The bytes that each kernel may spill.

use attn_kernels::{compile::wgmma_serialised, jit};

/// A line of the budget: `kernel, part of the source's name = bytes`.
pub(crate) struct Allowance {
    kernel: &'static str,
    words: &'static str,
    bytes: u32,
}

pub(crate) fn budget() -> Vec<Allowance> {
    let lines = include_str!("../../spill_budget.txt").lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#'));
    lines
        .map(|line| {
            let (what, bytes) = line.rsplit_once('=').expect("kernel, words = bytes");
            let (kernel, words) = what.split_once(',').expect("kernel, words");
            Allowance { kernel: kernel.trim(), words: words.trim(), bytes: bytes.trim().parse().expect("bytes") }
        })
        .collect()
}

/// The most generous line that matches. A kernel that no line matches may not spill.
fn allowed(budget: &[Allowance], kernel: &str, name: &str) -> u32 {
    let fits = |a: &&Allowance| a.kernel == kernel && name.contains(a.words);
    budget.iter().filter(fits).map(|a| a.bytes).max().unwrap_or(0)
}

pub(crate) fn over_budget<S>(name: &str, ready: &jit::Ready<S>, budget: &[Allowance]) -> Vec<String> {
    let kernels = ready.compiled.resources();
    if kernels.is_empty() {
        return vec![format!("{name}: the log names no kernel:\n{}", ready.compiled.log)];
    }
    let decode =
        spills_of(&ready.compiled.log, DECODE_PART).filter(|&bytes| bytes > allowed(budget, DECODE_PART, name));
    let decode = decode.map(|bytes| format!("{DECODE_PART}, {name} = {bytes}"));
    let serialised = wgmma_serialised(&ready.compiled.log).map(|line| format!("{name}: {line}"));
    let over = kernels.iter().filter_map(|kernel| {
        let (spilled, allowed) = (kernel.spill_bytes(), allowed(budget, &kernel.kernel, name));
        (spilled > allowed).then(|| format!("{}, {name} = {spilled} (allowed: {allowed})", kernel.kernel))
    });
    serialised.chain(over).chain(decode).collect()
}

/// The function that mixed kernels with sm_90 prefill call for decode. Its registers are allocated apart.
const DECODE_PART: &str = "decode_part";

/// The bytes that a function which kernels call spills, stores and loads together.
fn spills_of(log: &str, function: &str) -> Option<u32> {
    let mut lines = log.lines().skip_while(|line| !(line.contains("Function properties") && line.contains(function)));
    let amounts = lines.nth(1)?.split(',').filter(|amount| amount.contains("spill"));
    let bytes = |amount: &str| amount.split_whitespace().find_map(|word| word.parse::<u32>().ok());
    Some(amounts.filter_map(bytes).sum())
}
