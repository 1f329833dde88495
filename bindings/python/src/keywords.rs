//! The keyword arguments of an op: tensors, arrays, numbers and words by name, all on one device.

use std::sync::Arc;

use attn::ops::{Array, ArrayMut, Number};
use attn::sampling::PerRow;
use attn::{Scale, Stream, TensorMut, TensorRef};
use attn_core::nearest::nearest;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::{intern, prelude::*, types::PyDict};

use crate::argument::{Arg, NUMBER, TEXT, optional};
use crate::element::Element;
use crate::engine::{address, engine, stream};
use crate::error::{Failure, call};
use crate::location::Location;
use crate::producer::{self, view};
use crate::tensor::{View, check_apart, entries, entries_mut};

/// Entries of arrays, and the elements that they are read from. An unsigned number may come as a signed one of the same
/// bits, with which libraries do more.
pub(crate) trait Entry: Number {
    const ELEMENTS: &'static [Element];
}
macro_rules! entry {
    ($($number:ty: $($element:ident)|*),*) => {$(
        impl Entry for $number {
            const ELEMENTS: &'static [Element] = &[$(Element::$element),*];
        }
    )*};
}
entry!(i32: I32, i64: I64, u32: U32 | I32, u64: U64 | I64, u8: U8 | Bool, f32: F32, [i32; 2]: I32);

/// Memory that a tensor may be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// That of the device where the call runs.
    Device,
    /// That of the host. For a call on a GPU it is pinned, so that the GPU has access to it.
    Host,
    /// Either: the host reads what is on the host.
    Any,
}

/// The keyword arguments of a call, by name.
pub(crate) struct Keywords<'py> {
    given: Bound<'py, PyDict>,
    op: &'static str,
    location: Location,
    stream: Arc<Stream>,
    /// The names that were asked for.
    known: Vec<&'static str>,
    /// What was read, and whether the call writes to it.
    views: Vec<(&'static str, View, bool)>,
}

/// Runs an op with its keyword arguments. It runs where the tensor `on` is.
pub(crate) fn op(
    py: Python<'_>,
    op: &'static str,
    on: &'static str,
    given: Option<&Bound<'_, PyDict>>,
    run: impl for<'py> FnOnce(&mut Keywords<'py>) -> Result<(), Failure>,
) -> PyResult<()> {
    call(py, || {
        let given = given.cloned().unwrap_or_else(|| PyDict::new(py));
        let location = producer::location(&needed(given.get_item(on)?, on)?, on)?;
        load_compiler(py, location)?;
        let raw = given.get_item("stream")?.filter(|stream| !stream.is_none());
        let raw = raw.map(|raw| raw.extract::<Arg<usize>>()).transpose()?;
        let stream = self::stream(py, &engine(location)?, location, raw)?;
        run(&mut Keywords { given, op, location, stream, known: vec!["stream"], views: Vec::new() })
    })
}

/// The device of a name, where ops are prepared.
pub(crate) fn device(py: Python<'_>, name: Arg<&str>) -> Result<Location, Failure> {
    let location = Location::parse(name.get(py, "device", TEXT)?)?;
    load_compiler(py, location)?;
    Ok(location)
}

/// Loads the compiler of the kernels of a GPU.
fn load_compiler(py: Python<'_>, location: Location) -> PyResult<()> {
    if location == Location::Cpu {
        return Ok(());
    }
    py.import(intern!(py, "attn_rs._nvrtc"))?.call_method0(intern!(py, "load")).map(drop)
}

/// What the call needs.
pub(crate) fn needed<T>(given: Option<T>, name: &str) -> Result<T, Failure> {
    given.ok_or_else(|| Failure::tensor(format!("{name} is None; the call needs it")))
}

