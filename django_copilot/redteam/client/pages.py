"""The admin's own pages with our parameters in their addresses and forged plans in their forms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.db import transaction
from django.urls import reverse

from ...declaration import entities_of
from ...models import Plan, PlanKind, PlanState
from ..honest.submitting import controls
from ..watch import watching
from .bodies import IDENTS, SCALARS, Body, random_ident
from .play import Play
from .sender import Answer, Who
from .stage import Thing

PLAN_INPUT = "_copilot_plan"
HTML = {"Accept": "text/html"}
GET_STATUSES = frozenset({200, 302, 403, 404})


@dataclass
class Pages:
    """Attacks on the add, change and delete pages of declared entities."""

    play: Play

    def __post_init__(self) -> None:
        self.rng, self.stage, self.sender = self.play.rng, self.play.stage, self.play.sender

    def path(self, site: AdminSite, model: Any, page: str, pk: str = "") -> str:
        """Return the address of an admin page."""
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}"
        return reverse(name, args=[quote(pk)] if pk else [], current_app=site.name)

    def plain(self, who: Who, site: AdminSite, path: str) -> tuple[int, frozenset[Any], str]:
        """Return how the page answers without anything of ours: status, cells that it shows, and its text."""
        with watching():
            answer = self.sender.client(who).get(path, headers=HTML)
        text = answer.content.decode("utf-8", "replace")
        return answer.status_code, frozenset(self.sender.world.canaries.in_text(text)), text

    # -- addresses -----------------------------------------------------------------------------------------

    def where(self) -> AdminSite:
        """Return one of the project's sites."""
        return self.rng.choice(self.play.sites[:-1])

    def hostile_address(self) -> None:
        """Open a page with our parameters forged: it is the page that it always is, with nothing of others."""
        who, site = self.play.who(csrf=0, mark=0), self.where()
        page, model, pk, thing = self.some_page(who, site)
        path = self.path(site, model, page, pk)
        status, cells, _text = self.plain(who, site, path)
        query = urlencode(self.parameters(thing), errors="replace")
        if who.actor is None:
            query = query[:1_000]  # Django sends nobody on to the login page with a longer one
        method = "HEAD" if self.rng.random() < 0.1 else "GET"
        self.sender.send(
            who,
            site,
            method,
            f"{path}?{query}",
            headers=HTML,
            expected=frozenset({status}),
            what=f"{page} page with forged parameters",
            seen=cells,
        )

    def parameters(self, thing: Thing | None) -> dict[str, str]:
        """Return our parameters with hostile values, some of them those of a real plan."""
        rng = self.rng
        plan = thing.ident if thing is not None and rng.random() < 0.7 else random_ident(rng)
        given = {
            "aiAction": rng.choice(("create", "edit", "delete", "", "save", "confirm", "\x00")),
            "aiId": thing.pk if thing is not None and rng.random() < 0.5 else rng.choice(IDENTS),
            "aiPlan": plan,
            "aiPrefill": self.prefill(),
            "aiPreview": '{"title": "Trust me"}',
        }
        return {name: value for name, value in given.items() if rng.random() < 0.8}

    def prefill(self) -> str:
        """Return values for a form, forged."""
        names = ["is_superuser", "groups", "pk", "id", "password", "__class__", "api_token", "x"]
        for entity in entities_of(self.play.sites[0]).values():
            names += [each.name for each in entity.model._meta.concrete_fields]
        values = {name: self.rng.choice(SCALARS) for name in self.rng.sample(names, 4)}
        text = json.dumps(values)
        return self.rng.choice((text, text, text[:-3], "[" * 5_000, "null", "[]", '{"a":' * 900, "NaN"))

    def some_page(self, who: Who, site: AdminSite) -> tuple[str, Any, str, Thing | None]:
        """Return a page with its model and key, and somebody's plan, often one that would fit the page."""
        thing = self.stage.choose(where=lambda each: each.kind in ("form", "delete", "tool"))
        if thing is not None and thing.model is not None and self.rng.random() < 0.6:
            page = "delete" if thing.kind == "delete" else "change" if thing.pk else "add"
            return page, thing.model, thing.pk if page != "add" else "", thing
        model = self.rng.choice([each.model for each in entities_of(site).values()])
        page = self.rng.choice(("add", "change", "change", "delete"))
        actor = who.actor or self.sender.world.actors[-1]
        return page, model, "" if page == "add" else self.stage.some_pk(actor, site, model), thing

    # -- forms ---------------------------------------------------------------------------------------------

    def forged_form(self) -> None:
        """Submit a page's honest form with somebody else's, a replayed or no plan in it."""
        who, site = self.play.who(mark=0.05), self.where()
        page, model, pk, thing = self.some_page(who, site)
        if page == "delete":
            self.delete(who, site, model, pk, thing)
            return
        path = self.path(site, model, page, pk)
        status, cells, text = self.plain(who, site, path)
        sent = controls(text) if status == 200 else {}
        if status == 200 and not sent:
            return
        sent.pop(PLAN_INPUT, None)
        plan, fits = self.plan_for(who, site, thing, model, pk)
        token = not who.csrf or self.rng.random() < 0.5
        if who.csrf:
            given = self.sender.csrf_token(who, site)
            sent["csrfmiddlewaretoken"] = [given if token else "a" * 64]
        if plan:
            sent[PLAN_INPUT] = [plan]
        sent["_save"] = ["Save"]
        sent |= {"aiPlan": [plan], "confirmed_by": ["1"]} if self.rng.random() < 0.2 else {}
        self.submit(
            who,
            site,
            f"{path}?{urlencode({'aiPlan': plan})}" if self.rng.random() < 0.3 else path,
            sent,
            model=model,
            pk=pk,
            plan=plan,
            saves=token and (fits or not plan),
            token=token,
            cells=cells,
        )

    def plan_for(
        self, who: Who, site: AdminSite, thing: Thing | None, model: Any, pk: str
    ) -> tuple[str, bool]:
        """Return the text of a plan to put into a form, and whether that form may be saved with it."""
        if self.rng.random() < 0.15:
            return "", False
        if thing is None or self.rng.random() < 0.25:
            return random_ident(self.rng), False
        if self.rng.random() < 0.15 and thing.kind == "form":
            self.stage.expire(thing)
        stored = Plan.objects.filter(pk=thing.ident).first()
        own = who.actor is not None and thing.owner.pk == who.actor.pk and thing.site == site.name
        fits = (
            own
            and stored is not None
            and stored.kind == PlanKind.FORM
            and stored.state == PlanState.PROPOSED
            and stored.submit_by > self.stage.now()
            and (stored.model, stored.object_pk) == (model._meta.label_lower, pk)
            and thing.scope == "a"
        )
        return thing.ident, fits

    def submit(
        self,
        who: Who,
        site: AdminSite,
        path: str,
        sent: Mapping[str, list[str]],
        *,
        model: Any,
        pk: str,
        plan: str,
        saves: bool,
        token: bool,
        cells: frozenset[Any],
    ) -> Answer:
        """Send a form; where it may not ``saves``, nothing at all may change."""
        body = Body(
            urlencode(dict(sent), doseq=True, errors="replace").encode(), "application/x-www-form-urlencoded"
        )
        if saves:
            self.sender.publish(str(dict(sent)))
        return self.sender.send(
            who,
            site,
            "POST",
            path,
            body,
            headers=HTML,
            expected=GET_STATUSES
            if token
            else frozenset({403, 302})
            if who.actor is None
            else frozenset({403}),
            what=f"form of {model._meta.label_lower} {pk}, {'honest' if saves else 'forged'}",
            decides=("save", plan, None) if plan else None,
            form=(site._registry[model], pk) if saves else None,
            seen=cells,
        )

    def honest_form(self) -> None:
        """Open a form from one's own plan, save it, and try to save it once more."""
        site = self.where()
        thing = self.stage.choose(
            where=lambda each: (each.kind, each.scope, each.site) == ("form", "a", site.name)
        )
        if thing is None:
            return
        who = Who(thing.owner, csrf=self.rng.random() < 0.3)
        page = self.sender.send(
            who,
            site,
            "GET",
            f"{thing.path}?{urlencode({'aiAction': 'edit', 'aiPlan': thing.ident})}",
            headers=HTML,
            expected=GET_STATUSES,
            what="form of one's own plan",
            seen=self.plain(who, site, thing.path)[1],
        )
        sent = controls(page.text) if page.status == 200 else {}
        if PLAN_INPUT not in sent:
            return
        if who.csrf:
            sent["csrfmiddlewaretoken"] = [self.sender.csrf_token(who, site)]
        sent["_save"] = ["Save"]
        cells = self.plain(who, site, thing.path)[1]
        stored = self.stage.refresh(thing)
        fresh = stored is not None and stored.state == PlanState.PROPOSED
        for again in (False, True):
            self.submit(
                who,
                site,
                thing.path,
                sent,
                model=thing.model,
                pk=thing.pk,
                plan=thing.ident,
                saves=fresh and not (again and self.is_saved(thing)),
                token=True,
                cells=cells,
            )

    def is_saved(self, thing: Thing) -> bool:
        """Tell whether a plan's form was saved."""
        stored = self.stage.refresh(thing)
        return stored is not None and stored.state == PlanState.EXECUTED

    # -- deleting ------------------------------------------------------------------------------------------

    def delete(self, who: Who, site: AdminSite, model: Any, pk: str, thing: Thing | None) -> None:
        """Post to a delete page with forged parameters; what is deleted comes back, and others' plans stay open."""
        path = self.path(site, model, "delete", pk)
        cells = self.plain(who, site, path)[1]
        others = Plan.objects.filter(kind=PlanKind.DELETE, state=PlanState.PROPOSED)
        others = others.exclude(user_id=who.actor.pk) if who.actor is not None else others
        query = urlencode(self.parameters(thing), errors="replace")[
            : 9_999 if who.actor is not None else 1_000
        ]
        fields = {"post": "yes"} if self.rng.random() < 0.6 else {}
        with transaction.atomic():
            open_before = set(others.values_list("pk", flat=True))
            if not fields:  # an empty POST asks, and deletes nothing
                self.sender.send(
                    who, site, "POST", f"{path}?{query}", headers=HTML, what="empty POST to a delete page", seen=cells,
                    expected=GET_STATUSES,
                )  # fmt: skip
            else:
                body = urlencode({**fields, PLAN_INPUT: thing.ident if thing else "x"}).encode()
                with watching():
                    self.sender.client(who).generic(
                        "POST", f"{path}?{query}", body, "application/x-www-form-urlencoded", headers=HTML
                    )
                self.sender.sent += 1
                self.sender.world.report.count("requests")
            closed = open_before - set(others.values_list("pk", flat=True))
            transaction.set_rollback(True)
        for each in closed:
            self.sender.world.report.found(
                1,
                f"another person's plan {each} was closed by a deletion",
                case=f"{self.sender.case}: {who}: {path}",
            )
