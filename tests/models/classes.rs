//! `attn::models` against the classes of Hugging Face's transformers: `data/model_classes.jsonl`, which
//! `data/make_models.py` makes and describes. Each class as it is saved, with each field left out or `null`, with each
//! form of rotary embedding, and what is refused.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use attn::Variant;
use attn::lang::{Dims, KvIndex, LogitIndex, ParamValue, ParamValues, RowIndex};
use attn::models::{Layer, from_value};
use attn_core::lang::param_tensor::OutBuffer;
use attn_core::lang::params::{ArgVisitor, TensorArg};
use serde_json::{Map, Value};

const LINES: &str = include_str!("../data/model_classes.jsonl");
const QUERY: i32 = 20_000;
const KEYS: usize = 41_000;
/// The position of the rows.
const POS: i32 = 9000;

/// The lines of the file.
#[derive(Default)]
struct Truth {
    bases: HashMap<String, Value>,
    frequencies: Vec<Vec<f64>>,
    kinds: Vec<Value>,
    cases: Vec<Map<String, Value>>,
    /// Kinds and layers that are right: most cases share them.
    right: RefCell<HashSet<(usize, String)>>,
}

impl Truth {
    fn read() -> Self {
        let mut truth = Truth::default();
        for line in LINES.lines().skip(1) {
            let mut line: Map<String, Value> = serde_json::from_str(line).expect("an object");
            match (line.remove("config"), line.remove("inv_freq"), line.remove("kind")) {
                (Some(config), ..) => drop(truth.bases.insert(text(&line["base"]).to_owned(), config)),
                (_, Some(list), _) => truth.frequencies.push(numbers(&list)),
                (.., Some(kind)) => truth.kinds.push(kind),
                _ => truth.cases.push(line),
            }
        }
        truth
    }

    /// The configuration of a case.
    fn config(&self, case: &Map<String, Value>) -> Value {
        let mut config = match case.get("base") {
            Some(base) => self.bases[text(base)].clone(),
            None => Value::Object(Map::new()),
        };
        fn within<'c>(config: &'c mut Value, name: &'c str) -> (&'c mut Map<String, Value>, &'c str) {
            let (outer, name) = match name.strip_prefix("text_config.") {
                Some(name) => (&mut config["text_config"], name),
                None => (config, name),
            };
            (outer.as_object_mut().expect("an object"), name)
        }
        for name in case.get("removed").and_then(Value::as_array).into_iter().flatten() {
            let (object, name) = within(&mut config, text(name));
            object.remove(name).expect("a field of the base");
        }
        for (name, value) in case.get("set").and_then(Value::as_object).into_iter().flatten() {
            let (object, name) = within(&mut config, name);
            object.insert(name.to_owned(), value.clone());
        }
        config
    }

    /// What is wrong with the reading of a case.
    fn check(&self, case: &Map<String, Value>) -> Result<(), String> {
        let config = self.config(case);
        let model = match (from_value(&config), case.get("refused").map(text)) {
            (Ok(_), Some(name)) => return Err(format!("`{name}` is not refused")),
            (Err(error), Some(name)) if error.to_string().contains(&format!("`{name}")) => return Ok(()),
            (Err(error), Some(name)) => return Err(format!("the refusal does not name `{name}`: {error}")),
            (Err(error), None) => return Err(format!("refused: {error}")),
            (Ok(model), None) => model,
        };
        let want = &case["want"];
        let heads = [model.heads.qo, model.heads.kv, model.heads.head_dim].map(f64::from);
        same("heads", &heads.to_vec(), &numbers(&want[0]))?;
        let (layers, kinds) = (text(&want[1]), numbers(&want[2]));
        same("layers", &model.layers.len(), &layers.len())?;
        for (kind, layer) in layers.chars().zip(&model.layers) {
            let kind = kinds[kind.to_digit(10).expect("a digit") as usize] as usize;
            let key = (kind, format!("{} {:?} {heads:?}", layer.variant, layer.sm_scale));
            if !self.right.borrow().contains(&key) {
                let want = &self.kinds[kind];
                self.check_layer(layer, heads, want).map_err(|error| format!("{}: {error}", layer.variant))?;
                self.right.borrow_mut().insert(key);
            }
        }
        Ok(())
    }

    fn check_layer(&self, layer: &Layer, [qo, kv, dim]: [f64; 3], want: &Value) -> Result<(), String> {
        let variant = bound(&layer.variant, [qo, kv, dim])?;
        // keys
        let mut keep = vec![true; KEYS];
        let row = RowIndex { qo_pos: QUERY, ..RowIndex::default() };
        variant.mask_tile(&mut keep, LogitIndex { row, ..LogitIndex::default() });
        let (first, last) = (want[0].as_u64().unwrap_or(0), want[1].as_u64().unwrap_or(KEYS as u64 - 1));
        let wanted: Vec<bool> = (0..KEYS as u64).map(|i| (first..=last).contains(&i)).collect();
        if keep != wanted {
            let got = [keep.iter().position(|&kept| kept), keep.iter().rposition(|&kept| kept)];
            return Err(format!("query {QUERY} attends to keys {got:?}, not {first} to {last}"));
        }
        // logits
        let scale = layer.sm_scale.map_or(1.0 / dim.sqrt(), f64::from);
        near("scale", scale, want[2].as_f64().expect("a number"), 1e-6)?;
        same("cap", &value(&variant, "soft_cap", "cap"), &want[3].as_f64())?;
        let sink = variant.parts().any(|part| part.desc().name == "sink");
        same("sink", &sink, &want[4].as_bool().expect("a truth"))?;
        // rotary embedding
        let got = frequencies(&variant);
        let wanted = want[5].as_u64().map(|line| &self.frequencies[line as usize]);
        same("whether there are frequencies", &got.is_some(), &wanted.is_some())?;
        if let (Some(got), Some(wanted)) = (got, wanted) {
            same("frequencies", &got.len(), &wanted.len())?;
            for (i, (got, want)) in got.iter().zip(wanted).enumerate() {
                near(&format!("frequency {i}"), *got, *want, 3e-6)?;
            }
        }
        let of_yarn = |name| value(&variant, "yarn", name);
        let factor =
            of_yarn("mscale").zip(of_yarn("factor")).map_or(1.0, |(mscale, factor)| mscale * factor.ln() + 1.0);
        near("attention factor", factor, want[6].as_f64().expect("a number"), 1e-6)?;
        // rows
        let row = |of: fn(f64) -> f64| (0..dim as usize).map(|d| of(d as f64) as f32).collect::<Vec<f32>>();
        let (mut q, mut k) = (row(|d| (0.7 * d).sin()), row(|d| (0.3 * d + 1.0).cos()));
        variant.query_row(&mut q, RowIndex { qo_pos: POS, ..RowIndex::default() });
        variant.key_row(&mut k, KvIndex { kv_pos: POS, ..KvIndex::default() });
        let got = [digest(&q), digest(&k)].concat();
        for (got, want) in got.iter().zip(&want.as_array().expect("a list")[7..]) {
            let want = want.as_f64().expect("a number");
            // angles, 9000 times a frequency, are good to 1e-3
            if (got - want).abs() > 1e-2 {
                return Err(format!("a row's product is {got}, not {want}"));
            }
        }
        Ok(())
    }
}

