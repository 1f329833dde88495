//! The tables of FlashInfer's paper on a model: load balance, fused rope, parallel generation, a cache of 8 bits, a
//! cached prefix. Each row is two sides that run in turns.
//!
//! ```text
//! cargo run --release -p generate-benches --bin paper_tables -- --model smollm2 --model llama --json h200-model.jsonl
//! cargo run --release -p generate-benches --bin paper_tables -- --cpu
//! ```

#![allow(clippy::print_stdout)]

use std::{error::Error, fs::File, io::Write as _, path::PathBuf, time::Instant};

use attn::Engine;
use clap::{Parser, ValueEnum};
use generate::model::config::LlamaConfig;
use generate_benches::tables::{
    Row, TableModel, Turns, cache_dtype, fused_rope, load_balance, parallel_generation, prefix_cache,
};

#[derive(Parser)]
struct Options {
    /// The models; by default the tiny one.
    #[arg(long)]
    model: Vec<Shape>,
    /// The tables; by default all.
    #[arg(long)]
    table: Vec<Table>,
    /// Runs on the CPU.
    #[arg(long)]
    cpu: bool,
    /// Rounds in which both sides have a turn.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Steps of a turn.
    #[arg(long, default_value_t = 8)]
    steps: usize,
    /// Writes raw results for `cargo xtask bench-report --add`.
    #[arg(long)]
    json: Option<PathBuf>,
    /// The commit, for the raw results.
    #[arg(long, default_value = "")]
    commit: String,
    /// The date, for the raw results.
    #[arg(long, default_value = "")]
    date: String,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Shape {
    /// Three layers, for a look at the program.
    Tiny,
    /// SmolLM2-135M.
    Smollm2,
    /// Llama-3.1-8B.
    Llama,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Table {
    LoadBalance,
    FusedRope,
    ParallelGeneration,
    CacheDtype,
    PrefixCache,
}

const TABLES: [Table; 5] =
    [Table::FusedRope, Table::ParallelGeneration, Table::LoadBalance, Table::CacheDtype, Table::PrefixCache];

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let engine = if options.cpu { Engine::cpu() } else { Engine::auto()? };
    let shapes = if options.model.is_empty() { &[Shape::Tiny][..] } else { &options.model };
    let tables = if options.table.is_empty() { &TABLES[..] } else { &options.table };
    let turns = Turns { rounds: options.rounds, steps: options.steps };
    let device = engine.device().map_or("a host".to_owned(), |device| device.name().to_owned());
    let mut json = options.json.as_ref().map(File::create).transpose()?;
    if let Some(json) = &mut json {
        let method = format!(
            "both sides in turns, {} rounds of {} steps, medians; a step is its tables, plan, launch and logits",
            turns.rounds, turns.steps
        );
        let Options { commit, date, .. } = &options;
        let about = serde_json::json!({
            "name": "model", "page": "model", "device": device, "commit": commit, "date": date, "method": method,
        });
        writeln!(json, "{}", serde_json::json!({ "about": about }))?;
    }
    println!("on {device}");
    for &shape in shapes {
        let clock = Instant::now();
        let model = shape.model(&engine)?;
        println!("{}: weights made up in {:.1} s", model.name, clock.elapsed().as_secs_f64());
        for &table in tables {
            let clock = Instant::now();
            let rows = shape.rows(&model, table, turns)?;
            for row in &rows {
                println!("{row}");
                if let Some(json) = &mut json {
                    writeln!(json, "{}", serde_json::to_string(row)?)?;
                }
            }
            println!("  ({:.1} s)", clock.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

impl Shape {
    fn model(self, engine: &Engine) -> Result<TableModel, generate::Error> {
        match self {
            Shape::Tiny => TableModel::new(engine, "tiny", LlamaConfig::tiny(), true),
            Shape::Smollm2 => TableModel::new(engine, "SmolLM2-135M", LlamaConfig::smollm2_135m(), true),
            Shape::Llama => TableModel::new(engine, "Llama-3.1-8B", LlamaConfig::llama3_8b(), false),
        }
    }

    fn rows(self, model: &TableModel, table: Table, turns: Turns) -> Result<Vec<Row>, generate::Error> {
        let tiny = self == Shape::Tiny;
        let together = |tables: Vec<Vec<Row>>| tables.into_iter().flatten().collect();
        Ok(match table {
            Table::LoadBalance if tiny => load_balance(model, 4, 32, turns)?,
            Table::LoadBalance => load_balance(model, 16, 4096, turns)?,
            Table::FusedRope if tiny => fused_rope(model, 2, &[32], turns)?,
            Table::FusedRope => {
                let windows = [512, 1024, 2048, 4096];
                together(vec![fused_rope(model, 1, &windows, turns)?, fused_rope(model, 64, &windows, turns)?])
            }
            Table::ParallelGeneration if tiny => parallel_generation(model, [1, 96, 8], &[1, 4], turns)?,
            Table::ParallelGeneration => {
                let one = |length| parallel_generation(model, [1, length, 256], &[1, 2, 4, 8, 16, 32], turns);
                let eight = parallel_generation(model, [8, 4096, 256], &[4], turns)?;
                together(vec![one(1024)?, one(4096)?, one(16_384)?, eight])
            }
            Table::CacheDtype if tiny => cache_dtype(model, &[(2, 64)], turns)?,
            Table::CacheDtype => cache_dtype(model, &[(1, 32_768), (16, 4096), (64, 4096)], turns)?,
            Table::PrefixCache if tiny => prefix_cache(model, &[64], 16, turns)?,
            Table::PrefixCache => prefix_cache(model, &[512, 2048, 8192], 128, turns)?,
        })
    }
}
