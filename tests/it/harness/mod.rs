//! The vocabulary of the tests: a scene is set, the program is run in it, judges look at the result.

mod fault;
mod judge;
mod mount;
mod need;
mod run;
mod scene;
mod tree;

pub use fault::Strace;
pub use judge::{Judge, ctimes, inventory, names_below};
pub use mount::Mount;
pub(crate) use need::need;
pub use need::{Need, have};
pub use run::{Cmd, NONE, Run, Running, shell};
pub use scene::Scene;
pub use tree::{Tree, content};