/// The variant with the weights of the file.
fn bound(variant: &Variant, [qo, kv, dim]: [f64; 3]) -> Result<Variant, String> {
    let [qo_heads, kv_heads, head_dim] = [qo, kv, dim].map(|n| Some(n as i64));
    let dims = Dims { qo_heads, kv_heads, head_dim, ..Dims::default() };
    let names: Vec<_> = variant.parts().map(|part| part.desc().name).collect();
    let mut variant = variant.clone();
    let mut set = |name: &str, of: &dyn Fn(u32) -> f64, len: f64| {
        let list = (0..len as u32).map(|d| ParamValue::Float(of(d))).collect();
        variant.set(name, ParamValue::List(list)).map_err(|error| error.to_string())
    };
    if names.contains(&"sink") {
        set("logits", &|_| 0.0, qo)?;
    }
    // the norm of Llama 4, which has no weights, comes last
    if names.contains(&"qk_norm") && names.last() != Some(&"qk_norm") {
        set("q_weight", &|d| 0.5 + f64::from(d % 7) / 10.0, dim)?;
        set("k_weight", &|d| 1.5 - f64::from(d % 5) / 10.0, dim)?;
    }
    variant.bind(&dims).map_err(|error| error.to_string())
}

fn digest(row: &[f32]) -> Vec<f64> {
    let product = |of: fn(f64) -> f64| row.iter().enumerate().map(|(d, &x)| f64::from(x) * of(d as f64)).sum();
    vec![product(|d| (1.3 * d + 0.2).sin()), product(|d| (2.1 * d).cos())]
}

/// A number of a part that the variant may have.
fn value(variant: &Variant, part: &str, name: &str) -> Option<f64> {
    let ParamValues(values) = variant.parts().find(|p| p.desc().name == part)?.to_values();
    let (_, value) = values.into_iter().find(|(n, _)| n == name)?;
    Some(value.to_string().parse().expect("a number"))
}

/// The last parameter tensor that a kernel is given.
#[derive(Default)]
struct LastTensor(Vec<f64>);

impl ArgVisitor for LastTensor {
    fn scalar(&mut self, _: u32) {}

    fn tensor(&mut self, tensor: TensorArg<'_>) {
        let floats = tensor.bytes.chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().expect("four")));
        self.0 = floats.map(f64::from).collect();
    }

    fn out(&mut self, _: Option<&OutBuffer>, _: &[i64]) {}
}

/// The frequencies of the rotary embedding.
fn frequencies(variant: &Variant) -> Option<Vec<f64>> {
    let rotary = variant.parts().find(|part| ["rope", "llama3_rope", "yarn"].contains(&part.desc().name))?;
    let mut last = LastTensor::default();
    rotary.visit_args(&mut last);
    Some(last.0)
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, want: &T) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("{what}: {got:?}, not {want:?}")) }
}

fn near(what: &str, got: f64, want: f64, bound: f64) -> Result<(), String> {
    if (got - want).abs() <= bound * want.abs() { Ok(()) } else { Err(format!("{what}: {got}, not {want}")) }
}

#[test]
fn configurations_are_read_as_their_classes_read_them() {
    let truth = Truth::read();
    let refused = truth.cases.iter().filter(|case| case.contains_key("refused")).count();
    assert!(truth.cases.len() > 700 && refused < truth.cases.len() / 5, "{} cases", truth.cases.len());
    let describe = |case: &Map<String, Value>| {
        let shown = case.iter().filter(|(name, _)| *name != "want");
        shown.map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join(", ")
    };
    let check = |case| truth.check(case).err().map(|error| format!("{}\n    {error}", describe(case)));
    let wrong: Vec<_> = truth.cases.iter().filter_map(check).collect();
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), truth.cases.len(), wrong.join("\n"));
}
