//! The most that a device can do: bytes a second from its memory, operations a second on its tensor cores.

use attn_kernels::cuda::Device;

use super::timed::Timed;
use crate::output::figure;

/// The roofs of a device, as far as they are known, each with a sentence.
#[derive(Clone, Debug)]
pub(crate) struct Roofs {
    /// GB/s.
    pub(super) memory: Option<f64>,
    /// TFLOP/s of 16-bit MMAs.
    pub(super) compute: Option<f64>,
    /// TFLOP/s of e4m3 MMAs, where kernels have them.
    pub(super) e4m3: Option<f64>,
    /// Where the roofs come from, or why there are none.
    pub(super) sentences: Vec<String>,
}

/// What the driver says about a device. 0 is unknown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    pub(super) sms: u32,
    pub(super) sm_khz: u32,
    pub(super) memory_khz: u32,
    pub(super) bus_bits: u32,
}

/// The least time of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Floor {
    pub(super) us: f64,
    /// What takes this time: bytes or FLOPs.
    pub(super) by: &'static str,
}

impl Roofs {
    pub(super) fn of(device: Option<&Device>) -> Self {
        let Some(device) = device else {
            let none = "No roofs and no floors: what the memory and the cores of this CPU can do is not known.";
            return Roofs { memory: None, compute: None, e4m3: None, sentences: vec![none.to_owned()] };
        };
        let clocks = Clocks {
            sms: device.multiprocessors(),
            sm_khz: device.clock_khz(),
            memory_khz: device.memory_clock_khz(),
            bus_bits: device.memory_bus_bits(),
        };
        Self::new(device.name(), device.capability(), clocks)
    }

    pub(super) fn new(name: &str, capability: (u32, u32), clocks: Clocks) -> Self {
        let Clocks { sms, sm_khz, memory_khz, bus_bits } = clocks;
        let memory = 2.0 * f64::from(memory_khz) * f64::from(bus_bits) / 8.0 / 1e6;
        let memory = (memory > 0.0).then_some(memory);
        let flop = tensor_core_flop(name, capability).filter(|_| sms > 0 && sm_khz > 0);
        let compute = flop.map(|flop| f64::from(flop) * f64::from(sms) * f64::from(sm_khz) / 1e9);
        let e4m3 = compute.filter(|_| capability == (9, 0)).map(|rate| 2.0 * rate);
        let (major, minor) = capability;
        let sentences = vec![
            match memory {
                Some(gbps) => format!(
                    "Memory roof: {} GB/s, two transfers a clock at {} MHz over {bus_bits} bits.",
                    figure(Some(gbps)),
                    memory_khz / 1000,
                ),
                None => "No memory roof: the driver names no memory clock or no bus width.".to_owned(),
            },
            match (compute, flop) {
                (Some(rate), Some(flop)) => format!(
                    "Compute roof: {} TFLOP/s, dense 16-bit MMAs with sums in f32 on tensor cores, {flop} FLOP a \
                     clock on each of {sms} SMs at {} MHz.",
                    figure(Some(rate)),
                    sm_khz / 1000,
                ),
                _ => format!(
                    "No compute roof: the rate of tensor cores of {name}, compute capability {major}.{minor}, is not \
                     known."
                ),
            },
        ];
        Roofs { memory, compute, e4m3, sentences }
    }

    /// The TFLOP/s of the compute type that a run asks for.
    fn rate(&self, e4m3: bool) -> Option<f64> {
        if e4m3 { self.e4m3 } else { self.compute }
    }

    /// The time that the bytes or the operations of a run take under the roofs that are known, whichever is longer.
    /// There is none without bytes and operations.
    pub(super) fn floor(&self, run: &Timed) -> Option<Floor> {
        let bytes = self.memory.map(|most| Floor { us: run.us() * run.gbps / most, by: "bytes" });
        let flops = self.rate(run.e4m3).map(|most| Floor { us: run.us() * run.tflops / most, by: "FLOPs" });
        bytes.into_iter().chain(flops).filter(|floor| floor.us > 0.0).max_by(|a, b| a.us.total_cmp(&b.us))
    }
}

