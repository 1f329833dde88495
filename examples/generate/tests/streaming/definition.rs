//! A Llama by its definition: f64, one token at a time, keys and values in plain lists.

use generate::model::{config::LlamaConfig, random_weights::MadeUp, weights::Checkpoint as _};

/// A model and the text so far.
pub(crate) struct Definition {
    config: LlamaConfig,
    random_weights: MadeUp,
    /// For each layer the keys, not rotated, and values of each token.
    cache: Vec<Vec<[Vec<f64>; 2]>>,
}

impl Definition {
    pub(crate) fn new(random_weights: &MadeUp) -> Self {
        let config = random_weights.config;
        Definition { config, random_weights: *random_weights, cache: vec![Vec::new(); config.layers] }
    }

    /// Tokens so far.
    pub(crate) fn len(&self) -> usize {
        self.cache[0].len()
    }

    /// The logits after one more token, which attends to the tokens that are kept, itself included.
    pub(crate) fn next(&mut self, token: u32, kept: impl Fn(usize) -> bool) -> Vec<f64> {
        let config = self.config;
        let (width, ffn) = (config.width, config.ffn);
        let table = self.tensor("token_embd.weight", &[config.vocab, width]);
        let mut x = table[token as usize * width..][..width].to_vec();
        for layer in 0..config.layers {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            let normed = self.norm(&name("attn_norm"), &x);
            let of = |part: &str, outputs| self.product(&name(part), outputs, &normed);
            let (q, k, v) =
                (of("attn_q", config.q_width()), of("attn_k", config.kv_width()), of("attn_v", config.kv_width()));
            self.cache[layer].push([k, v]);
            let attended = self.attend(layer, &q, &kept);
            add(&mut x, &self.product(&name("attn_output"), width, &attended));
            let normed = self.norm(&name("ffn_norm"), &x);
            let gate = self.product(&name("ffn_gate"), ffn, &normed);
            let up = self.product(&name("ffn_up"), ffn, &normed);
            let activated: Vec<f64> = gate.iter().zip(&up).map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
            add(&mut x, &self.product(&name("ffn_down"), width, &activated));
        }
        let normed = self.norm("output_norm.weight", &x);
        self.product("token_embd.weight", config.vocab, &normed)
    }

    fn attend(&self, layer: usize, q: &[f64], kept: &impl Fn(usize) -> bool) -> Vec<f64> {
        let heads = self.config.heads;
        let (dim, group) = (heads.head_dim as usize, (heads.qo / heads.kv) as usize);
        let tokens: Vec<_> =
            (0..self.len()).filter(|&token| kept(token)).map(|token| &self.cache[layer][token]).collect();
        let mut out = Vec::new();
        for (head, q) in q.chunks(dim).enumerate() {
            let part = |row: &[f64]| row[head / group * dim..][..dim].to_vec();
            let q = self.rotated(q, tokens.len() - 1);
            let logit =
                |(nth, [k, _]): (usize, &&[Vec<f64>; 2])| dot(&q, &self.rotated(&part(k), nth)) / (dim as f64).sqrt();
            let logits: Vec<f64> = tokens.iter().enumerate().map(logit).collect();
            let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = logits.iter().map(|x| (x - most).exp()).collect();
            let sum: f64 = weights.iter().sum();
            let mut row = vec![0.0; dim];
            for (weight, [_, v]) in weights.iter().zip(&tokens) {
                row.iter_mut().zip(part(v)).for_each(|(x, v)| *x += weight / sum * v);
            }
            out.extend(row);
        }
        out
    }

    /// A row whose neighbouring pairs are rotated by a position.
    fn rotated(&self, row: &[f64], position: usize) -> Vec<f64> {
        let mut out = row.to_vec();
        for (i, pair) in out.chunks_mut(2).enumerate() {
            let angle = position as f64 * f64::from(self.config.rope_theta).powf(-2.0 * i as f64 / row.len() as f64);
            let (a, b) = (pair[0], pair[1]);
            (pair[0], pair[1]) = (a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin());
        }
        out
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Vec<f64> {
        let tensor = self.random_weights.tensor(name, shape).expect("made-up tensors have every shape");
        tensor.into_iter().map(f64::from).collect()
    }

    fn norm(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let mean = dot(x, x) / x.len() as f64;
        let scale = (mean + f64::from(self.config.norm_eps)).sqrt().recip();
        self.tensor(name, &[x.len()]).iter().zip(x).map(|(weight, x)| weight * x * scale).collect()
    }

    fn product(&self, name: &str, outputs: usize, x: &[f64]) -> Vec<f64> {
        self.tensor(name, &[outputs, x.len()]).chunks(x.len()).map(|row| dot(row, x)).collect()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], x: &[f64]) {
    to.iter_mut().zip(x).for_each(|(to, x)| *to += x);
}
