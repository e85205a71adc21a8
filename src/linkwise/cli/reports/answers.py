"""Answers of the service, or of the published records without one, and their pages for `linkwise describe`.

The service knows the cluster already, so it is asked first, with the user's own rights. Where there is none, or it does not
answer this user, the cluster is read with the user's rights; with rights in one namespace only, what is published remains.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click

from linkwise.assembly.cluster_reader import read_cluster, with_cluster
from linkwise.assembly.service_client import (
    DEFAULT_SERVICE,
    FIRST_WAIT,
    WAIT,
    ServiceClient,
    ServiceRefusedError,
    ServiceUnavailableError,
    parse_service,
)
from linkwise.cli.render.documents import show_document
from linkwise.cli.render.pages import print_page
from linkwise.cli.render.tables import terminal
from linkwise.errors import ClusterError, NotFoundError
from linkwise.kube.errors import ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path
    from typing import TypeVar

    from linkwise.assembly.service_client import Detail, ServiceAddress
    from linkwise.cli.options.lists import ListFlags, ObjectFlags
    from linkwise.kube.client.api import Connection
    from linkwise.views.blocks import Page
    from linkwise.views.cluster import ClusterView
    from linkwise.views.table import Section, Selection

    T = TypeVar("T")
    Work = Callable[[Connection], Awaitable[T]]
    Selections = Callable[[str], Sequence[Selection]]
    """what is selected, by the namespace of the context"""

__all__ = ["Answers", "answers_of", "describe"]

Document = dict[str, Any]

_NAMES: Final = {
    "node": "nodes",
    "device": "devices",
    "group": "groups",
    "policy": "policies",
    "node-usage": "the usage of nodes",
    "pod-usage": "the usage of pods",
}
"""what is listed, where it is not the name of the kind"""
NO_SERVICE: Final = "none"
"""the value of --service with which the user's token is not sent to any service"""


