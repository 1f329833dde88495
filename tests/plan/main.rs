//! Plans: made on the device, updated, shared by layers, of cascades, of partial and of several runs; attention in one
//! call. `supports` and `prepare` agree with planning, and under fixed splits a row keeps its bits.

mod cascade;
mod check_batch;
mod context_parallel;
mod device_levels;
mod device_plan;
mod one_shot;
mod partial;
mod prepare;
mod prepare_gpu;
mod processes_gpu;
mod row_invariance;
mod row_invariance_gpu;
mod rules;
mod several_runs;
mod shared;
mod supports;
mod update;
