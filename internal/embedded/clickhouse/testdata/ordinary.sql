# Statements of analysts that must go on working. A line is a statement; one that
# begins with # is a comment. The tables are those of attacks.sql.

SELECT 1
SELECT count(), sum(a), uniqIf(s, a > 3), quantilesTDigestIf(0.5, 0.9)(a, a > 1), groupArray(3)(s) FROM facts
SELECT toTypeName(a), quantilesExactIf(0.5)(a, a > 1), dateDiff(day, now(), now()), date_add(day, 1, now()), now() - interval 1 hour FROM facts GROUP BY a LIMIT 1
SELECT arrayFilter((x, y) -> y, [1], [1]), arrayMap(toString, [1, 2]), arrayMap(x -> x + 1, [1, 2])[1], mapApply((k, v) -> (k, v + 1), map('a', 1))
SELECT toStartOfInterval(now(), interval 5 minute), now64(3)::DateTime64(3, 'UTC'), toStartOfHour(now('UTC')), toDate('2026-01-01') + INTERVAL 1 DAY
SELECT count(*), count(DISTINCT a), uniq(a, s), topK(3)(s), any(s) RESPECT NULLS, max(a) FILTER (WHERE a < 5) FROM facts
SELECT uniqMerge(u) FROM (SELECT uniqState(s) AS u FROM facts)
SELECT arrayReduce('sum', [1, 2]), arrayReduce('quantile(0.9)', [1, 2]), finalizeAggregation(initializeAggregation('sumState', 1))
SELECT s, n FROM facts_view ORDER BY n DESC LIMIT 2 FORMAT JSON
SELECT a, s FROM facts LIMIT 3 FORMAT PrettyCompact
SELECT a FROM facts LIMIT 3 FORMAT CSVWithNames

