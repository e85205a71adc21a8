"""CPU time that the admission webhook adds to a pod, both calls together, beside a webhook with a constant answer."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import count
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from linkwise.config.settings import WebhookSettings
from linkwise.net.http.messages import Request, Response
from linkwise.net.http.routes import Endpoint
from linkwise.serve.metrics import Counting
from linkwise.serve.webhook import Webhook
from linkwise.testing.cluster import FakeNode, broker_of
from linkwise.wire.admission import allow, decode_review
from support.builders.admission import GPU, container, job, pod, review

if TYPE_CHECKING:
    from collections.abc import Callable

PODS, ROUNDS = 200, 5
SKIPPED, MANAGED = 0.5, 5.0  # milliseconds
GANG = {"gang.scheduling.koordinator.sh/name": "job", "gang.scheduling.koordinator.sh/min-available": "64"}
_numbers = count()


def typical(limits: dict[str, object], containers: int = 2, **words: Any) -> dict[str, Any]:  # noqa: ANN401 - as `pod` has them
    """A pod of the size that users write, about 6 KB; no two are equal."""
    number = next(_numbers)
    env = [{"name": f"VARIABLE_{place}", "value": f"value of variable {place}"} for place in range(20)]
    mounts = [{"name": f"volume-{place}", "mountPath": f"/data/{place}"} for place in range(8)]
    made = [
        container(limits if place == 0 else {"cpu": "1"}, f"c{place}", env=env, volumeMounts=mounts)
        for place in range(containers)
    ]
    labels = {"app": "train", "team": "research", "run": f"run-{number}", **words.pop("labels", {})}
    annotations = {"example.com/owner": "ada", "prometheus.io/scrape": "true", **words.pop("annotations", {})}
    return pod(*made, labels=labels, annotations=annotations, **words)


CASES: tuple[tuple[str, Callable[[], dict[str, Any]], float], ...] = (
    ("pod that is not managed", lambda: typical({"cpu": "4"}), SKIPPED),
    ("pod with GPUs", lambda: typical({GPU: 2}), MANAGED),
    ("old resource name and variables", lambda: typical({"alpha.kubernetes.io/nvidia-gpu": 2}), MANAGED),
    ("member of a gang", lambda: typical({GPU: 8}, annotations=GANG), MANAGED),
    ("pod of 40 containers", lambda: typical({GPU: 2}, 40), MANAGED),
    ("memory that no card has", lambda: typical({"aliyun.com/gpu-mem": 100}), MANAGED),
    ("Job", lambda: job(typical({"huawei.com/Ascend910": 8}), 4), MANAGED),
)


def handlers(routes: Webhook) -> list[Callable[[bytes], bytes]]:
    """Both calls as the server makes them."""

    def called(handler: Callable[..., object], body: bytes) -> bytes:
        answer = handler(Request(b"/", {}, "127.0.0.1", asyncio.Event(), "POST", body=body), {})
        if not isinstance(answer, Response) or answer.status != 200:
            raise SystemExit(f"not answered: {answer}")
        return answer.body

    return [lambda body, handler=route.handler: called(handler, body) for route in routes.routes()]  # type: ignore[misc]


def constant() -> list[Callable[[bytes], bytes]]:
    """A webhook that reads the review and admits everything."""
    endpoint = Endpoint("mutate", lambda body: allow(decode_review(body).uid), lambda _: None, Counting())

    def called(body: bytes) -> bytes:
        answer = endpoint.handle(Request(b"/", {}, "127.0.0.1", asyncio.Event(), "POST", body=body), {})
        return answer.body if isinstance(answer, Response) else b""

    return [called, called]


def milliseconds(calls: list[Callable[[bytes], bytes]], bodies: list[bytes]) -> float:
    """CPU time per pod."""
    started = time.process_time()
    for body in bodies:
        for call in calls:
            call(body)
    return 1000 * (time.process_time() - started) / len(bodies)


def main() -> int:
    """Measure; 1 if a bar is exceeded."""
    nodes = [FakeNode(f"n{place}", family="share" if place % 2 else "linked", count=8) for place in range(1000)]
    webhook = handlers(Webhook(broker_of(*nodes), Counting(), WebhookSettings()))
    table = Table("review", "ms CPU per pod", "constant answer", "ratio", "bar, ms", title="Admission webhook")
    failed = False
    for title, make, bar in CASES:
        times, plain = [], []
        for _ in range(ROUNDS):
            bodies = [json.dumps(review(make())).encode() for _ in range(PODS)]
            times.append(milliseconds(webhook, bodies))
            plain.append(milliseconds(constant(), bodies))
        spent, least = median(times), median(plain)
        failed |= spent > bar
        table.add_row(title, f"{spent:.3f}", f"{least:.3f}", f"{spent / least:.1f}", f"{bar:g}")
    Console().print(table)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
