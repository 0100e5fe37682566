//! What is told where a thread dies, which nothing but a defect brings about: so a test lets one die.

use std::sync::Mutex;

use crate::event::{Event, Progress, Stop, Watch};
use crate::io::timing::Clocks;
use crate::stream::ends::Ends;
use crate::stream::named::Named;
use crate::transfer::context::Context;
use crate::transfer::method::Ways;

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Watch for Heard {
    fn event(&self, event: &Event<'_>) {
        if let Event::Failed(error) = event {
            self.0.lock().unwrap().push(error.to_string());
        }
    }
}

/// The failures that `work` tells of a stream with one output.
pub fn told(work: impl FnOnce(&Context<'_>, &mut Ends<'_>)) -> Vec<String> {
    let (heard, progress) = (Heard::default(), Progress::default());
    let names = [Named::Path("out".into())];
    let (ways, clocks, stop) = (Ways::default(), Clocks::default(), Stop::default());
    let context = Context::plain((&ways, &clocks), (&progress, &stop));
    work(&context, &mut Ends::new(&names, &heard, &progress));
    heard.0.into_inner().unwrap()
}
