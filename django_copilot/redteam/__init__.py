"""A hostile program for a project's own admin: a hostile model, a hostile client and hostile data, and what they got.

``manage.py copilot_redteam`` runs it on a database of its own. What it may not find is written down as seven
oracles (``report.ORACLES``), each counted; they are judged by code that shares nothing with what it judges:
``rights`` asks the project's own admin hooks anew, ``watch`` looks at the statements and the log, ``tables`` at
the rows, ``canaries`` at everything that comes out.

Nothing here is imported by the running product.
"""
