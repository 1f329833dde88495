//! The ranks that a launcher of processes starts.

use super::ParallelError;

/// The variables of launchers: the rank, the number of ranks, and the rank within its host.
const LAUNCHERS: [[&str; 3]; 4] = [
    // torchrun
    ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
    // mpirun of Open MPI
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
    // mpirun of MPICH and Intel MPI
    ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"],
    // srun
    ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"],
];

/// What a launcher says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Its rank.
    pub rank: usize,
    /// How many there are.
    pub ranks: usize,
    /// Its device.
    pub device: u32,
}

impl Launched {
    /// Reads the variables of the first launcher that names a rank.
    ///
    /// # Errors
    ///
    /// A variable that is missing, or no number.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ParallelError> {
        let refusal = |name, want| {
            let got = variable(name).unwrap_or_else(|| "not set".to_owned());
            ParallelError::Launcher { name, got, want }
        };
        let Some(names) = LAUNCHERS.iter().find(|names| variable(names[0]).is_some()) else {
            return Err(refusal("RANK", "set by torchrun, mpirun or srun"));
        };
        let number = |name| {
            let number = variable(name).and_then(|text| text.parse::<u32>().ok());
            number.ok_or_else(|| refusal(name, "a whole number"))
        };
        let [rank, ranks] = [number(names[0])? as usize, number(names[1])? as usize];
        if rank >= ranks {
            return Err(ParallelError::Rank { rank, ranks });
        }
        if variable("NCCL_COMM_ID").is_none() {
            let want = "the host of rank 0 and a free port of it, `host:port`, for all ranks: NCCL meets there";
            return Err(refusal("NCCL_COMM_ID", want));
        }
        Ok(Launched { rank, ranks, device: number(names[2])? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Launched, ParallelError> {
        let value = |name: &str| variables.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned());
        Launched::read(value)
    }

    #[test]
    fn every_launcher_names_its_ranks() {
        for [rank, ranks, local] in LAUNCHERS {
            let variables = [(rank, "5"), (ranks, "8"), (local, "1"), ("NCCL_COMM_ID", "a:29501")];
            assert_eq!(read(&variables), Ok(Launched { rank: 5, ranks: 8, device: 1 }));
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = |variables: &[(&str, &str)]| read(variables).expect_err("refused").to_string();
        assert!(error(&[]).contains("`RANK` is not set, which has to be set by torchrun"), "{}", error(&[]));
        assert!(error(&[("RANK", "x"), ("WORLD_SIZE", "2")]).contains("`RANK` is x, which has to be a whole number"));
        assert!(error(&[("PMI_RANK", "0")]).contains("`PMI_SIZE` is not set"));
        assert!(error(&[("RANK", "2"), ("WORLD_SIZE", "2")]).contains("rank 2 of 2"));
        assert!(error(&[("RANK", "1"), ("WORLD_SIZE", "2")]).contains("`NCCL_COMM_ID` is not set"));
        let address = ("NCCL_COMM_ID", "a:1");
        assert!(error(&[("RANK", "1"), ("WORLD_SIZE", "2"), address]).contains("`LOCAL_RANK` is not set"));
    }
}
