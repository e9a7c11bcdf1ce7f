#!/usr/bin/env python3
"""A FlowFabric worker in plain Python. Start `ff serve`, then this, then `ff create count --input 5`.

It claims work over HTTP, keeps its lease, and records every step, so that whoever goes on after a
crash does not take it again."""
import json, os, socket, threading, time, urllib.error, urllib.request

URL, TOKEN = os.environ.get("FF_URL", "http://127.0.0.1:7100"), os.environ.get("FF_TOKEN")
LEASE_MS, PAUSE = int(os.environ.get("FF_LEASE_MS", 30_000)), float(os.environ.get("FF_PAUSE", 0.1))
NAME = {"worker_id": "python", "worker_instance_id": f"{socket.gethostname()}-{os.getpid()}"}

def call(path, body=None):
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {TOKEN}"} if TOKEN else {})
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(URL + path, data, headers), timeout=70) as answer:
        return json.load(answer)

class Job:
    def __init__(self, work):
        self.work, self.path, self.next = work, f"/v1/executions/{work['execution_id']}", 0
        recorded = call(self.path + "/steps?limit=1000")["steps"] if work["may_have_steps"] else []
        self.journal = {step.get("operation", str(step["number"])): step for step in recorded if step["kind"] == "run"}
        self.number = max((step["number"] + 1 for step in recorded), default=0)

    def step(self, name, run):
        """Runs once, and is remembered with its result."""
        operation, self.next, self.number = str(self.next), self.next + 1, self.number + 1
        if (known := self.journal.get(operation)) is None:
            known = {"number": self.number, "operation": operation, "name": name, "result": run()}
            call(self.path + "/steps", {"fence": self.work["fence"], "steps": [known]})
        elif known["name"] != name:
            raise ValueError(f"step {operation} is recorded as {known['name']!r}, not {name!r}")
        return known["result"]

    def keep(self, done):
        """Renews the lease until the work is done."""
        lease = {"execution_id": self.work["execution_id"], "fence": self.work["fence"]}
        while not done.wait(LEASE_MS / 3000):
            call("/v1/leases/renew", {"leases": [lease], "lease_ttl_ms": LEASE_MS})

def count(job, to):
    return [job.step(f"say {n}", lambda: (time.sleep(PAUSE), n * n)[1]) for n in range(to)]

def run(work):
    job, done = Job(work), threading.Event()
    threading.Thread(target=job.keep, args=[done], daemon=True).start()
    try:
        result = {"count": count}[work["execution_kind"]](job, work.get("input"))
        call(job.path + "/complete", {"fence": work["fence"], "result": result})
    except urllib.error.HTTPError as refused:  # cancelled, or somebody else has it
        print("refused:", json.load(refused)["detail"], flush=True)
    except Exception as error:
        call(job.path + "/fail", {"fence": work["fence"], "reason": repr(error)})
    finally:
        done.set()

while __name__ == "__main__":
    for work in call("/v1/claims", NAME | {"lanes": ["default"], "lease_ttl_ms": LEASE_MS, "wait_ms": 20_000})["executions"]:
        run(work)
