//! New keys and values, into pools of pages.

use std::cell::RefCell;

use attn::ops::{self, KvMut, KvRef, SlotMapping};
use attn::{KvScales, PageOrder, TensorMut};
use candle_core::{Layout, Result, Tensor};

use crate::error::{IntoCandle, refuse};
use crate::in_place::{Write, write_to};
use crate::kv::Tensors;
use crate::tensors::{self, Dims, Ints, Locked, OpArray, ViewMut, address};
use crate::{Attention, Engine, Kv};

impl Attention {
    /// Writes new keys and values, `new` of (tokens, KV heads, head dim), to the pools of pages in `pools`, with its
    /// order and scales; `new` has none of its own. The pools may be parts of one tensor, such as the halves of its
    /// pages. `slots` is a contiguous tensor of i64: for each token `page * page_size + slot`; for one below
    /// 0 nothing is written. `positions`, of u32 or i32, are those of the tokens in their requests; an attention over
    /// transformed keys ([`AttentionOptions::stored`](attn::AttentionOptions::stored)) whose transform reads them (a
    /// rotary embedding) needs them.
    ///
    /// On CUDA it is one launch, which waits for nothing and allocates nothing, and skips slots outside of the pool.
    ///
    /// # Errors
    ///
    /// Tensors of contradicting shapes, of other types, or on another device; pools that share memory with each other
    /// or with the new keys; on the CPU a slot outside of the pool. Nothing is written then.
    pub fn append(&self, new: &Kv<'_>, pools: &Kv<'_>, slots: &Tensor, positions: Option<&Tensor>) -> Result<()> {
        let engine = &self.engine;
        let is_rows = !matches!(new.tensors, Tensors::Fused(_)) && new.order == PageOrder::Nhd;
        if !is_rows || new.scales != [1.0; 2] {
            return refuse(
                "what is appended is rows of (tokens, KV heads, head dim), `Kv::ragged` or `Kv::latent`; an order of \
                 pages and scales are given with the pools",
            );
        }
        let inputs = [Some(new.first()), new.second(), Some(slots)];
        let addresses = inputs.map(|input| input.map(address));
        for output in [Some(pools.first()), pools.second()].iter().flatten() {
            engine.check(output.device(), "a pool")?;
            if addresses.contains(&Some(address(output))) {
                return refuse("a pool shares memory with what is appended to it; copy the new rows (`copy`)");
            }
        }
        let positions = positions.map(|positions| Ints::new(positions, "positions")).transpose()?;
        if let Some(positions) = &positions {
            engine.check(&positions.device(), positions.name())?;
        }
        let locked = Locked::new(inputs, addresses);
        let (Some(k), Some(of_slots)) = (locked.get(0), locked.get(2)) else {
            return refuse("an append takes keys and slots");
        };
        engine.check(slots.device(), "slots")?;
        let stream = engine.cuda_stream();
        let slots = tensors::slots(of_slots, slots.layout(), stream)?;
        let positions = positions.as_ref().map(|positions| positions.slice(stream)).transpose()?;
        let k = tensors::read(engine.view(k, "new keys")?, &Dims::of(new.first().layout()), "new keys", &[])?;
        let v = match (locked.get(1), new.second()) {
            (Some(v), Some(tensor)) => {
                Some(tensors::read(engine.view(v, "new values")?, &Dims::of(tensor.layout()), "new values", &[&k])?)
            }
            _ => None,
        };
        let rows = match &v {
            Some(v) => KvRef::new(k.tensor, v.tensor),
            None => KvRef::latent(k.tensor),
        };
        let positions = positions.as_ref().map(tensors::IntSlice::array);
        let is_shared = pools.second().is_some_and(|second| address(second) == address(pools.first()));
        let keys = RefCell::new(None);
        write_to(pools.first(), &Append { attention: self, rows, pools, is_shared, slots: &slots, positions, keys })
    }
}

/// The op, whose memory is locked pool by pool.
struct Append<'a> {
    attention: &'a Attention,
    rows: KvRef<'a>,
    pools: &'a Kv<'a>,
    /// Whether both pools are views of one tensor.
    is_shared: bool,
    slots: &'a OpArray<'a, i64>,
    positions: Option<ops::Array<'a, i32>>,
    /// The pool of keys, where that of values is the last to be locked.
    keys: RefCell<Option<TensorMut<'a>>>,
}

impl Append<'_> {
    fn launch(&self, pools: &mut KvMut<'_>) -> Result<()> {
        let [k, v] = self.pools.scales;
        let slot_mapping = SlotMapping::Slots { slots: self.slots.array, positions: self.positions };
        let append = ops::Append { scales: KvScales::of(k, v), ..ops::Append::at(slot_mapping) };
        let transform = self.attention.transform.as_deref();
        let op = |stream: &attn::Stream| ops::append_paged(stream, &self.rows, pools, &append, transform).candle();
        self.attention.engine.launch(op)
    }
}

impl Write for Append<'_> {
    fn engine(&self) -> &Engine {
        &self.attention.engine
    }

    fn write(&self, view: ViewMut<'_>, layout: &Layout) -> Result<()> {
        let dims = Dims::of(layout);
        if let Some(keys) = self.keys.take() {
            let values = tensors::write(view, &dims, "the pool of values")?;
            return self.launch(&mut KvMut::paged_in(keys, values.tensor, self.pools.order).candle()?);
        }
        match self.pools.tensors {
            Tensors::Fused(_) => {
                let pool = tensors::write(view, &dims, "the pool of keys and values")?;
                self.launch(&mut KvMut::fused(pool.tensor, self.pools.order).candle()?)
            }
            Tensors::Latent(_) => {
                let pool = tensors::write(view, &dims, "the pool of keys")?;
                self.launch(&mut KvMut::latent(pool.tensor))
            }
            // its lock is held already
            Tensors::Separate(_, v) if self.is_shared => {
                let names = ["the pool of keys", "the pool of values"];
                let (keys, values) = tensors::write_both(view, [&dims, &Dims::of(v.layout())], names)?;
                self.launch(&mut KvMut::paged_in(keys.tensor, values, self.pools.order).candle()?)
            }
            Tensors::Separate(_, v) => {
                let keys = tensors::write(view, &dims, "the pool of keys")?;
                let &Append { attention, rows, pools, is_shared, slots, positions, .. } = self;
                let keys = RefCell::new(Some(keys.tensor));
                write_to(v, &Append { attention, rows, pools, is_shared, slots, positions, keys })
            }
        }
    }
}
