"""Keys of every kind: named as they are where they say nothing, by a reference where they are data."""

from __future__ import annotations

import json
import uuid
from typing import Any
from urllib.parse import quote as quote_url

import pytest
from django.contrib.admin.utils import quote

from django_copilot.models import Reference
from django_copilot.testing import Call, assert_not_sent, copilot_client

from .depot import models as depot
from .sites import Project, declared, say

TITLE = declared(read=["title"], fill=["title"])
ODD_KEYS = [
    "a/b",
    "a_5Fb",
    "a b",
    " lead",
    "käse żółć",
    "a?b=c&d",
    "a#b",
    "100%",
    '"<b>',
    "add",
    ".",
    "ref_x",
]


# -- keys that are data, and declared --------------------------------------------------------------


@pytest.mark.parametrize("code", ODD_KEYS)
def test_text_keys_of_any_characters_name_their_record_everywhere(project: Project, code: str) -> None:
    """hazard 92"""
    project.site(
        {
            depot.Bin: declared(
                read=["code", "title"], fill=["title"], fields=["title"], list_display=["code"]
            ),
            depot.Item: TITLE,
        }
    )
    client = project.boss()
    mine = depot.Bin.objects.create(code=code, title="mine")
    depot.Bin.objects.create(code=quote(code) + "x", title="other")

    chat = say(client, Call("query_bin", {"filters": {"id": code}}))
    assert chat.rows == [{"id": code, "code": code, "title": "mine"}]
    url = chat.answer["results"][0]["rows"][0]["url"]
    assert client.get(url).context["original"] == mine

    chat = say(client, Call("open_bin_form", {"id": code, "fields": {"title": "new"}}), ends=True)
    assert chat.answer["action"]["queryParams"]["aiId"] == code
    response = client.get(chat.page)
    assert response.context["original"] == mine
    assert 'value="new"' in response.content.decode()
    plan = chat.answer["action"]["queryParams"]["aiPlan"]
    client.post(chat.answer["action"]["path"], {"title": "new", "_copilot_plan": plan})
    mine.refresh_from_db()
    assert mine.title == "new"

    chat = say(client, Call("confirm_delete_bin", {"id": code}), ends=True)
    assert client.get(chat.page).context["object"] == mine
    assert client.post(chat.answer["action"]["path"], {"post": "yes"}).status_code == 302
    assert not depot.Bin.objects.filter(code=code).exists()


@pytest.mark.parametrize("code", ["a/b", "käse żółć", "a?b"])
def test_the_page_a_person_is_on_is_understood_by_its_encoded_address(project: Project, code: str) -> None:
    """hazard 92"""
    project.site({depot.Bin: declared(read=["code"], fields=["code", "title"])})
    depot.Bin.objects.create(code=code, title="t")
    page = f"/admin/depot/bin/{quote_url(quote(code))}/change/"
    chat = say(project.boss(), page=page)
    assert json.loads(chat.model.request.context)["page"] == {"entity": "bin", "id": code}


@pytest.mark.parametrize(
    "given", ["A/B", "a/b ", "a_2Fb", "a%2Fb", "", "a", True, 1, None, ["a/b"], {"pk": "a/b"}]
)
def test_no_other_spelling_of_a_key_names_the_record(project: Project, given: Any) -> None:
    project.site({depot.Bin: declared(read=["code", "title"], fill=["title"], fields=["code", "title"])})
    depot.Bin.objects.create(code="a/b", title="mine")
    client = project.boss()
    for call in (
        Call("query_bin", {"filters": {"id": given}}),
        Call("confirm_delete_bin", {"id": given}),
    ):
        chat = say(client, call)
        assert "error" in chat.told[-1] or chat.told[-1]["rows"] == []
        assert "action" not in chat.answer


def test_uuid_keys_are_canonical_text(project: Project) -> None:
    project.site({depot.Parcel: TITLE})
    client = project.boss()
    mine = depot.Parcel.objects.create(title="mine")
    chat = say(client, Call("query_parcel", {"filters": {"id": str(mine.pk)}}))
    assert chat.rows == [{"id": str(mine.pk), "title": "mine"}]
    for other in (mine.pk.hex, str(mine.pk).upper(), f"{{{mine.pk}}}", mine.pk.urn):
        if other != str(mine.pk):
            assert say(client, Call("query_parcel", {"filters": {"id": other}})).error == "invalid_id"
    unknown = say(client, Call("open_parcel_form", {"id": str(uuid.uuid4()), "fields": {"title": "x"}}))
    assert unknown.error == "not_found"
    chat = say(client, Call("open_parcel_form", {"id": str(mine.pk), "fields": {"title": "new"}}), ends=True)
    assert client.get(chat.page).context["original"] == mine


# -- keys that are data, and not declared ----------------------------------------------------------


