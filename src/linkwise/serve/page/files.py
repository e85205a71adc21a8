"""Files of the page: built ahead and shipped with the package; index.html also answers the addresses inside the page.

The page is reached below prefixes that it does not know, such as that of the API server's service proxy, so all of its
addresses are relative. index.html says by a `base` element where they begin.
"""

from __future__ import annotations

import gzip
import re
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from linkwise.net.http.messages import Response, text
from linkwise.net.http.routes import Route
from linkwise.serve.explanations.access import is_proxied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkwise.net.http.messages import Request

__all__ = ["FOLDER", "file_routes", "page_headers"]

FOLDER: Final = Path(__file__).parent.parent / "page_files"
INDEX: Final = "index.html"
ADDRESSES: Final = frozenset({"nodes", "pods", "groups", "plan", "usage", "policies"})
"""first segments of addresses inside the page"""
DEEPEST: Final = 3
"""slashes in the longest address inside the page: that of a pod or group, with one at its end"""
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
}
COMPRESSED: Final = frozenset({".html", ".js", ".css", ".svg", ".json", ".webmanifest", ".txt"})
HASHED: Final = re.compile(r"[-.][A-Za-z0-9_-]{8,}\.[a-z0-9]+$")
"""ends the names of files whose content never changes"""
MISSING: Final = "the files of the page are not part of this installation of Linkwise; build them with `make page`"


class _File(NamedTuple):
    body: bytes
    zipped: bytes
    """empty if compression does not pay off"""
    content_type: str
    etag: str


@cache
def _files(folder: Path) -> Mapping[str, _File]:
    """All files by their path below the folder."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in TYPES and path.is_file())
    return {path.relative_to(folder).as_posix(): _file(path.suffix, path.read_bytes()) for path in paths}


def _file(suffix: str, body: bytes) -> _File:
    zipped = gzip.compress(body, mtime=0) if suffix in COMPRESSED else b""
    return _File(body, zipped, TYPES[suffix], sha256(body).hexdigest()[:16])


def file_routes(*, root: bool, folder: Path = FOLDER) -> list[Route]:
    """Return the routes of the page's files; with `root`, the root leads to the page, too."""

    def answer(request: Request, variables: Mapping[str, str]) -> Response:
        return _answer(request, variables.get("rest", ""), _files(folder))

    return [
        *([Route("GET", "/", _to_page)] if root else []),
        Route("GET", "/page", _to_page),
        Route("GET", "/page/", answer),
        Route("GET", "/page/{rest:path}", answer),
    ]


def page_headers(*, proxied: bool) -> tuple[tuple[str, str], ...]:
    """Return headers that keep other sites and other content out of the page."""
    ancestors = "'self'" if proxied else "'none'"
    policy = f"default-src 'self'; object-src 'none'; base-uri 'self'; form-action 'none'; frame-ancestors {ancestors}"
    return (
        ("content-security-policy", policy),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
    )


def _to_page(request: Request, variables: Mapping[str, str]) -> Response:
    del request, variables
    return text("the page is at page/", 302, (("location", "page/"),))


def _answer(request: Request, rest: str, files: Mapping[str, _File]) -> Response:
    if INDEX not in files:
        return text(MISSING, 404)
    shallow = rest.count("/") <= DEEPEST
    known = shallow and (not rest or rest.partition("/")[0] in ADDRESSES)
    # the page has a view for an address without one
    unknown = shallow and rest not in files and "." not in rest.rpartition("/")[2]
    name = INDEX if known or unknown else rest
    file = files.get(name)
    if file is None:
        return text(f"/page/{rest} not found", 404)
    status = 200 if known or not unknown else 404
    if name == INDEX:
        file = _based(file, "../" * rest.count("/") or "./")
    cached = "public, max-age=31536000, immutable" if HASHED.search(name) else "no-cache"
    headers = (
        ("cache-control", cached),
        ("etag", f'"{file.etag}"'),
        ("vary", "accept-encoding"),
        *page_headers(proxied=is_proxied(request)),
    )
    if status == 200 and file.etag in request.header(b"if-none-match"):
        return Response(status=304, headers=headers)
    if file.zipped and "gzip" in request.header(b"accept-encoding"):
        return Response(file.zipped, status, file.content_type, (*headers, ("content-encoding", "gzip")))
    return Response(file.body, status, file.content_type, headers)


@cache
def _based(index: _File, base: str) -> _File:
    """Return index.html for an address inside the page; there are as many as addresses may be deep."""
    return _file(".html", index.body.replace(b"<head>", f'<head><base href="{base}">'.encode(), 1))
