//! The cases, listed once. [`suite!`](crate::suite) makes a test of each for a backend.

pub mod bad_input;
pub mod bad_policy;
pub mod batches;
pub mod calls;
pub mod cancel;
pub mod claim;
pub mod claim_id;
pub mod clock;
pub mod complete;
pub mod consumers;
pub mod create;
pub mod duties;
pub mod feed;
pub mod fence;
pub mod flow_apply;
pub mod flow_cancel;
pub mod flow_data;
pub mod flow_dispatch;
pub mod flow_edges;
pub mod flow_ends;
pub mod flow_extend;
pub mod flow_faults;
pub mod flow_graph;
pub mod flow_joins;
pub mod flow_large;
pub mod flow_pieces;
pub mod flow_reads;
pub mod flow_replay;
pub mod flow_retention;
pub mod flow_siblings;
pub mod flow_starts;
pub mod flow_submit;
pub mod flow_tags;
pub mod flow_unskip;
pub mod flow_wait;
pub mod flow_waits;
mod flows;
pub mod give_back;
pub mod idempotency;
pub mod lease;
pub mod listing;
pub mod operator;
pub mod promotion;
pub mod races;
pub mod reads;
pub mod reclaim;
pub mod repeats;
pub mod replay;
pub mod retention;
pub mod retry;
pub mod revoke;
pub mod signals;
pub mod signing_keys;
pub mod steps;
pub mod suspend;
pub mod timeouts;
pub mod wait_conditions;
pub mod wait_faults;
pub mod wait_timeouts;
pub mod waitpoints;
mod waits;

