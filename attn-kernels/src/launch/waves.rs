//! The order of decode and prefill CTAs in a mixed launch.

/// The CTAs of a mixed launch, and the size of the device.
#[derive(Clone, Copy, Debug)]
pub struct Waves {
    /// CTAs of the decode part; for a plan with a capacity those of the capacity.
    pub decodes: u32,
    /// CTAs of both parts.
    pub ctas: u32,
    /// Resident CTAs of the device.
    pub wave: u32,
    /// SMs of the device.
    pub multiprocessors: u32,
}

impl Waves {
    /// Decode CTAs of each wave, until all decode CTAs are assigned. `mixed/kernel.cuh` assigns roles by this number.
    ///
    /// It is one per SM, so that all start at once and each overlaps with a prefill tile. If decode CTAs are a larger
    /// share of the grid, it is that share of a wave; otherwise some would run alone at the end. (Fewer per wave, and
    /// two per SM, measured slower: `book/src/performance/notes/mixed.md`.)
    pub fn decode_ctas_per_wave(&self) -> u32 {
        let &Waves { decodes, ctas, wave, multiprocessors } = self;
        let share = (u64::from(decodes) * u64::from(wave)).div_ceil(u64::from(ctas.max(1)));
        let of_wave = share.max(multiprocessors.min(wave).into());
        u32::try_from(of_wave).unwrap_or(u32::MAX).min(decodes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The role of a CTA, as in `mixed/kernel.cuh`: whether it decodes, and its index among the CTAs of its role.
    fn role(cta: u32, of_wave: u32, waves: &Waves) -> (bool, u32) {
        let (number, within) = (cta / waves.wave, cta % waves.wave);
        let begin = (number * of_wave).min(waves.decodes);
        let count = (waves.decodes - begin).min(of_wave);
        if within < count { (true, begin + within) } else { (false, cta - begin - count) }
    }

    proptest! {
        #[test]
        fn every_cta_of_both_parts_runs_once(
            (decodes, prefills) in (0u32..700, 0u32..3000),
            (multiprocessors, each) in (1u32..200, 1u32..4),
        ) {
            let ctas = decodes + prefills;
            let waves = Waves { decodes, ctas, wave: multiprocessors * each, multiprocessors };
            let of_wave = waves.decode_ctas_per_wave();
            let mut roles: Vec<_> = (0..ctas).map(|cta| role(cta, of_wave, &waves)).collect();
            let of_first = roles.iter().take(waves.wave as usize).filter(|(decodes, _)| *decodes).count();
            prop_assert_eq!(of_first as u32, of_wave);
            // each kind in the order of its numbers
            roles.sort_by_key(|(decodes, _)| !decodes);
            let want = (0..decodes).map(|i| (true, i)).chain((0..prefills).map(|i| (false, i)));
            prop_assert!(roles.into_iter().eq(want));
        }
    }

    #[test]
    fn workers_begin_at_once() {
        let of = |decodes, ctas| Waves { decodes, ctas, wave: 264, multiprocessors: 132 }.decode_ctas_per_wave();
        assert_eq!((of(128, 1232), of(208, 1232)), (128, 132), "one a multiprocessor");
        assert_eq!((of(128, 256), of(400, 500)), (128, 212), "more than tiles");
        assert_eq!((of(0, 10), of(10, 10), of(0, 0)), (0, 10, 0));
    }
}
