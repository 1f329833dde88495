//! How the CTAs of a mixed launch follow each other.

/// The CTAs of a launch, and the device's.
#[derive(Clone, Copy, Debug)]
pub struct Waves {
    /// Workers of the decode part; of a plan with a capacity, all that there is room for.
    pub decodes: u32,
    /// CTAs of both parts.
    pub ctas: u32,
    /// CTAs that the device holds at a time.
    pub wave: u32,
    /// Its multiprocessors.
    pub multiprocessors: u32,
}

impl Waves {
    /// Of the CTAs of a wave those that are workers of the decode part, as long as there are any; `mixed/kernel.cuh` places CTAs by it.
    ///
    /// One a multiprocessor, so that each runs beside a tile of prefill and all have begun at once; more where they are a larger part of all CTAs, or some would
    /// be left at the end. (Measured against fewer at a time, and against two on a multiprocessor: `benches/notes/mixed.md`.)
    #[must_use]
    pub fn decodes_of_each(&self) -> u32 {
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

    /// As in `mixed/kernel.cuh`: whether a CTA decodes, and its number among those of its kind.
    fn place(cta: u32, of_wave: u32, waves: &Waves) -> (bool, u32) {
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
            let of_wave = waves.decodes_of_each();
            let mut places: Vec<_> = (0..ctas).map(|cta| place(cta, of_wave, &waves)).collect();
            let of_first = places.iter().take(waves.wave as usize).filter(|(decodes, _)| *decodes).count();
            prop_assert_eq!(of_first as u32, of_wave);
            // each kind in the order of its numbers
            places.sort_by_key(|(decodes, _)| !decodes);
            let want = (0..decodes).map(|i| (true, i)).chain((0..prefills).map(|i| (false, i)));
            prop_assert!(places.into_iter().eq(want));
        }
    }

    #[test]
    fn workers_begin_at_once() {
        let of = |decodes, ctas| Waves { decodes, ctas, wave: 264, multiprocessors: 132 }.decodes_of_each();
        assert_eq!((of(128, 1232), of(208, 1232)), (128, 132), "one a multiprocessor");
        assert_eq!((of(128, 256), of(400, 500)), (128, 212), "more than tiles");
        assert_eq!((of(0, 10), of(10, 10), of(0, 0)), (0, 10, 0));
    }
}