@dataclass(frozen=True, slots=True)
class Answers:
    """The questions of one user."""

    service: ServiceAddress | None
    """None: it is not asked"""
    only_service: bool
    """whether the user named the service to ask, so that the cluster is not read instead"""
    kubeconfig: Path | None
    context: str | None

    def explanation(self, kind: str, name: str, namespace: str | None) -> tuple[Document, str]:
        """Return the document of an explanation, and a note if it is only what is published on the pod."""
        try:
            return with_cluster(self.kubeconfig, self.context, self._explained(kind, name, namespace)), ""
        except ServiceUnavailableError as error:
            unavailable = error
        cluster, refusal = self._cluster(unavailable)
        if cluster is not None:
            from linkwise.views.explanations import document_of, explain_object  # noqa: PLC0415 - imports the planner

            return document_of(explain_object(cluster, kind, name, namespace or cluster.namespace)), ""
        self._check_published(kind, name, unavailable, refusal)
        return self._published_explanation(name, namespace, unavailable, refusal), _note(unavailable)

    def description(self, kind: str, name: str, namespace: str | None) -> tuple[Page, str]:
        """Return the page of an object, and a note if it is only what is published on the pod."""

        async def work(connection: Connection) -> Page:
            return await self._client(connection).description(kind, namespace or connection.namespace, name)

        try:
            return with_cluster(self.kubeconfig, self.context, work), ""
        except ServiceUnavailableError as error:
            unavailable = error
        cluster, refusal = self._cluster(unavailable)
        if cluster is not None:
            from linkwise.views.description import description_of  # noqa: PLC0415 - imports the planner

            return description_of(cluster, kind, name, namespace or cluster.namespace), ""
        self._check_published(kind, name, unavailable, refusal)
        from linkwise.views.blocks import Sentences  # noqa: PLC0415 - only needed here

        heading, *lines = self._published_explanation(name, namespace, unavailable, refusal)["lines"]
        return ((Sentences((heading,), 0, "bold"), Sentences(tuple(lines))),), _note(unavailable)

    def sections(self, selections: Selections, detail: Detail) -> list[Section]:
        """Return the tables of selections."""
        try:
            return with_cluster(self.kubeconfig, self.context, self._tables(selections, detail))
        except ServiceUnavailableError as error:
            unavailable = error
        cluster, refusal = self._cluster(unavailable)
        if cluster is not None:
            return sections_of(cluster, selections)
        own = with_cluster(self.kubeconfig, self.context, _default_namespace)
        return [self._with_few_rights(selection, own, unavailable, refusal) for selection in selections(own)]

    def _explained(self, kind: str, name: str, namespace: str | None) -> Work[Document]:
        async def work(connection: Connection) -> Document:
            client = self._client(connection)
            return await client.explanation(kind, namespace or connection.namespace, name)

        return work

    def _tables(self, selections: Selections, detail: Detail) -> Work[list[Section]]:
        async def work(connection: Connection) -> list[Section]:
            client = self._client(connection)
            return [await client.table(one, detail) for one in selections(connection.namespace)]

        return work

    def _client(self, connection: Connection) -> ServiceClient:
        if self.service is None:
            raise ServiceUnavailableError(f"--service {NO_SERVICE} was given")
        return ServiceClient(connection, self.service, WAIT if self.only_service else FIRST_WAIT)

    def _cluster(self, unavailable: ServiceUnavailableError) -> tuple[ClusterView | None, ForbiddenError | None]:
        """Return the cluster as it is read here; None if the user may not read it, with the reason."""
        if self.only_service and not isinstance(unavailable, ServiceRefusedError):
            return None, None
        try:
            return read_cluster(self.kubeconfig, self.context), None
        except ForbiddenError as error:
            return None, error

    @staticmethod
    def _check_published(
        kind: str, name: str, unavailable: ServiceUnavailableError, refusal: ForbiddenError | None
    ) -> None:
        """Raise what the user should know, unless something is published on the object: a pod, of an absent service."""
        if kind != "pod" or isinstance(unavailable, ServiceRefusedError):
            raise _failed(f"{kind} {name} can't be explained: ", unavailable, refusal)

    def _published_explanation(
        self, name: str, namespace: str | None, unavailable: ServiceUnavailableError, refusal: ClusterError | None
    ) -> Document:
        from linkwise.assembly.published_pods import published_explanation  # noqa: PLC0415 - imports dialects

        async def work(connection: Connection) -> Document:
            return await published_explanation(connection, namespace or connection.namespace, name)

        return self._with_reason(work, unavailable, refusal)

    def _with_few_rights(
        self,
        selection: Selection,
        own: str,
        unavailable: ServiceUnavailableError,
        refusal: ForbiddenError | None,
    ) -> Section:
        """Return a table for a user with rights in single namespaces, without the service: pods as published on them."""
        if selection.kind != "pod" or isinstance(unavailable, ServiceRefusedError):
            raise _failed(f"{_NAMES.get(selection.kind, selection.kind)} can't be listed: ", unavailable, refusal)
        from linkwise.assembly.published_pods import published_pods  # noqa: PLC0415 - imports dialects

        where = selection.namespace or own

        async def work(connection: Connection) -> Section:
            return await published_pods(connection, where, selection.selector, selection.names, time.time())

        published = self._with_reason(work, unavailable, refusal)
        others = "" if selection.namespace else f", of namespace {where} only"
        return replace(published, notes=(_note(unavailable, others), *published.notes))

    def _with_reason(self, work: Work[T], unavailable: ServiceUnavailableError, refusal: ClusterError | None) -> T:
        """Do something with the cluster; an error says too why the service and the cluster could not be asked."""
        try:
            return with_cluster(self.kubeconfig, self.context, work)
        except NotFoundError:
            raise
        except ClusterError as error:
            raise _failed(f"{error}; ", unavailable, refusal) from error


def answers_of(flags: ListFlags | ObjectFlags) -> Answers:
    """Return the answers for the user of a kubeconfig; InputError if the address of the service is invalid."""
    if flags.service == NO_SERVICE:
        return Answers(None, only_service=False, kubeconfig=flags.kubeconfig, context=flags.context)
    address = parse_service(flags.service or DEFAULT_SERVICE)
    return Answers(address, flags.service is not None, flags.kubeconfig, flags.context)


def sections_of(cluster: ClusterView, selections: Selections) -> list[Section]:
    """Return the tables of a cluster that was read."""
    from linkwise.views.listing import section_of  # noqa: PLC0415 - imports the planner

    return [section_of(cluster, selection) for selection in selections(cluster.namespace)]


def describe(answers: Answers, kind: str, name: str, namespace: str | None, form: str | None) -> None:
    """Print the details of an object to standard output."""
    if form:
        document, note = answers.explanation(kind, name, namespace)
    else:
        page, note = answers.description(kind, name, namespace)
    if note:
        click.echo(f"note: {note}", err=True)
    if form:
        show_document(document, form)
    else:
        print_page(terminal(), page)


def _note(unavailable: ClusterError, others: str = "") -> str:
    return f"only what is published on the pods is shown{others}, because {unavailable}"


async def _default_namespace(connection: Connection) -> str:
    return connection.namespace


def _failed(what: str, unavailable: ServiceUnavailableError, refusal: ClusterError | None) -> ClusterError:
    """Return the error for the user: what the service said, and why the cluster can't be read either."""
    if isinstance(unavailable, ServiceRefusedError):
        return ClusterError(str(unavailable))
    own = "; it can't be read from the cluster either, since your rights cover only a part of it" if refusal else ""
    return ClusterError(f"{what}{unavailable}{own}")
