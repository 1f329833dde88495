extern crate attn_core as attn;

use attn::compose;

struct Causal;

fn main() {
    let _ = compose!(or(Causal));
    let _ = compose!(not(Causal, Causal));
    let _ = compose!(remap(Causal));
    let _ = compose!(per_head([0, 1]));
    let _ = compose!(union());
}
