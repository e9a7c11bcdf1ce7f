-- What is visible now: the snapshot, the highest number that it sees, and the number after which
-- everything lies that an earlier snapshot ($1, which saw numbers up to $2) did not see: after that
-- number, except for transactions that were under way then and had taken their numbers before.
-- Those are listed in the snapshot or, if none that began later had ended, lie past its end. The
-- sequence would not do for the highest: numbers that nothing visible bears may be given again
-- after a crash.
select
    pg_current_snapshot()::text as snapshot,
    greatest($2::bigint, (select max(seq) from ff_event)) as highest,
    least($2::bigint, (
        select min(e.seq) - 1 from (
            select e.seq from ff_event e
            where e.xid = any(array(select pg_snapshot_xip($1::text::pg_snapshot)))
            offset 0
        ) e
        where e.seq <= $2
    ), (
        select min(e.seq) - 1 from (
            select e.seq from ff_event e
            where $2 > 0 and e.xid >= pg_snapshot_xmax($1::text::pg_snapshot)
                and e.xid < pg_snapshot_xmax(pg_current_snapshot())
            offset 0
        ) e
        where e.seq <= $2
    )) as before
