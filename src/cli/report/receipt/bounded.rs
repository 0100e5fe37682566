//! Values of a receipt that take a bounded room in memory, however large they are there.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};

/// Of a text so many bytes are kept: more than the longest path has, escaped.
const MOST_TEXT: usize = 16 << 10;

/// A text, cut off where it is too long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClippedText(pub String);

impl<'de> Deserialize<'de> for ClippedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Clip;
        impl Visitor<'_> for Clip {
            type Value = ClippedText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E>(self, text: &str) -> Result<ClippedText, E> {
                let is_long = text.len() > MOST_TEXT;
                let end =
                    (0..=text.len().min(MOST_TEXT)).rev().find(|at| text.is_char_boundary(*at));
                let kept = &text[..end.unwrap_or(0)];
                Ok(ClippedText(if is_long { format!("{kept}…") } else { kept.to_owned() }))
            }
        }
        deserializer.deserialize_str(Clip)
    }
}

/// The first `N` elements of a list, and how many there are.
#[derive(Clone, Debug)]
pub struct AtMost<T, const N: usize> {
    pub kept: Vec<T>,
    pub all: u64,
}

impl<T, const N: usize> Default for AtMost<T, N> {
    fn default() -> Self {
        Self { kept: Vec::new(), all: 0 }
    }
}

impl<T, const N: usize> AtMost<T, N> {
    /// How many are not kept.
    pub fn left_out(&self) -> u64 {
        self.all - self.kept.len() as u64
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for AtMost<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Take<T, const N: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for Take<T, N> {
            type Value = AtMost<T, N>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut taken = AtMost::default();
                loop {
                    if taken.kept.len() < N {
                        let Some(element) = list.next_element()? else { return Ok(taken) };
                        taken.kept.push(element);
                    } else if list.next_element::<IgnoredAny>()?.is_none() {
                        return Ok(taken);
                    }
                    taken.all += 1;
                }
            }
        }
        deserializer.deserialize_seq(Take(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let list: AtMost<u64, 3> = serde_json::from_str("[1, 2, 3, 4, {\"a\": []}]").unwrap();
        assert_eq!((list.kept.as_slice(), list.all, list.left_out()), (&[1, 2, 3][..], 5, 2));
        assert!(serde_json::from_str::<AtMost<u64, 3>>("[1, \"x\"]").is_err());
        let text = serde_json::to_string(&"é".repeat(MOST_TEXT)).unwrap();
        let text: ClippedText = serde_json::from_str(&text).unwrap();
        assert!(text.0.len() <= MOST_TEXT + 3 && text.0.ends_with("é…"));
    }
}
