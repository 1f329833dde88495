//! Cost tables from files: which rows they replace, and what is refused.

use std::fmt::Write as _;

use attn_core::batch::{Batch, Layout, indptr};
use attn_core::dtype::{Dtype, Dtypes};
use attn_core::plan::ListRule;
use attn_core::spec::{DecodeBackend, HeadDimVo, Heads, KernelKind};
use proptest::prelude::*;

use super::*;
use crate::compile::Arch;
use crate::kernel_traits::{KernelTraits, KernelTraitsRequest};
use crate::plan_rules::{list_rule, plan_rule};
use crate::select::{FixedChoice, KernelSelector};

const FILE: &str = include_str!("../../../costs/sm_90.jsonl");
const DIMS: [(u32, u32); 4] = [(64, 64), (128, 128), (192, 128), (256, 256)];
const HEADS: Heads = Heads { qo: 32, kv: 8, head_dim: 128 };

fn about(arch: &str) -> String {
    format!("{{\"about\": {{\"arch\": \"{arch}\"}}}}")
}

/// A row of kernels over 16-bit keys of 128 elements. `kernel` is such as `decode of 8`.
fn row(kernel: &str, block: u32) -> String {
    let (kind, rows) = kernel.split_once(" of ").expect("a kernel");
    format!(
        "{{\"kernel\": \"{kind}\", \"rows\": {rows}, \"kv\": \"16-bit\", \"head_dim\": 128, \"hooks\": \"none\", \
         \"ctas_per_sm\": 2, \"launch\": 5000, \"item\": 900, \"block\": {block}, \"first\": 0, \
         \"merge_launch\": 900, \"merge\": 140}}"
    )
}

fn table(lines: &[&str]) -> CostTable {
    CostTable::parse(&lines.join("\n")).expect("sound")
}

fn traits(kind: KernelKind, arch: &str) -> KernelTraits {
    KernelTraits::choose(&request(kind, arch)).expect("supported")
}

fn request(kind: KernelKind, arch: &str) -> KernelTraitsRequest {
    let arch: Arch = arch.parse().expect("an architecture");
    KernelTraitsRequest { group: 4, ..KernelTraitsRequest::new(kind, 128, Dtypes::bf16(), arch) }
}

fn layout(qo: &[u32], kv: &[u32]) -> Layout {
    let (qo, kv) = (indptr(qo).expect("short"), indptr(kv).expect("short"));
    Batch::ragged(&qo, &kv).validate().expect("sound")
}

#[test]
fn the_file_of_the_built_in_costs_is_the_built_in_table() {
    let read = CostTable::parse(FILE).expect("ours");
    assert_eq!((read.rows(), read.loaded_rows()), (&BUILT_IN[..], BUILT_IN.len()));
    assert_eq!((CostTable::default().rows(), CostTable::default().loaded_rows()), (&BUILT_IN[..], 0));
    for about in FILE.lines().filter(|line| line.contains("\"about\"")) {
        let said = |field| about.contains(&format!("\"{field}\":\""));
        assert!(["device", "date", "commit"].into_iter().all(said), "{about}");
    }
}

#[test]
fn a_row_replaces_the_built_in_one_of_its_kernel_and_no_other() {
    let loaded = table(&[&about("sm_90"), &row("decode of 8", 777)]);
    let of = |costs: &CostTable, kind, hooks| costs.of(&traits(kind, "90a").cost_key(), hooks);
    let built_in = CostTable::default();
    assert_eq!(of(&loaded, KernelKind::Decode, HookClass::None).block, 777);
    assert_eq!(loaded.rows().len(), BUILT_IN.len(), "it replaces a row");
    for (kind, hooks) in [
        (KernelKind::Prefill, HookClass::None),
        (KernelKind::Decode, HookClass::Logits),
        (KernelKind::Decode, HookClass::Rewrites),
    ] {
        assert_eq!(of(&loaded, kind, hooks), of(&built_in, kind, hooks));
    }
}

#[test]
fn loaded_rows_come_before_rows_that_are_as_near() {
    // sm_90 and sm_110 are both two steps from sm_100
    let of = |lines: &[&str]| table(lines).of(&traits(KernelKind::Decode, "100a").cost_key(), HookClass::None);
    let scaled = of(&[&about("sm_110"), &row("decode of 8", 777)]);
    assert_ne!(scaled, CostTable::default().of(&traits(KernelKind::Decode, "100a").cost_key(), HookClass::None));
    // one of the architecture is nearer, wherever it is, and is not scaled
    let own = [&about("sm_110"), &row("decode of 8", 777), &about("sm_100"), &row("decode of 8", 555)];
    assert_eq!(of(&own.map(String::as_str)).block, 555);
    // of two of one major version it is the one of the minor version
    let ada = table(&[&about("sm_80"), &row("decode of 8", 777), &about("sm_89"), &row("decode of 8", 555)]);
    let block = |arch| ada.of(&traits(KernelKind::Decode, arch).cost_key(), HookClass::None).block;
    assert_eq!((block("80"), block("89")), (777, 555));
}

