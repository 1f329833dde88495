//! A variant bound to heads and element types.

use attn::{
    AttentionOptions, ComputeType, Dtypes, HeadDimVo, Heads, KernelKind, KvStored,
    ops::{KvTransform, TensorRows},
    stock,
};
use attn_core::spec::UnknownComputeType;
use pyo3::prelude::*;

use crate::argument::{Arg, COUNT, Flag, NUMBER, TEXT, optional};
use crate::array::{array, packed_bits};
use crate::batch::line;
use crate::content::content;
use crate::element::Element;
use crate::engine::{address, engine, stream};
use crate::error::{Failure, call};
use crate::location::Location;
use crate::producer::view;
use crate::variants::parse;

/// A variant bound to heads, element types and a device. Plans are made of it (`Plan(batch, attention=..)`).
///
/// `mask` is a pair: a bit for each query and key of each request, packed as FlashInfer packs them (little-endian, row
/// by row, each request from a whole byte on), as bytes or uint8 in host memory; and the first byte of each request,
/// and their number. Tiles are skipped by its bits, which stay.
#[pyclass(frozen, module = "attn_rs")]
pub(crate) struct Attention {
    pub(crate) attention: attn::Attention,
    /// What appends apply, where they do not store rows as they are given.
    pub(crate) transform: Option<KvTransform>,
    head_dim_vo: HeadDimVo,
    pub(crate) engine: attn::Engine,
    pub(crate) location: Location,
    pub(crate) dtypes: Dtypes,
    pub(crate) value_dim: u32,
}

/// The element type of a name.
fn dtype(name: &str, what: &str) -> Result<attn::Dtype, Failure> {
    let element = match name.rsplit('.').next().unwrap_or(name) {
        "float16" => Element::F16,
        "bfloat16" => Element::Bf16,
        "float32" => Element::F32,
        "float8_e4m3fn" => Element::E4m3,
        "float8_e5m2" => Element::E5m2,
        _ => return Err(Failure::argument(format!("{what} is `{name}`; {}", Element::POSSIBLE))),
    };
    element.dtype(what)
}

