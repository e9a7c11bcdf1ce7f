//! What was acknowledged left its event, or what the answer says was there before did: nothing that a
//! caller was told of is lost.
//!
//! Readers of the feed are given all events, those of what retention removes later included, so that an
//! event which none of them was given was never written.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use ff_core::ExecutionId;
use serde_json::Value;
use uuid::Uuid;

use crate::checker::leases::CLOCK_MS;
use crate::checker::{Lives, Violation, effects, tell};
use crate::record::{Call, Cancellation, Ending, Fence, Order, Record, Seen, What};
use crate::settled::Settled;

/// How much later than the time it carries an event may be committed: a server that was paused in
/// between, or that waited for a lock, decided it before.
const DECIDED_MS: i64 = 10_000;

/// What is said of a call that left nothing.
const RULE: &str = "what was acknowledged is no event";
/// What is said of a change that is not there any more.
const UNDONE: &str = "an acknowledged cancellation was undone";

/// Checks every acknowledged call.
pub fn check(record: &Record, lives: &Lives<'_>, settled: &Settled, found: &mut Vec<Violation>) {
    let feed = Feed::of(record);
    let mut tries = BTreeMap::<Uuid, usize>::new();
    for call in &record.calls {
        if let What::Claim { claim, .. } = &call.what {
            *tries.entry(*claim).or_default() += 1;
        }
    }
    for (id, life) in lives {
        let history = feed.of_subject(&id.to_string());
        let one = Subject { id: *id, life, history };
        for call in life.iter().filter(|call| call.done() && !one.shows(call)) {
            found.push(one.violation(RULE, call));
        }
        one.suspensions(found);
        one.leases(&tries, found);
        one.cancelled(settled, found);
    }
    for call in record.calls.iter().filter(|call| call.done()) {
        flows(call, &feed, settled, found);
    }
}

/// An event, taken apart.
struct Event<'a> {
    seen: &'a Seen,
    fields: Value,
    number: u64,
    at: i64,
}

impl Event<'_> {
    fn is(&self, kind: &str) -> bool {
        self.seen.kind == kind
    }

    fn says(&self, reason: &str) -> bool {
        self.seen.reason.as_deref() == Some(reason)
    }

    fn has(&self, field: &str, text: &str) -> bool {
        self.fields[field].as_str() == Some(text)
    }

    fn of_attempt(&self, attempt: u64) -> bool {
        self.fields["attempt_index"].as_u64() == Some(attempt)
    }

    /// Whether it ended its execution as cancelled.
    fn cancels(&self) -> bool {
        self.is("completion") && self.has("outcome", "cancelled")
    }

    /// Whether it ends a hold.
    fn releases(&self) -> bool {
        self.is("unheld") || self.is("completion")
    }

    /// Whether it took a lease away.
    fn takes_lease(&self) -> bool {
        self.is("lease_revoked") || self.is("lease_expired")
    }
}

/// The events of every subject, each in the order of their numbers.
struct Feed<'a>(BTreeMap<&'a str, Vec<Event<'a>>>);

impl<'a> Feed<'a> {
    fn of(record: &'a Record) -> Self {
        let all: BTreeSet<&Seen> = record.readers.iter().flat_map(|reader| &reader.seen).collect();
        let mut events = BTreeMap::<&str, Vec<Event<'_>>>::new();
        for seen in all {
            let fields: Value = serde_json::from_str(&seen.text).unwrap_or_default();
            let number = fields["number"].as_u64().unwrap_or_default();
            let at = fields["at"].as_i64().unwrap_or_default();
            events.entry(&seen.subject).or_default().push(Event { seen, fields, number, at });
        }
        for own in events.values_mut() {
            own.sort_by_key(|event| event.number);
        }
        Self(events)
    }

    fn of_subject(&self, subject: &str) -> &[Event<'a>] {
        self.0.get(subject).map_or(&[], Vec::as_slice)
    }
}

/// An execution, the calls about it and what happened to it.
struct Subject<'a> {
    id: ExecutionId,
    life: &'a [&'a Call],
    history: &'a [Event<'a>],
}

impl<'a> Subject<'a> {
    fn violation(&self, rule: &'static str, call: &Call) -> Violation {
        let text = format!("{}: {:?}{}", self.id, call.what, tell(self.id, self.life));
        Violation::new(rule, call.answered, text)
    }

