//! What is told where a thread dies, which nothing but a defect brings about: so a test lets one die.

use std::sync::Mutex;

use crate::event::{Event, Progress, Stop, Watch};
use crate::hash::Algorithm;
use crate::hash::vector::Backend;
use crate::lane::clock::Clocks;
use crate::lane::context::{Context, Durability};
use crate::lane::ways::Ways;
use crate::stream::ends::Ends;
use crate::stream::named::Named;
use crate::tree::plan::Policy;

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
    let context = Context {
        algorithm: Algorithm::Sha256,
        backend: Backend::One,
        block_size: 1,
        blocks: 1,
        follow: true,
        policy: Policy::Default,
        durability: Durability::Off,
        verify: None,
        nameless: false,
        journaling: None,
        carry: None,
        expected: None,
        ways: &Ways::default(),
        rate: None,
        sharing: None,
        progress: &progress,
        stop: &Stop::default(),
        clocks: &Clocks::default(),
    };
    work(&context, &mut Ends::new(&names, &heard, &progress));
    heard.0.into_inner().unwrap()
}
