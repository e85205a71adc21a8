"""Explanations as HTTP responses: sentences as text, or code, sentences and all data as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from linkwise.explain.text.pod import explanation_lines
from linkwise.net.http.messages import JSON, Response, text
from linkwise.views.explanations import document_of

if TYPE_CHECKING:
    from linkwise.net.http.messages import Request
    from linkwise.views.explanations import AnyExplanation

__all__ = ["render_explanation"]


def render_explanation(request: Request, explanation: AnyExplanation) -> Response:
    """Answer with an explanation, in the format that the caller accepts."""
    if JSON in request.header(b"accept"):
        return Response(msgspec.json.encode(document_of(explanation)))
    return text("\n".join(explanation_lines(explanation)))
