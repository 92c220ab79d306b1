"""References lead nowhere but in their own conversation, and to nothing that is out of sight; each check is seen when it is gone."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin

from django_copilot import references
from django_copilot.access import EntityAccess
from django_copilot.exceptions import Refused
from django_copilot.models import Conversation
from django_copilot.redteam import references as trials
from django_copilot.redteam import report
from django_copilot.redteam.client.projects import more_sites, surroundings
from django_copilot.redteam.world import World
from django_copilot.runtime import store as stored

SITE = admin.site


def tried(world: World, *entities: str, who: str = "support") -> str:
    """Try a person's references to rows of these entities, and return what was found, as one text."""
    person = next(each for each in world.actors if each.name == who)
    with surroundings(), more_sites(SITE) as (second, _bare):
        for name in entities:
            trials.Trial(world, person, SITE, name, second=second, rng=world.rng("test", 0)).run()
    return " / ".join(each["what"] for kept in world.report.examples.values() for each in kept)


def test_nothing_is_found_and_they_lead_to_their_records(world: World) -> None:
    assert tried(world, "customer", "order", "product") == ""
    assert world.report.counts["references that lead to their record"] == 3


def test_a_whole_batch_is_as_large_as_it_should_be(world: World) -> None:
    trials.run(world, number=0, calls=150)
    assert world.report.examples == {}
    assert 150 <= world.report.counts["tool calls"] < 400
    assert world.report.counts["references that lead to their record"] >= 1


def test_those_of_other_conversations_that_lead_somewhere_are_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_everybody(*args: Any) -> Any:
        found = references.References()
        for each in Conversation.objects.order_by("created_at"):
            for message in each.messages.all():
                found = references.References.from_json(
                    [*message.references, *map(_stored, found.known.values())]
                )
        return found

    monkeypatch.setattr(stored, "references_of", of_everybody)
    monkeypatch.setattr(report, "EXAMPLES", 1_000)
    told = tried(world, "customer")
    for where in ("another conversation of hers", "another person's conversation", "on another site"):
        assert where in told


def _stored(shown: Any) -> Any:
    return shown.to_json()


def test_one_of_another_kind_that_is_taken_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_any_kind(self: EntityAccess, given: str) -> Any:
        found = self.access.references.find(given)
        if found is None:
            raise Refused("There is none.", code="unknown_reference")
        return int(found[1])

    monkeypatch.setattr(EntityAccess, "_referred", of_any_kind)
    assert "a record of another kind" in tried(world, "customer")


def test_one_to_a_record_out_of_sight_that_still_leads_there_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = EntityAccess._record

    def without_asking(self: EntityAccess, pk: Any) -> Any:
        found = self.model._base_manager.filter(pk=pk).first()
        return found if found is not None else own(self, pk)

    monkeypatch.setattr(EntityAccess, "_record", without_asking)
    assert "a record out of sight" in tried(world, "customer")
