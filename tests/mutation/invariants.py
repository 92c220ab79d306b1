"""What holds each numbered invariant: the guards, and the tests that must go red when they are taken away.

The numbers are those of the docstring of ``gate.py`` (6, 7 and 12 belong to plans and to what a person is
told). Where a rule is held twice, both guards are taken away at once, and ``why`` says so; that each of them
is noticed alone as well is what ``--all`` shows.
"""

from __future__ import annotations

from .runner import Removal

GRANTS = "tests/gate/test_grants.py"
GATE = "tests/gate/test_invariants.py"
CODES = "tests/plans/test_decision_codes.py"
SECOND = "tests/plans/test_second_person.py"
GUARD = "tests/tools/test_guard.py"


def _held(number: int, guards: str | tuple[str, ...], *tests: str, why: str = "") -> Removal:
    return Removal(
        number=number, guards=(guards,) if isinstance(guards, str) else guards, tests=tests, why=why
    )


INVARIANTS: tuple[Removal, ...] = (
    # 1. Only the gate calls a tool body, and an effect needs the grant of a claimed plan.
    _held(
        1,
        "gate.py:_check_grant:1:if plan is None or plan.state not in claimed",
        f"{GRANTS}::test_a_plan_that_was_not_claimed_runs_nothing",
    ),
    _held(
        1,
        "gate.py:_check_grant:1:if (plan.tool, str(plan.key), plan.confirmed_by, plan.approved_by) != ...",
        f"{GRANTS}::test_a_grant_that_the_stored_plan_does_not_bear_out_runs_nothing",
    ),
    _held(
        1,
        "gate.py:reserve:1:call _check_grant(grant, looked.tool)",
        f"{GRANTS}::test_a_plan_that_was_not_claimed_runs_nothing",
    ),
    _held(
        1,
        "gate.py:call_out:1:call _check_grant(grant, tool)",
        f"{GRANTS}::test_a_plan_that_was_not_claimed_runs_nothing",
    ),
    _held(
        1,
        "gate.py:_look:1:with only_reading()",
        f"{GUARD}::test_a_tool_that_does_more_than_read_through_its_context_gets_no_plan[write: update-raised]",
    ),
    _held(
        1,
        "gate.py:_call_tool:1:with only_reading()",
        f"{GUARD}::test_a_read_only_tool_may_do_no_more_than_a_preview[write: update]",
    ),
    # 2. The actor comes from the session; nobody and no service account decides.
    _held(
        2,
        "tools/shapes.py:arguments_of:1:if unknown",
        f"{GATE}::test_invariant_2_the_actor_is_the_stored_one_whatever_a_call_says",
    ),
    _held(
        2,
        "plans/deciders.py:Decider.check:1:if self.impersonated",
        f"{CODES}::test_a_confirmation_is_refused_with_its_own_code_and_nothing_is_done[as_somebody_else--]",
        f"{CODES}::test_who_decides_nothing_makes_no_plan_either",
    ),
    _held(
        2,
        "plans/deciders.py:Decider.check:1:if not self.key or is_service_account(self.user)",
        f"{GATE}::test_invariant_2_nobody_and_a_service_account_confirm_nothing",
    ),
    _held(
        2,
        "gate.py:_check_grant:1:if is_service_account(load_person(key))",
        f"{GRANTS}::test_a_service_account_decides_nothing",
    ),
    _held(
        2,
        "gate.py:_check_grant:1:if not grant.confirmed_by or grant.requester != grant.confirmed_by",
        f"{GRANTS}::test_a_stored_confirmation_must_be_the_requesters_own",
    ),
    # 3. Objects come from the admin's queryset and pass its permissions; the scope can be entered.
    _held(
        3,
        "access/entity.py:EntityAccess._record:1:if self.may_view(obj)",
        "tests/gate/test_matrix.py::test_a_record_is_there_only_for_those_who_may_see_it",
    ),
    _held(
        3,
        "reading/scan.py:scan:1:operand not entity.may_view(obj)",
        f"{GATE}::test_invariant_3_rows_come_from_the_admin_and_each_is_asked_for",
        "tests/reading/test_search.py::test_pages_of_rows_that_are_hidden_one_by_one",
    ),
    _held(
        3,
        "tools/context.py:Context._find:1:filter self._may(entity, obj, verb)",
        "tests/tools/test_context.py::test_a_record_is_found_only_with_the_right_for_the_verb",
        "tests/tools/test_context.py::test_each_verb_asks_its_own_permission_on_the_record",
    ),
    _held(
        3,
        "scope.py:enter_place:1:if scope.keys and enter is None",
        f"{GATE}::test_invariant_3_a_scope_that_can_not_be_entered_is_a_refusal",
    ),
    _held(
        3,
        "reading/sums.py:one_by_one:1:operand entity.may_view(obj)",
        "tests/reading/test_summary.py::test_records_that_may_not_be_seen_are_not_in_it",
    ),
    _held(
        3,
        "reading/summary.py:run_summary:1:operand not entity.decides_in_database",
        "tests/reading/test_summary.py::test_records_that_may_not_be_seen_are_not_in_it",
    ),
    _held(
        3,
        "access/entity.py:EntityAccess._referred:1:operand found[0] != self.entity.label",
        "tests/reading/test_references.py::test_a_reference_of_another_kind_or_of_nothing_is_told_as_such",
    ),
    # 4. Names come from the registry, and every segment of a lookup is checked.
    _held(
        4,
        "reading/conditions.py:check_names:1:if name != 'id' and name not in declared",
        f"{GATE}::test_invariant_4_values_are_parameters_and_names_are_from_the_registry",
    ),
    _held(
        4,
        "reading/conditions.py:conditions:1:if name not in readable",
        f"{GATE}::test_invariant_4_values_are_parameters_and_names_are_from_the_registry",
        "tests/gate/test_arguments.py::test_a_declared_field_that_a_person_may_not_read_is_left_out_and_no_filter",
    ),
    _held(
        4,
        "reading/conditions.py:_lookups:1:filter lookup not in allowed",
        "tests/reading/test_lookups.py::test_what_can_not_be_asked_goes_back_to_the_model",
    ),
    _held(
        4,
        "access/asking.py:AskAccess.orderable:1:operand name in self.readable_on_all",
        "tests/reading/test_search.py::test_only_what_is_readable_on_every_record_orders",
    ),
    _held(
        4,
        "access/asking.py:AskAccess._search_path:1:operand not related.shows_all_rows",
        "tests/reading/test_search.py::test_a_related_record_that_may_be_hidden_is_not_searched",
    ),
    _held(
        4,
        "reading/summary.py:_check:1:if name not in readable",
        "tests/reading/test_summary.py::test_a_hidden_field_is_an_unknown_one",
    ),
    # 5. Nothing outside readable and declared leaves.
    _held(
        5,
        "access/fields.py:FieldAccess._readable_for:1:filter name not in kept",
        "tests/reading/test_references.py::test_what_is_in_both_lists_is_kept_from_the_model",
    ),
    _held(
        5,
        "reading/conditions.py:_by_handle:1:if not is_handle(given)",
        "tests/reading/test_lookups.py::test_what_can_not_be_asked_goes_back_to_the_model",
    ),
    _held(
        5,
        "access/person.py:Access._handled:1:if name not in entity.showable(obj) and name not in entity.readable(obj)",
        "tests/reading/test_references.py::test_a_handle_stands_for_nothing_else",
    ),
    _held(
        5,
        "gate.py:_call_with_handles:1:if tool.category is Category.READ_ONLY",
        "tests/reading/test_references.py::test_a_handle_stands_for_nothing_else",
    ),
    _held(
        5,
        "access/fields.py:FieldAccess._declared_and_shown:1:operand name in shown",
        f"{GATE}::test_invariant_5_only_readable_and_declared_fields_reach_an_outcome",
        "tests/gate/test_arguments.py::test_a_declared_field_that_a_person_may_not_read_is_left_out_and_no_filter",
    ),
    _held(
        5,
        "reading/cells.py:Cells.of:1:filter each.name in readable",
        "tests/access/test_rows.py::test_a_cell_is_there_only_where_the_field_is_readable_on_that_row",
    ),
    _held(
        5,
        "access/rows.py:RowAccess.visible:1:filter self.may_view(obj)",
        "tests/access/test_rows.py::test_elsewhere_there_is_only_its_id",
    ),
    # 6. What runs is byte for byte what was shown.
    _held(
        6,
        "plans/decisions.py:_why_not:1:if not isinstance(digest, str) or not hmac.compare_digest(digest.encod...",
        f"{CODES}::test_only_the_digest_of_what_was_shown_confirms",
    ),
    _held(
        6,
        "plans/decisions.py:_why_not:1:if not is_intact(plan)",
        "tests/plans/test_hardening.py::test_a_row_that_says_something_else_than_its_document_is_refused",
    ),
    _held(
        6,
        "plans/decisions.py:_same_again:1:if work.moved or digest_of(draft.document(plan.pk)) != plan.digest",
        "tests/plans/test_decisions.py::test_a_sum_a_setting_or_a_row_that_the_preview_read_and_that_changed_makes_it_stale",
        "tests/plans/test_decisions.py::test_of_two_plans_on_one_record_the_first_makes_the_second_stale_with_the_fresh_diff",
    ),
    _held(
        6,
        "gate.py:perform:1:call _check_effect(looked)",
        "tests/plans/test_decisions.py::test_a_save_that_stores_something_else_than_was_shown_is_rolled_back",
    ),
    # 7. At most once, and what has ended has ended.
    _held(
        7,
        "plans/states.py:move:1:if to not in MOVES[before]",
        "tests/plans/test_states.py::test_a_move_that_the_table_does_not_have_reaches_no_database",
    ),
    _held(
        7,
        "plans/states.py:move:1:keyword filter(state=before)",
        "tests/plans/test_states.py::test_a_plan_is_moved_from_the_state_it_was_loaded_in_and_once",
    ),
    _held(
        7,
        "plans/decisions.py:_is_still_there:1:if not _is_busy(plan)",
        "tests/plans/test_external.py::test_on_one_target_nothing_more_is_sent_while_one_is_under_way_or_uncertain",
    ),
    _held(
        7,
        "gate.py:call_out:1:if each.in_atomic_block and (not all((getattr(block, '_from_testcase',...",
        f"{GRANTS}::test_another_system_is_never_asked_inside_a_transaction",
    ),
    # 8. Rights are asked each time, of everybody, freshly.
    _held(
        8,
        "gate.py:run:1:call access.check_person()",
        f"{GATE}::test_invariant_8_rights_are_asked_on_every_call",
    ),
    _held(
        8,
        "gate.py:_tool_of:1:if not may_use_tool(access, tool)",
        f"{SECOND}::test_a_requester_who_has_lost_her_right_has_nothing_done",
        "tests/plans/test_external.py::test_who_has_lost_the_right_to_refund_meanwhile_has_nothing_refunded",
    ),
    _held(
        8,
        "plans/rights.py:why_not_with:1:if tool is None or not by.user.has_perms((APPROVE, *tool.approve_permi...",
        f"{SECOND}::test_who_must_not_be_the_second_person_is_refused",
    ),
    _held(
        8,
        "plans/rights.py:why_not_with:1:if by.key in (plan.confirmed_by, plan.proposed_by) or by.key == str(pl...",
        f"{SECOND}::test_who_must_not_be_the_second_person_is_refused",
        f"{SECOND}::test_the_real_person_behind_the_proposal_can_not_approve_it",
    ),
    _held(
        8,
        "scope.py:load_person:1:operand not user.is_active",
        f"{GRANTS}::test_a_person_who_is_gone_or_deactivated_runs_nothing",
        f"{GATE}::test_invariant_8_rights_are_asked_on_every_call",
    ),
    # 9. Fail closed.
    _held(
        9,
        "gate.py:run:1:except Exception: return Failed(content={'error': {'code': 'failed', 'mess...",
        f"{GATE}::test_invariant_9_a_failing_check_is_a_refusal",
    ),
    _held(
        9,
        "access/rows.py:ask_hook:1:except Exception: return default",
        "tests/gate/test_leaks.py::test_a_hook_that_fails_is_a_no_and_is_logged",
    ),
    _held(
        9,
        "tools/approval.py:needs_approval:1:except Exception: return True",
        "tests/plans/test_approval_rules.py::test_a_rule_that_fails_means_that_a_second_person_is_needed",
    ),
    _held(
        9,
        "people.py:is_service_account:1:except Exception: return True",
        "tests/test_people.py::test_a_database_that_fails_is_a_yes",
    ),
    _held(
        9,
        "gate.py:run:1:if request.user.copilot_off",
        f"{GATE}::test_invariant_9_a_site_that_is_turned_off_runs_no_call",
    ),
    _held(
        9,
        "plans/decisions.py:_deciding:1:call audit.append(work.plan.site, work.plan.scope_key, *work.records)",
        "tests/plans/test_decisions.py::test_no_audit_no_execution",
    ),
    # 10. The copilot's own models are no entities.
    _held(
        10,
        "declaration.py:is_declared:1:operand model_admin.opts.app_label == 'django_copilot'",
        f"{GATE}::test_invariant_10_the_copilots_own_models_are_no_entities",
    ),
    _held(
        10,
        (
            "access/person.py:Access.registered:1:operand model._meta.app_label == 'django_copilot'",
            "tools/context.py:Context.unscoped:1:if model._meta.app_label == 'django_copilot'",
        ),
        "tests/tools/test_context.py::test_the_assistants_own_models_are_for_nobody_and_in_no_way",
        why="ways to read: each is closed for itself",
    ),
    # 11. Nothing is held while somebody is waited for.
    _held(
        11,
        "runtime/sync.py:_Driver.ask:1:call release_connections()",
        "tests/runtime/test_nothing_held.py::test_nothing_is_held_while_the_model_is_asked",
    ),
    _held(
        11,
        "gate.py:call_out:1:call release_connections()",
        "tests/plans/test_external.py::test_nothing_is_held_while_the_other_system_is_asked_and_all_is_committed",
    ),
    _held(
        11,
        "gate.py:run:1:with contained()",
        "tests/gate/test_guards.py::test_what_a_failing_hook_does_to_a_transaction_is_taken_back_with_the_call",
    ),
    # 12. What a person is told happened comes from the database.
    _held(
        12,
        "plans/states.py:effective:1:if state is S.EXECUTING and plan.lease_until is not None and (plan.lea...",
        "tests/plans/test_states.py::test_what_is_over_by_the_clock_reads_as_over",
    ),
    _held(
        12,
        "plans/execution.py:finish:1:if attempt != plan.attempts and (not done)",
        "tests/plans/test_late_news.py::test_late_news_of_an_older_attempt_count_only_if_it_was_done",
        "tests/plans/test_late_news.py::test_late_news_do_not_end_a_later_attempt_that_is_under_way",
    ),
    _held(
        12,
        "plans/execution.py:finish:1:operand plan.state not in CLAIMED",
        "tests/plans/test_late_news.py",
    ),
)
