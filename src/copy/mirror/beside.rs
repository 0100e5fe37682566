//! The look before a mirror run, made beside the copy where earlier runs were.
//!
//! Mostly nothing has changed. So the copy begins to compare files, and waits for the answer of the look before the
//! first thing that it makes or changes. A run that is refused has touched nothing. The look lists both trees once
//! more, so it begins when it is known to be needed: when something is to be made, or when the copy's own listing shows
//! more names at the output than in the source. A run that ends without either does without it.

use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::error::Error;
use crate::event::Stop;

/// A look; it returns why the run is refused, if it is.
type LookToCome<'scope> = &'scope (dyn Fn() -> Option<Error> + Sync);

/// A look that is to come, is under way, or has ended.
pub struct LookBeside<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    state: Mutex<LookState<'scope>>,
    refusal: Mutex<Option<Error>>,
    stop: &'scope Stop,
}

enum LookState<'scope> {
    ToCome(LookToCome<'scope>),
    UnderWay(ScopedJoinHandle<'scope, Option<Error>>),
    Over,
}

impl<'scope, 'env> LookBeside<'scope, 'env> {
    /// One that is to come, if it was not made before. That the run is refused asks `stop` to end it.
    pub fn new(
        scope: &'scope Scope<'scope, 'env>,
        stop: &'scope Stop,
        look: Option<LookToCome<'scope>>,
    ) -> Self {
        let state = Mutex::new(look.map_or(LookState::Over, LookState::ToCome));
        Self { scope, state, refusal: Mutex::default(), stop }
    }

    /// Begins it, if that was not done. Where the system gives no thread, it is made when its answer is asked for.
    pub fn begin(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let LookState::ToCome(look) = *state
            && let Ok(thread) = Builder::new().name("look".into()).spawn_scoped(self.scope, look)
        {
            *state = LookState::UnderWay(thread);
        }
    }

    /// Waits for its end; whether the run may go on.
    pub fn lets_pass(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        let died = "the thread that compares the trees died; this is a defect of dircopy";
        let answer = match std::mem::replace(&mut *state, LookState::Over) {
            LookState::Over => return refusal.is_none(),
            LookState::ToCome(look) => look(),
            LookState::UnderWay(thread) => {
                thread.join().unwrap_or_else(|_| Some(Error::finding("mirror", "", died)))
            }
        };
        if answer.is_some() {
            self.stop.request(Stop::GIVEN_UP);
        }
        *refusal = answer;
        refusal.is_none()
    }

    /// It is not needed after all: whether it had not begun.
    pub fn spare(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_to_come = matches!(*state, LookState::ToCome(_));
        if is_to_come {
            *state = LookState::Over;
        }
        is_to_come
    }

    /// Why the run is refused, if it is.
    pub fn refusal(self) -> Option<Error> {
        self.refusal.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
