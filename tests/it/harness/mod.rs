//! The vocabulary of the tests: a scene is set, the program is run in it, judges look at the result.

mod beside;
mod chain;
mod disk;
mod fault;
mod judge;
mod leftover;
mod mirror;
mod mount;
mod need;
mod random;
mod run;
mod scene;
pub mod several;
mod skipped;
mod tree;

pub use chain::states_of;
pub use disk::{Crash, Disk, tool};
pub use fault::{Strace, whole_calls};
pub use judge::{Judge, ctimes, inventory, is_temp_name, names_below};
pub use leftover::leftover_name;
pub use mirror::{Act, Call, Deed, Habit, Mirror, fully_folded};
pub use mount::Mount;
pub(crate) use need::need;
pub use need::{Need, have, long};
pub use random::Random;
pub use run::{Cmd, NONE, Run, Running, SOON, noon_in, shell, while_pages_stay};
pub use scene::Scene;
pub use skipped::skipped;
pub use tree::{Tree, content};
