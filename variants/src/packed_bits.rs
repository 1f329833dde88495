//! Packed bit masks.

/// Appends bits to `bytes`, little-endian, from a whole byte on.
pub(crate) fn pack(bits: impl Iterator<Item = bool>, bytes: &mut Vec<u8>) {
    for (i, bit) in bits.enumerate() {
        if i % 8 == 0 {
            bytes.push(0);
        }
        if let Some(byte) = bytes.last_mut() {
            *byte |= u8::from(bit) << (i % 8);
        }
    }
}
