//! Stock variants and `models::from_config` against outputs of the models' own code in Hugging Face's transformers:
//! `data/transformers.safetensors`, which `data/make_transformers.py` makes. On the CPU in f32; on a GPU too where
//! there is one. Outputs are in f64, of a softmax in f32, and good to about 1e-6.

use attn::expr::TensorContent;
use attn::lang::{Tensor1, Tensor2};
use attn::models::{Layer, from_value};
use attn::stock::{Alibi, QkNorm, Rope, Sink, T5Bias};
use attn::{AttentionOptions, Batch, Dtypes, Engine, HeadDimVo, Heads, Kv, Out, Variant};
use attn_tests::gpu::engines;
use safetensors::SafeTensors;
use serde_json::{Value, json};

/// The file, and what its metadata says of each case.
struct Truth {
    bytes: Vec<u8>,
}

impl Truth {
    fn open() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/data/transformers.safetensors");
        Truth { bytes: std::fs::read(path).expect("in the repository") }
    }

    /// Shape and numbers of a tensor.
    fn tensor(&self, name: &str) -> (Vec<usize>, Vec<f64>) {
        let file = SafeTensors::deserialize(&self.bytes).expect("tensors");
        let tensor = file.tensor(name).expect(name);
        let numbers = match tensor.dtype() {
            safetensors::Dtype::F64 => {
                tensor.data().chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("eight"))).collect()
            }
            _ => floats(tensor.data()).map(f64::from).collect(),
        };
        (tensor.shape().to_vec(), numbers)
    }

    fn f32s(&self, name: &str) -> Vec<f32> {
        self.tensor(name).1.into_iter().map(|x| x as f32).collect()
    }

    /// The names of all cases.
    fn cases(&self) -> Vec<String> {
        let file = SafeTensors::deserialize(&self.bytes).expect("tensors");
        let mut names: Vec<String> =
            file.names().into_iter().filter_map(|name| name.strip_suffix(".o")).map(str::to_owned).collect();
        names.sort();
        names
    }
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four")))
}

