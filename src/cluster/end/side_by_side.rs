//! Working at many things in several threads: over a network each waits for the server, not for the others.

use std::thread::{Builder, scope};

use crossbeam_channel::bounded;

use crate::error::Result;

/// So many threads work.
const THREADS: usize = 8;

/// So many things are handed out and not done at a time; of fewer, the calling thread does all.
const MOST: usize = 64;

/// Has `work` done to each thing that `next` gives. Those of which `is_alone` holds are done when all before them are
/// done, and before all others.
///
/// # Errors
/// That of `next`, which ends it.
pub fn for_each<T: Send>(
    mut next: impl FnMut() -> Result<Option<T>>,
    is_alone: impl Fn(&T) -> bool,
    work: &(impl Fn(T) + Sync),
) -> Result<()> {
    let mut first = Vec::new();
    while first.len() < MOST
        && let Some(thing) = next()?
    {
        first.push(thing);
    }
    if first.len() < MOST {
        first.into_iter().for_each(work);
        return Ok(());
    }
    scope(|scope| {
        let (sender, things) = bounded::<T>(MOST);
        let (done, over) = bounded(MOST);
        let start = |_: &usize| {
            let (things, done) = (things.clone(), done.clone());
            let run = move || {
                for thing in things {
                    work(thing);
                    // It has room for all that are handed out.
                    let _ = done.send(());
                }
            };
            Builder::new().name("finish".into()).spawn_scoped(scope, run).is_ok()
        };
        let threads = (0..THREADS).filter(start).count();
        drop((things, done));
        let (mut first, mut open) = (first.into_iter(), 0);
        while let Some(thing) = first.next().map_or_else(&mut next, |thing| Ok(Some(thing)))? {
            open -= over.try_iter().count();
            let most = if is_alone(&thing) { 0 } else { MOST - 1 };
            while open > most && over.recv().is_ok() {
                open -= 1;
            }
            if threads == 0 || is_alone(&thing) {
                work(thing);
            } else if sender.send(thing).is_ok() {
                open += 1;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn everything_is_done_once_and_some_of_it_alone() {
        for count in [0_usize, 1, MOST - 1, MOST, 10 * MOST] {
            let (mut numbers, done) = (0..count, Mutex::new(BTreeSet::new()));
            let work = |number| {
                let mut done = done.lock().unwrap();
                if number % 100 == 99 {
                    assert_eq!(done.len(), number, "all before it are done, and none behind it");
                }
                assert!(done.insert(number));
            };
            for_each(|| Ok(numbers.next()), |number| number % 100 == 99, &work).unwrap();
            assert_eq!(done.into_inner().unwrap(), (0..count).collect());
        }
    }
}
