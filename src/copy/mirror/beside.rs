//! The look before a mirror run, made beside the copy where earlier runs were.
//!
//! Mostly little has changed. So the copy begins to compare files while the look lists both trees, and waits for its
//! answer before the first thing that it makes or changes. A run that is refused has touched nothing.

use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::error::Error;
use crate::event::Stop;

/// A look that is under way, or has ended.
pub struct LookBeside<'scope> {
    /// Until its answer is there.
    thread: Mutex<Option<ScopedJoinHandle<'scope, Option<Error>>>>,
    refusal: Mutex<Option<Error>>,
    stop: &'scope Stop,
}

impl<'scope> LookBeside<'scope> {
    /// Begins `look`, if there is one that was not made before; it returns why the run is refused. That asks `stop` to
    /// end the run. Where the system gives no thread, the calling one looks.
    pub fn begin(
        scope: &'scope Scope<'scope, '_>,
        stop: &'scope Stop,
        look: Option<&'scope (impl Fn() -> Option<Error> + Sync)>,
    ) -> Self {
        let beside = Self { thread: Mutex::default(), refusal: Mutex::default(), stop };
        match look.map(|look| (look, Builder::new().name("look".into()).spawn_scoped(scope, look)))
        {
            None => beside,
            Some((_, Ok(thread))) => Self { thread: Mutex::new(Some(thread)), ..beside },
            Some((look, Err(_))) => Self { refusal: Mutex::new(beside.heeded(look())), ..beside },
        }
    }

    /// A refusal, which asks the run to end.
    fn heeded(&self, refusal: Option<Error>) -> Option<Error> {
        if refusal.is_some() {
            self.stop.request(Stop::GIVEN_UP);
        }
        refusal
    }

    /// Waits for its end; whether the run may go on.
    pub fn lets_pass(&self) -> bool {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let mut refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            let died = "the thread that compares the trees died; this is a defect of dircopy";
            let answer = thread.join();
            *refusal =
                self.heeded(answer.unwrap_or_else(|_| Some(Error::finding("mirror", "", died))));
        }
        refusal.is_none()
    }

    /// Why the run is refused, if it is.
    pub fn refusal(self) -> Option<Error> {
        self.refusal.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
