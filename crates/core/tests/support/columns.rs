//! Whatever is written reads back from its columns as it was.

#![allow(dead_code, reason = "every test binary uses its own part")]

use ff_core::execution::State;
use ff_core::row::{
    ArrivalRow, EventRow, ExecutionRow, KeyColumns, LeaseColumns, SignalRow, SuspendKeyRow,
    SuspensionRow, WaitpointRow,
};
use ff_core::suspension::Signal;
use ff_core::{Execution, WriteSet};

pub fn what_is_written_reads_back_the_same(set: &WriteSet) {
    for x in set.executions.iter().filter_map(|write| write.after.as_ref()) {
        an_execution_reads_back(x);
    }
    for event in &set.events {
        assert_eq!(EventRow::from(event).read().unwrap(), *event);
    }
    for row in set.waits.suspensions.iter().filter_map(|write| write.after.as_ref()) {
        assert_eq!(SuspensionRow::from(row).read().unwrap(), *row);
    }
    for row in set.waits.waitpoints.iter().filter_map(|write| write.after.as_ref()) {
        assert_eq!(WaitpointRow::from(row).read().unwrap(), *row);
    }
    for row in &set.waits.suspend_keys {
        assert_eq!(SuspendKeyRow::from(row).read().unwrap(), *row);
    }
    for change in &set.waits.keys {
        let key = &change.install;
        let columns = KeyColumns {
            kid: key.kid.to_string(),
            secret: key.secret.bytes().to_vec(),
            created_at_ms: key.created_at.0,
            expires_at_ms: None,
        };
        assert_eq!(columns.read().unwrap(), (key.clone(), None));
    }
    set.waits.signals.iter().for_each(a_signal_reads_back);
}

fn an_execution_reads_back(x: &Execution) {
    let lease = match &x.state {
        State::Active(active) => Some(LeaseColumns {
            epoch: i64::try_from(x.epoch).unwrap(),
            claim_id: active.lease.claim_id.as_bytes().to_vec(),
            acquired_at_ms: active.lease.acquired_at.0,
            renewed_at_ms: active.lease.renewed_at.0,
            until_ms: active.lease.until.0,
            check_at_ms: active.lease.check_at.0,
        }),
        State::Runnable(_) | State::Suspended(_) | State::Terminal(_) => None,
    };
    assert_eq!(ExecutionRow::from(x).read(lease.as_ref()).unwrap(), *x);
}

fn a_signal_reads_back(signal: &Signal) {
    let row = SignalRow::from(signal);
    assert_eq!(row.read().unwrap(), *signal);
    let SignalRow { partition_key, execution_id, signal_id, waitpoint_id, number, .. } = row;
    let arrival = ArrivalRow {
        partition_key,
        execution_id,
        signal_id,
        waitpoint_id,
        number,
        name: row.name,
        source_type: row.source_type,
        source_identity: row.source_identity,
        subject: row.subject,
    };
    assert_eq!(arrival.read().unwrap(), signal.arrival());
}
