-- How many upstreams of a flow go on although their siblings were cancelled: the edges that are not
-- resolved of groups that have dealt with the siblings of their current round.
select coalesce(sum(total - satisfied - failed - skipped), 0)::bigint as spared
from ff_edge_group
where partition_key = $1 and flow_id = $2
    and not cancel_siblings_pending and cancel_siblings_round = round
