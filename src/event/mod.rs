//! How a program follows a run: what it hears, how far the run is, and how it stops it.
//!
//! Nothing correct depends on any of this: counters are added to and never waited for, and an
//! observer that ignores every event loses nothing but the view. The library itself prints nothing.

mod events;
mod gate;
mod limit;
mod observer;
mod progress;
mod samples;
mod stop;
pub mod timing;

pub use events::{Done, Event};
pub use gate::Gate;
pub use limit::{is_at_rate, limiting_stage, share};
pub use observer::{EventListener, EventObserver, Observer};
pub use progress::{EndState, FileInHand, Progress, RunEnd};
pub use samples::{OutputSample, STAGES, Sample, SampleSeries};
pub use stop::Stop;
