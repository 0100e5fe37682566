//! The order of a walk for paths as bytes: a directory comes right before all that is below it. Bytes alone do not give
//! it, because `a-b` is less than `a/b`.

use std::cmp::Ordering;

/// Compares two paths whose components are joined by `/`.
pub fn compare(one: &[u8], other: &[u8]) -> Ordering {
    // No name has a zero byte, so the separator can take its place.
    let key = |byte: u8| if byte == b'/' { 0 } else { byte };
    // Paths that are compared are mostly alike for long.
    let (words, _) = one.as_chunks::<8>();
    let (others, _) = other.as_chunks::<8>();
    let alike = 8 * words.iter().zip(others).take_while(|(one, other)| one == other).count();
    let differ = one[alike..].iter().zip(&other[alike..]).position(|(one, other)| one != other);
    match differ.map(|at| alike + at) {
        Some(at) => key(one[at]).cmp(&key(other[at])),
        None => one.len().cmp(&other.len()),
    }
}

/// Whether `path` is `dir` or below it; everything is below the empty path.
pub fn is_within(path: &[u8], dir: &[u8]) -> bool {
    match path.strip_prefix(dir) {
        Some(rest) => dir.is_empty() || rest.is_empty() || rest[0] == b'/',
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_comes_right_before_what_is_in_it() {
        let mut paths = ["b", "a/b/c", "a-b", "a", "a/b-c", "", "a/b", "a.b", "a/b/\u{1}"];
        paths.sort_by(|one, other| compare(one.as_bytes(), other.as_bytes()));
        assert_eq!(paths, ["", "a", "a/b", "a/b/\u{1}", "a/b/c", "a/b-c", "a-b", "a.b", "b"]);
        for (path, dir, within) in
            [("a/b", "a", true), ("a", "a", true), ("ab", "a", false), ("x", "", true)]
        {
            assert_eq!(is_within(path.as_bytes(), dir.as_bytes()), within, "{path} {dir}");
        }
    }
}
