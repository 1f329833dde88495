//! Tensors of torch, read through their attributes: a tenth of the time that its DLPack takes.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use pyo3::{ffi, intern};

use crate::{dims::Dims, element::Element, error::Failure, location::Location, tensor::View};

/// What is asked of torch, once it is imported.
struct Torch {
    tensor: Py<PyType>,
    dtypes: Vec<(Py<PyAny>, Element)>,
    /// Its function from a device to the address of the current stream; `None` in a build for CPUs.
    current_stream: Option<Py<PyAny>>,
}

/// The torch of the program; `None` while it is not imported.
fn torch(py: Python<'_>) -> PyResult<Option<&Torch>> {
    static TORCH: PyOnceLock<Torch> = PyOnceLock::new();
    if let Some(torch) = TORCH.get(py) {
        return Ok(Some(torch));
    }
    let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    let Some(torch) = modules.get_item("torch")? else { return Ok(None) };
    // while torch is being imported it has no tensors
    let Ok(tensor) = torch.getattr("Tensor") else { return Ok(None) };
    let all = Element::ALL.into_iter();
    let dtypes = all.filter_map(|element| Some((torch.getattr(element.name()).ok()?.unbind(), element)));
    let native = torch.getattr("_C")?;
    let current_stream = native.getattr("_cuda_getCurrentRawStream").ok().map(Bound::unbind);
    let found = Torch { tensor: tensor.cast_into::<PyType>()?.unbind(), dtypes: dtypes.collect(), current_stream };
    Ok(Some(TORCH.get_or_init(py, || found)))
}

/// The address of the current stream of torch on a device; `None` without torch.
pub(crate) fn current_stream(py: Python<'_>, ordinal: u32) -> Result<Option<usize>, Failure> {
    let Some(of_device) = torch(py)?.and_then(|torch| torch.current_stream.as_ref()) else { return Ok(None) };
    Ok(Some(of_device.bind(py).call1((ordinal,))?.extract()?))
}

/// A tensor of torch; `None` for other objects.
pub(crate) fn view(object: &Bound<'_, PyAny>, name: &str) -> Result<Option<View>, Failure> {
    let py = object.py();
    let Some(torch) = torch(py)? else { return Ok(None) };
    let class = object.get_type();
    // SAFETY: both are types; `issubclass` would ask torch's metaclass
    if unsafe { ffi::PyType_IsSubtype(class.as_type_ptr(), torch.tensor.bind(py).as_type_ptr()) } == 0 {
        return Ok(None);
    }
    let location = if object.getattr(intern!(py, "is_cuda"))?.is_truthy()? {
        Location::Cuda(object.call_method0(intern!(py, "get_device"))?.extract()?)
    } else if object.getattr(intern!(py, "is_cpu"))?.is_truthy()? {
        Location::Cpu
    } else {
        let device = object.getattr("device")?;
        return Err(Failure::tensor(format!("{name} is on `{device}`; tensors are on `cpu` or `cuda:N`")));
    };
    let dtype = object.getattr(intern!(py, "dtype"))?;
    let element = torch.dtypes.iter().find(|(of_torch, _)| dtype.is(of_torch)).map(|(_, element)| *element);
    let Some(element) = element else {
        let dtype = dtype.to_string();
        let dtype = dtype.rsplit('.').next().unwrap_or_default();
        return Err(Failure::tensor(format!("{name} is of {dtype}; {}", Element::POSSIBLE)));
    };
    if object.call_method0(intern!(py, "is_neg"))?.is_truthy()? {
        let why = "a view whose elements are negated when they are read";
        return Err(Failure::tensor(format!("{name} is {why}: pass {name}.resolve_neg()")));
    }
    let data = object.call_method0(intern!(py, "data_ptr"));
    let data = data.map_err(|error| Failure::tensor(format!("{name} has no memory of its own: {error}")))?;
    let data: usize = data.extract()?;
    let shape = object.getattr(intern!(py, "shape"))?;
    let strides = object.call_method0(intern!(py, "stride"))?;
    let dims = Dims::read(
        shape.cast::<PyTuple>().map_err(PyErr::from)?,
        strides.cast::<PyTuple>().map_err(PyErr::from)?,
        name,
    )?;
    if data == 0 && !dims.is_empty() {
        return Err(Failure::tensor(format!("{name} has no memory: its storage was freed, or it is a fake tensor")));
    }
    Ok(Some(View { data, element, location, dims, read_only: false, _owner: None }))
}
