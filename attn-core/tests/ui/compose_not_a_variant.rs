extern crate attn_core as attn;

use attn::compose;

struct Plain;

fn main() {
    let _ = compose!(Plain);
}
