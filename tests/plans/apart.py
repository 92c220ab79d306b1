"""A project whose store is in another database than plans: what becomes of a reservation. Prints it as JSON."""

from __future__ import annotations

import json
import logging

import django
from django.core.management import call_command


def main() -> None:
    """Make both databases, and confirm plans whose steps fail."""
    django.setup()
    logging.disable(logging.CRITICAL)
    for alias in ("default", "store"):
        call_command("migrate", database=alias, verbosity=0)

    from django.contrib.auth.models import User

    from django_copilot.testing import copilot_client
    from example_project.store.people import create_people
    from tests.plans.outside import World, nothing, raised
    from tests.plans.tools import decide, outcome

    create_people()
    world = World(lambda name: copilot_client(User.objects.get(username=name)))
    outside, told = world.outside, {}
    outside.reserving = raised(ValueError())
    told["a reservation that fails"] = [outcome(decide(world.client, world.propose(), "confirm"))]
    told["a reservation that fails"].append(outside.reserved)
    outside.reserving, outside.settling = nothing, raised(ValueError())
    plan = world.propose()
    told["an end that fails"] = [outcome(decide(world.client, plan, "confirm")), outside.reserved]
    outside.settling = nothing
    told["tried again"] = [outcome(decide(world.client, plan, "confirm")), outside.reserved]
    print(json.dumps(told))


if __name__ == "__main__":
    main()