impl<'py> Keywords<'py> {
    /// An argument; `None` where it is left out.
    pub(crate) fn object(&mut self, name: &'static str) -> Result<Option<Bound<'py, PyAny>>, Failure> {
        self.known.push(name);
        Ok(self.given.get_item(name)?.filter(|object| !object.is_none()))
    }

    /// A tensor that may be left out.
    fn view(&mut self, name: &'static str, writes: bool, memory: Memory) -> Result<Option<&View>, Failure> {
        let Some(object) = self.object(name)? else { return Ok(None) };
        let mut view = view(&object, name, address(&self.stream))?;
        if self.location != Location::Cpu && view.location == Location::Cpu && memory == Memory::Host {
            let is_pinned = object.call_method0("is_pinned").and_then(|pinned| pinned.is_truthy()).unwrap_or(false);
            if !is_pinned {
                let remedy = "for a GPU it is pinned: a tensor of torch with `pin_memory=True`";
                return Err(Failure::tensor(format!("{name} is in memory of the host that is not pinned; {remedy}")));
            }
            view.location = self.location;
        } else if memory != Memory::Any || view.location != Location::Cpu {
            view = view.on(self.location, name)?;
        }
        for (other, of, written) in &self.views {
            match (writes, *written) {
                (true, _) => check_apart(&[(name, Some(&view))], &[(other, Some(of))])?,
                (false, true) => check_apart(&[(other, Some(of))], &[(name, Some(&view))])?,
                (false, false) => {}
            }
        }
        if writes {
            view.check_writable(name)?;
        }
        self.views.push((name, view, writes));
        Ok(self.views.last().map(|(_, view, _)| view))
    }

    /// A tensor to read, if it is given.
    pub(crate) fn read(&mut self, name: &'static str, memory: Memory) -> Result<Option<TensorRef<'py>>, Failure> {
        // SAFETY: the caller's tensor, which stays during the call, as the result does; outputs share no memory with
        // it. On a device its allocator reuses memory in the order of the stream.
        self.view(name, false, memory)?.map(|view| unsafe { view.read(name) }).transpose()
    }

    /// A tensor to write, if it is given.
    pub(crate) fn write(&mut self, name: &'static str, memory: Memory) -> Result<Option<TensorMut<'py>>, Failure> {
        // SAFETY: as in `read`; it shares no memory with what else is given
        self.view(name, true, memory)?.map(|view| unsafe { view.write(name) }).transpose()
    }

    /// A tensor to read.
    pub(crate) fn tensor(&mut self, name: &'static str) -> Result<TensorRef<'py>, Failure> {
        needed(self.read(name, Memory::Device)?, name)
    }

    /// A tensor to write.
    pub(crate) fn tensor_mut(&mut self, name: &'static str) -> Result<TensorMut<'py>, Failure> {
        needed(self.write(name, Memory::Device)?, name)
    }

    /// A tensor to read with its lengths, which `dims` names.
    pub(crate) fn of_rank<const N: usize>(
        &mut self,
        name: &'static str,
        dims: [&str; N],
    ) -> Result<(TensorRef<'py>, [usize; N]), Failure> {
        let tensor = self.tensor(name)?;
        let shape = <[usize; N]>::try_from(tensor.shape()).map_err(|_| {
            let (own, dims) = (tensor.shape(), dims.join(", "));
            Failure::tensor(format!("{name} has the shape {own:?}; it has {N} dimensions: ({dims})"))
        });
        Ok((tensor, shape?))
    }

    /// The number of entries of an array, and where it is, if it is given.
    fn counted<T: Entry>(
        &mut self,
        name: &'static str,
        shape: &[usize],
        writes: bool,
        memory: Memory,
    ) -> Result<Option<(&View, usize)>, Failure> {
        let Some(view) = self.view(name, writes, memory)? else { return Ok(None) };
        let count = view.count(T::ELEMENTS, shape, name)? / (size_of::<T>() / T::ELEMENTS[0].size());
        if view.location != Location::Cpu && count > 0 && !view.data.is_multiple_of(size_of::<T>()) {
            let (at, size) = (view.data, size_of::<T>());
            return Err(Failure::tensor(format!("{name} is at {at:#x}, no multiple of {size} bytes: pass a copy")));
        }
        Ok(Some((view, count)))
    }

    /// An array to read of a shape ([`ANY`](crate::tensor::ANY): of any length), if it is given.
    pub(crate) fn array<T: Entry>(
        &mut self,
        name: &'static str,
        shape: &[usize],
    ) -> Result<Option<Array<'py, T>>, Failure> {
        self.array_in(name, shape, Memory::Device)
    }

    /// As [`Keywords::array`], in memory of a kind.
    pub(crate) fn array_in<T: Entry>(
        &mut self,
        name: &'static str,
        shape: &[usize],
        memory: Memory,
    ) -> Result<Option<Array<'py, T>>, Failure> {
        let counted = self.counted::<T>(name, shape, false, memory)?;
        // SAFETY: as in `read`, of elements that were counted
        Ok(counted.map(|(view, count)| unsafe { entries(view, count) }))
    }

    /// An array to write, if it is given.
    pub(crate) fn array_mut<T: Entry>(
        &mut self,
        name: &'static str,
        shape: &[usize],
    ) -> Result<Option<ArrayMut<'py, T>>, Failure> {
        let counted = self.counted::<T>(name, shape, true, Memory::Device)?;
        // SAFETY: as in `write`, of elements that were counted
        Ok(counted.map(|(view, count)| unsafe { entries_mut(view, count) }))
    }

    /// A length of a tensor or array that was read.
    pub(crate) fn length(&self, name: &str, dim: usize) -> usize {
        let view = self.views.iter().find(|(own, ..)| *own == name);
        view.and_then(|(_, view, _)| view.dims.shape().get(dim).copied()).unwrap_or(0)
    }

    /// A number, if it is given; `what` says in a message what it is.
    pub(crate) fn number<T: FromPyObjectOwned<'py>>(
        &mut self,
        name: &'static str,
        what: &str,
    ) -> Result<Option<T>, Failure> {
        let object = self.object(name)?;
        let number = object.map(|object| object.extract::<Arg<T>>()).transpose()?;
        optional(number, self.given.py(), name, what)
    }

    /// Whether an argument is an array, and no number.
    pub(crate) fn is_array(&self, name: &str) -> Result<bool, Failure> {
        let object = self.given.get_item(name)?;
        Ok(object.map_or(Ok(false), |object| object.hasattr(intern!(object.py(), "__dlpack__")))?)
    }

    /// A number for all rows, or an array with one a row, if either is given.
    pub(crate) fn per_row<T: Entry + FromPyObjectOwned<'py>>(
        &mut self,
        name: &'static str,
        rows: usize,
        what: &str,
    ) -> Result<Option<PerRow<'py, T>>, Failure> {
        match self.is_array(name)? {
            true => Ok(self.array(name, &[rows])?.map(PerRow::Rows)),
            false => Ok(self.number(name, what)?.map(PerRow::All)),
        }
    }

    /// A scale: a number, or one a head.
    pub(crate) fn scale(&mut self, name: &'static str) -> Result<Scale<'py>, Failure> {
        match self.is_array(name)? {
            true => Ok(Scale::per_head(self.tensor(name)?)),
            false => Ok(self.number(name, NUMBER)?.map_or_else(Scale::default, Scale::of)),
        }
    }

    /// One of some words, of which the first is what an argument that is left out means.
    pub(crate) fn word<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)]) -> Result<T, Failure> {
        let object = self.object(name)?;
        let text = object.as_ref().map(|object| object.extract::<Arg<&str>>()).transpose()?;
        let text = optional(text, self.given.py(), name, TEXT)?.unwrap_or(words[0].0);
        words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            let known: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
            Failure::argument(format!("{name} is `{text}`; there are {}", known.join(", ")))
        })
    }

    /// Runs the op, unless there are arguments that nothing asked for.
    pub(crate) fn launch(&self, run: impl FnOnce(&Stream) -> Result<(), attn::Error> + Send) -> Result<(), Failure> {
        for name in self.given.keys() {
            let name = name.to_string();
            if !self.known.iter().any(|known| *known == name) {
                let remedy = match nearest(&name, self.known.iter().copied()) {
                    Some(known) => format!("did you mean `{known}`?"),
                    None => format!("there are {}", self.known.join(", ")),
                };
                return Err(Failure::WrongType(format!("`{name}` is no argument of `{}`; {remedy}", self.op)));
            }
        }
        let stream = &*self.stream;
        Ok(self.given.py().detach(|| run(stream))?)
    }
}
