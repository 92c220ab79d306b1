"""Reading for a person: rows, counts and sums, each value only where she may read it.

The only path by which stored values reach a tool result or a person's table. Nothing here writes.
"""

from __future__ import annotations

from .again import Reading, read_again
from .cells import CUT, PERSON_CHARS, RELATED_LIMIT, cell_text, cut, merge
from .conditions import unknown_field
from .query import DEFAULT_LIMIT, MAX_LIMIT, Query
from .rows import TABLES_BYTES, Row, Rows, fit_table, run_query, run_record

__all__ = [
    "CUT",
    "DEFAULT_LIMIT",
    "MAX_LIMIT",
    "PERSON_CHARS",
    "RELATED_LIMIT",
    "TABLES_BYTES",
    "Query",
    "Reading",
    "Row",
    "Rows",
    "cell_text",
    "cut",
    "fit_table",
    "merge",
    "read_again",
    "run_query",
    "run_record",
    "unknown_field",
]
