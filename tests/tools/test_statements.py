"""Which statements only read, and that no other one reaches a database from a preview."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from django_copilot.tools.guard import NotAPreview, is_read, only_reading, through_context

# -- statements ------------------------------------------------------------------------------------------

READS = [
    "SELECT 1",
    "select 1;",
    "  \n SELECT 1",
    "-- what\nSELECT 1",
    "/* DELETE */ SELECT 1",
    "(SELECT 1) UNION (SELECT 2)",
    "WITH x AS (SELECT 1) SELECT * FROM x",
    "SELECT 'INSERT INTO x', \"update\", `delete` FROM x",
    "SELECT 'it''s; DELETE' FROM x",
    'SELECT "a;b" FROM x',
    "SELECT * FROM x FOR UPDATE",
    "SELECT * FROM x FOR NO KEY UPDATE",
    "SELECT REPLACE('a', 'b', 'c')",
    "VALUES (1)",
    "EXPLAIN SELECT 1",
    "SAVEPOINT a",
    "RELEASE SAVEPOINT a",
    "ROLLBACK TO SAVEPOINT a",
]
WRITES = [
    "INSERT INTO x VALUES (1)",
    "UPDATE x SET y = 1",
    "DELETE FROM x",
    "REPLACE INTO x VALUES (1)",
    "MERGE INTO x USING y ON 1 = 1 WHEN MATCHED THEN DELETE",
    "TRUNCATE x",
    "CREATE TABLE x (y int)",
    "DROP TABLE x",
    "ALTER TABLE x ADD y int",
    "GRANT ALL ON x TO y",
    "CALL f()",
    "DO $$ BEGIN DELETE FROM x; END $$",
    "COPY x FROM STDIN",
    "LOCK TABLE x",
    "VACUUM",
    "SET ROLE postgres",
    "PRAGMA foreign_keys = OFF",
    "ATTACH DATABASE 'x' AS y",
    "LOAD DATA INFILE 'x' INTO TABLE y",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "",
    ";",
    "/* SELECT */ DELETE FROM x",
    "-- SELECT\nDELETE FROM x",
    "-- SELECT 1\n/* SELECT 2 */ -- SELECT 3\n UPDATE x SET y = 1",
    "((DELETE FROM x))",
    "#c\nDELETE FROM x",
    "/*!50000 DELETE */ FROM x",
    "/* /* x */ DELETE FROM x */ SELECT 1",
    "SELECT 1; DELETE FROM x",
    "SELECT 1; COMMIT",
    "SELECT 1; CALL f();",
    "VALUES (1); SET ROLE postgres",
    "SELECT ';'; DELETE FROM x; --'",
    "SELECT 1 -- \n; DELETE FROM x",
    "SELECT 1 /*!; DELETE FROM x */",
    "ROLLBACK TO a; DELETE FROM x",
    "WITH x AS (DELETE FROM y RETURNING *) SELECT * FROM x",
    "with x as (insert into y values (1) returning *) select * from x",
    "WITH x AS (SELECT 1) DELETE FROM y",
    "WITH x AS (SELECT 1) UPDATE y SET z = 1",
    "EXPLAIN ANALYZE DELETE FROM x",
    "EXPLAIN (ANALYZE) UPDATE x SET y = 1",
    "SELECT * INTO y FROM x",
    "SELECT * FROM x INTO OUTFILE '/tmp/x'",
]


@pytest.mark.parametrize("sql", READS)
def test_a_statement_that_reads_is_one(sql: str) -> None:
    assert is_read(sql)


@pytest.mark.parametrize("sql", WRITES)
def test_a_statement_that_may_write_is_none_that_reads(sql: str) -> None:
    assert not is_read(sql)


@pytest.mark.parametrize("sql", [each for each in WRITES if each.strip(";")])
def test_a_statement_that_may_write_does_not_reach_the_database(db: None, sql: str) -> None:
    reached = []

    def reach(execute: Any, *args: Any) -> Any:
        reached.append(args[0])
        return execute(*args)

    for allowed in (False, True):
        with (  # noqa: PT012
            pytest.raises(NotAPreview, match="may not write"),
            only_reading(may_call=allowed),
            through_context(),
            connection.execute_wrapper(reach),
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT 1")
            cursor.execute(sql)
    assert reached == ["SELECT 1"] * 2
