"""Explanations as HTTP responses: sentences as text, or code, sentences and all data as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from linkwise.explain.text.pod import explanation_lines
from linkwise.net.http.messages import JSON, Response, text

if TYPE_CHECKING:
    from linkwise.explain.published.redaction import Redaction
    from linkwise.explain.reports.group import GroupExplanation
    from linkwise.explain.reports.node import NodeExplanation
    from linkwise.explain.reports.pod import Explanation
    from linkwise.explain.reports.workload import WorkloadExplanation
    from linkwise.net.http.messages import Request

    AnyExplanation = Explanation | GroupExplanation | NodeExplanation | WorkloadExplanation

__all__ = ["explanation_document", "render_explanation"]


def render_explanation(
    request: Request,
    explanation: AnyExplanation | None,
    subject: str,
    redaction: Redaction | None = None,
    *,
    synced: bool,
) -> Response:
    """Answer with an explanation, in the format that the caller accepts."""
    if explanation is None and not synced:
        return text(f"{subject} is not known yet: the service is still listing the cluster", 503)
    if explanation is None:
        return text(f"{subject} not found", 404)
    if JSON in request.header(b"accept"):
        return Response(msgspec.json.encode(explanation_document(explanation, redaction)))
    lines = explanation_lines(explanation)
    return text("\n".join(map(redaction.text, lines) if redaction else lines))


def explanation_document(explanation: AnyExplanation, redaction: Redaction | None = None) -> dict[str, Any]:
    """The code, the sentences, and all data."""
    data = msgspec.to_builtins(asdict(explanation), str_keys=True)
    document = {"code": data.get("code", ""), "lines": explanation_lines(explanation), "data": data}
    redacted: dict[str, Any] = redaction.document(document) if redaction else document
    return redacted
