//! The command that is run when a run has ended (`--on-end`): it tells a person or a monitor how.
//!
//! There is no shell: the command is a program and its arguments, so no name of a file can become a command. A command
//! that needs a shell names it (`sh -c "…"`). What there is to tell is in the environment.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cli::exit::Exit;
use crate::error::{Error, Result};
use crate::event::Stop;
use crate::sys::Helper;

/// The command may take this long; a mail or a request takes seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// And this long after a signal, which asks for the end of the program: systemd waits 90 s, `docker stop` 10 s.
const LIMIT_AFTER_SIGNAL: Duration = Duration::from_secs(8);

/// What is asked to end has this long to do so.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The interval of looks at the command.
const OFTEN: Duration = Duration::from_millis(20);

/// Characters that a shell would act on.
const OF_SHELLS: [char; 8] = ['|', '&', ';', '<', '>', '$', '`', '*'];

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnEnd {
    program: String,
    arguments: Vec<String>,
}

impl OnEnd {
    /// Takes a command apart. Words are separated by spaces; what stands in single or double quotes is one word, or a
    /// part of one, as it is. Nothing else means anything, a backslash neither.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for c in text.chars() {
            match (quote, c) {
                (Some(open), _) if c == open => quote = None,
                (None, '"' | '\'') => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                (None, _) if c.is_whitespace() => words.extend(word.take()),
                (None, _) if OF_SHELLS.contains(&c) => {
                    return Err(format!(
                        "no shell runs this, and {c} means something to a shell: put it in quotes, or name the shell: \
                         sh -c \"…\""
                    ));
                }
                _ => word.get_or_insert_default().push(c),
            }
        }
        if let Some(open) = quote {
            return Err(format!("the quotation mark {open} is not closed"));
        }
        words.extend(word);
        let mut words = words.into_iter();
        let program = words.next().filter(|program| !program.is_empty());
        let program = program.ok_or("a command is needed: a program and its arguments")?;
        Ok(Self { program, arguments: words.collect() })
    }

    /// Runs the command with these variables added to the environment, and waits for its end. Its output goes to
    /// standard error, or nowhere if it is to be `silent`.
    ///
    /// # Errors
    /// It could not be started, took too long, or ended with another code than 0.
    pub fn run(
        &self,
        variables: Vec<(&'static str, OsString)>,
        stop: &Stop,
        silent: bool,
    ) -> Result<()> {
        let what = PathBuf::from(&self.program);
        let fail = |error| Error::io("run the command of --on-end", &what, error);
        let finding =
            |text: String| Err(Error::finding("run the command of --on-end", &what, text));
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(variables).stdin(Stdio::null());
        // Standard output may carry copied bytes.
        let [out, err] = [(); 2].map(|()| match silent {
            true => Stdio::null(),
            false => Stdio::from(std::io::stderr()),
        });
        // Asked before the command can do anything: a signal that comes later is one that ends it.
        let before = signal(stop);
        let mut helper = Helper::start(command.stdout(out).stderr(err)).map_err(fail)?;
        let limit = if before.is_some() { LIMIT_AFTER_SIGNAL } else { LIMIT };
        let why = match wait(&mut helper, limit, || signal(stop) != before).map_err(fail)? {
            Waited::Ended(status) if status.success() => return Ok(()),
            Waited::Ended(status) => return finding(format!("it ended with {status}")),
            Waited::TooLong => format!("it took more than {} s and was ended", limit.as_secs()),
            Waited::Interrupted => "a signal ended it".to_owned(),
        };
        helper.ask_to_end();
        let _ = wait(&mut helper, LAST_WORDS, || false);
        helper.kill();
        finding(why)
    }
}

/// How waiting for a command came to its end.
enum Waited {
    Ended(std::process::ExitStatus),
    TooLong,
    Interrupted,
}

fn wait(
    helper: &mut Helper,
    limit: Duration,
    is_interrupted: impl Fn() -> bool,
) -> std::io::Result<Waited> {
    let started = Instant::now();
    loop {
        match helper.ended()? {
            Some(status) => return Ok(Waited::Ended(status)),
            None if is_interrupted() => return Ok(Waited::Interrupted),
            None if started.elapsed() >= limit => return Ok(Waited::TooLong),
            None => std::thread::sleep(OFTEN),
        }
    }
}

/// The signal that asked the program to end, if one did.
fn signal(stop: &Stop) -> Option<usize> {
    stop.requested().filter(|code| matches!(Exit::of_stop(*code), Exit::Interrupted(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_words_and_no_shell() {
        let words = |text: &str| {
            let OnEnd { program, arguments } = OnEnd::parse(text).unwrap();
            [vec![program], arguments].concat()
        };
        assert_eq!(words("/a/tell"), ["/a/tell"]);
        assert_eq!(words("  tell  one\ttwo "), ["tell", "one", "two"]);
        assert_eq!(words("tell 'a  b' \"c'd\" e\"f g\"'' ''"), ["tell", "a  b", "c'd", "ef g", ""]);
        assert_eq!(words(r"C:\tools\tell.exe a\ b"), [r"C:\tools\tell.exe", r"a\", "b"]);
        assert_eq!(words("sh -c \"a | b >$X\""), ["sh", "-c", "a | b >$X"]);
        for text in ["", "  ", "''", "tell 'x", "a | b", "a $X", "a; b", "a >b", "a && b", "rm *"] {
            assert!(OnEnd::parse(text).is_err(), "{text}");
        }
    }
}
