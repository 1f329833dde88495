//! Packed bits on the CPU, bit by bit.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn every_bit_is_packed_at_its_place(
        lists in prop::collection::vec(prop::collection::vec(any::<bool>(), 0..40), 0..6), big: bool,
    ) {
        let order = if big { BitOrder::Big } else { BitOrder::Little };
        let mut indptr = vec![0];
        lists.iter().for_each(|list| indptr.push(indptr[indptr.len() - 1] + list.len() as i32));
        let bools: Vec<bool> = lists.concat();
        let (bytes, ends) = pack_segments(&bools, &indptr, order)?;
        prop_assert_eq!(ends.len(), lists.len() + 1);
        prop_assert_eq!(bytes.len(), ends[lists.len()] as usize);
        for (list, ends) in lists.iter().zip(ends.windows(2)) {
            let own = &bytes[ends[0] as usize..ends[1] as usize];
            prop_assert_eq!(own.len(), list.len().div_ceil(8));
            for i in 0..8 * own.len() {
                let bit = if big { 7 - i % 8 } else { i % 8 };
                prop_assert_eq!(own[i / 8] >> bit & 1 == 1, list.get(i) == Some(&true));
            }
            prop_assert_eq!(pack(list, order), own);
        }
    }
}

#[test]
fn bad_indptr_and_short_outputs_are_refused() {
    for (indptr, says) in [
        (&[1, 3][..], "`indptr[0]`"),
        (&[0, 3, 2], "`indptr[2]` is 2"),
        (&[0, 5], "`indptr[1]` is 5"),
        (&[], "`indptr` has 0"),
    ] {
        let error = pack_segments(&[true; 4], indptr, BitOrder::Little).expect_err("bad").to_string();
        assert!(error.contains(says), "{error}");
    }
    let error = packbits(&Array::host(&[1; 9]), BitOrder::Little, &mut ArrayMut::host(&mut [0]));
    assert!(matches!(error, Err(OpError::Len { array: "out", len: 1, want: 2, .. })));
}