#[test]
fn plans_follow_loaded_costs() {
    let (decode, hooks) = (traits(KernelKind::Decode, "120"), HookClass::None);
    let rule = |costs: &CostTable| plan_rule(&decode, costs, hooks, decode.step_keys(), 264, 8);
    let built_in = rule(&CostTable::default());
    let loaded = rule(&table(&[&about("sm_120"), &row("decode of 8", 777)]));
    assert_ne!(built_in.cost, loaded.cost);
    assert_eq!((loaded.cost.block, loaded.cost.item, loaded.cost.merge), (777, 900, 140));
    assert_eq!(attn_core::plan::PlanRule { cost: built_in.cost, ..loaded }, built_in, "nothing else");

    // the kernel of a batch that decode and prefill can both run
    let selected = |costs: &CostTable| {
        let request = request(KernelKind::Prefill, "120");
        let alone = FixedChoice { shares_partials: true, ..FixedChoice::default() };
        let selector = KernelSelector::new(&request, hooks, costs, HEADS, 132, alone).expect("supported");
        selector.select(&layout(&[16; 64], &[4096; 64])).kind
    };
    let kernels = |decode, prefill| {
        let decodes = [row("decode of 8", decode), row("decode of 16", decode)];
        selected(&table(&[&about("sm_120"), &decodes[0], &decodes[1], &row("prefill of 128", prefill)]))
    };
    assert_eq!(kernels(100, 90_000), KernelKind::Decode);
    assert_eq!(kernels(90_000, 100), KernelKind::Prefill);

    // the decode backend
    let fast = row("decode of 4", 10).replace("\"rows\"", "\"backend\": \"cuda-cores\", \"rows\"");
    let backend = |costs: &CostTable| request(KernelKind::Decode, "120").with_decode_backend(hooks, costs).decode;
    assert_eq!(backend(&CostTable::default()), Some(DecodeBackend::TensorCores));
    assert_eq!(backend(&table(&[&about("sm_120"), &fast])), Some(DecodeBackend::CudaCores));
    let invariant = KernelTraitsRequest { row_invariant: true, ..request(KernelKind::Decode, "120") };
    let decode = invariant.with_decode_backend(hooks, &table(&[&about("sm_120"), &fast])).decode;
    assert_eq!(decode, Some(DecodeBackend::TensorCores), "its tiles decide which batches run");
}

#[test]
fn lines_that_are_no_rows_are_refused_with_what_is_possible() {
    let (about, good) = (about("sm_90"), row("decode of 8", 777));
    let of = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        match CostTable::parse(&format!("{about}\n\n{}\n", good.replace(from, to))) {
            Err(CostsError::Line { line: 3, why, .. }) => why,
            other => panic!("{to}: {other:?}"),
        }
    };
    for (from, to, why) in [
        ("\"decode\"", "\"attend\"", "`kernel` is attend; possible is decode, prefill"),
        ("\"decode\"", "\"mixed\"", "`kernel` is mixed; possible is decode, prefill"),
        ("16-bit", "4-bit", "`kv` is 4-bit; possible is 8-bit, 16-bit, 32-bit"),
        ("\"hooks\"", "\"meta\"", "missing field `hooks`"),
        ("\"none\"", "\"all\"", "unknown variant `all`, expected one of `none`, `logits`, `rewrites`"),
        ("\"rows\"", "\"backend\": \"sm90\", \"rows\"", "`backend` is sm90; possible is cuda-cores"),
        ("\"block\": 777", "\"block\": 0", "`block` is 0; possible is a whole number from 1 to 100000000"),
        ("\"ctas_per_sm\": 2", "\"ctas_per_sm\": 33", "`ctas_per_sm` is 33; possible is a whole number from 1 to 32"),
        ("900,", "-1,", "invalid value: integer `-1`, expected u32"),
        ("900,", "1.5,", "invalid type: floating point `1.5`, expected u32"),
        ("900,", "1e400,", "number out of range"),
        ("900,", "null,", "invalid type: null, expected u32"),
        ("900,", "\"1\",", "invalid type: string \"1\", expected u32"),
        ("900,", "[1],", "invalid type: sequence, expected u32"),
        ("900,", "100000001,", "`item` is 100000001; possible is a whole number from 0 to 100000000"),
        ("900,", "99999999999999999999,", "expected u32"),
    ] {
        let refused = of(from, to);
        assert!(refused.contains(why), "{to}: {refused}");
    }

    let text = |text: &str| CostTable::parse(text).expect_err("not sound").to_string();
    let twice = format!("{about}\n{good}\n{}\n{good}", row("decode of 16", 9));
    assert_eq!(text(&twice), "costs, line 4: line 2 has costs of the same kernel; remove one of them");
    assert!(text(&good).starts_with("costs, line 1: `arch` is missing"));
    assert!(text("{\"about\": {\"device\": \"D\"}}").starts_with("costs, line 1: missing field `arch`"));
    assert!(text("{\"about\": {\"arch\": \"sm_61\"}}").contains("`sm_61` is not a GPU architecture"));
    assert!(text("{\"about\": {\"arch\": 90}}").contains("integer `90`, expected a string"));
    assert!(text(&format!("{about}\n{good},")).contains("line 2: trailing characters at column "));
    assert!(text(&format!("{about}\n[1]")).contains("line 2: invalid type: sequence, expected a JSON object"));
    assert!(text("").contains("there are no costs in it"));
    assert!(text(&about).contains("there are no costs in it"));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("costs.jsonl");
    let error = CostTable::load(&path).expect_err("none").to_string();
    assert!(error.starts_with(&path.display().to_string()) && error.contains("attn calibrate"), "{error}");
    fs::write(&path, [0xff, 0xfe]).expect("written");
    assert!(matches!(CostTable::load(&path), Err(CostsError::Read { .. })));
    fs::write(&path, FILE).expect("written");
    assert_eq!(CostTable::load(&path).expect("ours").loaded_rows(), BUILT_IN.len());
}

