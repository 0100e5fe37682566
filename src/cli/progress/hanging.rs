//! Calls that do not come back: a server that does not answer, a disk that tries again and again. The thread that
//! hangs can say nothing, so another says for it what the run waits for, and ends the program if it was asked to end.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::event::Stop;
use crate::sys::{PendingCall, pending_calls, subject_of};

/// How often is looked …
const LOOK: Duration = Duration::from_secs(1);

/// … and once the run is to stop.
const LOOK_STOPPING: Duration = Duration::from_millis(250);

/// A call that lasts this long is told, …
const LONG: Duration = Duration::from_secs(5);

/// … and one that writes out what waits to be written: a slow disk has much to do.
const LONG_SYNC: Duration = Duration::from_secs(30);

/// It is told again when it has lasted so many times as long.
const AGAIN: u32 = 12;

/// After it was asked to stop, a run has so long to end by itself. A call that lasts as long by then is not waited for:
/// the program is to end within two seconds.
const LAST_WORDS: Duration = Duration::from_millis(1200);

/// … or this long, for a call that writes out what waits to be written.
const LAST_SYNC: Duration = Duration::from_secs(10);

/// The calls that last, and since when.
#[derive(Default)]
pub struct HangingCalls {
    calls: HashMap<u32, HangingCall>,
    looked: Option<Instant>,
    /// Since when the run is to stop.
    stopping: Option<Instant>,
}

struct HangingCall {
    call: PendingCall,
    since: Instant,
    /// When it is told next.
    told_after: Duration,
}

impl HangingCalls {
    /// Looks if it is time to, and tells the calls that last long. Returns the one that keeps a run from stopping.
    pub fn look(&mut self, stop: &Stop, tell: impl Fn(&Error)) -> Option<Error> {
        let now = Instant::now();
        let interval = if self.stopping.is_some() { LOOK_STOPPING } else { LOOK };
        if stop.is_urgent() {
            self.stopping.get_or_insert(now);
        }
        if self.looked.is_some_and(|looked| now < looked + interval) {
            return None;
        }
        self.looked = Some(now);
        self.update(pending_calls(), now);
        for hanging in self.calls.values_mut() {
            let lasts = now - hanging.since;
            if lasts >= hanging.told_after
                && let Some(path) = subject_of(&hanging.call)
            {
                let finding = format!("no answer for {} s; it is waited for", lasts.as_secs());
                tell(&Error::finding(hanging.call.deed, path, finding));
                hanging.told_after *= AGAIN;
            }
        }
        let stopping = self.stopping?;
        self.calls.values().find_map(|HangingCall { call, since, .. }| {
            let most = if call.deed == PendingCall::SYNC { LAST_SYNC } else { LAST_WORDS };
            let lasts = now - *since;
            let path =
                (now >= stopping + most && lasts >= most.min(LOOK)).then(|| subject_of(call))??;
            let finding = format!("no answer for {} s, and the run is to end", lasts.as_secs());
            Some(Error::finding(call.deed, path, finding))
        })
    }

    fn update(&mut self, calls: Vec<PendingCall>, now: Instant) {
        let mut before = std::mem::take(&mut self.calls);
        for call in calls {
            let fresh = |call: PendingCall| {
                let told_after = if call.deed == PendingCall::SYNC { LONG_SYNC } else { LONG };
                HangingCall { call, since: now, told_after }
            };
            let known = before.remove(&call.thread).filter(|known| known.call == call);
            self.calls.insert(call.thread, known.unwrap_or_else(|| fresh(call)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_call_that_lasts_is_the_same() {
        let call = |thread, mark: &str| PendingCall { thread, deed: "read", mark: mark.into() };
        let (mut hanging, start) = (HangingCalls::default(), Instant::now());
        let later = start + LONG;
        hanging.update(vec![call(1, "a"), call(2, "b"), call(3, "c")], start);
        hanging.update(vec![call(1, "a"), call(2, "other"), call(4, "c")], later);
        let mut since: Vec<_> =
            hanging.calls.iter().map(|(thread, it)| (*thread, it.since)).collect();
        since.sort_unstable();
        assert_eq!(since, [(1, start), (2, later), (4, later)]);
    }
}
