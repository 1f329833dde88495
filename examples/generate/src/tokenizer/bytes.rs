//! The alphabet of byte-level BPE: each byte is one printable character (GPT-2).

/// The bytes of a token; `None` for characters outside of the alphabet.
pub(super) fn of_token(token: &str) -> Option<Box<[u8]>> {
    token.chars().map(byte).collect()
}

/// The byte of a character: printable Latin-1 stands for itself, and the other bytes, in order, are the characters from
/// U+0100 on.
fn byte(character: char) -> Option<u8> {
    let code = u32::from(character);
    if let Ok(byte) = u8::try_from(code) {
        return printable(byte).then_some(byte);
    }
    let index = code.checked_sub(0x100)? as usize;
    (0..=u8::MAX).filter(|&byte| !printable(byte)).nth(index)
}

fn printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}
