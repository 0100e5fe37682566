//! The options that say how much a program tells the one who runs it.

use crate::cli::args::copy::When;
use crate::cli::show::console::Detail;
use crate::cli::show::progress::View;

/// How much is told.
#[derive(Clone, Debug, clap::Args)]
pub struct SayArgs {
    /// When to show progress; auto is when standard error is a terminal
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Auto)]
    pub progress: When,

    /// Say nothing but what is wrong
    #[arg(short, long)]
    pub quiet: bool,

    /// Name every entry and what became of it
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
}

impl SayArgs {
    /// How much that is.
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
