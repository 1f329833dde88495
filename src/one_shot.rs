//! Attention in one call.

use crate::{Batch, Dtypes, Element, Engine, Error, Heads, Kv, Out, Variant};

/// The attention of one request over arrays of the host: queries (tokens, qo_heads, head_dim), keys and values (tokens,
/// kv_heads, head_dim), one after the other without gaps. Returns o, with the shape of the queries. It uploads, plans,
/// runs and downloads; an engine makes an [`Attention`](crate::Attention) once and a [`Plan`](crate::Plan) each step.
///
/// The last query is at the position of the last key. Query head h reads KV head h / (qo / kv). Logits are scaled by
/// 1 / sqrt(head_dim), unless the variant says otherwise. The variant is a value of its type or a [`Variant`].
///
/// ```
/// use attn::{Engine, Heads, Variant};
///
/// let heads = Heads { qo: 4, kv: 2, head_dim: 8 };
/// let (q, kv) = ([0.5f32; 3 * 4 * 8], [0.25f32; 5 * 2 * 8]);
/// let o = attn::attend(&Engine::auto()?, &Variant::parse("causal + soft_cap(cap=30)")?, heads, &q, &kv, &kv)?;
/// assert_eq!(o, [0.25; 3 * 4 * 8]);
/// assert_eq!(attn::attend(&Engine::auto()?, attn::stock::Causal, heads, &q, &kv, &kv)?, o);
/// # Ok::<(), attn::Error>(())
/// ```
///
/// # Errors
///
/// Arrays that hold no whole number of rows, or keys and values of other lengths; what [`Engine::attention`] and
/// [`Attention::plan`](crate::Attention::plan) refuse: q, k and v are f32, f16 or bf16.
pub fn attend<T: Element>(
    engine: &Engine,
    variant: impl Into<Variant>,
    heads: Heads,
    q: &[T],
    k: &[T],
    v: &[T],
) -> Result<Vec<T>, Error> {
    let attention = engine.attention(&variant.into(), heads, Dtypes::new(T::DTYPE, T::DTYPE))?;
    let width = |heads_of: u32| (heads_of * heads.head_dim) as usize;
    // rounded up, so that a tensor of an array that ends within a row is refused
    let qo_tokens = q.len().div_ceil(width(heads.qo));
    let kv_tokens = k.len().max(v.len()).div_ceil(width(heads.kv));
    let end = |tokens: usize| i32::try_from(tokens).unwrap_or(i32::MAX);
    let (q, k, v) = (engine.upload(q)?, engine.upload(k)?, engine.upload(v)?);
    let q_shape = [qo_tokens, heads.qo as usize, heads.head_dim as usize];
    let kv_shape = [kv_tokens, heads.kv as usize, heads.head_dim as usize];
    let kv = Kv::ragged(k.tensor(&kv_shape)?, v.tensor(&kv_shape)?);
    let mut workspace = engine.workspace();
    let plan = attention.plan(&Batch::ragged(&[0, end(qo_tokens)], &[0, end(kv_tokens)]), &mut workspace)?;
    let mut o = engine.alloc(T::DTYPE, q.elements())?;
    plan.run(&engine.stream()?, q.tensor(&q_shape)?, kv, Out::new(o.tensor_mut(&q_shape)?))?;
    engine.download(&o)
}
