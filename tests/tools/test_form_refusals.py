"""What a ModelAdmin's form does not let a tool change, and what it says of values."""

from __future__ import annotations

import decimal
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ValidationError
from django.core.validators import MinLengthValidator
from django.test import Client

from tests.formapp.admin import ParcelAdmin, ParcelForm
from tests.formapp.models import Label, Parcel, Place
from tests.forms.conftest import Things

from .declared import confirm, decide, draft_for, propose, why_not
from .forming import FORMS, OWN_CLEAN, changing, forms_admin, refused, shown

pytestmark = pytest.mark.usefixtures("plain_clean")


# -- what can't be changed -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["hidden", "id", "history", "items", "promise", "nope", "pk", "depot_id", ""]
)
def test_a_field_that_is_not_on_her_form_is_refused(things: Things, boss: User, name: str) -> None:
    changing({name: "x"})
    assert refused(things, boss)[0] in ("not_editable", "failed")


@pytest.mark.parametrize("how", ["readonly", "exclude", "disabled", "fields", "hook", "right", "object"])
def test_a_field_that_she_can_not_edit_is_refused(
    things: Things, boss: User, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    changing({"title": "New"})
    draft_for("boss", "change", {"pk": things.parcel.pk}, site=forms_admin(), scope=FORMS)
    if how == "readonly":
        monkeypatch.setattr(ParcelAdmin, "get_readonly_fields", lambda self, request, obj=None: ["title"])
    elif how == "exclude":
        monkeypatch.setattr(ParcelAdmin, "get_exclude", lambda self, request, obj=None: ["title"])
    elif how == "disabled":
        monkeypatch.setitem(ParcelForm.base_fields, "title", forms.CharField(disabled=True))
        monkeypatch.setitem(ParcelForm.declared_fields, "title", forms.CharField(disabled=True))
    elif how == "fields":
        monkeypatch.setattr(ParcelAdmin, "fields", ["note"])
    elif how == "hook":
        monkeypatch.setattr(ParcelAdmin, "get_fields", lambda self, request, obj=None: ["note"])
    elif how == "right":
        monkeypatch.setattr(ParcelAdmin, "has_change_permission", lambda self, request, obj=None: False)
    else:
        monkeypatch.setattr(ParcelAdmin, "has_change_permission", lambda self, request, obj=None: obj is None)
    code = refused(things, boss)[0]
    assert code == {"right": "unknown_tool", "object": "not_found"}.get(how, "not_editable")


def test_a_tool_that_needs_only_to_view_changes_nothing_through_a_form(things: Things, clerk: User) -> None:
    """The form is for those who may change that record, whatever the tool's verb."""
    changing({"title": "New"}, verb="view")
    where = {"site": forms_admin(), "scope": FORMS}
    draft_for("clerk", "change", {"pk": things.parcel.pk}, **where)
    clerk.user_permissions.remove(
        Permission.objects.get(codename="change_parcel", content_type__app_label="formapp")
    )
    assert why_not("clerk", "change", {"pk": things.parcel.pk}, **where)["code"] == "not_allowed"


def test_read_only_by_the_record_is_asked_of_the_record(things: Things, boss: User) -> None:
    changing({"note": "New"})
    draft_for("boss", "change", {"pk": things.parcel.pk}, site=forms_admin(), scope=FORMS)
    Parcel.objects.filter(pk=things.parcel.pk).update(locked="yes")
    assert refused(things, boss)[0] == "not_editable"


def test_what_became_read_only_meanwhile_makes_the_plan_stale(client: Client, things: Things) -> None:
    changing({"note": "New"})
    plan = propose(client, "change", {"pk": things.parcel.pk}, site="forms")
    Parcel.objects.filter(pk=things.parcel.pk).update(locked="yes")
    response = decide(client, plan["confirmUrl"], digest=plan["digest"])
    assert (response.status_code, response.json()["code"]) == (409, "stale")
    assert things.fresh().note == "Old note"


def test_passwords_and_files_are_never_changed(things: Things, boss: User, store: Any) -> None:
    changing({"password": "x"}, User)
    assert refused(things, boss, boss)[0] == "not_editable"
    from example_project.store.models import Product
    from tests.gate.calls import HERE

    changing({"photo": "products/x.png"}, Product)
    error = why_not("admin", "change", {"pk": Product.objects.first().pk}, scope=HERE)
    assert error["code"] == "not_editable"


def test_what_stands_in_a_password_input_is_not_changed(
    things: Things, boss: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ParcelAdmin.formfield_for_dbfield
    monkeypatch.setattr(
        ParcelAdmin,
        "formfield_for_dbfield",
        lambda self, field, request, **kwargs: real(
            self,
            field,
            request,
            **({**kwargs, "widget": forms.PasswordInput} if field.name == "slug" else kwargs),
        ),
    )
    changing({"slug": "new"})
    assert refused(things, boss)[0] == "not_editable"


# -- what the form does not take -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"title": ""}, "invalid_value"),
        ({"title": "x" * 121}, "invalid_value"),
        ({"kind": "A bag"}, "invalid_value"),
        ({"grade": 3}, "invalid_value"),
        ({"pieces": -1}, "invalid_value"),
        ({"pieces": 2**63}, "form_refuses"),
        ({"weight": decimal.Decimal("1.234")}, "invalid_value"),
        ({"weight": decimal.Decimal("NaN")}, "invalid_value"),
        ({"slug": "no slug!"}, "invalid_value"),
        ({"address": "nowhere"}, "invalid_value"),
        ({"ticket": "x"}, "invalid_value"),
        ({"day": "yesterday"}, "invalid_value"),
    ],
    ids=lambda each: str(each)[:30],
)
def test_a_value_that_the_form_does_not_take_is_refused(
    things: Things, boss: User, values: Any, code: str
) -> None:
    changing(values)
    assert refused(things, boss)[0] == code


