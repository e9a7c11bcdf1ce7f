//! The operations: each with its routes, its commands and its cases.

/// A method, the operations of its routes, its commands (separated by commas) and the files of its cases.
pub type Operation = (&'static str, &'static str, &'static str, &'static str);

/// Methods that are no operations: making an engine, and what the others are made of.
pub const NO_METHODS: &[&str] = &["new", "with_options", "backend", "execute", "execute_all"];

/// Commands that are no operations.
pub const NO_COMMANDS: &[&str] = &["config", "migrate", "dev", "demo", "sample-worker", "flow"];

pub const GROUPS: &[(&str, &[Operation])] = &[
    ("Creating and steering executions", STEERING),
    ("Working", WORKING),
    ("Reading executions", READING),
    ("Waiting for people and callbacks", WAITS),
    ("Flows", FLOWS),
    ("What happened", FEED),
    ("Duties", DUTIES),
];

const STEERING: &[Operation] = &[
    ("create_execution", "create_execution", "create", "create idempotency bad_input bad_policy"),
    ("create_executions", "create_executions", "", "batches"),
    ("cancel_execution", "cancel_execution", "cancel", "cancel races repeats"),
    ("replay_execution", "replay_execution", "replay", "replay flow_replay flow_unskip repeats"),
    ("revoke_lease", "revoke_lease", "revoke", "revoke repeats"),
    ("change_priority", "change_priority", "priority", "operator repeats"),
    ("hold_execution", "hold_execution", "hold", "operator repeats"),
    ("unhold_execution", "unhold_execution", "unhold", "operator repeats"),
    ("set_execution_tag", "set_execution_tags", "tag", "operator"),
    ("set_execution_tags", "set_execution_tags", "tag", "operator repeats"),
];

const WORKING: &[Operation] = &[
    ("claim", "claim", "", "claim claim_id reclaim promotion flow_starts"),
    ("renew_lease", "renew_leases", "", "lease clock"),
    ("renew_leases", "renew_leases", "", "lease clock"),
    ("report_progress", "report_progress report", "", "complete repeats"),
    ("record_steps", "record_steps report", "", "steps"),
    ("complete_execution", "complete_execution report", "", "complete fence"),
    ("fail_execution", "fail_execution report", "", "retry fence"),
    ("delay_execution", "delay_execution report", "", "give_back"),
    ("release_execution", "release_execution report", "", "give_back"),
    ("cancel_held", "cancel_execution", "", "complete"),
];

const READING: &[Operation] = &[
    ("find_execution", "describe_execution", "show", "reads"),
    ("describe_execution", "describe_execution", "show", "reads"),
    ("read_execution_info", "describe_execution", "show", "reads"),
    ("read_execution_state", "describe_execution", "show", "reads"),
    ("read_execution_context", "get_execution_input", "", "reads flow_data"),
    ("read_current_attempt_index", "describe_execution", "show", "reads"),
    ("read_total_attempt_count", "describe_execution", "show", "reads"),
    ("get_execution_result", "get_execution_result", "result", "reads complete"),
    ("get_execution_namespace", "describe_execution", "show", "reads"),
    ("get_execution_tag", "describe_execution", "show", "reads"),
    ("history", "execution_history", "show", "reads"),
    ("await_execution", "describe_execution get_execution_result", "create, result", "reads"),
    ("await_result", "get_execution_result", "create, result", "reads"),
    ("list_executions", "", "", "listing"),
    ("search_executions", "search_executions", "ls", "listing"),
    ("list_steps", "list_steps", "show", "steps"),
    ("lane_depths", "lane_depths", "lanes", "listing"),
    ("count_executions", "count_executions", "lanes", "listing"),
    ("list_lanes", "", "", "listing"),
    ("server_time_ms", "info", "", "clock"),
];