/// What a case is in our words.
struct Spelled {
    layer: Layer,
    head_dim_vo: HeadDimVo,
    /// Parameter tensors that are set when weights are loaded.
    weights: Vec<(&'static str, Vec<f32>)>,
    /// Relative Frobenius error on the CPU, and on a GPU.
    bounds: [f64; 2],
}

fn parsed(expression: &str) -> Spelled {
    spelled(Variant::parse(expression).expect(expression))
}

fn spelled(variant: Variant) -> Spelled {
    Spelled {
        layer: Layer::from(variant),
        head_dim_vo: HeadDimVo::default(),
        weights: Vec::new(),
        bounds: [3e-6, 1e-5],
    }
}

fn with(mut spelled: Spelled, part: impl Into<Variant>) -> Spelled {
    spelled.layer.variant = spelled.layer.variant.and(part.into()).expect("they go together");
    spelled
}

fn t5_bias(truth: &Truth, name: &str, bidirectional: bool) -> Variant {
    let (shape, _) = truth.tensor(&format!("{name}.weights"));
    let weights = Tensor2::new(truth.f32s(&format!("{name}.weights")), [shape[0], shape[1]]).expect("a matrix");
    Variant::from(T5Bias { buckets: 32, max_distance: 128, bidirectional, weights, table: Tensor2::unset() })
}

/// The variant of a case, by the names and values of stock variants.
fn stock(truth: &Truth, name: &str) -> Spelled {
    let spelled = match name {
        "causal_gqa" | "cohere_causal_96" => parsed("causal"),
        "llama_rope" => parsed("causal + rope"),
        "rope_linear" => parsed("causal + rope(scale=4)"),
        "rope_llama3" => parsed("causal + llama3_rope(original_len=64)"),
        "rope_yarn" => parsed("causal + yarn(factor=4, original_len=64)"),
        "gemma2" => parsed("causal + sliding_window(window=24) + soft_cap(cap=50)"),
        "gpt_oss" => {
            let logits = Tensor1::from(truth.f32s("gpt_oss.sinks"));
            with(parsed("causal + sliding_window(window=20)"), Sink { logits })
        }
        "bloom_alibi" => with(parsed("causal"), Alibi::default()),
        "t5_bias_encoder" => spelled(t5_bias(truth, name, true)),
        "t5_bias_decoder" => with(parsed("causal"), t5_bias(truth, name, false)),
        "qwen3_qk_norm" => {
            let [q_weight, k_weight] = ["q", "k"].map(|x| Tensor1::from(truth.f32s(&format!("{name}.{x}_weight"))));
            let norm = QkNorm { q_weight, k_weight, ..QkNorm::default() };
            with(with(parsed("causal"), norm), Rope { theta: 1e6, ..Rope::default() })
        }
        "glm_partial_rotary" => parsed("causal + rope(interleaved=true, rotary_dim=32)"),
        "gptj_rotary" => parsed("causal + rope(interleaved=true, rotary_dim=16)"),
        "llama4_chunked" => parsed("causal + chunked(chunk=16)"),
        "mistral_window" => parsed("causal + sliding_window(window=17)"),
        "deepseek_mla" => Spelled { head_dim_vo: HeadDimVo::SharedWithKeys(512), ..parsed("causal") },
        other => panic!("{other} is not spelled"),
    };
    match name {
        // T5 does not scale
        "t5_bias_encoder" | "t5_bias_decoder" => scaled(spelled, 1.0),
        "deepseek_mla" => scaled(spelled, 1.0 / 192f32.sqrt()),
        // the GPU's tanh has 11 bits
        "gemma2" => Spelled { bounds: [3e-6, 5e-3], ..spelled },
        _ => spelled,
    }
}

fn scaled(mut spelled: Spelled, sm_scale: f32) -> Spelled {
    spelled.layer.sm_scale = Some(sm_scale);
    spelled
}

/// The relative Frobenius error of a case on an engine.
fn error(truth: &Truth, name: &str, spelled: &Spelled, engine: &Engine) -> f64 {
    let tensor = |part: &str| truth.tensor(&format!("{name}.{part}"));
    let ((q_shape, q), (k_shape, k), (v_shape, v), (o_shape, want)) =
        (tensor("q"), tensor("k"), tensor("v"), tensor("o"));
    let heads = Heads { qo: q_shape[1] as u32, kv: k_shape[1] as u32, head_dim: q_shape[2] as u32 };
    let options = AttentionOptions {
        sm_scale: spelled.layer.sm_scale,
        head_dim_vo: spelled.head_dim_vo,
        ..AttentionOptions::default()
    };
    let attention =
        engine.attention_with(&spelled.layer.variant, heads, Dtypes::f32(), options).expect("a supported case");
    let (qo, kv) = ([0, q_shape[0] as i32], [0, k_shape[0] as i32]);
    let stream = engine.stream().expect("a stream");
    for (name, weights) in &spelled.weights {
        attention.set_tensor(&stream, name, &TensorContent::host(weights)).expect("a tensor of the variant");
    }
    let plan = attention.plan(&Batch::ragged(&qo, &kv), &mut engine.workspace()).expect("planned");
    let upload = |values: &[f64]| engine.upload(&values.iter().map(|&x| x as f32).collect::<Vec<_>>()).expect("memory");
    let (q, k, v, mut o) = (upload(&q), upload(&k), upload(&v), upload(&vec![f64::NAN; want.len()]));
    let keys = k.tensor(&k_shape).expect("fits");
    let kv = match spelled.head_dim_vo {
        HeadDimVo::SharedWithKeys(_) => Kv::latent(keys),
        _ => Kv::ragged(keys, v.tensor(&v_shape).expect("fits")),
    };
    let out = Out::new(o.tensor_mut(&o_shape).expect("fits"));
    plan.run(&stream, q.tensor(&q_shape).expect("fits"), kv, out).expect("runs");
    stream.synchronize().expect("it ran");
    let got = engine.download::<f32>(&o).expect("read");
    let (mut apart, mut norm) = (0.0, 0.0);
    for (got, want) in got.iter().zip(&want) {
        apart += (f64::from(*got) - want).powi(2);
        norm += want * want;
    }
    (apart / norm).sqrt()
}

fn check(truth: &Truth, name: &str, spelled: &Spelled) -> Option<String> {
    let mut wrong = String::new();
    for (engine, bound) in engines().zip(spelled.bounds) {
        let error = error(truth, name, spelled, &engine);
        if error.is_nan() || error > bound {
            wrong += &format!("{name} on {engine}: {error:.1e} of {bound:.0e}; ");
        }
    }
    (!wrong.is_empty()).then_some(wrong)
}

#[test]
fn stock_variants_give_the_outputs_of_the_models() {
    let truth = Truth::open();
    let cases = truth.cases();
    assert_eq!(cases.len(), 17);
    let wrong: Vec<_> = cases.iter().filter_map(|name| check(&truth, name, &stock(&truth, name))).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A configuration of 2 layers with the fields of a model.
fn config(model: &str, heads: [u32; 3], fields: &Value) -> Value {
    let mut config = json!({
        "model_type": model, "num_hidden_layers": 2, "hidden_size": heads[0] * heads[2],
        "num_attention_heads": heads[0], "num_key_value_heads": heads[1], "head_dim": heads[2],
    });
    let fields = fields.as_object().expect("fields").clone();
    config.as_object_mut().expect("an object").extend(fields);
    config
}

#[test]
fn layers_that_configurations_name_give_the_outputs_of_the_models() {
    let truth = Truth::open();
    let scaling = |kind: &str, more: Value| {
        let mut scaling = json!({ "rope_type": kind, "original_max_position_embeddings": 64 });
        scaling.as_object_mut().expect("an object").extend(more.as_object().expect("fields").clone());
        json!({ "rope_theta": if kind == "llama3" { 500_000.0 } else { 10_000.0 }, "rope_scaling": scaling })
    };
    let llama3 = json!({ "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0 });
    let configs = [
        ("llama_rope", config("llama", [4, 2, 64], &json!({ "rope_theta": 10_000.0 }))),
        ("rope_linear", config("llama", [4, 4, 64], &scaling("linear", json!({ "factor": 4.0 })))),
        ("rope_llama3", config("llama", [4, 4, 64], &scaling("llama3", llama3))),
        ("rope_yarn", config("llama", [4, 4, 64], &scaling("yarn", json!({ "factor": 4.0 })))),
        ("qwen3_qk_norm", config("qwen3", [4, 2, 64], &json!({ "rope_theta": 1e6, "rms_norm_eps": 1e-6 }))),
    ];
    for (name, config) in configs {
        let model = from_value(&config).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut spelled = Spelled { layer: model.layers[0].clone(), ..parsed("causal") };
        if name == "qwen3_qk_norm" {
            spelled.weights = ["q_weight", "k_weight"].map(|x| (x, truth.f32s(&format!("{name}.{x}")))).to_vec();
        }
        assert_eq!(check(&truth, name, &spelled), None);
    }
}
