//! Timings of cases: prepared once, then timed in any order, so that runs may be interleaved.

use serde::Serialize;

use attn::{Engine, Graph, Stream, Variant};
use attn_core::batch::Layout;

use super::clock::Clock;
use crate::engine_memory::launch;
use crate::run_modes::RunMode;
use crate::setup::Setup;
use crate::{Case, Info, TestError, attended, attended_pairs};

/// The time of a case, with the bytes and operations of that time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BenchResult {
    /// Median milliseconds of a run. On a GPU it is the time between two events, with a cold L2 (256 MB are overwritten
    /// before each run). If the case asks for a graph, the run is a graph replay. On the CPU it is wall time with warm
    /// caches.
    pub ms: f64,
    /// Bandwidth over K and V in GB/s. Each key counts once, even if the mask hides it or requests share it in a
    /// cascade. Under KV lists only listed keys count.
    pub gbps: f64,
    /// `2 * pairs * (head_dim + value_dim)` floating-point operations over attended (query, key, head) pairs, in
    /// TFLOP/s.
    pub tflops: f64,
    /// The facts about the prepared case.
    #[serde(flatten)]
    pub info: Info,
}

impl std::ops::Deref for BenchResult {
    type Target = Info;
    fn deref(&self) -> &Info {
        &self.info
    }
}

/// A case that is ready to be timed, any number of times.
pub struct Prepared {
    // dropped first: the graph uses what the setups own
    graph: Option<Graph>,
    setups: Vec<Setup>,
    stream: Stream,
    engine: Engine,
    /// One setup a launch.
    work: Vec<(Variant, Layout)>,
    info: Info,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("info", &self.info).finish_non_exhaustive()
    }
}

/// Times a case: the median of `reps` runs, after three warm-up runs.
///
/// # Errors
///
/// The case cannot be run.
pub fn bench(case: &Case, engine: &Engine, reps: usize) -> Result<BenchResult, TestError> {
    bench_mode(case, RunMode::AsIs, engine, reps)
}

/// [`bench()`] of a case in another run mode.
///
/// # Errors
///
/// The case does not have this run mode, or it cannot be run.
pub fn bench_mode(case: &Case, mode: RunMode, engine: &Engine, reps: usize) -> Result<BenchResult, TestError> {
    let mut prepared = Prepared::with_mode(case, mode, engine)?;
    let ms = prepared.time(reps, 3)?;
    let (mut pairs, mut rows) = (0, 0);
    for (variant, layout) in &prepared.work {
        let variant = variant.bind(&layout.dims(case.heads())).map_err(attn::Error::from)?;
        pairs += attended(&variant, layout, case.heads());
        rows += attended_pairs::rows_read(&variant, layout, case.heads());
    }
    let (dim, values) = (f64::from(case.head_dim), f64::from(case.head_dim_vo.dim(case.heads())));
    let flops = 2.0 * pairs as f64 * (dim + values);
    // values that share the memory of the keys add no bytes
    let shared = case.head_dim_vo.shares_keys();
    let dtypes = case.dtypes()?;
    let row = match dtypes.format {
        Some(format) => {
            let bytes = |part, dim| format.row_bytes(part, dim).total();
            let values = if shared { 0 } else { bytes(1, case.head_dim_vo.dim(case.heads())) };
            (bytes(0, case.head_dim) + values) as f64
        }
        None if shared => dim * dtypes.kv.size() as f64,
        None => (dim + values) * dtypes.kv.size() as f64,
    };
    let bytes = rows as f64 * row;
    Ok(BenchResult { ms, gbps: bytes / ms / 1e6, tflops: flops / ms / 1e9, info: prepared.info })
}

impl Prepared {
    /// Compiles, plans and uploads the tensors.
    ///
    /// # Errors
    ///
    /// The case cannot be run.
    pub fn new(case: &Case, engine: &Engine) -> Result<Self, TestError> {
        Self::with_mode(case, RunMode::AsIs, engine)
    }

    /// [`Prepared::new`] in another run mode.
    ///
    /// # Errors
    ///
    /// The case does not have this run mode, or it cannot be run.
    pub fn with_mode(case: &Case, mode: RunMode, engine: &Engine) -> Result<Self, TestError> {
        let (mut setups, mut work) = (Vec::new(), Vec::new());
        for part in mode.parts(case)? {
            setups.push(Setup::new(&part.case, &part.variant, &part.inputs, engine, 11)?);
            let levels = part.inputs.levels();
            let layout = part.inputs.batch(&levels).validate()?;
            work.push((part.variant, layout));
        }
        let (info, stream) = (info(&setups), engine.stream()?);
        let mut run = || setups.iter_mut().try_for_each(|setup| setup.run_on(&stream));
        run()?;
        stream.synchronize()?;
        let graph = if case.graph { Some(Graph::capture(&stream, run)?) } else { None };
        Ok(Prepared { graph, setups, stream, engine: engine.clone(), work, info })
    }

