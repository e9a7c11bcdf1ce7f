-- When the next timer of a kind is due.
select min(due_ms) from ff_timer where kind = $1 and due_ms > $2