/// Numbers at the ends of what a row may have.
fn extreme() -> impl Strategy<Value = [u32; 9]> {
    let cost = || prop_oneof![Just(0), Just(1), Just(100_000_000), 0u32..=100_000_000];
    let dims = || prop_oneof![Just(1u32), Just(8), Just(128), Just(1024)];
    let costs = (cost(), cost(), cost().prop_map(|cost| cost.max(1)), cost(), cost(), cost());
    (costs, prop_oneof![Just(1u32), Just(32)], dims(), dims()).prop_map(
        |((launch, item, block, first, merging, merge), ctas, rows, head_dim)| {
            [launch, item, block, first, merging, merge, ctas, rows, head_dim]
        },
    )
}

proptest! {
    #[test]
    fn text_of_any_kind_is_no_panic(text in "(\\{\"about\": \\{\"arch\": \"sm_90\"\\}\\}\n)?.{0,80}") {
        let _ = CostTable::parse(&text);
    }

    /// Sums of costs do not overflow, in builds that check it.
    #[test]
    fn extreme_costs_select_and_plan(
        kernels in prop::collection::vec(extreme(), 4),
        arch in prop_oneof![Just("sm_80"), Just("sm_90"), Just("sm_120")],
    ) {
        let mut text = about(arch);
        let kinds = [
            "\"decode\"",
            "\"prefill\"",
            "\"prefill\", \"backend\": \"sm90\"",
            "\"decode\", \"backend\": \"cuda-cores\"",
        ];
        for (kind, [launch, item, block, first, merging, merge, ctas, rows, head_dim]) in kinds.iter().zip(kernels) {
            write!(
                text,
                "\n{{\"kernel\": {kind}, \"rows\": {rows}, \"kv\": \"16-bit\", \"head_dim\": {head_dim}, \
                 \"hooks\": \"none\", \"ctas_per_sm\": {ctas}, \"launch\": {launch}, \"item\": {item}, \
                 \"block\": {block}, \"first\": {first}, \"merge_launch\": {merging}, \"merge\": {merge}}}"
            ).expect("text");
        }
        let costs = CostTable::parse(&text).expect("sound");
        let arch = if arch == "sm_90" { "sm_90a" } else { arch };
        let hooks = [HookClass::None, HookClass::Rewrites];
        for (kv, hooks) in [Dtype::Bf16, Dtype::E4m3].into_iter().flat_map(|kv| hooks.map(|hooks| (kv, hooks))) {
            let request = request(KernelKind::Prefill, arch);
            let request = KernelTraitsRequest { dtypes: Dtypes::bf16().with_kv(kv), ..request };
            let request = request.with_decode_backend(hooks, &costs);
            let selector = KernelSelector::new(&request, hooks, &costs, HEADS, 188, FixedChoice::default());
            let selector = selector.expect("supported");
            for (qo, keys) in [(1, 1 << 20), (16, 1 << 20), (4096, 1 << 20), (1, 0)] {
                let _ = selector.select(&layout(&[qo, 1, 300], &[keys, 7, 1 << 20]));
            }
            for kind in [KernelKind::Decode, KernelKind::Prefill] {
                let traits = KernelTraits::choose(&KernelTraitsRequest { kind, ..request }).expect("supported");
                let rule = plan_rule(&traits, &costs, hooks, traits.step_keys(), 188 * 32, 1);
                prop_assert!(rule.cost.block >= 1);
            }
            let mixed = KernelTraits::choose(&KernelTraitsRequest { kind: KernelKind::Mixed, ..request });
            if let Ok(mixed) = mixed {
                let rule = list_rule(&mixed, &costs, HookClass::None, 64, 188 * 2, 188, 8);
                prop_assert!(matches!(rule, ListRule::Mixed(rule) if rule.decode.cost.block >= 1));
            }
        }
    }
}

