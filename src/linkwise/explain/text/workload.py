"""Text of the explanation of a workload: one answer for all of its pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from linkwise.engine.reasons.phrases import count_text
from linkwise.explain.text.group import group_lines
from linkwise.explain.text.phrases import names_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkwise.explain.reports.pod import Explanation
    from linkwise.explain.reports.workload import WorkloadExplanation, WorkloadPart

__all__ = ["workload_lines"]

_ORDER: Final = ("pending", "starting", "running", "terminating", "succeeded", "failed")


def workload_lines(report: WorkloadExplanation, pod_lines: Callable[[Explanation], list[str]]) -> list[str]:
    """Return one sentence per line: how many pods run and wait, then each reason once."""
    counts = report.counts()
    total = count_text(sum(counts.values()), "pod")
    states = ", ".join(f"{counts[state]} {state}" for state in _ORDER if counts.get(state))
    heading = f"{report.kind} {report.namespace}/{report.name} has {total}: {states}"
    return [heading, *_placed(report), *_waiting(report, pod_lines)]


def _placed(report: WorkloadExplanation) -> Iterator[str]:
    nodes: dict[str, int] = {}
    for part in report.parts:
        node = part.explanation.node if part.explanation and part.state in {"starting", "running"} else ""
        if node:
            nodes[node] = nodes.get(node, 0) + len(part.pods)
    if nodes:
        yield f"placed on {names_text([f'{name} ({count})' for name, count in sorted(nodes.items())])}"


def _waiting(report: WorkloadExplanation, pod_lines: Callable[[Explanation], list[str]]) -> Iterator[str]:
    if report.group is not None:
        yield from group_lines(report.group)
        return
    for part in report.parts:
        if part.state != "pending" or part.explanation is None:
            continue
        heading, *lines = pod_lines(part.explanation)
        yield _named(part, report, heading)
        yield from lines


def _named(part: WorkloadPart, report: WorkloadExplanation, heading: str) -> str:
    """Return the heading of the first pod, worded for all of them."""
    sentence = heading.removeprefix(f"pod {report.namespace}/{part.pods[0]} ")
    if len(part.pods) == 1:
        return f"pod {part.pods[0]} {sentence}"
    return f"{count_text(len(part.pods), 'pod')} for the same reason ({names_text(list(part.pods))}); each {sentence}"
