-- Whether and how an execution has ended, and its result if that stands with it.
select x.phase, x.outcome, x.has_result, x.attempt_index, x.result_attempt,
    x.result_encoding as encoding, x.result
from ff_exec_core x where x.partition_key = $1::smallint and x.execution_id = $2::uuid
