//! How the CTAs of a mixed launch follow each other.

/// Of each `wave` CTAs, which a device holds at a time, those that are workers of the decode part: as large a part as of all `ctas`, rounded up. So
/// workers run all the time, beside tiles of prefill, and who plans need not know how fast either is. `mixed.cuh` places CTAs by it.
#[must_use]
pub fn wave_decodes(decode_ctas: u32, ctas: u32, wave: u32) -> u32 {
    let share = (u64::from(decode_ctas) * u64::from(wave)).div_ceil(u64::from(ctas.max(1)));
    u32::try_from(share).unwrap_or(u32::MAX).min(decode_ctas)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As in `mixed.cuh`: whether a CTA decodes, and its number among those of its kind.
    fn place(cta: u32, wave: u32, of_wave: u32, decodes: u32) -> (bool, u32) {
        let (number, within) = (cta / wave, cta % wave);
        let begin = (number * of_wave).min(decodes);
        let count = (decodes - begin).min(of_wave);
        if within < count { (true, begin + within) } else { (false, cta - begin - count) }
    }

    proptest! {
        #[test]
        fn every_cta_of_both_parts_runs_once(decodes in 0u32..700, prefills in 0u32..3000, wave in 1u32..400) {
            let ctas = decodes + prefills;
            let of_wave = wave_decodes(decodes, ctas, wave);
            let mut places: Vec<_> = (0..ctas).map(|cta| place(cta, wave, of_wave, decodes)).collect();
            let of_first = places.iter().take(wave as usize).filter(|(decodes, _)| *decodes).count();
            prop_assert_eq!(of_first as u32, of_wave.min(decodes));
            // each kind in the order of its numbers
            places.sort_by_key(|(decodes, _)| !decodes);
            let want = (0..decodes).map(|i| (true, i)).chain((0..prefills).map(|i| (false, i)));
            prop_assert!(places.into_iter().eq(want));
        }
    }
}
