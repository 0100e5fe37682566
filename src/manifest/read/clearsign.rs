//! The envelope of a list that is signed in clear text (RFC 9580, section 7): armor headers before the
//! lines, `- ` before each line that starts with `-`, and a signature after them.
//!
//! The signature is passed over, not checked.

const BEGIN: &[u8] = b"-----BEGIN PGP SIGNED MESSAGE-----";
const SIGNATURE: &[u8] = b"-----BEGIN PGP SIGNATURE-----";
const END: &[u8] = b"-----END PGP SIGNATURE-----";

/// Which part of an envelope the next line is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Envelope {
    /// None: outside of any.
    #[default]
    Outside,
    /// The armor headers, up to an empty line.
    Headers,
    /// The lines that were signed.
    Signed,
    Signature,
}

impl Envelope {
    /// Goes on by a line: the line that was signed or is outside, or `None` for one of the envelope's own.
    pub fn open<'a>(&mut self, line: &'a [u8]) -> Option<&'a [u8]> {
        let bare = line.trim_ascii_end();
        match *self {
            Envelope::Outside if bare == BEGIN => *self = Envelope::Headers,
            Envelope::Outside => return Some(line),
            Envelope::Headers if bare.is_empty() => *self = Envelope::Signed,
            Envelope::Headers if is_header(bare) => {}
            // Without the empty line. Nothing may hide among the headers.
            Envelope::Headers => {
                *self = Envelope::Signed;
                return Some(line);
            }
            Envelope::Signed if bare == SIGNATURE => *self = Envelope::Signature,
            Envelope::Signed => return Some(line.strip_prefix(b"- ").unwrap_or(line)),
            Envelope::Signature if bare == END => *self = Envelope::Outside,
            Envelope::Signature => {}
        }
        None
    }
}

/// `Key: value`, as `Hash: SHA512`.
fn is_header(line: &[u8]) -> bool {
    let key = line.split(|&byte| byte == b':').next().unwrap_or_default();
    let is_key = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    !key.is_empty() && key.iter().all(is_key) && line.get(key.len()..key.len() + 2) == Some(b": ")
}
