//! What a report is of: the machine, the program and how it was called.

use attn::Engine;
use attn_kernels::cuda::{Device, driver};

use crate::date::today;

/// The head of a report.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(super) device: String,
    /// Capability, SMs and memory; none of the CPU.
    pub(super) extents: Option<String>,
    pub(super) driver: Option<String>,
    pub(super) commit: Option<String>,
    pub(super) date: String,
    pub(super) command: String,
    pub(super) reps: usize,
}

impl About {
    /// This run of the program.
    pub(super) fn new(engine: &Engine, commit: Option<String>, reps: usize) -> Self {
        let device = engine.device();
        About {
            device: engine.to_string(),
            extents: device.map(extents),
            driver: device.and_then(|_| driver::version().ok()).map(|(major, minor)| format!("CUDA {major}.{minor}")),
            commit,
            date: today(),
            command: command(std::env::args()),
            reps,
        }
    }

    /// What it is, and the text.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let version = env!("CARGO_PKG_VERSION");
        let commit = self.commit.as_ref().map_or("not named (--commit)", String::as_str);
        let timing = match self.extents {
            Some(_) => "between two events, cold L2",
            None => "wall time, warm caches",
        };
        let mut lines = vec![("device", self.device.clone())];
        lines.extend(self.extents.clone().map(|extents| ("", extents)));
        lines.push(("driver", self.driver.clone().unwrap_or_else(|| "none: the CPU".to_owned())));
        lines.extend([
            ("program", format!("attn {version}, commit {commit}")),
            ("date", format!("{} (UTC)", self.date)),
            ("command", self.command.clone()),
            ("runs", format!("{} timed, the median counts; {timing}", self.reps)),
        ]);
        lines
    }
}

fn extents(device: &Device) -> String {
    let (major, minor) = device.capability();
    let (sms, gib) = (device.multiprocessors(), device.memory() >> 30);
    format!("compute capability {major}.{minor}, {sms} SMs, {gib} GiB")
}

/// The command line as a shell reads it, with the name of the program without its folder.
fn command(args: impl Iterator<Item = String>) -> String {
    let plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "-_./=:,+@%".contains(c));
    let quoted = |text: String| if plain(&text) { text } else { format!("'{}'", text.replace('\'', "'\\''")) };
    let name = |path: String| path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
    let words = args.enumerate().map(|(n, text)| quoted(if n == 0 { name(text) } else { text }));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn a_command_can_be_pasted() {
        let args = ["/usr/bin/attn", "bench", "a b.jsonl", "--match", "it's", "--report", "r.html", ""];
        let pasted = r"attn bench 'a b.jsonl' --match 'it'\''s' --report r.html ''";
        assert_eq!(command(args.map(str::to_owned).into_iter()), pasted);
    }
}
