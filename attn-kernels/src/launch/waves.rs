//! How the CTAs of a mixed launch follow each other.

/// Of each `wave` CTAs, which a device holds at a time, those that are workers of the decode part, as long as there are any: twice as large a part as of all
/// `ctas`, but no more than every second, unless there are. So workers run beside tiles of prefill, whatever either costs, and have begun by the middle of
/// the launch: tiles come longest first, and at the end there are none that take as long as a worker. `mixed.cuh` places CTAs by it.
#[must_use]
pub fn wave_decodes(decode_ctas: u32, ctas: u32, wave: u32) -> u32 {
    let share = (u64::from(decode_ctas) * u64::from(wave)).div_ceil(u64::from(ctas.max(1)));
    let of_wave = share.max((2 * share).min(u64::from(wave / 2)));
    u32::try_from(of_wave).unwrap_or(u32::MAX).min(decode_ctas)
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
            // the last worker begins in the first half, where there are fewer workers than tiles
            let last = places.iter().rposition(|(decodes, _)| *decodes).map_or(0, |last| last as u32 + 1);
            prop_assert!(decodes > prefills / 4 || last <= ctas.div_ceil(2).next_multiple_of(wave));
            // each kind in the order of its numbers
            places.sort_by_key(|(decodes, _)| !decodes);
            let want = (0..decodes).map(|i| (true, i)).chain((0..prefills).map(|i| (false, i)));
            prop_assert!(places.into_iter().eq(want));
        }
    }
}
