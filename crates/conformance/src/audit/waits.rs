//! What must hold of suspensions, whatever happened.

use ff_core::execution::State;
use ff_core::suspension::WaitpointWord;

use crate::model::Tables;

/// Panics where rows of suspensions contradict each other.
pub fn audit(tables: &Tables) {
    for x in tables.executions.values() {
        let last = tables.suspensions.get(&x.id);
        let open = last.is_some_and(|row| row.is_open(x));
        let suspended = matches!(x.state, State::Suspended(_));
        assert_eq!(open, suspended, "{}: what waits has an open suspension, and only that", x.id);
        let unended = last.is_some_and(|row| row.end.is_none());
        assert_eq!(unended, suspended, "{}: what is over says so", x.id);
    }
    for row in tables.waitpoints.values() {
        let (id, at) = (row.execution, row.id);
        let x = tables.executions.get(&id).unwrap_or_else(|| panic!("{at} of {id} is left over"));
        let active = row.state.word() == WaitpointWord::Active;
        let used = tables.suspensions.get(&id).filter(|own| own.is_open(x));
        let used = used.is_some_and(|own| row.suspension == Some(own.id));
        assert_eq!(active, used, "{at} of {id} is active while its suspension is open");
        let arrived = tables.signals.values().filter(|s| s.execution == id && s.waitpoint == at);
        let counted = usize::try_from(row.counts.signals).expect("a small count");
        assert_eq!(arrived.count(), counted, "{at} of {id} counts what arrived");
        assert!(row.counts.matched <= row.counts.signals, "{at} of {id}");
    }
    let mut next = std::collections::BTreeMap::new();
    for ((id, number), signal) in &tables.signals {
        assert!(tables.executions.contains_key(id), "a signal of {id} is left over");
        let expected: &mut u32 = next.entry(*id).or_default();
        assert_eq!((number, &signal.number), (&*expected, &*expected), "{id}: no number is lost");
        *expected += 1;
    }
    for row in tables.suspensions.values() {
        let ids = row.end.iter().flat_map(|end| &end.by);
        for by in ids {
            let mut own = tables.signals.values().filter(|s| s.execution == row.execution);
            assert!(own.any(|s| s.id == *by), "{}: {by} ended it and is kept", row.execution);
        }
    }
}
