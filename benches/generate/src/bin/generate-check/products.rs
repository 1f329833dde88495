//! Speed of products of a few rows: the kernel of this program beside cuBLASLt, for the matrices of two models.

use std::time::Instant;

use attn::{Dtype, Engine, Graph};
use generate::{
    Error,
    model::{
        config::LlamaConfig,
        math::{CudaMath, CudaMathOptions, Math, Matrix},
    },
};

/// Bytes of weights that are read before one is read again: more than an L2 cache has.
const COLD: usize = 512 << 20;
const REPLAYS: usize = 5;

/// Prints the time of a product in microseconds, of 1 to 4 rows.
pub(crate) fn run() -> Result<(), Error> {
    let engine = Engine::cuda(0)?;
    println!("products on {engine}, us: the kernel of this program, cuBLASLt");
    for (name, config) in [("SmolLM2-135M", LlamaConfig::smollm2_135m()), ("Llama-3.1-8B", LlamaConfig::llama3_8b())] {
        let LlamaConfig { width, ffn, vocab, .. } = config;
        let shapes = [
            ("qkv", config.qkv_width(), width),
            ("output", width, config.q_width()),
            ("gate_up", 2 * ffn, width),
            ("down", width, ffn),
            ("head", vocab, width),
        ];
        for (what, outputs, inputs) in shapes {
            let bytes = 2 * outputs * inputs;
            print!("  {name} {what}, {:.1} MiB:", bytes as f64 / f64::from(1 << 20));
            for rows in [1, 2, 4] {
                let own = time(
                    &engine,
                    CudaMathOptions { few_rows_bytes: usize::MAX, ..Default::default() },
                    rows,
                    [outputs, inputs],
                )?;
                let blas =
                    time(&engine, CudaMathOptions { few_rows: 0, ..Default::default() }, rows, [outputs, inputs])?;
                print!("  {rows} rows {own:.2}, {blas:.2};");
            }
            println!();
        }
    }
    Ok(())
}

fn time(engine: &Engine, options: CudaMathOptions, rows: usize, [outputs, inputs]: [usize; 2]) -> Result<f64, Error> {
    let mut math = CudaMath::new(engine, options)?;
    let count = (COLD / (2 * outputs * inputs)).clamp(2, 128);
    let matrix = || Ok::<_, Error>(Matrix { values: math.buffer(outputs * inputs)?, outputs, inputs });
    let matrices = (0..count).map(|_| matrix()).collect::<Result<Vec<_>, _>>()?;
    let (x, mut out) = (math.buffer(64 * inputs)?, engine.alloc(Dtype::F16, 64 * outputs)?);
    math.prepare(&matrices.iter().take(1).collect::<Vec<_>>(), rows)?;
    let stream = math.stream().clone();
    math.linear(&matrices[0], &x, &mut out, rows, false)?;
    stream.synchronize()?;
    let mut failure = None;
    let mut graph = Graph::capture(&stream, || {
        let launched = matrices.iter().try_for_each(|matrix| math.linear(matrix, &x, &mut out, rows, false));
        launched.map_err(|error| {
            failure = Some(error);
            attn::Error::NoCuda
        })
    })
    .map_err(|error| failure.unwrap_or(Error::Attn(error)))?;
    let mut best = f64::INFINITY;
    for _ in 0..REPLAYS {
        let begin = Instant::now();
        // SAFETY: the matrices and both buffers live, and only the stream writes them.
        unsafe { graph.replay(&stream, || Ok(())) }?;
        stream.synchronize()?;
        best = best.min(begin.elapsed().as_secs_f64());
    }
    Ok(1e6 * best / count as f64)
}
