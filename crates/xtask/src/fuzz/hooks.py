"""What schemathesis cannot know: how long to wait, and what exists.

Left alone, almost everything it makes up is refused before it reaches the engine, because no
execution has such an id and no lease such a fence. So every other call is helped: it speaks of an
execution that exists, under the fence it was claimed with. The rest of the call, and the calls in
between, stay as they were made up. Nothing here is random, so a seed repeats a run.
"""

import itertools

import requests
import schemathesis

# Milliseconds; longer waits are shortened to this, unless they are too long to be allowed at all.
WAIT = 20
WAIT_MAX = 60_000
TIMEOUT_S = 10

LANE = "fuzz"
FILES = ("index.html", "app.js", "waits.js", "style.css")
# So many executions are spoken of at a time, each for a while: long enough to be ended and replayed.
KEPT = 4
CALLS_EACH = 3

calls = itertools.count()
created = itertools.count()
kept = []


@schemathesis.hook
def before_call(context, case, kwargs):
    shorten_wait(case.query)
    shorten_wait(case.body)
    number, helped = divmod(next(calls), 2)
    if helped:
        help_along(case, number)


def shorten_wait(place):
    wait = place.get("wait_ms") if isinstance(place, dict) else None
    # A query may hold the number as text.
    if str(wait).isdecimal() and WAIT < int(wait) <= WAIT_MAX:
        place["wait_ms"] = WAIT


def help_along(case, number):
    body = case.body if isinstance(case.body, dict) else {}
    if "lanes" in body:
        body["lanes"] = [LANE]
    parameters = case.path_parameters or {}
    if "file" in parameters:
        parameters["file"] = FILES[number % len(FILES)]
    if "id" in parameters:
        parameters["id"] = point_at(body, number, case.operation.base_url)
    for name in ("leases", "reports"):
        items = body.get(name)
        for place, item in enumerate(items[:KEPT] if isinstance(items, list) else []):
            if isinstance(item, dict):
                item["execution_id"] = point_at(item, number + place, case.operation.base_url)


def point_at(said, number, server):
    """The id of an execution that exists; what is said about it gets the right fence."""
    if len(kept) < KEPT or number % CALLS_EACH == 0:
        kept.append(create(server.rstrip("/")))
        del kept[:-KEPT]
    execution_id, fence = kept[-1 - number % len(kept)]
    if "fence" in said and fence:
        said["fence"] = fence
    return execution_id


def create(server):
    """Every fourth waits in the lane of the made-up claims; the others are claimed from their own."""
    number = next(created)
    claimed = number % 4 != 0
    lane = f"{LANE}-{number}" if claimed else LANE
    retry = {"max_retries": 3, "backoff": {"type": "fixed", "delay_ms": 1}}
    new = {"lane_id": lane, "execution_kind": "made", "policy": {"retry_policy": retry}}
    execution_id = ask(server, "/v1/executions", new)["execution_id"]
    if not claimed:
        return execution_id, None
    worker = {"worker_id": "fuzz", "worker_instance_id": "fuzz-1", "lease_ttl_ms": 60_000}
    answer = ask(server, "/v1/claims", {**worker, "lanes": [lane]})
    return execution_id, answer["executions"][0]["fence"]


def ask(server, path, body):
    answer = requests.post(server + path, json=body, timeout=TIMEOUT_S)
    answer.raise_for_status()
    return answer.json()