/// Makes every case a test of the backend that `$open` opens.
///
/// `$open` is a `fn(Arc<Dial>) -> Store`.
#[macro_export]
macro_rules! suite {
    ($open:path) => {
        $crate::suite! { @cases $open;
            create {
                a_delay_by_length_survives_a_repeat
                two_delays_and_absurd_ones_are_refused
                a_created_execution_is_claimable_at_once
                a_created_execution_waits_for_a_worker
                creation_answers_with_the_state_it_left
                a_delayed_creation_waits_for_its_time
                a_delay_in_the_past_means_at_once
                everything_said_at_creation_reads_back
                binary_input_is_kept_byte_for_byte
                an_empty_input_is_no_input
                an_empty_input_keeps_its_encoding
                the_largest_payload_fits
                an_input_of_any_size_comes_with_its_work
                creation_appends_no_event
                creation_makes_its_lane_known
                work_in_every_partition_is_claimable
                an_id_keeps_the_partition_it_names
            }
            idempotency {
                the_same_creation_twice_is_one_execution
                the_same_id_with_other_content_names_the_field
                the_same_key_finds_the_original_under_another_id
                the_same_key_with_other_content_is_refused
                a_key_belongs_to_its_namespace
                a_key_is_forgotten_after_its_window
                a_key_past_its_window_is_free_before_any_sweep
                forgetting_looks_at_the_window_again
                a_policy_sets_the_window_of_its_key
                a_key_outlives_the_execution_it_named
                a_duplicate_of_finished_work_stays_finished
                a_changed_execution_is_still_recognised
                a_refused_creation_does_not_use_up_its_key
                two_creations_with_one_key_in_one_batch_are_one
                forgetting_an_unknown_key_does_nothing
            }
            claim {
                the_more_urgent_goes_first
                among_equals_the_older_goes_first
                a_tie_goes_by_id
                a_retried_execution_keeps_its_age
                a_worker_is_given_only_from_the_lanes_it_asks_for
                several_lanes_are_served_by_urgency
                a_claim_gives_no_more_than_it_was_asked_for
                restricted_work_needs_every_capability
                capabilities_are_case_sensitive
                plain_work_goes_to_any_worker
                unmatched_work_at_the_head_hides_nothing
                requirements_do_not_change_the_order
                asks_in_one_call_share_nothing
                claims_at_the_same_time_share_nothing
                a_claimed_execution_is_not_claimable
                a_claim_reads_back_as_it_was_given
                a_claimed_execution_is_active_in_every_dimension
                the_first_start_is_kept
            }
            claim_id {
                what_was_not_delivered_is_released_unless_its_claim_was_repeated
                a_repeated_claim_finds_the_same_leases
                a_repeated_claim_does_not_reach_for_more
                a_repeated_claim_leaves_out_what_has_ended
                another_worker_cannot_repeat_a_claim
                a_claim_whose_leases_ran_out_begins_anew
                claiming_by_name_gives_the_same_lease_as_a_queue
                what_is_delayed_cannot_be_claimed_by_name
                what_has_ended_cannot_be_claimed
                what_an_operator_holds_cannot_be_claimed_by_name
                claiming_by_name_needs_the_capabilities
                claiming_what_does_not_exist_is_not_found
            }
            promotion {
                delayed_work_is_claimable_from_its_time_on
                a_claim_tells_when_the_next_delay_ends
                a_claim_without_asks_only_promotes
                a_delay_costs_neither_urgency_nor_age
                promotion_serves_every_lane
                one_claim_promotes_a_bounded_number
                a_backoff_ends_like_a_delay
                a_given_back_attempt_goes_on_when_due
                a_cancelled_delay_never_ends
                a_held_delay_is_not_promoted
                new_work_wakes_a_waiting_worker
            }
            lease {
                renewing_extends_from_now
                renewing_changes_only_the_lease
                each_renewal_may_have_its_own_length
                a_lease_is_over_at_its_end
                progress_does_not_extend_the_lease
                the_sweep_requeues_what_a_dead_worker_held
                the_sweep_finds_nothing_before_the_end
                the_sweep_spares_a_renewed_lease
                renewing_for_less_ends_the_lease_sooner
                a_check_of_an_older_lease_touches_nothing
                nothing_without_a_lease_is_swept
                the_epoch_grows_with_every_acquire_and_release
            }
            fence {
                a_worker_learns_that_its_lease_ran_out
                a_worker_learns_that_its_lease_was_revoked
                lost_leases_are_a_state_not_a_contention
                a_fence_of_an_earlier_attempt_is_stale
                a_fence_of_an_earlier_lease_of_one_attempt_is_stale
                half_a_fence_is_stale
                a_fence_at_the_end_of_its_range_is_stale
                no_fence_fits_what_was_never_claimed
                giving_back_ends_the_lease
                a_replay_does_not_revive_an_old_fence
                the_same_worker_needs_its_new_fence
                a_worker_of_an_earlier_life_cannot_write_in_the_next
            }
            revoke {
                revoking_hands_the_work_to_another
                revoking_may_name_the_lease
                revoking_may_name_the_worker
                revoking_what_nobody_holds_is_refused
                revoking_what_has_ended_tells_how_it_ended
                revoking_what_is_already_lost_is_satisfied
                revocations_count_as_reclaims
            }
            complete {
                progress_is_recorded
                progress_replaces_what_was_said_before
                progress_belongs_to_an_attempt
                completing_ends_it_in_every_dimension
                completing_appends_one_completion
                no_result_and_an_empty_result_differ
                a_binary_result_is_kept_byte_for_byte
                a_repeated_completion_keeps_the_first_result
                a_repeated_completion_with_another_result_is_refused
                nothing_a_worker_says_reopens_a_completed_one
                completing_what_failed_tells_that_it_failed
                a_completed_execution_leaves_no_duty_but_retention
                the_holder_cancels_its_execution
                the_first_to_cancel_is_remembered
                a_worker_is_told_that_an_operator_cancelled
            }
            give_back {
                releasing_undoes_the_claim
                releasing_a_retry_leaves_a_retry
                releasing_a_reclaim_leaves_a_reclaim
                releasing_a_replay_leaves_a_replay
                releasing_a_resumed_attempt_keeps_the_attempt
                a_repeated_release_does_not_take_the_next_lease
                delaying_keeps_the_attempt
                delaying_into_the_past_means_at_once
                delaying_does_not_move_the_deadline
                a_repeated_delay_answers_with_the_first_time
                a_resumed_attempt_can_be_lost_like_any_other
            }
            retry {
                without_a_policy_a_failure_is_final
                a_failure_is_retried_after_its_backoff
                a_retry_knows_the_failure_before_it
                retries_run_out
                backoff_grows_up_to_its_limit
                an_empty_retry_policy_takes_the_defaults
                jitter_spreads_over_the_upper_half
                the_class_of_a_failure_decides
                only_listed_categories_are_retried
                a_failed_attempt_is_kept
                a_failed_attempt_is_announced_with_its_retry
                a_repeated_failure_answers_the_same
                a_repeated_final_failure_answers_the_same
                a_retry_without_backoff_is_claimable_at_once
            }
            timeouts {
                an_attempt_over_its_time_is_retried
                an_attempt_over_its_time_may_be_the_last
                renewing_does_not_buy_the_attempt_time
                each_attempt_has_its_full_time
                waiting_does_not_use_up_an_attempt
                a_timeout_checked_too_early_does_nothing
                a_lost_lease_is_not_a_timeout
                a_deadline_expires_what_waits
                a_deadline_expires_what_runs
                a_deadline_expires_what_is_kept_waiting
                a_relative_deadline_counts_from_creation
                two_deadlines_exclude_each_other
                a_lost_lease_and_a_timeout_end_the_same_in_any_order
                the_sweep_ends_an_attempt_that_timed_out_first
                a_deadline_that_was_met_changes_nothing
            }
            reclaim {
                another_worker_takes_over
                a_reclaim_is_counted_when_the_lease_is_lost
                lost_too_often_it_fails
                the_default_cap_is_a_hundred
                retries_and_reclaims_are_counted_apart
                lost_in_a_row_it_waits_longer_each_time
                a_step_ends_the_row_of_lost_leases
                a_report_of_progress_goes_on_with_the_row_of_lost_leases
                a_pause_ends_the_row_of_lost_leases
                a_revoked_lease_counts_and_waits_for_nothing
                the_old_lease_does_not_haunt_the_new_holder
                a_renewed_lease_is_not_taken_over
                a_cap_of_zero_fails_at_the_first_loss
                a_replay_counts_reclaims_from_zero
            }
            cancel {
                cancelling_what_waits_ends_it
                cancelling_what_runs_fences_its_worker
                cancelling_works_from_every_kind_of_waiting
                cancelling_works_between_expiry_and_sweep
                cancelling_twice_keeps_the_first_reason
                cancelling_what_has_ended_tells_how
                cancelling_with_a_fence_needs_the_lease
            }
            replay {
                a_replay_is_a_new_attempt
                every_ending_can_be_replayed
                a_replay_keeps_history
                a_replay_has_no_result_until_it_succeeds
                results_of_any_size_outlive_a_replay
                a_replay_counts_retries_from_zero
                a_replay_starts_a_relative_deadline_again
                a_replay_keeps_only_a_deadline_that_lies_ahead
                replays_run_out
                only_the_finished_is_replayed
                a_replay_is_repeatable_until_it_is_claimed
                a_replay_stops_the_retention_clock
            }
            operator {
                a_changed_priority_changes_the_order
                a_changed_priority_keeps_the_age
                the_same_priority_is_no_event
                only_what_is_claimable_can_be_prioritised
                a_delay_that_is_over_can_be_prioritised
                a_held_execution_is_not_claimed
                letting_go_gives_the_place_back
                a_hold_and_a_delay_are_independent
                holding_twice_keeps_the_first_reason
                unholding_what_is_not_held_changes_nothing
                only_what_waits_can_be_held
                tags_are_set_replaced_and_removed
                tags_change_in_any_state
                tags_that_are_already_so_change_nothing
            }
            repeats {
                a_replay_repeated_late_runs_it_once
                a_revocation_repeated_late_takes_one_lease
                a_cancellation_repeated_late_ends_one_life
                a_hold_repeated_late_does_not_hold_again
                an_unhold_repeated_late_lets_nothing_go
                a_priority_repeated_late_does_not_undo_another
                tags_repeated_late_do_not_undo_others
                tags_of_a_flow_repeated_late_do_not_undo_others
                a_join_repeated_late_does_not_undo_another
                a_cursor_saved_late_does_not_move_a_consumer_back
                a_cursor_saved_late_registers_no_consumer_again
                a_drop_repeated_late_keeps_a_consumer_that_came_back
                progress_reported_late_does_not_go_back
                a_resume_repeated_late_ends_one_wait
            }
            retention {
                retention_looks_for_consumers_again_before_it_removes
                a_finished_execution_goes_with_all_it_owned
                every_ending_is_trimmed
                a_policy_sets_how_long_it_is_kept
                nothing_unfinished_is_trimmed
                calls_on_what_was_trimmed_are_not_found
                a_trimmed_id_may_be_used_again
                what_was_trimmed_is_not_listed
                retention_goes_in_bites_oldest_first
                retention_serves_every_lane
            }
            feed {
                pages_give_every_event_once
                the_cursor_of_an_event_continues_after_it
                a_cursor_survives_as_text
                reading_while_writing_misses_nothing
                the_tail_is_where_new_events_begin
                a_filter_by_kind_lets_only_those_through
                a_filter_by_namespace_lets_only_it_through
                a_filter_by_lane_lets_only_it_through
                a_filter_by_execution_lets_only_it_through
                a_filter_by_tag_lets_only_what_carries_it_through
                filters_combine
                a_filtered_page_moves_past_what_it_left_out
                every_ending_is_one_completion_with_its_scope
                an_event_carries_kind_and_tags
                the_ordinary_course_leaves_one_event
                the_feed_covers_every_partition
                a_page_of_events_is_bounded
                an_event_wakes_a_waiting_reader
            }
            consumers {
                a_consumer_finds_its_place_again
                a_cursor_may_move_back
                consumers_do_not_share_a_place
                consumers_are_listed_by_name
                retention_waits_for_the_slowest_consumer
                retention_takes_what_everybody_has_seen
                retention_waits_for_the_last_event_of_an_execution
                a_dropped_consumer_is_not_waited_for
                dropping_an_unknown_consumer_is_not_found
                a_cursor_outlives_the_event_it_points_to
                a_cursor_of_another_kind_of_store_is_refused
            }
            listing {
                a_partition_is_listed_page_by_page
                a_full_last_page_has_no_next
                a_partition_lists_only_its_own
                a_page_of_nothing_is_empty
                a_page_holds_at_most_a_thousand
                a_search_gives_the_newest_first
                a_search_may_name_what_it_wants
                a_search_may_name_a_time
                a_search_may_name_a_state
                searches_combine
                a_search_by_state_follows_the_clock
                a_search_by_state_agrees_with_the_execution
                a_held_delay_is_listed_as_waiting
                counts_are_per_lane_and_state
                lanes_are_listed_in_order
            }
            reads {
                a_missing_execution_reads_as_nothing
                a_call_on_a_missing_execution_is_not_found
                several_keys_are_read_at_once
                several_payloads_are_read_at_once
                a_fate_is_told_with_its_result
                a_snapshot_of_what_waits
                a_snapshot_follows_the_execution
                the_views_agree
                attempts_are_counted
                the_history_is_every_attempt_once
                a_history_is_read_page_by_page
            }
            batches {
                commands_on_one_row_see_each_other
                a_rejected_command_leaves_no_trace
                outcomes_are_in_the_order_of_the_commands
                one_hot_row_takes_a_whole_batch
                tag_edits_in_one_batch_add_up
                created_and_cancelled_at_once_is_never_claimable
                failed_and_claimed_again_in_one_batch
                two_completions_in_one_batch_are_one_ending
                held_and_claimed_in_one_batch_is_held
                a_life_and_its_removal_in_one_batch
                removed_and_created_again_in_one_batch
                events_keep_the_order_of_the_batch
                an_empty_batch_answers_nothing
                the_largest_batch_is_taken_whole
                the_first_to_claim_by_name_has_it
            }
            races {
                a_paused_worker_wakes_after_its_lease_moved
                two_workers_reach_for_one_lost_execution
                sweep_takeover_and_late_completion_in_one_batch
                completing_in_the_last_millisecond_wins
                renewal_and_sweep_in_one_batch
                completion_and_cancellation_in_one_batch
                completion_and_cancellation_at_the_same_time
                completion_and_revocation_in_one_batch
                completion_and_deadline_in_one_batch
                two_processes_run_the_same_duties
                two_creations_under_one_key_at_the_same_time
                a_release_that_arrives_late_is_harmless
                a_hold_and_a_claim_at_the_same_time
            }
            clock {
                a_promoted_delay_does_not_block_the_queue
                the_store_clock_stamps_everything
                times_never_run_backwards_on_a_row
                a_lease_survives_a_jump_back
                a_lease_lost_to_a_jump_stays_lost
                a_worker_goes_on_after_the_clock_is_set_right
                a_jump_forward_never_makes_two_holders
                a_promoted_delay_is_not_claimed_early
                a_jump_back_makes_nothing_due
                a_backoff_counts_from_the_latest_time_seen
            }
            duties {
                a_duty_may_serve_one_namespace
                a_duty_may_serve_one_tag
                a_duty_for_one_tag_leaves_keys_alone
                the_filters_of_a_duty_combine
                a_duty_takes_no_more_than_its_limit
                a_duty_with_no_room_does_nothing
                a_duty_tells_when_the_next_is_due
                each_duty_has_its_own_times
                duties_serve_every_lane
            }
            steps {
                steps_read_back_in_order
                steps_are_paged_by_number
                a_step_sent_again_is_recorded_once
                a_number_recorded_under_another_name_is_refused
                another_result_for_a_recorded_step_is_refused
                a_stale_worker_cannot_record
                a_lease_that_ran_out_records_nothing
                steps_outlive_their_attempt
                steps_outlive_a_release
                a_replay_of_what_failed_keeps_its_steps
                a_replay_of_what_succeeded_begins_anew
                a_new_generation_is_no_progress
                outcomes_of_steps_read_back
                steps_go_with_their_execution
                steps_and_what_follows_them_go_together
                a_delay_records_its_steps
                a_delay_with_conflicting_steps_changes_nothing
                steps_of_many_are_recorded_together
                a_renewal_does_not_disturb_recording
                a_full_journal_is_refused
                malformed_steps_are_refused
                lanes_tell_how_much_is_claimable
            }
            bad_input {
                a_priority_out_of_range_is_refused
                an_oversize_payload_is_refused
                an_encoding_without_a_result_is_refused
                a_bad_tag_key_is_refused
                a_bad_tag_value_is_refused
                too_many_tags_are_refused
                a_lease_out_of_range_is_refused
                progress_out_of_range_is_refused
                a_bad_reason_is_refused
                an_absurd_time_is_refused
                an_absurd_delay_leaves_the_lease_alone
                a_window_without_a_key_is_refused
                a_bad_name_is_refused
                a_bad_id_is_refused
                a_bad_cursor_is_refused
            }
            bad_policy {
                absurd_durations_are_refused
                absurd_numbers_are_refused
                bad_required_capabilities_are_refused
                bad_retryable_categories_are_refused
                unknown_policy_fields_are_refused_by_name
                a_malformed_ask_is_refused
            }
        }
        $crate::flow_suite! { $open }
        $crate::wait_suite! { $open }
    };
    (@cases $open:path; $($group:ident { $($case:ident)* })*) => {
        $(mod $group {
            $(
                #[tokio::test]
                async fn $case() {
                    $crate::world::run($open, $crate::cases::$group::$case).await;
                }
            )*
        })*
    };
}
