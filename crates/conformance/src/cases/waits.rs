//! The cases of suspensions, listed once; [`suite!`](crate::suite) makes tests of them with the others.

/// Makes every case of suspensions a test of the backend that `$open` opens.
#[macro_export]
macro_rules! wait_suite {
    ($open:path) => {
        $crate::suite! { @cases $open;
            suspend {
                a_suspended_execution_gives_its_slot_back
                a_resumed_execution_goes_on_with_its_attempt
                an_execution_may_wait_many_times
                what_fails_after_a_suspension_is_retried_anew
                a_stale_worker_cannot_suspend
                what_is_suspended_cannot_be_suspended_again
                a_suspension_sent_again_is_answered_alike
                a_key_makes_a_suspension_repeatable
                a_key_of_a_suspension_is_forgotten
                a_suspension_records_its_steps
                waitpoints_that_do_not_fit_are_refused
                a_deadline_long_past_is_refused
                everything_said_of_a_suspension_reads_back
                an_operator_resumes
                only_what_is_suspended_can_be_resumed
                a_resume_sent_again_does_not_end_the_next_wait
                a_suspended_execution_can_be_cancelled
                a_deadline_ends_a_suspended_execution
                an_attempt_does_not_time_out_while_it_waits
                suspended_executions_are_listed
                suspensions_go_with_their_execution
                what_is_suspended_again_at_once_is_open
            }
            signals {
                a_signal_is_kept_as_it_was_sent
                signals_are_read_by_their_ids
                a_signal_that_is_not_wanted_is_only_recorded
                a_signal_sent_again_is_told_so
                a_key_of_a_signal_is_forgotten
                the_same_key_at_two_waitpoints_is_independent
                everything_wrong_with_a_token_has_one_answer
                an_operator_needs_no_token
                a_signal_to_what_goes_on_or_has_ended_is_refused
                signals_of_an_earlier_suspension_do_not_count
                a_delay_after_a_signal_is_honoured
                oversize_signals_are_refused
                the_number_of_signals_is_bounded
                signals_of_one_batch_see_each_other
                a_suspension_and_its_end_may_share_a_batch
                every_waitpoint_closes_with_its_suspension
            }
            waitpoints {
                a_pending_waitpoint_is_used_with_its_token
                buffered_signals_satisfy_at_once
                buffered_signals_count_with_later_ones
                a_pending_waitpoint_outlives_its_attempt
                a_waitpoint_is_recorded_with_the_steps_that_tell_of_it
                a_replay_closes_what_nobody_waited_at
                a_closed_waitpoint_is_not_made_again
                waitpoints_belong_to_who_holds_the_execution
                only_own_pending_waitpoints_can_be_used
                a_pending_waitpoint_expires
                a_used_waitpoint_does_not_expire
                a_pending_waitpoint_can_be_closed
                the_number_of_open_waitpoints_is_bounded
                waitpoints_are_listed
            }
            wait_conditions {
                nested_conditions_resume_with_the_last_piece
                two_counts_do_not_share_what_they_count
                waitpoints_are_counted_once_each
                malformed_conditions_are_refused
                people_approve_by_name
                one_rejection_decides
                an_approval_is_bound_to_what_is_approved
            }
            wait_timeouts {
                a_timeout_may_fail_it
                a_timeout_may_cancel_it
                a_timeout_may_expire_it
                a_timeout_may_resume_it
                a_timeout_may_escalate
                escalated_and_answered_in_one_batch
                a_resume_before_the_deadline_leaves_nothing
                a_deadline_belongs_to_its_suspension
                a_wait_for_a_time_alone_ends_then
                a_timeout_resumes_without_delay
            }
            wait_faults {
                a_fault_in_a_wait_loses_no_signal
                a_fault_around_a_pending_waitpoint_loses_no_signal
                a_fault_in_a_timeout_applies_it_once
            }
            signing_keys {
                a_first_key_is_made_when_it_is_needed
                a_store_is_given_its_first_key
                keys_verify_until_their_grace_is_over
                a_rotation_may_withdraw_earlier_keys
                keys_are_replaced_and_withdrawn_together
                a_kid_means_one_secret
                malformed_keys_are_refused
            }
            flow_waits {
                a_suspended_member_holds_up_what_waits_for_it
                a_flow_of_suspended_members_is_blocked
                cancelling_all_ends_suspended_members
                cancelling_what_is_pending_leaves_suspended_members
                a_suspended_sibling_is_cancelled
                a_suspended_member_whose_inputs_failed_ends
            }
        }
    };
}
