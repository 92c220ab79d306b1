"""What the page's script needs to mark proposed fields, and to put old values back.

Pure presentation of one rendered form: which fields still hold what was proposed, what they held before, and
the inputs a browser would hold for that. Nothing here decides what may be filled in or saved.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib.admin.widgets import RelatedFieldWidgetWrapper
from django.utils.translation import gettext as _

from .declaration import model_field
from .display import display
from .values import has_invisible


def page_marks(
    form: Any,
    typed: Mapping[str, Any],
    old: Mapping[str, Any],
    *,
    from_link: bool,
    show_old: bool,
    notices: Sequence[str],
    prepopulated: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """Return the marks of one rendered form as JSON for the page's script.

    ``typed`` are the proposed values and ``old`` the form's own initial ones, both by field name.
    ``prepopulated`` are the fields that the admin's script fills in while the person types into their sources.
    ``show_old`` is False on the add form, where "was: empty" beside every field says nothing. In a form that
    is shown again after an error, a field that the person changed is not marked any more.
    """
    fields = []
    for name, proposed in typed.items():
        field = form.fields.get(name)
        if field is None or name not in old or (form.is_bound and _differs(form, field, name, proposed)):
            continue
        fields.append(
            {
                "name": name,
                "label": str(field.label or name),
                "old": (_old_text(form, name, old[name]) or None) if show_old else None,
                "oldInputs": _inputs(field, form.add_prefix(name), old[name]),
                "marked": True,
            }
        )
    return {
        "source": "link" if from_link else "plan",
        "title": _title(from_link) if fields else "",
        "showOld": show_old,
        "fields": fields,
        "notices": [*notices, *_warnings(form, fields, typed, prepopulated)],
        "texts": {
            "proposed": _("From a link") if from_link else _("Proposed by the assistant"),
            "was": _("was"),
            "empty": _("empty"),
            "putBack": _("Put back"),
            "useProposal": _("Use the proposal"),
        },
    }


def _title(from_link: bool) -> str:
    if from_link:
        return _("A link filled in the marked fields, not the assistant. Check them; nothing is saved yet.")
    return _("The assistant filled in the marked fields. Check them; nothing is saved yet.")


def _warnings(
    form: Any,
    marked: list[dict[str, Any]],
    typed: Mapping[str, Any],
    prepopulated: Mapping[str, Sequence[str]],
) -> list[str]:
    """Return what the person should know of the proposed values before she saves them."""
    names = {each["name"] for each in marked}
    warnings = []
    hiding = [each["label"] for each in marked if has_invisible(typed[each["name"]])]
    if hiding:
        warnings.append(
            _("Contains invisible characters, which can hide what a value says: %(names)s.")
            % {"names": ", ".join(hiding)}
        )
    empty = [
        str(form.fields[target].label or target)
        for target, sources in prepopulated.items()
        if target in form.fields and target not in names and names & set(sources)
    ]
    if empty:
        warnings.append(_("Still to be filled in by you: %(names)s.") % {"names": ", ".join(empty)})
    return warnings


def _differs(form: Any, field: forms.Field, name: str, proposed: Any) -> bool:
    """Tell whether the person posted something else than what was proposed."""
    if isinstance(proposed, datetime.datetime | datetime.time) and not getattr(
        field.widget, "supports_microseconds", True
    ):
        proposed = proposed.replace(microsecond=0)  # as the widget showed it
    posted = field.widget.value_from_datadict(form.data, form.files, form.add_prefix(name))
    return bool(field.has_changed(proposed, posted))


def _old_text(form: Any, name: str, old: Any) -> str:
    """Return what the field held before, as text.

    A related record is looked up by its key: the form's own instance may hold what was posted by now.
    """
    field = model_field(form._meta.model, name)
    if field is not None and field.remote_field is not None and not field.many_to_many:
        if old in (None, ""):
            return ""
        related = field.remote_field.model._base_manager.filter(**{field.target_field.attname: old}).first()
        return str(related) if related is not None else str(old)
    return display(field, old)


def _inputs(field: forms.Field, name: str, value: Any) -> list[list[Any]]:
    """Return the inputs of a field as a browser would hold them for a value: [[name, values, texts?], …]."""
    return _widget_inputs(field.widget, name, field.prepare_value(value), value)


def _widget_inputs(widget: Any, name: str, value: Any, raw: Any) -> list[list[Any]]:
    if isinstance(widget, RelatedFieldWidgetWrapper):
        return _widget_inputs(widget.widget, name, value, raw)
    if isinstance(widget, forms.MultiWidget):
        parts: Any = value if isinstance(value, list | tuple) else widget.decompress(value)
        suffixes: Any = widget.widgets_names  # type: ignore[attr-defined]
        found = []
        for suffix, each, part in zip(suffixes, widget.widgets, parts, strict=False):
            found.extend(_widget_inputs(each, name + suffix, part, part))
        return found
    if isinstance(widget, forms.CheckboxInput):
        return [[name, ["on"] if widget.check_test(value) else []]]
    shown = widget.format_value(value)
    if isinstance(widget, forms.Select | forms.RadioSelect | forms.CheckboxSelectMultiple):
        values = shown if isinstance(shown, list | tuple) else [shown]
        texts = [str(each) for each in raw] if isinstance(raw, list | tuple) else []
        return [[name, [each for each in values if each not in (None, "")], texts]]
    return [[name, ["" if shown is None else ",".join(shown) if isinstance(shown, list) else str(shown)]]]