#[test]
fn loaded_costs_choose_no_decode_backend_without_the_mixed_kernel() {
    let table = |backend: &str| {
        let row = |bits: &str, head_dim: &str, hooks: &str| {
            let of_kernel = row("decode of 8", 1).replace("\"rows\"", &format!("{backend}\"rows\""));
            of_kernel.replace("16-bit", bits).replace("128", head_dim).replace("none", hooks)
        };
        let mut lines = Vec::new();
        for arch in ["sm_80", "sm_86", "sm_90", "sm_120"] {
            lines.push(about(arch));
            for (bits, hooks) in [("8-bit", "none"), ("16-bit", "none"), ("8-bit", "rewrites"), ("16-bit", "rewrites")]
            {
                lines.extend(["128", "256"].map(|head_dim| row(bits, head_dim, hooks)));
            }
        }
        CostTable::parse(&lines.join("\n")).expect("sound")
    };
    let tables = [table(""), table("\"backend\": \"cuda-cores\", ")];
    let archs = ["80", "86", "90a", "120"].map(|arch| arch.parse::<Arch>().expect("an architecture"));
    let (mut followed, mut kept) = (0, 0);
    for (arch, (head_dim, value_dim)) in archs.into_iter().flat_map(|arch| DIMS.map(|dims| (arch, dims))) {
        for (kv, group) in [Dtype::Bf16, Dtype::E4m3].into_iter().flat_map(|kv| [1, 4, 8, 16].map(|group| (kv, group)))
        {
            for (key_hooks, hooks) in [(false, HookClass::None), (true, HookClass::Rewrites)] {
                let request = KernelTraitsRequest {
                    head_dim_vo: HeadDimVo::Dim(value_dim),
                    group,
                    key_hooks,
                    value_hooks: key_hooks,
                    ..KernelTraitsRequest::new(KernelKind::Mixed, head_dim, Dtypes::bf16().with_kv(kv), arch)
                };
                let mixed = |costs: &CostTable, shared_rows| {
                    let request = KernelTraitsRequest { shared_rows, ..request.with_decode_backend(hooks, costs) };
                    (request.decode, KernelTraits::choose(&request).is_ok())
                };
                for (shared_rows, costs) in
                    [false, true].into_iter().flat_map(|rows| [(rows, &tables[0]), (rows, &tables[1])])
                {
                    let (built_in, loaded) = (mixed(&CostTable::default(), shared_rows), mixed(costs, shared_rows));
                    assert!(loaded.1 || !built_in.1, "{request:?}: {built_in:?} became {loaded:?}");
                    followed += u32::from(loaded.0 != built_in.0);
                    kept += u32::from(loaded.0 == built_in.0);
                }
            }
        }
    }
    assert!(followed > 50 && kept > 50, "{followed} {kept}");
}

#[test]
fn fields_that_are_not_understood_are_refused() {
    let with = |field: &str| row("decode of 8", 2000).replacen('{', &format!("{{{field}, "), 1);
    let refused = |line: &str| {
        let error = CostTable::parse(&format!("{}\n{line}", about("sm_120"))).expect_err(line).to_string();
        assert!(error.contains("line 2: "), "{error}");
        error
    };
    for (field, why) in [
        ("\"backnd\": \"sm90\"", "`backnd` is no field of a row of costs; did you mean `backend`?"),
        ("\"whatever\": 1", "`whatever` is no field of a row of costs; notes are in `meta`"),
        ("\"rows\": 16", "duplicate field `rows`"),
        ("\"about\": {\"arch\": \"sm_90\"}", "`about` is a line of its own"),
    ] {
        let error = refused(&with(field));
        assert!(error.contains(why), "{error}");
    }
    table(&[&about("sm_120"), &with("\"meta\": {\"of\": \"me\"}, \"us\": [1.5], \"off\": 0.1")]);
}