# Windows.
SELECT a, row_number() OVER (PARTITION BY s ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM facts LIMIT 5
SELECT a, lag(a, 1) OVER w, sum(a) OVER (w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM facts WINDOW w AS (PARTITION BY (s, a) ORDER BY a) LIMIT 1
SELECT a FROM facts QUALIFY row_number() OVER (PARTITION BY s ORDER BY a) = 1 LIMIT 1

# Columns.
SELECT * EXCEPT (a) FROM facts ARRAY JOIN [1, 2] AS z LIMIT 1
SELECT * APPLY(toString) APPLY(x -> concat(x, '!')) FROM facts LIMIT 1
SELECT COLUMNS('a') APPLY(sum), COLUMNS(a, s) APPLY(max) EXCEPT s FROM facts
SELECT * APPLY(quantile(0.5)) FROM (SELECT a FROM facts)
SELECT * REPLACE (a + 1 AS a) EXCEPT (s) FROM facts LIMIT 1
SELECT 'drop table; INSERT INTO' AS `file`
SELECT t.file FROM (SELECT 1 AS file) AS t
SELECT a AS `count(a)`, 1 AS `a.b`, `a.b` + 1 FROM facts LIMIT 1
SELECT 'é ☃' AS `é`, `é` || 'x'
SELECT 1 AS cast, 2 AS format, format, 3 AS `values`, `values`
SELECT '--', '/*', '{', $$x$$, x'41', "s" FROM facts LIMIT 1 -- comment

# Common table expressions, subqueries and joins.
WITH x AS (SELECT a FROM facts) SELECT * FROM x WHERE a IN (SELECT number FROM numbers(10)) ORDER BY a LIMIT 3
WITH t(x, y) AS (SELECT a, s FROM facts) SELECT x, y FROM t LIMIT 1
WITH t AS (SELECT a FROM facts), 3 AS z SELECT a + z FROM t LIMIT 1
WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT * FROM n
WITH x -> x + 1 AS f SELECT arrayMap(f, [1, 2])
SELECT f.a FROM facts AS f INNER JOIN millrace.facts AS g USING (a) LIMIT 1 -- joined
SELECT f.a, g.s FROM facts AS f LEFT ANY JOIN facts AS g USING (a) WHERE f.a = 1
SELECT * FROM facts AS f ASOF JOIN facts AS g ON f.s = g.s AND f.a >= g.a LIMIT 1
SELECT * FROM facts AS t (x, y) LIMIT 1
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t (n, s)
SELECT * FROM values('a UInt8, b Array(Nullable(String)), c Enum8(\'x\' = 1, \'y\' = -2)', (1, ['x'], 'x'))
SELECT a IN (1, 2, 3), (a, s) IN ((1, 'a')), a IN (SELECT a FROM facts), a NOT IN (f.a), s LIKE '%x%' FROM facts AS f LIMIT 1
SELECT exists(SELECT 1), NOT exists(SELECT 1), EXISTS(SELECT 1 FROM facts WHERE a > 3), 1 = ANY(SELECT 1), 2 > ALL(SELECT 1)
SELECT sum(number) FROM (SELECT * FROM numbers(10) UNION ALL SELECT * FROM numbers(5))
SELECT 1 UNION ALL SELECT 2
SELECT 1 INTERSECT SELECT 1
SELECT 1 EXCEPT SELECT 2
SELECT * FROM view(SELECT a FROM facts) LIMIT 1

# Clauses.
SELECT s, count() FROM facts GROUP BY s WITH TOTALS ORDER BY s LIMIT 1
SELECT s, grouping(s), count() FROM facts GROUP BY GROUPING SETS ((s), ()) LIMIT 1
SELECT s FROM facts GROUP BY ROLLUP(s) LIMIT 1
SELECT s FROM facts GROUP BY ALL ORDER BY ALL LIMIT 1
SELECT toStartOfHour(now()) AS t, count() FROM facts GROUP BY t ORDER BY t WITH FILL STEP INTERVAL 1 HOUR
SELECT a, s FROM facts WHERE a < 3 ORDER BY a WITH FILL FROM 0 TO 5 STEP 1 INTERPOLATE (s AS concat(s, 'x'))
SELECT a FROM facts LIMIT 1 BY s LIMIT 2 OFFSET 1
SELECT DISTINCT ON (s) a, s FROM facts LIMIT 1
SELECT a FROM facts PREWHERE a > 3 WHERE s != '' LIMIT 1

# Expressions.
SELECT CASE WHEN a > 1 THEN 'x' ELSE 'y' END, CASE a WHEN 1 THEN 'x' END, if(a > 1, 1, 2), multiIf(a > 1, 1, a > 2, 3, 4), a BETWEEN 1 AND 2 FROM facts LIMIT 1
SELECT EXTRACT(YEAR FROM now()) > 2000, SUBSTRING('abc' FROM 1 FOR 2), POSITION('a' IN 'ba'), TRIM(BOTH 'x' FROM 'xax'), OVERLAY('abc' PLACING 'x' FROM 2)
SELECT INTERVAL '1 day', TIMESTAMP '2020-01-01 00:00:00', DATE '2020-01-01'
SELECT [1, 2][1], (1, 'a').2, map('a', 1)['a'], tuple(1).1, [[1]][1][1], -1, - -1, -(-1), 1 - -1, 1e-7, 0x1f, NULL, true
SELECT arrayJoin([1, 2]) AS x, untuple((1, 2)) LIMIT 1
SELECT '1'::UInt8, '2020-01-01'::Date, CAST(1 AS Nullable(String)), accurateCastOrNull('x', 'UInt8')
SELECT CAST((1, 'a'), 'Tuple(n UInt8, date String)').date
SELECT CAST('{"a":1}', 'JSON(a.b UInt32, SKIP c.d, SKIP REGEXP \'x\', max_dynamic_paths=8)')
SELECT d.a, d.a.:Int64 FROM (SELECT '{"a":1}'::JSON AS d)
SELECT JSONExtract('{"a":[1]}', 'a', 'Array(UInt8)'), JSONExtractString('{"a":"b"}', 'a'), JSON_VALUE('{"a":1}', '$.a'), simpleJSONExtractInt('{"a":1}', 'a')
SELECT format('{} {}', s, 'x'), formatRow('CSV', 1, 2) FROM facts LIMIT 1
SELECT version(), currentDatabase(), currentUser(), hostName() != '', timezone(), uptime() >= 0, @@version
SELECT timeSlots(now(), toUInt32(600)), tumbleStart(now(), INTERVAL 1 HOUR)

# The schema.
SHOW TABLES
SHOW TABLES LIKE 'fa%'
SHOW TABLES FROM millrace NOT ILIKE 'x\\_%' LIMIT 3
SHOW DATABASES
SHOW CREATE TABLE facts
SHOW CREATE facts
SHOW CREATE VIEW facts_view
SHOW CREATE DATABASE millrace
SHOW COLUMNS FROM facts
SHOW FULL COLUMNS FROM facts FROM millrace
SHOW COLUMNS FROM millrace.facts LIKE 'a'
SHOW FUNCTIONS LIKE 'sumW%'
SHOW SETTINGS LIKE 'max_thr%'
SHOW SETTING max_threads
SHOW ENGINES
DESCRIBE TABLE facts
DESC facts
DESCRIBE (SELECT 1 AS a)
DESCRIBE TABLE numbers(3)
EXISTS TABLE facts
EXISTS facts
EXISTS VIEW millrace.facts_view
EXISTS DATABASE millrace
SELECT name FROM system.tables WHERE database = 'millrace'
SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = 'facts'
SELECT table, formatReadableSize(sum(bytes_on_disk)) FROM system.parts WHERE active GROUP BY table
SELECT * FROM information_schema.tables WHERE table_schema = 'millrace' LIMIT 1
EXPLAIN SELECT count() FROM facts
EXPLAIN indexes = 1, json = 1 SELECT count() FROM facts WHERE a > 3
EXPLAIN PIPELINE SELECT count() FROM facts
EXPLAIN AST SELECT 1
EXPLAIN SYNTAX SELECT 1
EXPLAIN QUERY TREE run_passes = 1 SELECT 1
EXPLAIN ESTIMATE SELECT count() FROM facts

# The session.
SET max_threads = 1, join_use_nulls = 1
SET readonly = 1
USE millrace
USE information_schema
