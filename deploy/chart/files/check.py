"""Test of a release: the service answers as kube-scheduler calls it, and refuses strangers."""
# ruff: noqa: INP001, S310, T201 - a script with the address of the service, in a pod of `helm test`

import json
import os
import ssl
import sys
import urllib.error
import urllib.request

URL = os.environ["URL"]
FOLDER = os.environ.get("CERTIFICATES", "")


def call(path: str, *, body: object = None, client: bool = True) -> tuple[int, str]:
    """Status and text of an answer; a refusal is an answer."""
    context = None
    if FOLDER:
        context = ssl.create_default_context(cafile=f"{FOLDER}/ca.crt")
        if client:
            context.load_cert_chain(f"{FOLDER}/tls.crt", f"{FOLDER}/tls.key")
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def main() -> int:
    """Print one line per check; exit code 1 if one failed."""
    pod = {
        "metadata": {"name": "linkwise-test", "namespace": "default", "uid": "linkwise-test"},
        "spec": {"containers": []},
    }
    question = {"Pod": pod, "NodeNames": []}
    status, text = call("/readyz")
    checks = {"the leader is ready": (status == 200, f"{status} {text.strip()}")}
    status, text = call("/filter", body=question)
    checks["the extender answers kube-scheduler"] = (status == 200, f"{status} {text.strip()[:200]}")
    if FOLDER:
        status, text = call("/filter", body=question, client=False)
        checks["the extender refuses callers without a certificate"] = (status == 403, f"{status} {text.strip()[:200]}")
    for claim, (holds, found) in checks.items():
        print("ok  " if holds else "FAIL", claim, "" if holds else f"({found})")
    return 0 if all(holds for holds, _ in checks.values()) else 1


sys.exit(main())
