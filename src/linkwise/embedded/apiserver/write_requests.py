"""Patches as they arrive, of objects and of their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkwise.embedded.api_errors import bad_request, unknown_format
from linkwise.embedded.apiserver.bodies import JSON, YAML, document_of, object_of
from linkwise.embedded.apiserver.request import Whole
from linkwise.embedded.kinds.fields import reject_unknown_fields
from linkwise.embedded.writes.patch import APPLY, JSON_PATCH, MERGE, STRATEGIC

if TYPE_CHECKING:
    from linkwise.embedded.apiserver.request import Exchange
    from linkwise.embedded.apiserver.routes import Place
    from linkwise.embedded.kinds.builtin import Resource
    from linkwise.embedded.storage.collection import Raw, Stored
    from linkwise.embedded.store import Store

__all__ = ["given_object", "patch", "written"]


async def patch(store: Store, exchange: Exchange, place: Place) -> tuple[Stored, bool]:
    """The object with a patch, and whether it is new."""
    how, dry = exchange.content, exchange.query.get("dryRun") == "All"
    if how not in {JSON_PATCH, MERGE, STRATEGIC, APPLY}:
        raise unknown_format((JSON_PATCH, MERGE, STRATEGIC, APPLY))
    body = await exchange.body()
    where = place.resource, place.name, place.namespace
    if how == APPLY:
        document = object_of(body, YAML)
        check_fields(store, exchange, place, document)
        manager = exchange.query.get("fieldManager", "")
        return store.apply(*where, document, manager, place.subresource, dry_run=dry)
    wanted = document_of(body, JSON)
    if how != JSON_PATCH and not isinstance(wanted, dict):
        raise bad_request("a merge patch is an object")
    check_fields(store, exchange, place, wanted)
    return store.patch(place.resource, place.name, wanted, place.namespace, place.subresource, how, dry_run=dry), False


async def given_object(store: Store, exchange: Exchange, place: Place) -> Raw:
    """The object in a request."""
    document = object_of(await exchange.body(), exchange.content or JSON)
    check_fields(store, exchange, place, document)
    return document


def check_fields(store: Store, exchange: Exchange, place: Place, document: object) -> None:
    """Refuse fields that there are none of, if the client wants that."""
    if exchange.query.get("fieldValidation") == "Strict":
        reject_unknown_fields(store.database.kinds.served(place.resource), document)


def written(store: Store, resource: Resource, stored: Stored, code: int = 200) -> Whole:
    """An object as an answer."""
    return Whole(store.convert(resource, stored).data, code)