def test_what_a_form_says_of_its_fields_together_is_heard(
    client: Client, things: Things, boss: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ParcelForm, "clean", OWN_CLEAN)
    changing({"title": "Same", "note": "Same"})
    assert refused(things, boss)[0] == "form_refuses"
    changing({"pieces": 5})  # with neither of the two
    assert refused(things, boss)[0] == "form_refuses"
    changing({"title": "Same", "note": "More"})
    plan = propose(client, "change", {"pk": things.parcel.pk}, site="forms")
    assert confirm(client, plan)["state"] == "executed"


def test_a_form_that_needs_other_fields_is_for_the_page(
    things: Things, boss: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clean(self: Any) -> Any:
        return {"title": self.cleaned_data["title"] + self.cleaned_data["kind"]}

    monkeypatch.setattr(ParcelForm, "clean", clean)
    changing({"title": "New"})
    code, message = refused(things, boss)
    assert code == "open_form"
    assert "open the form" in message


@pytest.mark.parametrize("where", ["form", "admin"])
def test_code_that_takes_the_whole_form_for_granted_is_for_the_page(
    things: Things, boss: User, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    changing({"title": "New"})
    if where == "form":

        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            forms.ModelForm.__init__(self, *args, **kwargs)
            self.fields["kind"].help_text = "What it is"

        monkeypatch.setattr(ParcelForm, "__init__", init)
    else:
        real = ParcelAdmin.get_form

        def get_form(self: Any, *args: Any, **kwargs: Any) -> Any:
            made = real(self, *args, **kwargs)
            made.base_fields["kind"].help_text = "What it is"
            return made

        monkeypatch.setattr(ParcelAdmin, "get_form", get_form)
    assert refused(things, boss)[0] == "open_form"


def test_fields_that_the_form_class_adds_stay_as_they_are(
    client: Client, things: Things, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards hazard 160: a field written out in a form's class is in every form made of it, and may be required."""

    class Strict(ParcelForm):
        note = forms.CharField()
        weight = forms.DecimalField(localize=True)
        labels = forms.ModelMultipleChoiceField(Label.objects.all())
        sure = forms.CharField(initial=lambda: "yes")

        class Meta:
            model = Parcel
            fields = "__all__"

    monkeypatch.setattr(ParcelAdmin, "form", Strict)
    changing({"title": "New"})
    plan = propose(client, "change", {"pk": things.parcel.pk}, site="forms")
    assert list(shown(plan)) == ["title"]
    assert confirm(client, plan)["state"] == "executed"
    saved = things.fresh()
    assert (saved.title, saved.note, saved.weight) == ("New", "Old note", decimal.Decimal("7.50"))
    assert set(saved.labels.all()) == set(things.labels[:2])


@pytest.mark.parametrize("where", ["unique", "constraint", "clean"])
def test_a_refusal_because_of_another_row_does_not_tell_of_it(
    things: Things, boss: User, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Guards hazard 161: unique values would be a way to ask for rows that are not hers."""
    place = things.places[0]
    if where == "unique":
        changing({"code": "PX"}, Place)
    else:

        def full_clean(self: Any, *args: Any, **kwargs: Any) -> None:
            raise ValidationError({"name": "Place Closed has it already."})

        monkeypatch.setattr(Place, "full_clean" if where == "clean" else "validate_constraints", full_clean)
        changing({"name": "Closed"}, Place)
    code, message = refused(things, boss, place)
    assert (code, message) == ("form_refuses", "The admin's form does not take these values.")


def test_validators_of_the_model_are_asked(
    things: Things, boss: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Parcel._meta.get_field("note"), "_validators", [MinLengthValidator(30)])
    Parcel._meta.get_field("note").__dict__.pop("validators", None)
    changing({"note": "short"})
    try:
        assert refused(things, boss)[0] in ("form_refuses", "invalid_value")
    finally:
        Parcel._meta.get_field("note").__dict__.pop("validators", None)