/// Operations a clock of the tensor cores of an SM: dense 16-bit MMAs with sums in f32.
///
/// They are those of NVIDIA's data sheets, divided by SMs and boost clock: A100 312 TFLOP/s, A10 125, L40S 362, H100
/// 989, B200 2250, GeForce RTX 4090 165. With sums in f32, GeForce has half the rate of the other GPUs of its
/// compute capability.
fn tensor_core_flop(name: &str, capability: (u32, u32)) -> Option<u32> {
    let geforce = name.contains("GeForce");
    match capability {
        (8, 0) => Some(2048),
        (8, 6 | 9) => Some(if geforce { 512 } else { 1024 }),
        (9, 0) => Some(4096),
        (10, 0) => Some(8192),
        (12, 0) if geforce => Some(512),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::run;

    fn roofs(name: &str, capability: (u32, u32), sms: u32, mhz: u32, memory_mhz: u32, bus_bits: u32) -> Roofs {
        let clocks = Clocks { sms, sm_khz: mhz * 1000, memory_khz: memory_mhz * 1000, bus_bits };
        Roofs::new(name, capability, clocks)
    }

    #[test]
    fn roofs_are_those_of_data_sheets() {
        let near = |found: Option<f64>, want: f64| {
            let found = found.expect("known");
            assert!((found / want - 1.0).abs() < 0.02, "{found} is not {want}");
        };
        for (roofs, gbps, tflops) in [
            (roofs("NVIDIA A100-SXM4-80GB", (8, 0), 108, 1410, 1593, 5120), 2039.0, 312.0),
            (roofs("NVIDIA A10", (8, 6), 72, 1695, 6251, 384), 600.0, 125.0),
            (roofs("NVIDIA L40S", (8, 9), 142, 2520, 9001, 384), 864.0, 362.0),
            (roofs("NVIDIA GeForce RTX 4090", (8, 9), 128, 2520, 10_501, 384), 1008.0, 165.2),
            (roofs("NVIDIA H100 80GB HBM3", (9, 0), 132, 1830, 2619, 5120), 3350.0, 989.4),
            (roofs("NVIDIA B200", (10, 0), 148, 1860, 3750, 8192), 7700.0, 2250.0),
        ] {
            near(roofs.memory, gbps);
            near(roofs.compute, tflops);
        }
    }

    #[test]
    fn what_is_unknown_is_said() {
        let unknown = roofs("NVIDIA GB10", (12, 1), 48, 2418, 0, 256);
        assert_eq!((unknown.memory, unknown.compute, unknown.e4m3), (None, None, None));
        assert!(unknown.sentences[0].starts_with("No memory roof") && unknown.sentences[1].contains("12.1"));
        assert_eq!(unknown.floor(&run("a", 10.0, 100.0, 1.0)), None);
        assert!(Roofs::of(None).sentences[0].contains("CPU"));
    }

    #[test]
    fn a_floor_is_the_longer_of_bytes_and_operations() {
        let h100 = roofs("NVIDIA H100 80GB HBM3", (9, 0), 132, 1830, 2619, 5120);
        let (memory, compute) = (h100.memory.expect("known"), h100.compute.expect("known"));
        // half of the bandwidth, a tenth of the rate
        let decode = run("decode", 10.0, memory / 2.0, compute / 10.0);
        let floor = h100.floor(&decode).expect("a floor");
        assert!(floor.by == "bytes" && (floor.us - 5.0).abs() < 1e-9, "{floor:?}");
        let prefill = run("prefill", 10.0, memory / 10.0, compute / 2.0);
        let floor = h100.floor(&prefill).expect("a floor");
        assert!(floor.by == "FLOPs" && (floor.us - 5.0).abs() < 1e-9, "{floor:?}");
        let e4m3 = h100.floor(&Timed { e4m3: true, ..prefill.clone() }).expect("a floor");
        assert!((e4m3.us - 2.5).abs() < 1e-9, "8-bit MMAs have twice the rate: {e4m3:?}");
        let memory_alone = Roofs { compute: None, ..h100 };
        assert_eq!(memory_alone.floor(&prefill).map(|floor| floor.by), Some("bytes"));
        assert_eq!(memory_alone.floor(&run("no keys", 5.0, 0.0, 0.0)), None);
    }
}
