"""`make soak` attacks a service that is ready, with the certificate of a scheduler."""

from __future__ import annotations

from support.embedded.thread import EmbeddedThread
from support.script_modules import scripts_importable

with scripts_importable():
    from soak_strangers import certificate, serving


def test_the_service_that_make_soak_attacks_gets_ready_with_its_certificates() -> None:
    with EmbeddedThread() as cluster, serving(cluster, nodes=1):
        assert certificate(cluster).keys() == {"ca.crt", "tls.crt", "tls.key"}