def people() -> tuple[Any, Any]:
    """Make two people whose addresses are their keys."""
    return (
        depot.Person.objects.create(email="ann@secret.example", name="Ann"),
        depot.Person.objects.create(email="bob@secret.example", name="Bob"),
    )


def site_of_people(project: Project, **letter: Any) -> None:
    project.site(
        {
            depot.Person: declared(read=["name"], fill=["name"], fields=["email", "name"]),
            depot.Letter: declared(
                read=["subject", "person", "copies"], fill=["subject", "person", "copies"], **letter
            ),
        }
    )


def test_an_undeclared_key_never_reaches_a_model_and_its_reference_does_the_work(project: Project) -> None:
    """hazard 93"""
    site_of_people(project)
    client = project.boss()
    ann, bob = people()
    letter = depot.Letter.objects.create(subject="hello", person=ann)
    letter.copies.add(bob)

    chat = say(client, Call("query_person", {"filters": {"name": "Ann"}}))
    reference = chat.rows[0]["id"]
    assert reference.startswith("ref_")
    assert_not_sent(chat.model, "@secret")
    assert say(client, Call("query_person", {"filters": {"id": reference}})).rows[0]["name"] == "Ann"

    chat = say(client, Call("query_letter", {"filters": {"person": reference}}))
    assert chat.rows[0]["person"]["id"] == reference
    assert chat.rows[0]["copies"][0]["id"] not in ("", reference)
    other = chat.rows[0]["copies"][0]["id"]

    chat = say(client, Call("open_person_form", {"id": reference, "fields": {"name": "Anna"}}), ends=True)
    assert client.get(chat.page).context["original"] == ann
    assert_not_sent(chat.model, "@secret")
    assert "@secret" not in chat.answer["reply"]

    chat = say(
        client,
        Call("open_letter_form", {"fields": {"subject": "s", "person": other, "copies": [reference]}}),
        ends=True,
    )
    form = client.get(chat.page).context["adminform"].form
    assert form.initial["person"] == bob
    assert form.initial["copies"] == [ann]

    chat = say(client, Call("confirm_delete_person", {"id": other}), ends=True)
    assert client.get(chat.page).context["object"] == bob
    assert "@secret" not in chat.answer["reply"]
    later = say(client, conversationId=chat.answer["conversationId"])
    assert_not_sent(later.model, "@secret")


@pytest.mark.parametrize("given", ["ann@secret.example", "nobody@secret.example", "ref_" + "0" * 32])
def test_the_key_itself_is_no_way_to_ask_for_the_record(project: Project, given: str) -> None:
    """hazard 93

    Whether the address exists can't be told from the answer.
    """
    site_of_people(project)
    client = project.boss()
    people()
    seen = set()
    for call in (
        Call("query_person", {"filters": {"id": given}}),
        Call("query_letter", {"filters": {"person": given}}),
        Call("open_person_form", {"id": given, "fields": {"name": "x"}}),
        Call("confirm_delete_person", {"id": given}),
        Call("open_letter_form", {"fields": {"person": given}}),
    ):
        chat = say(client, call)
        seen.add(chat.error)
        assert "@secret" not in str(chat.told)
    assert seen == {"invalid_id"}


def test_a_reference_belongs_to_one_person_site_and_model(project: Project) -> None:
    """hazard 94"""
    site_of_people(project)
    ann, _bob = people()
    rights = ["depot.view_person", "depot.change_person", "depot.view_letter"]
    first, second = (copilot_client(project.person(*rights, name=name)) for name in ("first", "second"))
    mine = say(first, Call("query_person", {"filters": {"name": "Ann"}})).rows[0]["id"]
    theirs = say(second, Call("query_person", {"filters": {"name": "Ann"}})).rows[0]["id"]
    assert mine != theirs
    assert Reference.objects.filter(object_pk=ann.pk).count() == 2
    assert say(first, Call("query_person", {"filters": {"id": theirs}})).error == "invalid_id"
    assert say(second, Call("open_person_form", {"id": mine, "fields": {"name": "x"}})).error == "invalid_id"
    project.site(
        dict.fromkeys([depot.Person], declared(read=["name"], fields=["email", "name"])), name="other"
    )
    assert say(first, Call("query_person", {"filters": {"id": mine}}), site="other").error == "invalid_id"


def test_a_related_record_that_is_no_entity_is_named_by_reference(project: Project) -> None:
    """hazard 93"""
    from django.contrib import admin

    project.site({depot.Person: admin.ModelAdmin, depot.Letter: declared(read=["person"], fill=["person"])})
    client = project.boss()
    ann, _bob = people()
    depot.Letter.objects.create(subject="s", person=ann)
    chat = say(client, Call("query_letter"))
    related = chat.rows[0]["person"]
    assert set(related) == {"id"}
    assert_not_sent(chat.model, "@secret")
    chat = say(client, Call("open_letter_form", {"fields": {"person": related["id"]}}), ends=True)
    assert client.get(chat.page).context["adminform"].form.initial["person"] == ann