const WAITS: &[Operation] = &[
    ("suspend_execution", "suspend_execution", "", "suspend wait_conditions wait_faults"),
    ("create_waitpoint", "create_waitpoint", "", "waitpoints"),
    ("close_waitpoint", "close_waitpoint", "", "waitpoints"),
    ("deliver_signal", "deliver_signal", "signal", "signals wait_conditions wait_faults"),
    (
        "deliver_approval_signal",
        "deliver_approval_signal",
        "approve, reject",
        "suspend wait_conditions",
    ),
    ("resume_execution", "resume_execution", "resume", "suspend repeats"),
    ("sign_link", "sign_link", "waitpoints", ""),
    ("read_link", "read_link", "", ""),
    ("follow_link", "follow_link", "", ""),
    ("list_pending_waitpoints", "list_waitpoints list_waitpoints_of", "waitpoints", "waitpoints"),
    ("list_suspended", "list_suspended", "", "suspend"),
    ("describe_suspension", "describe_suspension", "", "suspend"),
    ("list_signals", "list_signals", "", "signals"),
    ("observe_signals", "observe_signals", "", "signals"),
    ("satisfying", "observe_signals", "", "signals"),
    ("read_waitpoint_token", "read_waitpoint_token", "waitpoints", "waitpoints"),
    ("seed_waitpoint_hmac_secret", "", "serve", "signing_keys"),
    ("rotate_waitpoint_hmac_secret", "rotate_signing_key", "keys rotate", "signing_keys"),
    ("list_signing_keys", "list_signing_keys", "keys", "signing_keys"),
];

const FLOWS: &[Operation] = &[
    ("submit_flow", "create_flow", "flow submit", "flow_submit flow_large"),
    ("create_flow", "create_flow", "", "flow_graph"),
    ("extend_flow", "extend_flow", "", "flow_extend"),
    ("add_execution_to_flow", "add_execution_to_flow", "", "flow_graph flow_pieces"),
    ("stage_dependency_edge", "stage_dependency_edge", "", "flow_edges"),
    ("apply_dependency_to_child", "apply_dependency_to_child", "", "flow_apply flow_data"),
    ("set_edge_group_policy", "set_edge_group_policy", "", "flow_apply flow_joins repeats"),
    ("seal_flow", "seal_flow", "flow seal", "flow_ends"),
    ("cancel_flow", "cancel_flow", "flow cancel", "flow_cancel flow_large flow_faults"),
    ("set_flow_tag", "set_flow_tags", "flow tag", "flow_tags"),
    ("set_flow_tags", "set_flow_tags", "flow tag", "flow_tags repeats"),
    ("wait_children", "wait_children", "", "flow_wait flow_waits"),
    ("find_flow", "describe_flow", "flow show", "flow_reads"),
    ("describe_flow", "describe_flow", "flow show", "flow_reads"),
    ("project_flow_summary", "project_flow_summary", "flow show", "flow_reads"),
    ("get_flow_tag", "describe_flow", "flow show", "flow_tags"),
    ("list_flows", "", "", "flow_reads"),
    ("search_flows", "search_flows", "flow ls", "flow_reads"),
    ("list_edges", "list_edges", "flow show", "flow_reads"),
    ("describe_edge", "describe_edge", "", "flow_reads"),
    ("list_members", "list_members", "flow show", "flow_reads"),
    ("resolve_execution_flow_id", "describe_execution", "show", "flow_reads"),
    ("evaluate_flow_eligibility", "evaluate_flow_eligibility", "", "flow_reads flow_replay"),
    ("read_inputs", "read_inputs", "", "flow_data"),
    ("await_flow", "describe_flow", "flow submit", "flow_ends"),
];

const FEED: &[Operation] = &[
    ("read_events", "read_events stream_events", "", "feed"),
    ("feed_tail", "stream_events", "", "feed"),
    ("consumer", "", "", "consumers repeats"),
    ("list_consumers", "list_consumers", "consumers", "consumers"),
    ("drop_consumer", "drop_consumer", "consumers drop", "consumers repeats"),
];

const DUTIES: &[Operation] = &[
    ("scan_tick", "", "", "duties timeouts retention flow_retention wait_timeouts flow_dispatch"),
    ("promote_delayed", "", "", "promotion"),
    ("dispatcher_tick", "", "", "flow_siblings"),
    ("start_duties", "", "serve", "duties"),
];
