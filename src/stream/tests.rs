//! The messages where a thread dies, which nothing but a defect brings about: so a test lets one die.

use std::sync::Mutex;

use crate::io::{Control, CopyOptions, Options, link_check::Helpers, read_back::Residency};
use crate::{
    event::Event, event::Gate, event::Progress, event::Stop, event::Timings, stream::Endpoint,
    stream::OutputStates, transfer::Context, transfer::Shared, transfer::kernel::CopyMethods,
};

/// The failures that `work` tells of a stream with one output.
pub fn told(work: impl FnOnce(&Context<'_>, &mut OutputStates<'_>)) -> Vec<String> {
    let (heard, progress) = (Mutex::<Vec<String>>::default(), Progress::default());
    let listen = |event: &Event<'_>| {
        if let Event::Failed(error) = event {
            heard.lock().unwrap().push(error.to_string());
        }
    };
    let names = [Endpoint::Path("out".into())];
    let (ways, timings, stop) = (CopyMethods::default(), Timings::default(), Stop::default());
    let asked = &CopyOptions { block_size: 1, ..CopyOptions::default() };
    let context = Context {
        options: Options::plain(asked),
        shared: Shared::alone(&ways),
        control: Control {
            progress: &progress,
            stop: &stop,
            rate: None,
            timings: &timings,
            resident: &Residency::default(),
            helpers: &Helpers::of_processors(),
            gate: &Gate::default(),
        },
    };
    work(&context, &mut OutputStates::new(&names, &listen, &progress));
    heard.into_inner().unwrap()
}
