//! Families of hostile texts, by what is hostile about them.

mod chains;
mod committed;
mod exponential;
mod loops;
mod many;
mod names;
mod nesting;
mod numbers;
mod source;

use source::Texts;

/// The texts that were slow, ran out of stack or did not end before there was a budget. They always run.
pub(crate) const FOUND: [&str; 24] = [
    "require_contains_20",
    "require_contains_30",
    "tuples_20",
    "parts_20",
    "structs_30",
    "indices_30",
    "uniform_30",
    "ones_30",
    "mask_ones_30",
    "guards_60",
    "mask_guard_60",
    "helpers_doubled_16",
    "helpers_doubled_2000",
    "helpers_looped_far_8",
    "shadowed_5000",
    "read_consts_4000",
    "arguments_16000",
    "instances_16000",
    "helpers_4000",
    "variants_1000",
    "empty_6_64",
    "type_option_300",
    "integer_1000000",
    "argument_18446744073709551615",
];

/// The texts of a family by their names; a sample of a fuzzer's corpora unless `whole`.
pub(crate) fn texts(family: &str, whole: bool) -> Vec<(String, String)> {
    let mut all = Texts::default();
    match family {
        "nesting" => nesting::add(&mut all),
        "chains" => chains::add(&mut all),
        "many" => many::add(&mut all),
        "exponential" => exponential::add(&mut all),
        "numbers" => numbers::add(&mut all),
        "loops" => loops::add(&mut all),
        "names" => names::add(&mut all),
        _ => committed::add(&mut all, whole),
    }
    all.0
}