def test_a_declared_key_of_a_related_record_out_of_her_rows_is_still_a_reference(project: Project) -> None:
    """hazard 95"""

    def only_ann(self: Any, request: Any) -> Any:
        return depot.Person.objects.filter(name="Ann")

    project.site(
        {
            depot.Person: declared(read=["email", "name"], fields=["email", "name"], get_queryset=only_ann),
            depot.Letter: declared(read=["subject", "person", "copies"]),
        }
    )
    client = project.boss()
    ann, bob = people()
    for subject, person in (("to ann", ann), ("to bob", bob)):
        depot.Letter.objects.create(subject=subject, person=person).copies.add(bob)
    chat = say(client, Call("query_letter"))
    assert_not_sent(chat.model, "bob@secret")
    by_subject = {row["subject"]: row["person"] for row in chat.rows}
    assert by_subject["to ann"] == {"id": "ann@secret.example", "label": "ann@secret.example"}
    reference = by_subject["to bob"]["id"]
    chat = say(client, Call("query_letter", {"fields": ["subject"], "filters": {"person": reference}}))
    assert [row["subject"] for row in chat.rows] == ["to bob"]
    assert say(client, Call("query_person", {"filters": {"id": reference}})).rows == []
    for email in ("bob@secret.example", "nobody@secret.example"):  # a guess finds nothing
        assert say(client, Call("query_letter", {"filters": {"person": email}})).rows == []


def test_a_key_that_is_readable_on_some_records_only_is_a_reference_on_the_others(project: Project) -> None:
    """hazard 95"""

    def per_record(self: Any, request: Any, obj: Any = None) -> list[str]:
        return ["name"] if obj is not None and obj.name == "Bob" else ["email", "name"]

    project.site(
        {depot.Person: declared(read=["name"], fields=["email", "name"], get_harness_list=per_record)}
    )
    people()
    client = project.boss()
    chat = say(client, Call("query_person"))
    assert_not_sent(chat.model, "bob@secret")
    ids = {row["name"]: row["id"] for row in chat.rows}
    assert ids["Ann"] == "ann@secret.example"
    assert ids["Bob"].startswith("ref_")
    assert say(client, Call("query_person", {"filters": {"id": ids["Bob"]}})).rows[0]["name"] == "Bob"
    for email in ("bob@secret.example", "nobody@secret.example"):
        assert say(client, Call("query_person", {"filters": {"id": email}})).rows == []
        assert say(client, Call("confirm_delete_person", {"id": email})).error == "not_found"


def test_a_number_that_people_give_is_data(project: Project) -> None:
    """hazard 93"""
    project.site({depot.Shelf: declared(read=["title"], fill=["title"], fields=["number", "title"])})
    client = project.boss()
    depot.Shelf.objects.create(number=774411, title="t")
    chat = say(client, Call("query_shelf"))
    assert_not_sent(chat.model, "774411")
    assert say(client, Call("query_shelf", {"filters": {"id": 774411}})).error == "invalid_id"
    assert say(client, Call("query_shelf", {"filters": {"id": chat.rows[0]["id"]}})).rows[0]["title"] == "t"


@pytest.mark.parametrize("given", [774411, "774411"])
def test_a_declared_number_is_named_as_it_is(project: Project, given: Any) -> None:
    project.site({depot.Shelf: declared(read=["number", "title"], fields=["number", "title"])})
    client = project.boss()
    depot.Shelf.objects.create(number=774411, title="t")
    chat = say(client, Call("query_shelf", {"filters": {"id": given}}))
    assert chat.rows[0]["id"] == "774411"


# -- keys that are relations -----------------------------------------------------------------------

ALONE = {depot.Badge: declared(read=["person", "email"], fill=["email"])}
BADGES: dict[str, dict[Any, Any]] = {
    "person undeclared": ALONE,
    "person declared, its key not": {
        **ALONE,
        depot.Person: declared(read=["name"], fields=["email", "name"]),
    },
}


@pytest.mark.parametrize("admins", BADGES.values(), ids=BADGES)
def test_a_key_that_is_another_records_key_shows_no_more_than_that_one(
    project: Project, admins: dict[Any, Any]
) -> None:
    """hazard 96

    Neither for being declared as a relation, nor because another field is called like the other key.
    """
    project.site(admins)
    client = project.boss()
    ann, _bob = people()
    badge = depot.Badge.objects.create(person=ann, email="blue")
    chat = say(client, Call("query_badge"))
    row = chat.rows[0]
    assert row["email"] == "blue"
    assert row["id"].startswith("ref_")
    assert row["person"]["id"].startswith("ref_")
    assert "@secret" not in row["id"] + row["person"]["id"]
    assert say(client, Call("query_badge", {"filters": {"id": ann.pk}})).error == "invalid_id"
    call = Call("open_badge_form", {"id": chat.rows[0]["id"], "fields": {"email": "red"}})
    chat = say(client, call, ends=True)
    assert "@secret" not in chat.answer["reply"]
    assert client.get(chat.page).context["original"] == badge


