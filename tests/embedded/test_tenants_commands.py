"""Commands of a user with rights in one namespace of the local cluster: what they can't do, and what they say instead."""

from __future__ import annotations

import json
import tempfile
from typing import TYPE_CHECKING

from embedded.test_local_cluster import GPU, JANE, pod
from embedded.test_usage import two_tenants
from support.embedded.local import Trial, trial

if TYPE_CHECKING:
    from collections.abc import Sequence

WHOLE_CLUSTER = ("plan -f {job}", "inspect", "replay", "topo node/dgx1-v100-0")
REFUSED = (
    *WHOLE_CLUSTER,
    "annotate node/dgx1-v100-0 a=b",
    "apply -f {foreign}",
    "cordon node/dgx1-v100-0 --device 0 --reason test",
    "delete node/dgx1-v100-0",
    "delete pod/rival -n team-b",
    "delete pods --all -n team-b",
    "describe pod/rival -n team-b",
    "explain pod/rival -n team-b",
    "get policies",
    "get pods -n team-b",
    "top pods -n team-b",
    "uncordon node/dgx1-v100-0 --device 0",
)


async def said(tried: Trial, words: str) -> tuple[int, str, str]:
    """What a command of Jane prints, with a pod of each namespace in a file."""
    with (
        tempfile.NamedTemporaryFile("w", suffix=".json") as job,
        tempfile.NamedTemporaryFile("w", suffix=".json") as foreign,
    ):
        for file, namespace in ((job, "team-a"), (foreign, "team-b")):
            made = {"apiVersion": "v1", "kind": "Pod", **pod("new", {GPU: 1})}
            made["metadata"]["namespace"] = namespace
            file.write(json.dumps(made))
            file.flush()
        line: Sequence[str] = words.format(job=job.name, foreign=foreign.name).split()
        return await tried.command(*line, user=JANE, namespace="team-a")


@trial(dgx1_v100=1)
async def test_what_a_tenant_may_not_do_is_refused_without_advice_to_get_rights_in_the_whole_cluster(
    tried: Trial,
) -> None:
    await two_tenants(tried)
    for words in REFUSED:
        code, shown, errors = await said(tried, words)
        assert (code, shown) == (1, ""), (words, errors)
        assert errors.startswith("linkwise: "), words
        assert "Traceback" not in errors, words
        assert "grant the verb" not in errors, words
        assert ("`linkwise explain` ask the service" in errors) is (words in WHOLE_CLUSTER or "cordon" in words), errors


@trial(dgx1_v100=1)
async def test_an_examination_that_may_read_nothing_does_not_end_as_one_without_problems(tried: Trial) -> None:
    await two_tenants(tried)
    code, _, errors = await said(tried, "doctor")
    assert (code, errors.partition(":")[0]) == (3, "linkwise")
    assert "nothing could be examined; --all shows why" in errors
    assert "`linkwise explain pod/NAME`" in errors


@trial(dgx1_v100=1)
async def test_a_check_that_needs_no_rights_does_not_fail_alone(tried: Trial) -> None:
    code, _, errors = await said(tried, "doctor --check clock-local")
    assert (code, errors) == (0, "")
