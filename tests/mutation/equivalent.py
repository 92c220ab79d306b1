"""Guards whose removal changes nothing that could be noticed, each with the reason.

``python -m tests.mutation --all`` leaves them out. A guard that is noticed must not stand here.
"""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {
    # -- access: asked before, or only saves work
    "access/entity.py:EntityAccess._key_is_named:1:operand not self.can_view": (
        "of what can't be viewed nothing is readable, so the key is not either"
    ),
    "access/entity.py:EntityAccess._named:1:if related is not None": (
        "the key is named, so _key_is_named has found the related entity"
    ),
    "access/entity.py:EntityAccess.told_by_ids:1:if related is not None": (
        "the key is named, so _key_is_named has found the related entity"
    ),
    "access/fields.py:FieldAccess._listed:1:filter isinstance(each, str)": (
        "what is no text equals no field's name"
    ),
    "access/fields.py:FieldAccess._shown:1:if key is not None and key in self._shown_cache": (
        "it only saves asking the same hooks again"
    ),
    "access/fields.py:FieldAccess.form_class:1:if obj is None and change in self._form_cache": (
        "it only saves making the same class again"
    ),
    "access/fields.py:FieldAccess._form_is_plain:1:answer False for not (self.model_admin.fields or self.model_admin.fieldset...": (
        "the long way finds the same names, by one more class"
    ),
    "access/fields.py:FieldAccess._form_is_plain:1:operand self._form_decides": (
        "what a project's get_form drops is taken out again by _unmasked"
    ),
    "access/fields.py:FieldAccess._unmasked:1:operand self.can_change and (not self._form_decides)": (
        "form_class asks for the form to add in that very case"
    ),
    "access/fields.py:FieldAccess._unmasked:1:operand self.can_change": (
        "who can't change was answered before, unless the form decides"
    ),
    "access/fields.py:_may_be_password:1:operand form_class is not None": (
        "a yes only means that the form is looked at itself"
    ),
    "access/fields.py:_may_be_password:1:operand not getattr(form_class, '__module__', '').startswith('django.')": (
        "a yes only means that the form is looked at itself"
    ),
    "access/rows.py:RowAccess.visible:1:operand not pks": "no keys find no records, by one statement more",
    # -- plans: held twice, and both at once can't be told apart
    "plans/decisions.py:_is_to_approve:1:operand _is_own(plan, by)": (
        "is_visible says yes to her own plan, too"
    ),
    "plans/inbox.py:to_approve:1:keyword exclude(user_id=by.user.pk)": (
        "why_not_with refuses her own plans; it saves asking about them"
    ),
    "plans/pages.py:asked_at:1:if conversation is None": (
        "without a conversation there are no messages, and the turn's start is given all the same"
    ),
    "plans/execution.py:finish:2:if by is not None": "an event is always somebody's, who has said something",
    "plans/pages.py:reject_open:2:keyword filter(state__in=OPEN)": (
        "the rows were found open and are locked since"
    ),
    "plans/projection.py:_Projection.__init__:1:operand plan.user_id is not None": (
        "who is not logged in is shown no plan: rights.find and rights.is_visible ask the same"
    ),
    "plans/projection.py:_Projection._record_url:1:operand self.entity is None": (
        "a record and its entity are found together, so that one of the two questions is enough"
    ),
    "plans/projection.py:_Projection._record_url:1:operand self.obj is None": (
        "a record and its entity are found together, so that one of the two questions is enough"
    ),
    "plans/projection.py:_now:1:operand not entity.can_view": (
        "the record itself is refused to who may view none"
    ),
    "plans/rights.py:sees_all:1:operand not entity.can_view": (
        "the record itself is refused to who may view none, and is then looked for"
    ),
    "tools/context.py:Context._candidates:1:operand len(found) == known": (
        "what was found is left out of the next statement, so that a page without anything new is a short one"
    ),
    "tools/context.py:Context._candidates:1:operand len(more) < most": (
        "a short page is followed by one without anything new, by one statement more"
    ),
    # -- the rest
    "database.py:lock_rows:1:if features.has_select_for_update": (
        "the run is on a database without row locks; the tests of two at once hold it on one that has them"
    ),
    "declaration.py:_named:1:operand ''": "every model has a name; it is for the type only",
    "declaration.py:model_field:1:if isinstance(field, models.Field)": (
        "whatever else get_field gives was made by another model and has no column, which is asked before"
    ),
    "declaration.py:model_field:1:operand field.auto_created and (not field.concrete)": (
        "a relation from elsewhere is no models.Field either, which is asked after"
    ),
    "declaration.py:never_readable:1:operand field.many_to_many": (
        "Django counts a relation to many as concrete"
    ),
    "people.py:_logged_in_as:1:except (BadSignature, TypeError): return Unknown()": (
        "real_actor takes whatever fails for somebody unknown"
    ),
    "people.py:_account:1:except (user_model.DoesNotExist, ValidationError, ValueError, TypeError, O...": (
        "real_actor takes whatever fails for somebody unknown"
    ),
    "people.py:_account:1:if isinstance(given, user_model)": (
        "loading an account by its own key gives the same one, by a statement more"
    ),
    "scope.py:page_url:1:operand name.count('_') > 1": "it only saves looking through the models of the site",
    "scope.py:page_url:1:operand any((each is not model_admin and f'{each.opts.app_label}_{each.opts...": (
        "the long way gives the same address"
    ),
    "scope.py:page_url:1:operand each is not model_admin": "the long way gives the same address",
    "scope.py:page_url:1:operand f'{each.opts.app_label}_{each.opts.model_name}' == name": (
        "the long way gives the same address"
    ),
    "scope.py:page_url:1:if not shared": "the long way gives the same address",
    "plans/projection.py:_Projection._value:1:operand field.many_to_many": (
        "a relation to many has a remote field, too"
    ),
    "plans/projection.py:_Projection._can:1:operand not self.is_own": (
        "why_not_approver refuses her own plans"
    ),
    "plans/proposals.py:remake:1:if plan.turn_id": "no turn is found by no key, by a statement more",
    "declaration.py:never_fillable:1:if field is None": (
        "what is no field is neither a file nor binary data nor a password of the model's"
    ),
    "tools/offered.py:may_use_tool:1:operand entity is None": "what fails is a no there",
}