def test_a_key_that_is_another_records_declared_key_is_named_as_it_is(project: Project) -> None:
    project.site({**ALONE, depot.Person: declared(read=["email"], fields=["email", "name"])})
    ann, _bob = people()
    depot.Badge.objects.create(person=ann, email="blue")
    chat = say(project.boss(), Call("query_badge"))
    assert chat.rows[0]["id"] == "ann@secret.example"


def test_a_key_that_is_another_records_random_key_is_named_as_it_is(project: Project) -> None:
    project.site({depot.Sticker: declared(read=["title"], fill=["title"]), depot.Parcel: TITLE})
    client = project.boss()
    parcel = depot.Parcel.objects.create(title="p")
    sticker = depot.Sticker.objects.create(parcel=parcel, title="s")
    chat = say(client, Call("query_sticker", {"filters": {"id": str(parcel.pk)}}))
    assert chat.rows == [{"id": str(parcel.pk), "title": "s"}]
    chat = say(client, Call("open_sticker_form", {"id": str(parcel.pk), "fields": {"title": "n"}}), ends=True)
    assert client.get(chat.page).context["original"] == sticker


def test_a_child_with_a_table_of_its_own_is_read_filled_saved_and_deleted_whole(project: Project) -> None:
    """hazard 97"""
    project.site(
        {
            depot.Place: declared(read=["name"], fill=["name"]),
            depot.Shop: declared(read=["name", "till"], fill=["name", "till"]),
        }
    )
    client = project.boss()
    shop = depot.Shop.objects.create(name="corner", till="one")
    ident = str(shop.pk)
    assert say(client, Call("query_shop", {"filters": {"name": "corner"}})).rows == [
        {"id": ident, "name": "corner", "till": "one"}
    ]
    call = Call("open_shop_form", {"id": ident, "fields": {"name": "big", "till": "two"}})
    chat = say(client, call, ends=True)
    path, plan = chat.answer["action"]["path"], chat.answer["action"]["queryParams"]["aiPlan"]
    client.get(chat.page)
    values = {"name": "big", "till": "two", "_copilot_plan": plan}
    depot.Place.objects.filter(pk=shop.pk).update(name="changed meanwhile")
    refused = client.post(path, values)
    assert refused.status_code == 200
    assert "changed meanwhile" in refused.content.decode()
    depot.Place.objects.filter(pk=shop.pk).update(name="corner")
    assert client.post(path, values).status_code == 302
    shop.refresh_from_db()
    assert (shop.name, shop.till) == ("big", "two")
    chat = say(client, Call("confirm_delete_place", {"id": ident}), ends=True)
    assert client.get(chat.page).context["object"] == depot.Place.objects.get(pk=shop.pk)


# -- relations by another field than the key ------------------------------------------------------


def test_a_relation_by_another_field_is_named_by_the_records_id_and_saved_by_that_field(
    project: Project,
) -> None:
    """hazard 98"""
    project.site(
        {
            depot.Country: declared(read=["title"]),
            depot.City: declared(read=["title", "country"], fill=["title", "country"]),
        }
    )
    client = project.boss()
    depot.Country.objects.create(code="SECRET-0", title="none")
    country = depot.Country.objects.create(code="SECRET-1", title="Land")
    city = depot.City.objects.create(title="old", country=country)
    chat = say(client, Call("query_city", {"filters": {"country": str(country.pk)}}))
    assert chat.rows == [
        {"id": str(city.pk), "title": "old", "country": {"id": str(country.pk), "label": "Land"}}
    ]
    assert_not_sent(chat.model, "SECRET")
    assert say(client, Call("query_city", {"filters": {"country": "SECRET-1"}})).error == "invalid_id"
    refused = say(client, Call("open_city_form", {"fields": {"country": "SECRET-1"}}))
    assert refused.error == "invalid_id"

    call = Call("open_city_form", {"fields": {"title": "new", "country": str(country.pk)}})
    chat = say(client, call, ends=True)
    assert_not_sent(chat.model, "SECRET")
    page = client.get(chat.page).content.decode()
    assert '<option value="SECRET-1" selected>' in page
    plan = chat.answer["action"]["queryParams"]["aiPlan"]
    values = {"title": "new", "country": "SECRET-1", "_copilot_plan": plan}
    assert client.post(chat.answer["action"]["path"], values).status_code == 302
    assert depot.City.objects.get(title="new").country == country
