//! A line of text on its way to a stream, and how many such lines are wanted.

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    Quiet,
    /// … what was skipped and left, and a summary.
    Normal,
    /// … and every entry.
    Verbose,
    /// Every entry, as something that would happen.
    Dry,
}

/// A line and the stream it is for.
pub enum ScreenLine {
    Out(String),
    Err(String),
}

impl ScreenLine {
    /// The line with the name of its output, which runs to several outputs need.
    pub fn at(self, output: Option<&str>) -> Self {
        let Some(output) = output else { return self };
        match self {
            Self::Out(line) => Self::Out(format!("{output}: {line}")),
            Self::Err(line) => match line.strip_prefix("dircopy: ") {
                Some(line) => Self::Err(format!("dircopy: {output}: {line}")),
                None => Self::Err(format!("{output}: {line}")),
            },
        }
    }

    pub fn text(&self) -> &str {
        let (Self::Out(line) | Self::Err(line)) = self;
        line
    }
}

/// A number with the noun it counts: "1 file", "2 files", "3 entries".
pub fn count(number: u64, noun: &str) -> String {
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(0, "file"), "0 files");
        assert_eq!(count(2, "entry"), "2 entries");
    }
}