    /// The facts about it.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Median milliseconds of `reps` runs, after `warm` warm-up runs.
    ///
    /// # Errors
    ///
    /// A run failed.
    pub fn time(&mut self, reps: usize, warm: usize) -> Result<f64, TestError> {
        let Prepared { graph, setups, stream, engine, .. } = self;
        let run = || launch(graph.as_mut(), stream, || setups.iter_mut().try_for_each(|setup| setup.run_on(stream)));
        Clock::new(engine)?.median_ms(stream, reps, warm, run)
    }
}

/// The facts about one launch, or about several together.
fn info(setups: &[Setup]) -> Info {
    let mut each = setups.iter().map(|s| Info { ran: s.ran(), plan_us: s.plan_us, ..s.kernel_info() });
    let first = each.next().unwrap_or_default();
    each.fold(first, |all, one| Info {
        ran: format!("{}, then {}", all.ran, one.ran),
        plan_us: all.plan_us + one.plan_us,
        compile_ms: all.compile_ms.zip(one.compile_ms).map(|(a, b)| a + b),
        cubin: all.cubin,
        ..Info::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeptPages, LayoutKind, Lens, ListsOf};

    fn timed(case: &Case, mode: RunMode) -> BenchResult {
        bench_mode(case, mode, &Engine::cpu(), 1).expect("it runs")
    }

    #[test]
    fn bytes_and_operations_count_kept_pages_only() {
        let case = Case {
            kv_layout: LayoutKind::Paged,
            page_size: 4,
            qo_lens: Lens::List(vec![1, 1]),
            kv_lens: Lens::List(vec![40, 62]),
            sparse: Some(KeptPages { page: 4, keep: 0.25, heads: ListsOf::Shared }),
            ..Case::new("page_list(page_size=4, max_pages=5)")
        };
        // 3 of 10 pages; 4 of 16, the last of which has 2 keys
        let variant = crate::case_variant(&case).expect("lists fit");
        let lists = case.sparse.as_ref().expect("sparse").lists(&case);
        let keys: u32 =
            lists.iter().zip([40u32, 62]).flat_map(|(heads, n)| heads[0].iter().map(move |p| 4.min(n - p * 4))).sum();
        assert_eq!(lists.iter().map(|heads| heads[0].len()).collect::<Vec<_>>(), [3, 4]);
        assert!(variant.has_kv_list() && (26..=28).contains(&keys), "{keys}");
        let (listed, pages) = (timed(&case, RunMode::AsIs), timed(&case, RunMode::Pages));
        for result in [listed, pages] {
            let flops = result.tflops * result.ms * 1e9;
            assert!((flops - f64::from(4 * keys * 4 * 64)).abs() < 1e-3, "{flops}");
            let bytes = result.gbps * result.ms * 1e6;
            assert!((bytes - f64::from(2 * keys * 2 * 64 * 2)).abs() < 1e-3, "{bytes}");
        }
        let own = Case { sparse: Some(KeptPages { page: 4, keep: 0.25, heads: ListsOf::Own }), ..case.clone() };
        let lists = own.sparse.as_ref().expect("sparse").lists(&own);
        assert!(lists.iter().any(|heads| heads[0] != heads[1]), "each head has its own");
        bench_mode(&own, RunMode::Pages, &Engine::cpu(), 1).expect_err("heads differ");
        let small = Case { variant: "page_list(page_size=4, max_pages=3)".to_owned(), ..case };
        let error = bench(&small, &Engine::cpu(), 1).expect_err("4 pages, capacity 3").to_string();
        assert!(error.contains("capacity"), "{error}");
    }

    #[test]
    fn run_modes_compute_as_much_as_the_case() {
        let mixed = Case {
            kv_layout: LayoutKind::Paged,
            qo_lens: Lens::List(vec![20, 1, 33, 2]),
            kv_lens: Lens::List(vec![64, 100, 33, 17]),
            ..Case::new("causal")
        };
        let work = |r: &BenchResult| [r.tflops, r.gbps * 1e-3].map(|per_s| (per_s * r.ms * 1e9).round());
        let as_is = timed(&mixed, RunMode::AsIs);
        for mode in [RunMode::Auto, RunMode::Mixed, RunMode::Sm80Mixed, RunMode::Sequential, RunMode::Ragged] {
            let other = timed(&mixed, mode);
            assert_eq!(work(&other), work(&as_is), "{mode}");
            assert_eq!(other.ran.contains(", then "), mode == RunMode::Sequential, "{}", other.ran);
        }
        for mode in [RunMode::Pages, RunMode::Flat] {
            let case = Case { kv_layout: LayoutKind::Ragged, ..mixed.clone() };
            bench_mode(&case, mode, &Engine::cpu(), 1).expect_err("the case does not have this run mode");
        }
        let decode = Case { qo_lens: Lens::List(vec![1; 4]), ..mixed };
        bench_mode(&decode, RunMode::Sequential, &Engine::cpu(), 1).expect_err("all decode");
    }
}
