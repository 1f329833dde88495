//! KV formats: bytes and codes against a reference, extents, attention and ops over them, on the CPU, emulated and on a
//! GPU; what they lose of real keys and values.

mod accuracy;
mod cpu;
mod emulated;
mod extents;
mod fp8;
mod gpu;
mod ops_emulated;
mod scales;
mod stock;
mod stored_kv;
