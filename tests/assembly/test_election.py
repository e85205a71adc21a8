"""Election, assembled: the ports that lead to the leader."""

from __future__ import annotations

from dataclasses import replace

from linkwise.assembly.election import service_ports
from linkwise.config.settings import ServeSettings


def test_the_port_of_the_service_is_named_after_its_scheme() -> None:
    plain = ServeSettings()
    assert service_ports(plain, 39999) == {"http": 39999}
    assert service_ports(replace(plain, tls=replace(plain.tls, enabled=True)), 39999) == {"https": 39999}


def test_the_port_of_volcano_leads_to_the_leader_too() -> None:
    settings = ServeSettings()
    with_volcano = replace(settings, volcano=replace(settings.volcano, port=39997))
    assert service_ports(with_volcano, 39999) == {"http": 39999, "volcano": 39997}


def test_the_port_for_tenants_leads_to_the_leader_too() -> None:
    settings = ServeSettings()
    opened = replace(settings, explain=replace(settings.explain, port=39996))
    assert service_ports(opened, 39999) == {"http": 39999, "tenants": 39996}
    turned_off = replace(opened, explain=replace(opened.explain, tenants=False))
    assert service_ports(turned_off, 39999) == {"http": 39999}
