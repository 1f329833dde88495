//! Hostile texts: each is read, or refused, and planned for 1024 queries and 1024 keys within seconds and in little
//! memory, in a process of its own family. `ATTN_TEST_HOSTILE=all` runs them all; else each family runs
//! a sample. `ATTN_TEST_HOSTILE_FAMILY=chains ATTN_TEST_HOSTILE_ONLY=sum_500` before this program runs one text.

mod families;

use std::{env, fs, process::Command, time::Duration};

use attn_core::batch::Batch;
use attn_core::lang::{Dims, FieldType, ParamValue, ParamValues, VariantDesc};
use attn_core::plan::{Cost, PlanRule, Schedule, WorkList};
use attn_core::spec::Heads;
use attn_core::{Registry, Variant};

/// The longest that a text may take, with one plan.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most memory of the process.
const MEMORY_KB: u64 = 256 << 10;
/// The variable that names the family of a child.
const FAMILY: &str = "ATTN_TEST_HOSTILE_FAMILY";

/// Loads a text, and plans with each variant. What happened, in a word.
fn read(text: &str) -> &'static str {
    let Ok(variants) = attn_text::load(&[("hostile.rs", text)]) else { return "refused" };
    plan(variants[0]);
    "read"
}

/// A plan of 1024 queries and as many keys, if the variant can be bound.
fn plan(desc: &'static VariantDesc) {
    let mut values = ParamValues::default();
    for field in desc.fields.iter().filter(|field| field.default.is_none()) {
        if let FieldType::Scalar(elem) = field.ty {
            let value = if elem.is_float() { ParamValue::Float(1.5) } else { ParamValue::Int(64) };
            values.set(field.name, value);
        }
    }
    let Ok(part) = (desc.make)(desc, &values) else { return };
    let mut registry = Registry::empty();
    registry.register_all(&[desc]).expect("one variant");
    let Ok(variant) = Variant::parse_with(&part.to_string(), &registry) else { return };
    let heads = Heads { qo: 4, kv: 1, head_dim: 64 };
    let layout = Batch::ragged(&[0, 1024], &[0, 1024]).validate().expect("sound");
    let dims = Dims { qo_heads: Some(4), kv_heads: Some(1), head_dim: Some(64), ..layout.dims(heads) };
    let Ok(bound) = variant.bind(&dims) else { return };
    let rule = PlanRule {
        tile_rows: 128,
        kv_align: 128,
        min_span: 0,
        workers: 132,
        cost: Cost::BLOCKS,
        schedule: Schedule::LongestFirst,
    };
    let _ = WorkList::build_for(&bound, &layout, heads, &rule.into());
}

/// The processor time that this process has taken: neighbours on the machine do not count.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // behind the name of the program, in ticks of 10 ms
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

/// The most memory that this process has had since the last call, in kB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
    let _ = fs::write("/proc/self/clear_refs", "5");
    kb.unwrap_or(0)
}

/// The texts of a family, by name, and the longest time and most memory of one.
fn run(family: &str) -> String {
    let child = Command::new(env::current_exe().expect("this program"))
        .args(["--exact", "one_family", "--ignored", "--nocapture"])
        .env(FAMILY, family)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    let tail = || said.lines().rev().take(3).collect::<Vec<_>>().join("\n");
    assert!(child.status.success(), "{family} ended with {}: {}\n{}", child.status, tail(), lines_of(&child.stderr));
    said
}

fn lines_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(2000).collect()
}

/// Whether all texts run.
fn is_whole() -> bool {
    env::var("ATTN_TEST_HOSTILE").is_ok_and(|what| what == "all")
}

#[test]
#[ignore = "a child of the others"]
#[allow(clippy::print_stdout)] // its parent reads it
fn one_family() {
    let Ok(family) = env::var(FAMILY) else { return };
    peak();
    let mut slow = Vec::new();
    let only = env::var("ATTN_TEST_HOSTILE_ONLY").ok();
    let wanted = |name: &str| only.as_ref().is_none_or(|only| name == only);
    let texts = families::texts(&family, is_whole()).into_iter().enumerate();
    let texts = texts.filter(|(i, (name, _))| match only {
        Some(_) => wanted(name),
        None => is_whole() || i % 7 == 0 || families::FOUND.contains(&name.as_str()),
    });
    for (_, (name, text)) in texts {
        println!("begin {name}");
        let began = cpu_time();
        let outcome = read(&text);
        let (took, kb) = (cpu_time() - began, peak());
        println!("{name}: {outcome} in {} ms, {} MB", took.as_millis(), kb >> 10);
        if took > PATIENCE || kb > MEMORY_KB {
            slow.push(format!("{name}: {:.1} s, {} MB", took.as_secs_f64(), kb >> 10));
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

macro_rules! families {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            let said = run(stringify!($name));
            let texts = said.lines().filter(|line| line.contains(" ms, ")).count();
            assert!(texts > 2, "{texts} texts ran\n{said}");
        }
    )*};
}
families!(nesting chains many exponential numbers loops names committed);
