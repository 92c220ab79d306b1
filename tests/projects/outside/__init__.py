"""A project whose admins are not its own: they are declared in ``copilot.py``, in a process of its own."""
