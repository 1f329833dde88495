//! The entry points of NCCL. cudarc's bindings look for no library of the name that NCCL has (`libnccl.so.2`), and
//! panic where there is none.

use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use attn_core::dtype::Dtype;
use attn_core::parallel::ParallelError;

use crate::shared_library::entry_points;

/// `ncclComm_t`.
pub(super) type Comm = *mut c_void;
/// `ncclUniqueId`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct UniqueId(pub(super) [u8; 128]);

/// `ncclSuccess`.
const SUCCESS: c_int = 0;
/// `ncclInProgress`: of a communicator that does not block.
pub(super) const IN_PROGRESS: c_int = 7;
/// `ncclUint8`.
pub(super) const BYTES: c_int = 1;
/// `ncclSum`.
pub(super) const SUM: c_int = 0;

/// The `ncclDataType_t` of elements that are added up.
pub(super) fn data_type(dtype: Dtype) -> c_int {
    match dtype {
        Dtype::F16 => 6,
        Dtype::Bf16 => 9,
        Dtype::F32 => 7,
        _ => BYTES,
    }
}

/// `ncclConfig_t` as of NCCL 2.14. Later versions take their defaults for what it does not have.
#[repr(C)]
pub(super) struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
}

impl Config {
    /// Of a communicator whose calls do not wait for other ranks.
    pub(super) const NON_BLOCKING: Config =
        Config { size: size_of::<Config>(), magic: 0xcafe_beef, version: 21400, blocking: 0 };
}

entry_points! {
    "nccl.h, unchanged since NCCL 2.14.";
    error_string = "ncclGetErrorString": fn(c_int) -> *const c_char;
    unique_id = "ncclGetUniqueId": fn(*mut UniqueId) -> c_int;
    init_rank = "ncclCommInitRankConfig": fn(*mut Comm, c_int, UniqueId, c_int, *mut Config) -> c_int;
    finalize = "ncclCommFinalize": fn(Comm) -> c_int;
    destroy = "ncclCommDestroy": fn(Comm) -> c_int;
    abort = "ncclCommAbort": fn(Comm) -> c_int;
    async_error = "ncclCommGetAsyncError": fn(Comm, *mut c_int) -> c_int;
    count = "ncclCommCount": fn(Comm, *mut c_int) -> c_int;
    device = "ncclCommCuDevice": fn(Comm, *mut c_int) -> c_int;
    user_rank = "ncclCommUserRank": fn(Comm, *mut c_int) -> c_int;
    all_gather = "ncclAllGather": fn(*const c_void, *mut c_void, usize, c_int, Comm, *mut c_void) -> c_int;
    all_reduce = "ncclAllReduce": fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, *mut c_void) -> c_int;
    send = "ncclSend": fn(*const c_void, usize, c_int, c_int, Comm, *mut c_void) -> c_int;
    receive = "ncclRecv": fn(*mut c_void, usize, c_int, c_int, Comm, *mut c_void) -> c_int;
    group_start = "ncclGroupStart": fn() -> c_int;
    group_end = "ncclGroupEnd": fn() -> c_int;
}

impl Api {
    /// NCCL, loaded once per process: the library that `ATTN_NCCL` names, else that of the loader's path, which is the
    /// one that torch has loaded, if it has.
    pub(super) fn find() -> Result<&'static Api, ParallelError> {
        static FOUND: OnceLock<Result<Api, String>> = OnceLock::new();
        let find = || {
            let named = env::var_os("ATTN_NCCL").filter(|path| !path.is_empty()).map(PathBuf::from);
            let path = named.as_deref().unwrap_or(Path::new("libnccl.so.2"));
            // SAFETY: NCCL runs no initialisers with requirements on the caller.
            unsafe { Api::load(path, false) }.map_err(|why| format!("{} does not load ({why})", path.display()))
        };
        FOUND.get_or_init(find).as_ref().map_err(|tried| ParallelError::NoLibrary { tried: tried.clone() })
    }

    /// Whether a call has succeeded.
    pub(super) fn check(&self, what: &'static str, code: c_int) -> Result<(), ParallelError> {
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: NCCL gives a static string for every code.
        let text = unsafe { CStr::from_ptr((self.error_string)(code)) };
        Err(ParallelError::Library { what, why: format!("{} ({code})", text.to_string_lossy()) })
    }
}
