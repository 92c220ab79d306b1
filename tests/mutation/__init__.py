"""The mutation run: the checks must be able to fail.

    python -m tests.mutation                     the table of ``invariants.py``, in about two minutes
    python -m tests.mutation --jobs 2            the same with two at once
    python -m tests.mutation --only 7            one invariant, or part of a guard's id
    python -m tests.mutation --list              the ids of all guards
    python -m tests.mutation --all --json FILE   every guard, in an hour or more; run again, it goes on

Each guard is taken away in a process of its own, where the modules that hold guards are instrumented as they
are imported; no file is ever edited. The tests are run unchanged first: they must be green, else red says
nothing. A guard whose removal no test notices makes the run fail with 1; a run that says nothing, with 2.

``guards`` finds the guards on the syntax tree, ``switch`` turns them off, ``plugin`` is for one run by hand,
``watch`` writes down what a run came upon, ``warm`` forks a run, ``runner`` is the command, ``invariants`` and ``equivalent`` are tables.
"""
