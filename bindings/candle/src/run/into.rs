//! Runs into tensors of the caller.

use std::cell::RefCell;

use attn::TensorMut;
use candle_core::{Layout, Result, Tensor};

use super::call::Call;
use crate::error::refuse;
use crate::in_place::{Write, write_to};
use crate::tensors::{self, Dims, Locked, View, ViewMut, address};
use crate::{Engine, Kv};

/// Refuses outputs that share memory, and runs.
pub(super) fn into(run: Call<'_>, q: &Tensor, kv: &Kv<'_>, o: &Tensor, lse: Option<&Tensor>) -> Result<()> {
    let inputs = [Some(q), Some(kv.first()), kv.second()];
    let engine = &run.state.attention.engine;
    let addresses = inputs.map(|input| input.map(address));
    let outputs = [(Some(o), "o"), (lse, "lse")].map(|(of, name)| of.map(|of| (of, address(of), name)));
    for &(output, at, name) in outputs.iter().flatten() {
        engine.check(output.device(), name)?;
        if addresses.contains(&Some(at)) {
            return refuse(format!("`{name}` shares memory with an input; give it memory of its own"));
        }
    }
    if let [Some((_, o, _)), Some((_, lse, _))] = outputs
        && o == lse
    {
        return refuse("`o` and `lse` share memory; give each memory of its own");
    }
    run.shapes(q.layout())?;
    let locked = Locked::new(inputs, addresses);
    let view = |index: usize, name: &str| match (locked.get(index), inputs[index]) {
        (Some(storage), Some(tensor)) => engine.view(storage, name).map(|view| Some((view, tensor.layout()))),
        _ => Ok(None),
    };
    let [k_name, v_name] = run.form.names();
    let (Some(q), Some(k)) = (view(0, "q")?, view(1, k_name)?) else { return refuse("a run takes queries and keys") };
    let launch = Launch { run, q, k, v: view(2, v_name)?, o: RefCell::new(None) };
    match lse {
        None => write_to(o, &launch),
        Some(lse) => write_to(o, &WithLse { launch, lse }),
    }
}

/// The run, once all memory is locked.
struct Launch<'a> {
    run: Call<'a>,
    q: (View<'a>, &'a Layout),
    k: (View<'a>, &'a Layout),
    v: Option<(View<'a>, &'a Layout)>,
    /// Where the last memory to be locked is that of lse: o.
    o: RefCell<Option<TensorMut<'a>>>,
}

/// Locks o, and then lse.
struct WithLse<'a> {
    launch: Launch<'a>,
    lse: &'a Tensor,
}

impl Write for Launch<'_> {
    fn engine(&self) -> &Engine {
        &self.run.state.attention.engine
    }

    fn write(&self, view: ViewMut<'_>, layout: &Layout) -> Result<()> {
        let &Launch { run, q, k, v, ref o } = self;
        let dims = Dims::of(layout);
        match o.take() {
            None => {
                let o = tensors::write(view, &dims, "o")?;
                run.launch(q, k, v, o.tensor, None)
            }
            Some(mut o) => {
                let lse = tensors::write(view, &dims, "lse")?;
                run.launch(q, k, v, o.reborrow(), Some(lse.tensor))
            }
        }
    }
}

impl Write for WithLse<'_> {
    fn engine(&self) -> &Engine {
        self.launch.engine()
    }

    fn write(&self, view: ViewMut<'_>, layout: &Layout) -> Result<()> {
        let Launch { run, q, k, v, .. } = self.launch;
        let o = tensors::write(view, &Dims::of(layout), "o")?;
        write_to(self.lse, &Launch { run, q, k, v, o: RefCell::new(Some(o.tensor)) })
    }
}
