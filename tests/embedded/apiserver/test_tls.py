"""The self-signed certificate of the API server."""

from __future__ import annotations

import ssl

from linkwise.embedded.apiserver.tls import make_certificate


def test_the_certificate_is_accepted_by_the_ssl_module() -> None:
    made = make_certificate(["localhost"], ["127.0.0.1"])
    trust = ssl.create_default_context(cadata=made.text)
    (known,) = trust.get_ca_certs()
    assert known["issuer"] == known["subject"]
    assert made.context().get_ciphers()