    fn any(&self, fits: impl Fn(&Event<'a>) -> bool) -> bool {
        self.history.iter().any(fits)
    }

    /// Whether what `call` was told shows in the history.
    fn shows(&self, call: &Call) -> bool {
        match &call.what {
            What::End { fence, how, .. } => match how {
                Ending::Completed(_) => self.any(|event| {
                    let success = event.is("completion") && event.has("outcome", "success");
                    success && event.of_attempt(fence.attempt)
                }),
                Ending::Failed(reason, _) => self.any(|event| event.says(reason)),
                // Suspensions are counted; of the others only the lease tells.
                Ending::Delayed(_) | Ending::Released | Ending::Suspended => true,
            },
            What::Signal { signal, .. } => {
                let signal = signal.to_string();
                self.any(|event| event.is("signal") && event.has("signal_id", &signal))
            }
            What::Operate { order, reason, status, .. } => {
                self.carried_out(call, *order, (reason, status))
            }
            // The flow has the event of its cancellation, and the others have none.
            What::CancelFlow { .. }
            | What::Create { .. }
            | What::Submit { .. }
            | What::Claim { .. }
            | What::Renew { .. }
            | What::Step { .. } => true,
        }
    }

    fn carried_out(&self, call: &Call, order: Order, (reason, status): (&str, &str)) -> bool {
        let again = |alike: fn(&Event<'a>) -> bool, undone: fn(&Event<'a>) -> bool| {
            self.was_so(call, alike, undone)
        };
        match order {
            Order::Cancel => {
                self.any(|event| event.cancels() && event.says(reason))
                    || again(Event::cancels, |event| event.is("replayed"))
            }
            Order::Hold => {
                self.any(|event| event.is("held") && event.says(reason))
                    || again(|event| event.is("held"), Event::releases)
            }
            Order::Unhold => self.released(call),
            Order::Replay => {
                self.any(|event| event.is("replayed") && event.says(reason))
                    || again(|event| event.is("replayed"), |event| event.is("completion"))
            }
            Order::Revoke if status == "already_satisfied" => {
                again(Event::takes_lease, |event| event.is("lease_reclaimed"))
            }
            Order::Revoke => self.any(|event| event.is("lease_revoked") && event.says(reason)),
            // Nothing is created with it, so that it was set by an order, this one or one before.
            Order::Prioritise(priority) => self.any(|event| {
                event.is("priority_changed") && event.fields["to"].as_u64() == Some(priority)
            }),
        }
    }

    /// Whether it was before `call` was answered as the answer says, because of another call: something
    /// `alike` had happened, and it was not `undone` before the call.
    fn was_so(
        &self,
        call: &Call,
        alike: fn(&Event<'a>) -> bool,
        undone: fn(&Event<'a>) -> bool,
    ) -> bool {
        let before = |event: &Event<'a>| event.at <= call.answered + CLOCK_MS;
        self.history.iter().enumerate().any(|(place, event)| {
            let over = |later: &Event<'a>| undone(later) && later.at < call.sent - DECIDED_MS;
            alike(event) && before(event) && !self.history[place + 1..].iter().any(over)
        })
    }

    /// Whether every hold that was acknowledged before this `unhold` was over when it was answered.
    fn released(&self, unhold: &Call) -> bool {
        let earlier = self.life.iter().filter(|call| call.done() && call.answered <= unhold.sent);
        let reasons = earlier.filter_map(|call| match &call.what {
            What::Operate { order: Order::Hold, reason, .. } => Some(reason),
            What::Operate { .. }
            | What::CancelFlow { .. }
            | What::Create { .. }
            | What::Submit { .. }
            | What::Claim { .. }
            | What::Renew { .. }
            | What::Step { .. }
            | What::End { .. }
            | What::Signal { .. } => None,
        });
        let held = |reason: &String| {
            self.history.iter().position(|event| event.is("held") && event.says(reason))
        };
        let over = |event: &Event<'_>| event.releases() && event.at <= unhold.answered + CLOCK_MS;
        reasons.filter_map(held).all(|place| self.history[place + 1..].iter().any(over))
    }

    /// Each lease that was given back until a signal comes has a suspension: a repeat is under the same
    /// fence, and the conditions of a storm are never satisfied at once.
    fn suspensions(&self, found: &mut Vec<Violation>) {
        let mut fences = BTreeMap::<Fence, &Call>::new();
        for call in self.life.iter().filter(|call| call.done()) {
            if let What::End { fence, how: Ending::Suspended, .. } = &call.what {
                fences.entry(*fence).or_insert(call);
            }
        }
        let mut left = BTreeMap::<u64, usize>::new();
        for event in self.history.iter().filter(|event| event.is("suspended")) {
            let attempt = event.fields["attempt_index"].as_u64().unwrap_or_default();
            *left.entry(attempt).or_default() += 1;
        }
        for (fence, call) in fences {
            match left.get_mut(&fence.attempt) {
                Some(count @ 1..) => *count -= 1,
                Some(0) | None => found.push(self.violation(RULE, call)),
            }
        }
    }

    /// A lease that its holder ended neither runs out nor is taken away: that is how it shows that a
    /// release, a delay or any other end was lost.
    fn leases(&self, tries: &BTreeMap<Uuid, usize>, found: &mut Vec<Violation>) {
        for call in self.life.iter().filter(|call| call.done()) {
            let What::End { fence, .. } = &call.what else { continue };
            let Some(claim) = self.claim_of(*fence) else { continue };
            // Of a claim that was sent again, another try may have been given it once more.
            if tries.get(&claim) != Some(&1) {
                continue;
            }
            let claim = claim.to_string();
            let lost = self.any(|event| {
                let holder = event.fields["worker"]["instance"].as_str() == Some(&claim);
                event.takes_lease() && event.of_attempt(fence.attempt) && holder
            });
            if lost {
                found.push(self.violation("a lease was lost after its holder had ended it", call));
            }
        }
    }

    /// The claim that was given the lease under `fence`.
    fn claim_of(&self, fence: Fence) -> Option<Uuid> {
        self.life.iter().filter(|call| call.done()).find_map(|call| {
            let What::Claim { claim, grants, .. } = &call.what else { return None };
            let own = grants.iter().any(|grant| grant.id == self.id && grant.fence == fence);
            own.then_some(*claim)
        })
    }

    /// What was cancelled stays so unless somebody has it run again.
    fn cancelled(&self, settled: &Settled, found: &mut Vec<Violation>) {
        let Some(standing) = settled.states.get(&self.id) else { return };
        if standing.state == "cancelled" || effects::replayed(self.life) {
            return;
        }
        let cancels = |call: &&&Call| {
            call.done() && matches!(call.what, What::Operate { order: Order::Cancel, .. })
        };
        if let Some(call) = self.life.iter().find(cancels) {
            found.push(self.violation(UNDONE, call));
        }
    }
}

/// A cancelled flow says so, and stays so; where all members are to end, nothing happens to them after the
/// answer.
fn flows(call: &Call, feed: &Feed<'_>, settled: &Settled, found: &mut Vec<Violation>) {
    let What::CancelFlow { flow, members, stored, .. } = &call.what else { return };
    let Cancellation { reason, policy, over } = stored;
    let at_last = call.answered + CLOCK_MS;
    // As readers tell of it: a stronger cancellation keeps the reason of the first.
    let told = format!("{reason} {policy}");
    let text = || format!("{flow}: {:?}, {}..{}", call.what, call.sent, call.answered);
    let requests = |event: &Event<'_>| event.is("flow_cancel_requested") && event.says(&told);
    let history = feed.of_subject(&flow.to_string());
    if !history.iter().any(|event| requests(event) && event.at <= at_last) {
        found.push(Violation::new(RULE, call.answered, text()));
    }
    if settled.flows.get(&flow.to_string()).is_some_and(|state| state != "cancelled") {
        found.push(Violation::new(UNDONE, call.answered, text()));
    }
    if !over || policy != "cancel_all" {
        return;
    }
    for member in members {
        let history = feed.of_subject(&member.to_string());
        if let Some(late) = history.iter().find(|event| event.at > at_last) {
            let text = format!("{}\n      {}", text(), late.seen.text);
            let rule = "a member of a cancelled flow went on";
            found.push(Violation::new(rule, call.answered, text));
        }
    }
}