#[pymethods]
impl Attention {
    #[new]
    #[pyo3(signature = (variant, params, device, qo_heads, kv_heads, head_dim, value_dim, qo_dtype, kv_dtype, *,
        scale=None, kernel=None, fixed_split_size=None, stores_transformed=None, values_in_keys=None, mask=None,
        kv_format=None, compute_type=None, o_dtype=None, q_dtype=None, skip_softmax=None))]
    #[allow(clippy::too_many_arguments)] // Python's keywords
    fn new(
        py: Python<'_>,
        variant: &Bound<'_, PyAny>,
        params: Option<&Bound<'_, PyAny>>,
        device: Arg<&str>,
        qo_heads: Arg<u32>,
        kv_heads: Arg<u32>,
        head_dim: Arg<u32>,
        value_dim: Option<Arg<u32>>,
        qo_dtype: Arg<&str>,
        kv_dtype: Arg<&str>,
        scale: Option<Arg<f32>>,
        kernel: Option<Arg<&str>>,
        fixed_split_size: Option<Arg<u32>>,
        stores_transformed: Option<Flag>,
        values_in_keys: Option<Flag>,
        mask: Option<Arg<(Bound<'_, PyAny>, Bound<'_, PyAny>)>>,
        kv_format: Option<Arg<&str>>,
        compute_type: Option<Arg<&str>>,
        o_dtype: Option<Arg<&str>>,
        q_dtype: Option<Arg<&str>>,
        skip_softmax: Option<Arg<f32>>,
    ) -> PyResult<Self> {
        call(py, || {
            let mut variant = parse(variant, params)?;
            let count = |of: Arg<u32>, name| of.get(py, name, COUNT);
            let [qo_heads, kv_heads] = [count(qo_heads, "qo_heads")?, count(kv_heads, "kv_heads")?];
            let (head_dim, value_dim) = (count(head_dim, "head_dim")?, optional(value_dim, py, "value_dim", COUNT)?);
            let fixed_split_size = optional(fixed_split_size, py, "fixed_split_size", COUNT)?;
            let text = |of: Option<Arg<_>>, name| optional(of, py, name, TEXT);
            let (device, kernel) = (device.get(py, "device", TEXT)?, text(kernel, "kernel")?);
            let (qo_dtype, kv_dtype) = (qo_dtype.get(py, "dtype", TEXT)?, kv_dtype.get(py, "kv_dtype", TEXT)?);
            let (kv_format, compute_type) = (text(kv_format, "kv_format")?, text(compute_type, "compute_type")?);
            let compute_type = compute_type.unwrap_or("exact");
            let flag = |of: Option<Flag>, name| of.map_or(Ok(false), |of| of.get(py, name));
            let stores_transformed = flag(stores_transformed, "stores_transformed")?;
            let values_in_keys = flag(values_in_keys, "values_in_keys")?;
            let scale = optional(scale, py, "scale", NUMBER)?;
            let skip_softmax = optional(skip_softmax, py, "skip_softmax", NUMBER)?;
            let of_mask = "a pair of packed bits, bytes or uint8, and of where those of each request begin, a list";
            if let Some((bits, indptr)) = optional(mask, py, "mask", of_mask)? {
                let mask = stock::CustomMask::from_packed(&packed_bits(&bits, "mask")?, &line(&indptr, "mask")?);
                let mask = mask.map_err(|error| Failure::argument(error.to_string()))?;
                variant = variant.and(mask).map_err(attn::Error::from)?;
            }
            let heads = Heads { qo: qo_heads, kv: kv_heads, head_dim };
            let qo = dtype(qo_dtype, "dtype")?;
            let dtypes = match kv_format {
                Some(format) => Dtypes::new(qo, qo).with_kv_format(format).map_err(attn::Error::from)?,
                None => Dtypes::new(qo, dtype(kv_dtype, "kv_dtype")?),
            };
            let of_output = text(o_dtype, "o_dtype")?.map(|name| dtype(name, "o_dtype")).transpose()?;
            let dtypes = of_output.map_or(dtypes, |o| dtypes.with_output(o));
            let of_queries = text(q_dtype, "q_dtype")?.map(|name| dtype(name, "q_dtype")).transpose()?;
            let dtypes = of_queries.map_or(dtypes, |q| dtypes.with_queries(q));
            let kernel = match kernel {
                None => None,
                Some("decode") => Some(KernelKind::Decode),
                Some("prefill") => Some(KernelKind::Prefill),
                Some("mixed") => Some(KernelKind::Mixed),
                Some(name) => {
                    let known = "there are `decode`, `prefill`, `mixed`, and None for the fastest";
                    return Err(Failure::argument(format!("kernel is `{name}`; {known}")));
                }
            };
            let compute_type: ComputeType =
                compute_type.parse().map_err(|error: UnknownComputeType| Failure::argument(error.to_string()))?;
            let head_dim_vo = match (value_dim, values_in_keys) {
                (None, false) => HeadDimVo::Same,
                (Some(dim), false) if dim == head_dim => HeadDimVo::Same,
                (Some(dim), false) => HeadDimVo::Dim(dim),
                (dim, true) => HeadDimVo::SharedWithKeys(dim.unwrap_or(head_dim)),
            };
            let stored = if stores_transformed { KvStored::Transformed } else { KvStored::Raw };
            let options = AttentionOptions {
                sm_scale: scale,
                kernel,
                compute_type,
                stored,
                head_dim_vo,
                fixed_split_size,
                skip_softmax,
                ..AttentionOptions::default()
            };
            let location = Location::parse(device)?;
            let value_dim = value_dim.unwrap_or(head_dim);
            if location != Location::Cpu {
                py.import("attn_rs._nvrtc")?.call_method0("load")?;
            }
            py.detach(|| {
                let engine = engine(location)?;
                let attention = engine.attention_with(&variant, heads, dtypes, options)?;
                let transform = KvTransform::of_cache(&engine, &attention, head_dim_vo)?;
                Ok(Attention { attention, transform, head_dim_vo, engine, location, dtypes, value_dim })
            })
        })
    }

    /// The same attention with the parameters of another layer.
    #[pyo3(signature = (variant, params=None, scale=None))]
    fn with_parameters(
        &self,
        py: Python<'_>,
        variant: &Bound<'_, PyAny>,
        params: Option<&Bound<'_, PyAny>>,
        scale: Option<Arg<f32>>,
    ) -> PyResult<Self> {
        call(py, || {
            let variant = parse(variant, params)?;
            let scale = optional(scale, py, "scale", NUMBER)?;
            let mut attention = py.detach(|| self.attention.with_parameters(&variant))?;
            if let Some(scale) = scale {
                attention = attention.with_sm_scale(scale)?;
            }
            let transform = KvTransform::of_cache(&self.engine, &attention, self.head_dim_vo)?;
            let engine = self.engine.clone();
            Ok(Attention { attention, transform, engine, ..*self })
        })
    }

    /// Replaces the content of a parameter tensor by elements of its type, in the order of the stream. uint8 are the
    /// bytes of packed bits too. Later appends transform by it too.
    #[pyo3(signature = (name, values, stream=None))]
    fn set_tensor(
        &self,
        py: Python<'_>,
        name: Arg<&str>,
        values: &Bound<'_, PyAny>,
        stream: Option<Arg<usize>>,
    ) -> PyResult<()> {
        call(py, || {
            let name = name.get(py, "name", TEXT)?;
            let stream = self::stream(py, &self.engine, self.location, stream)?;
            let values = view(values, name, address(&stream))?.on(self.location, name)?;
            // SAFETY: the caller's tensor stays during the call; on a device the stream orders the copy before what its
            // allocator does with the memory next
            let content = unsafe { content(&values, self.attention.variant(), name) }?;
            self.attention.set_tensor(&stream, name, &content)?;
            match &self.transform {
                Some(transform) if transform.has_tensor(name) => Ok(transform.set_tensor(&stream, name, &content)?),
                _ => Ok(()),
            }
        })
    }

    /// Writes rows of a parameter tensor at indices, in the order of the stream: the new tokens of a table that grows.
    /// A CUDA graph can capture it.
    #[pyo3(signature = (name, indices, values, stream=None))]
    fn set_tensor_rows(
        &self,
        py: Python<'_>,
        name: Arg<&str>,
        indices: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        stream: Option<Arg<usize>>,
    ) -> PyResult<()> {
        call(py, || {
            let name = name.get(py, "name", TEXT)?;
            let stream = self::stream(py, &self.engine, self.location, stream)?;
            let read =
                |object: &Bound<'_, PyAny>, name: &str| view(object, name, address(&stream))?.on(self.location, name);
            let (indices, values) = (read(indices, "indices")?, read(values, name)?);
            // SAFETY: as in `set_tensor`
            let rows = unsafe {
                let content = content(&values, self.attention.variant(), name)?;
                TensorRows::at(array(&indices, 1, Element::I32, "indices")?, content)
            };
            self.attention.set_tensor_rows(&stream, name, &rows)?;
            match &self.transform {
                Some(transform) if transform.has_tensor(name) => Ok(transform.set_tensor_rows(&stream, name, &rows)?),
                _ => Ok(()),
            }
        })
    }

    /// The variant with all parameters.
    #[getter]
    fn variant(&self) -> String {
        self.attention.variant().to_string()
    }

    /// (query heads, KV heads, elements of a key, elements of a value).
    #[getter]
    fn heads(&self) -> (u32, u32, u32, u32) {
        let heads = self.attention.heads();
        (heads.qo, heads.kv, heads.head_dim, self.value_dim)
    }

    /// The element type of outputs, where it is not that of queries in memory.
    #[getter]
    fn o_dtype(&self) -> Option<&'static str> {
        let of = |o| Element::ALL.into_iter().find(|element| element.dtype("o").ok() == Some(o));
        let (o, q) = (self.dtypes.output(), self.dtypes.queries());
        Some(o).filter(|&o| o != q).and_then(of).map(Element::name)
    }

    /// `cpu` or `cuda:N`.
    #[getter]
    fn device(&self) -> String {
        self.location.to_string()
    }

    fn __repr__(&self) -> String {
        let (qo, kv, dim, _) = self.heads();
        let (variant, dtype, location) = (self.variant(), self.dtypes.qo, self.location);
        format!("<attn_rs.Attention `{variant}`, {qo}/{kv} heads of {dim}, {dtype} on {location}>")
    }
}
