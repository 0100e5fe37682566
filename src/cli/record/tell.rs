//! What the command of `--on-end` gets to know. The variables are promised: `docs/guide/scheduled.md` lists them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::cli::record::finish::{Closing, UNWRITTEN};
use crate::cli::record::records::Records;
use crate::cli::record::task::{Finished, RunResult, Task};
use crate::error::Result;
use crate::stream::Endpoint;

impl Records<'_> {
    /// Runs the command that is to be run when a run has ended, if there is one.
    pub(crate) fn tell(&self, end: &Finished<'_>, closing: &Closing<'_>) -> Result<()> {
        let Some(command) = &self.on_end else { return Ok(()) };
        let exit = end.exit();
        let (source, outputs) = self.ends();
        let report = self.report.as_ref().map(|(destination, _)| destination.path());
        let manifest = match end.ran {
            RunResult::Copied(ran) => {
                ran.iter().flatten().find_map(|report| report.manifest.clone())
            }
            _ => None,
        };
        let path = |path: Option<PathBuf>| path.unwrap_or_default().into_os_string();
        let full = |path: &Path| match path == Path::new("-") {
            true => path.to_path_buf(),
            false => std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()),
        };
        let outputs: Vec<OsString> =
            outputs.into_iter().map(|output| full(output).into_os_string()).collect();
        let variables = vec![
            ("DIRCOPY_KIND", self.task.kind().into()),
            ("DIRCOPY_EXIT_CODE", exit.code().to_string().into()),
            ("DIRCOPY_ENDING", exit.name().into()),
            ("DIRCOPY_VERDICT", (closing.verdict)(exit, UNWRITTEN).into()),
            ("DIRCOPY_REPORT", path(report.as_deref().map(full))),
            ("DIRCOPY_MANIFEST", path(manifest.as_deref().map(full))),
            ("DIRCOPY_SOURCE", path(source.map(full))),
            ("DIRCOPY_OUTPUT", outputs.first().cloned().unwrap_or_default()),
            ("DIRCOPY_OUTPUTS", outputs.join(OsStr::new("\n"))),
            (
                "DIRCOPY_JOB",
                self.file.as_ref().map_or_else(OsString::new, |file| file.shown().into()),
            ),
        ];
        command.run(variables, closing.stop, self.json_on_stderr)
    }

    /// The source, of a stream the first input, and the outputs; of a check the directories.
    fn ends(&self) -> (Option<&Path>, Vec<&Path>) {
        match &self.task {
            Task::Copy { source, outputs, .. } => {
                (Some(source), outputs.iter().map(PathBuf::as_path).collect())
            }
            Task::Stream { inputs, outputs, .. } => {
                (inputs.first().map(Endpoint::path), outputs.iter().map(Endpoint::path).collect())
            }
            Task::Check(dirs) => (None, dirs.iter().map(PathBuf::as_path).collect()),
        }
    }
}
