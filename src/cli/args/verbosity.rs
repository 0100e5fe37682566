//! The options for how much a program says.

use crate::cli::args::values::one_of;
use crate::cli::progress::view::{View, When};
use crate::cli::show::line::Detail;

/// How much a program says.
#[derive(Clone, Debug, clap::Args)]
pub struct VerbosityArgs {
    /// When to show progress
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = one_of::<When>(),
          hide_short_help = true)]
    pub progress: When,

    /// Only say what is wrong
    #[arg(short, long)]
    pub quiet: bool,

    /// Name every entry, and say where the time went
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
}

impl VerbosityArgs {
    /// The detail of messages and summary.
    pub fn detail(&self) -> Detail {
        match self {
            Self { quiet: true, .. } => Detail::Quiet,
            Self { verbose: true, .. } => Detail::Verbose,
            _ => Detail::Normal,
        }
    }

    /// How progress is shown.
    pub fn view(&self) -> View {
        View::new(self.progress, self.quiet)
    }
}
