# Statements that the login analyst must not have carried out. A line is a
# statement; one that begins with # is a comment. /etc/hostname stands for any
# file. There are a table facts (a UInt32, s String), a view file_view that reads
# a file, and a function readf, made by CREATE FUNCTION readf AS x -> file(x).

# A function that reads files, called directly, in any writing.
SELECT file('/etc/hostname')
SELECT fIlE('/etc/hostname')
SELECT `file`('/etc/hostname')
SELECT "file"('/etc/hostname')
SELECT file/**/('/etc/hostname')
SELECT file -- comment('
SELECT FILE	('/etc/hostname')
SELECT file($$/etc/hostname$$)
SELECT file($tag$/etc/hostname$tag$)
SELECT file(x'2f6574632f686f73746e616d65')
SELECT file('/etc/' || 'hostname')
SELECT f‌ile('/etc/hostname')
SELECT 1 AS a, (SELECT file('/etc/hostname')) AS b
WITH (SELECT file('/etc/hostname')) AS f SELECT f
WITH file('/etc/hostname') AS f SELECT f
WITH x AS (SELECT file('/etc/hostname') AS y) SELECT y FROM x
WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n + length(file('/etc/hostname')) FROM x WHERE n < 2) SELECT * FROM x
SELECT 1 WHERE file('/etc/hostname') != ''
SELECT 1 GROUP BY file('/etc/hostname')
SELECT 1 HAVING file('/etc/hostname') != ''
SELECT 1 ORDER BY file('/etc/hostname')
SELECT 1 LIMIT length(file('/etc/hostname'))
SELECT 1 LIMIT 1 BY file('/etc/hostname')
SELECT 1 OFFSET length(file('/etc/hostname'))
SELECT a FROM facts PREWHERE file('/etc/hostname') != ''
SELECT a FROM facts QUALIFY file('/etc/hostname') != '' AND row_number() OVER () > 0
SELECT a FROM facts SAMPLE toUInt64(length(file('/etc/hostname')))
SELECT a FROM facts ORDER BY a WITH FILL FROM 1 TO length(file('/etc/hostname')) STEP 1
SELECT a, s FROM facts ORDER BY a WITH FILL INTERPOLATE (s AS file('/etc/hostname'))
SELECT a FROM facts ARRAY JOIN [file('/etc/hostname')] AS z
SELECT f.a FROM facts AS f JOIN facts AS g ON f.s = file('/etc/hostname')
SELECT sum(a) OVER (PARTITION BY file('/etc/hostname')) FROM facts
SELECT sum(1) OVER w FROM facts WINDOW w AS (ORDER BY file('/etc/hostname'))
SELECT sum(1) OVER w FROM facts WINDOW w AS (PARTITION BY (SELECT file('/etc/hostname')))
SELECT sum(1) OVER (ORDER BY a ROWS BETWEEN length(file('/etc/hostname')) PRECEDING AND CURRENT ROW) FROM facts
SELECT count() FILTER (WHERE file('/etc/hostname') != '') FROM facts
SELECT CASE file('/etc/hostname') WHEN '' THEN 1 ELSE 2 END
SELECT [file('/etc/hostname')], (file('/etc/hostname'), 1), map('a', file('/etc/hostname'))
SELECT file('/etc/hostname')::String
SELECT CAST(file('/etc/hostname') AS String)
SELECT 1 IN (file('/etc/hostname'))
SELECT quantile(length(file('/etc/hostname')))(a) FROM facts
SELECT * REPLACE (file('/etc/hostname') AS s) FROM facts
SELECT DISTINCT ON (file('/etc/hostname')) a FROM facts
SELECT a FROM facts GROUP BY GROUPING SETS ((file('/etc/hostname')), (a))
SELECT 1 UNION ALL SELECT length(file('/etc/hostname'))
SELECT 1 EXCEPT SELECT length(file('/etc/hostname'))
(SELECT file('/etc/hostname'))
FROM facts SELECT file('/etc/hostname')
DESCRIBE (SELECT file('/etc/hostname'))
EXPLAIN SELECT file('/etc/hostname')
EXPLAIN AST SELECT file('/etc/hostname')
EXPLAIN SYNTAX SELECT file('/etc/hostname')
EXPLAIN SYNTAX run_query_tree_passes = 1 SELECT file('/etc/hostname')
EXPLAIN QUERY TREE SELECT file('/etc/hostname')
EXPLAIN PIPELINE SELECT file('/etc/hostname')
EXPLAIN ESTIMATE SELECT file('/etc/hostname') FROM facts
SELECT * FROM (EXPLAIN SELECT file('/etc/hostname'))
SELECT * FROM view(SELECT file('/etc/hostname'))
SELECT * FROM viewIfPermitted(SELECT file('/etc/hostname') AS s ELSE null('s String'))
SELECT * FROM viewExplain('EXPLAIN', '', (SELECT file('/etc/hostname')))
SELECT * FROM numbers(length(file('/etc/hostname')))
SELECT exists(SELECT file('/etc/hostname'))
SELECT dictGet(file('/etc/hostname'), 'a', 1)
SELECT file('/etc/hostname') AS `x) (alias y`
SELECT 1 AS `a (alias b)\nFunction`, file('/etc/hostname')
SELECT 1 AS `a (children 1)`, file('/etc/hostname')

# Its name as an argument: the engine takes names for functions.
SELECT arrayMap(file, ['/etc/hostname'])
SELECT arrayMap(`file`, ['/etc/hostname'])
SELECT arrayMap("file", ['/etc/hostname'])
SELECT arrayMap(FILE, ['/etc/hostname'])
SELECT arrayMap((file), ['/etc/hostname'])
SELECT arrayMap(file /* */, ['/etc/hostname'])
SELECT arrayMap(x -> file(x), ['/etc/hostname'])
SELECT arrayMap(x -> arrayMap(file, [x]), ['/etc/hostname'])
SELECT arrayFilter(x -> file(x) != '', ['/etc/hostname'])
SELECT arrayFold((acc, x) -> concat(acc, file(x)), ['/etc/hostname'], '')
SELECT arrayExists(x -> length(file(x)) > 0, ['/etc/hostname'])
SELECT arraySort(file, ['/etc/hostname'])
SELECT arrayFirst(x -> file(x) != '', ['/etc/hostname'])
SELECT mapApply((k, v) -> (k, file(v)), map('a', '/etc/hostname'))
WITH file AS f SELECT f('/etc/hostname')
WITH file AS f SELECT arrayMap(f, ['/etc/hostname'])
WITH x -> file(x) AS f SELECT f('/etc/hostname')
WITH (x -> file(x)) AS f SELECT arrayMap(f, ['/etc/hostname'])
SELECT x -> file(x) AS f, arrayMap(f, ['/etc/hostname'])
SELECT 'x' AS file, arrayMap(file, ['/etc/hostname'])
SELECT * APPLY(file) FROM (SELECT '/etc/hostname' AS a)
SELECT * APPLY file FROM (SELECT '/etc/hostname' AS a)
SELECT * APPLY(`file`) FROM (SELECT '/etc/hostname' AS a)
SELECT * APPLY(x -> file(x)) FROM (SELECT '/etc/hostname' AS a)
SELECT * APPLY(x -> (SELECT file('/etc/hostname'))) FROM (SELECT '/etc/hostname' AS a)
SELECT COLUMNS('a') APPLY(toString) APPLY(file) FROM (SELECT '/etc/hostname' AS a)
SELECT t.* APPLY(file) FROM (SELECT '/etc/hostname' AS a) AS t
SELECT untuple((1, 2)), * APPLY file FROM (SELECT '/etc/hostname' AS a)
SELECT arrayReduce('file', ['/etc/hostname'])
SELECT initializeAggregation('file', '/etc/hostname')
SELECT arrayReduce('aggThrow(1)', [1])
SELECT arrayReduceInRanges('flameGraph', [(1, 1)], [1])
SELECT initializeAggregation('aggThrowState', 1)
SELECT arrayReduce(concat('agg', 'Throw'), [1])

# Expressions inside of structures and types.
SELECT a FROM values('x UInt8, a String ALIAS file(''/etc/hostname'')', (1))
SELECT a FROM values('x UInt8, a String DEFAULT file(''/etc/hostname'')', (1))
SELECT a FROM values('x UInt8, a String MATERIALIZED file(''/etc/hostname'')', (1))
SELECT a FROM values('x UInt8, a ALIAS file(\'/etc/hostname\')', (1))
SELECT a FROM values('x UInt8, `a` String ALIAS arrayMap(file, [\'/etc/hostname\'])[1]', (1))
SELECT a FROM values($$x UInt8, a String ALIAS file('/etc/hostname')$$, (1))
SELECT a FROM values('x UInt8, a String' || ' ALIAS file(''/etc/hostname'')', (1))
SELECT a FROM values(concat('x UInt8, a String ALIAS file(''/etc/hostname'')', ''), (1))
WITH 'x UInt8, a String ALIAS file(''/etc/hostname'')' AS st SELECT a FROM values(st, (1))
SELECT a FROM VALUES('x UInt8, a String ALIAS file(''/etc/hostname'')', (1))
SELECT a FROM `values`('x UInt8, a String ALIAS file(''/etc/hostname'')', (1))
SELECT a FROM values('x UInt8, a String /* */ ALIAS file(''/etc/hostname'')', (1))
SELECT a FROM values('x UInt8, a String ALIAS hasColumnInTable(\'default\', \'/etc/hostname\', \'c1\')', (1))
SELECT a FROM values('x UInt8, a String ALIAS getServerSetting(\'path\')', (1))
SELECT a FROM generateRandom('x UInt8, a String ALIAS file(''/etc/hostname'')') LIMIT 1
SELECT a FROM generateRandom('x UInt8, a String DEFAULT getServerSetting(''path'')') LIMIT 1
SELECT a FROM null('x UInt8, a String ALIAS file(''/etc/hostname'')')
SELECT a FROM format(JSONEachRow, 'x UInt8, a String ALIAS file(''/etc/hostname'')', '{"x": 1}')
SELECT a FROM format('JSONEachRow', 'x UInt8, a String ALIAS file(''/etc/hostname'')', '{"x": 1}')
SELECT a FROM facts, format('JSONEachRow', 'x UInt8, b String ALIAS file(''/etc/hostname'')', '{"x": 1}') AS f
SELECT a FROM input('x UInt8, a String ALIAS file(''/etc/hostname'')')
SELECT hasColumnInTable('default', '/etc/hostname', 'c1')
SELECT getServerSetting('path')
SELECT CAST(unhex('00'), 'AggregateFunction(sum, UInt64)')
SELECT CAST('x', concat('AggregateFunction', '(sum, UInt64)'))
SELECT finalizeAggregation(unhex('00')::AggregateFunction(uniqExact, String))
SELECT JSONExtract('{"a": ""}', 'a', 'AggregateFunction(sum, UInt64)')
SELECT formatRow('Template', 1)

# Time zones that are files.
SELECT toTimezone(now(), 'file:/etc/localtime')
SELECT toTimezone(now(), concat('file', ':/etc/localtime'))
WITH 'file:/etc/localtime' AS z SELECT toTimezone(now(), z)
SELECT now('file:/etc/localtime')
SELECT toDateTime('2020-01-01 00:00:00', 'file:/etc/localtime')
SELECT toString(now(), 'file:/etc/localtime')
SELECT arrayMap(toString, [now()], ['file:/etc/localtime'])
SELECT arrayMap((x, y) -> toString(x, y), [now()], ['file:/etc/localtime'])
SELECT formatDateTime(now(), '%Y', 'file:/etc/localtime')
SELECT CAST(now(), 'DateTime(\'file:/etc/localtime\')')
SELECT now()::DateTime64(3, 'file:/etc/localtime')
SELECT * FROM values('a DateTime(\'file:/etc/localtime\')', (0))
SET session_timezone = 'file:/etc/localtime'

# What syntax trees leave out.
SHOW TABLES WHERE toUInt64(file('/etc/hostname')) = 0
SHOW TABLES WHERE name IN (SELECT query FROM system.processes)
SHOW TABLES LIMIT length(file('/etc/hostname'))
SHOW TABLES FROM default
SHOW TABLES LIKE 'a' OR file('/etc/hostname') = ''
SHOW TABLES NOT LIKE 'a' WHERE 1
SHOW FULL TABLES WHERE file('/etc/hostname') = ''
SHOW DATABASES WHERE file('/etc/hostname') = ''
SHOW DICTIONARIES WHERE file('/etc/hostname') = ''
SHOW DICTIONARIES LIMIT length(file('/etc/hostname'))
SHOW COLUMNS FROM facts WHERE file('/etc/hostname') = ''
SHOW COLUMNS FROM facts LIMIT length(file('/etc/hostname'))
SHOW COLUMNS FROM facts WHERE (SELECT count() FROM system.processes) > 0
SHOW FULL FIELDS FROM facts WHERE file('/etc/hostname') = ''
SHOW COLUMNS FROM facts FROM default
SHOW INDEXES FROM facts WHERE file('/etc/hostname') = ''
SHOW INDEX FROM facts WHERE 1
SHOW KEYS FROM facts
SHOW SETTINGS WHERE 1
SHOW FUNCTIONS WHERE 1
SHOW MERGES
SHOW CLUSTERS
SHOW CLUSTER 'default'
SHOW FILESYSTEM CACHES
SHOW PROCESSLIST
SHOW ACCESS
SHOW GRANTS
SHOW PRIVILEGES
SHOW USERS
SHOW ROLES
SHOW CURRENT ROLES
SHOW CREATE USER default
SHOW CREATE QUOTA default
SHOW PROFILES
SHOW POLICIES
SHOW QUOTAS
SHOW QUOTA
SHOW CREATE DICTIONARY d
SHOW CREATE TABLE default.`/etc/hostname`
SHOW CREATE DATABASE default
EXISTS TABLE default.`/etc/hostname`
EXISTS DATABASE default
DESCRIBE TABLE default.`/etc/hostname`
DESCRIBE TABLE facts SETTINGS max_execution_time = 0
DESCRIBE file('/etc/hostname', 'LineAsString')
DESCRIBE TABLE file('/etc/hostname')
CHECK TABLE facts
CHECK GRANT SELECT ON *.*

# Functions that reach what is not theirs.
SELECT joinGet('facts', 's', 1)
SELECT dictGet('d', 'a', 1)
SELECT dictHas('d', 1)
SELECT catboostEvaluate('/etc/hostname', 1)
SELECT aiGenerate('x')
SELECT showCertificate('/etc/hostname')
SELECT structureToProtobufSchema('a String')
SELECT filesystemAvailable()
SELECT getMacro('x')
SELECT logTrace('x')
SELECT fullHostName()
SELECT FQDN()
SELECT getOSKernelVersion()
SELECT demangle('x')
SELECT addressToLine(1)
SELECT formatQuery('SELECT 1')
SELECT formatQuerySingleLine('SELECT 1')
SELECT fuzzQuery('SELECT 1')
SELECT generateRandomStructure(1, 1)
SELECT __getScalar('x')
SELECT _CAST(1, 'String')
SELECT nullIn(1, default.`/etc/hostname`)
SELECT in(1, default.`/etc/hostname`)
SELECT globalIn(1, system.processes)
SELECT no_such_function(1)
SELECT `sum (alias x)`(1)
SELECT sumIff(1)
SELECT 'file'('/etc/hostname')
SELECT millrace.file('/etc/hostname')
SELECT readf('/etc/hostname')
SELECT arrayMap(readf, ['/etc/hostname'])
SELECT arrayMap(`READF`, ['/etc/hostname'])
SELECT * APPLY(readf) FROM (SELECT '/etc/hostname' AS a)
WITH readf AS f SELECT arrayMap(f, ['/etc/hostname'])

# Table functions that reach files, programs, other servers or other tables.
SELECT * FROM file('/etc/hostname', 'LineAsString')
SELECT * FROM `file`('/etc/hostname', 'LineAsString')
SELECT * FROM view(SELECT * FROM file('/etc/hostname', 'LineAsString'))
SELECT * FROM facts, file('/etc/hostname', 'LineAsString')
SELECT * FROM facts JOIN file('/etc/hostname', 'LineAsString') AS f ON 1
SELECT 'a' IN (SELECT * FROM file('/etc/hostname', 'LineAsString'))
SELECT 'a' IN file('/etc/hostname', 'LineAsString')
EXPLAIN SELECT * FROM file('/etc/hostname', 'LineAsString')
SELECT * FROM fileCluster('x', '/etc/hostname', 'LineAsString')
SELECT * FROM filesystem('/etc')
SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')
SELECT * FROM url('file:///etc/hostname', 'LineAsString')
SELECT * FROM s3('http://127.0.0.1:1/x', 'CSV')
SELECT * FROM gcs('http://127.0.0.1:1/x', 'CSV')
SELECT * FROM hdfs('hdfs://127.0.0.1:1/x', 'CSV')
SELECT * FROM azureBlobStorage('x')
SELECT * FROM iceberg('http://127.0.0.1:1/')
SELECT * FROM icebergLocal('/etc')
SELECT * FROM deltaLakeLocal('/etc')
SELECT * FROM paimonLocal('/etc')
SELECT * FROM remote('127.0.0.1:1', 'system', 'one')
SELECT * FROM remote('127.0.0.1:1', view(SELECT 1))
SELECT * FROM remoteSecure('127.0.0.1:1', 'system', 'one')
SELECT * FROM cluster('x', 'system', 'one')
SELECT * FROM clusterAllReplicas('x', 'system', 'one')
SELECT * FROM mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')
SELECT * FROM postgresql('127.0.0.1:1', 'a', 'b', 'c', 'd')
SELECT * FROM mongodb('127.0.0.1:1', 'a', 'b', 'c', 'd', 'e String')
SELECT * FROM redis('127.0.0.1:1', 'k', 'k String')
SELECT * FROM odbc('x', 'y', 'z')
SELECT * FROM jdbc('x', 'y', 'z')
SELECT * FROM sqlite('/tmp/x', 'y')
SELECT * FROM executable('id', 'CSV', 'a String')
SELECT * FROM input('a String')
SELECT * FROM dictionary('x')
SELECT * FROM loop(millrace.facts)
SELECT * FROM merge('default', '.*')
SELECT * FROM merge('system', 'processes')
SELECT * FROM mergeTreeIndex(millrace, facts)
SELECT * FROM mergeTreeProjection(millrace, facts, 'x')
SELECT * FROM timeSeriesData('x')
SELECT * FROM prometheusQuery('x', 'y', now())
SELECT * FROM fuzzQuery('SELECT 1')
SELECT * FROM fuzzJSON('{}')
SELECT * FROM facts(x = 1)
SELECT * FROM file_view

# Tables that are files, and the engine's inner life.
SELECT * FROM default.`/etc/hostname`
SELECT * FROM `default`.`/etc/hostname`
SELECT * FROM "default"."/etc/hostname"
SELECT * FROM default."/etc/hostname" FINAL
SELECT 1 IN default.`/etc/hostname`
SELECT 1 IN (default.`/etc/hostname`)
SELECT 1 NOT IN default.`/etc/hostname`
SELECT 1 GLOBAL IN default.`/etc/hostname`
SELECT sum(1) OVER w FROM facts WINDOW w AS (ORDER BY 1 IN default.`/etc/hostname`)
SELECT * APPLY(x -> x IN default.`/etc/hostname`) FROM facts
SELECT a FROM facts ORDER BY a WITH FILL INTERPOLATE (s AS 1 IN default.`/etc/hostname`)
WITH default.`/etc/hostname` AS t SELECT 1 IN t
SELECT * FROM system.processes
SELECT * FROM `system`.`processes`
SELECT * FROM `system.processes`
SELECT * FROM SYSTEM.processes
SELECT * FROM (SELECT * FROM system.processes)
SELECT * FROM facts WHERE a IN system.processes
SELECT * FROM system.users
SELECT * FROM system.named_collections
SELECT * FROM system.server_settings
SELECT * FROM system.merge_tree_settings
SELECT * FROM system.stack_trace
SELECT * FROM system.disks
SELECT * FROM system.clusters
SELECT * FROM system.query_cache
SELECT * FROM system.query_log
SELECT * FROM system.certificates
SELECT * FROM system.macros
SELECT * FROM system.errors
SELECT * FROM system.metrics
SELECT * FROM system.asynchronous_inserts
SELECT * FROM system.warnings
SELECT * FROM system.user_processes
SELECT * FROM system.dictionaries
SELECT * FROM system.mutations
SELECT * FROM system.merges
SELECT * FROM system.symbols
SELECT * FROM system.grants
SELECT * FROM system.user_directories
SELECT * FROM system.quota_usage
SELECT * FROM system.build_options
SELECT * FROM system.schema_inference_cache
USE default
USE system
USE `default`

# Statements that are no reads.
INSERT INTO facts VALUES (1, 'x')
INSERT INTO facts SELECT 1, 'x'
INSERT INTO FUNCTION file('/tmp/x', 'CSV', 'a UInt8') SELECT 1
INSERT INTO facts FROM INFILE '/etc/hostname' FORMAT LineAsString
CREATE TABLE mine (a UInt8) ENGINE = Memory
CREATE TEMPORARY TABLE mine (a UInt8)
CREATE TABLE mine (a String) ENGINE = File(LineAsString, '/etc/hostname')
CREATE VIEW mine AS SELECT file('/etc/hostname')
CREATE FUNCTION f AS x -> file(x)
CREATE DATABASE mine ENGINE = Filesystem('/etc')
CREATE DICTIONARY d (a UInt64) PRIMARY KEY a SOURCE(FILE(path '/etc/hostname' format 'CSV')) LAYOUT(FLAT()) LIFETIME(0)
CREATE NAMED COLLECTION c AS a = 1
CREATE USER x
GRANT SELECT ON *.* TO x
REVOKE SELECT ON *.* FROM x
DROP TABLE facts
TRUNCATE TABLE facts
ALTER TABLE facts DELETE WHERE 1
UPDATE facts SET s = '' WHERE 1
DELETE FROM facts WHERE 1
OPTIMIZE TABLE facts
RENAME TABLE facts TO others
EXCHANGE TABLES facts AND others
ATTACH TABLE facts
DETACH TABLE facts
UNDROP TABLE facts
SYSTEM STOP MERGES
SYSTEM SHUTDOWN
SYSTEM FLUSH LOGS
KILL QUERY WHERE 1
BACKUP TABLE facts TO File('/tmp/x')
RESTORE TABLE facts FROM File('/tmp/x')
WATCH facts
MOVE USER x TO y
EXECUTE AS default SELECT 1
BEGIN TRANSACTION
COMMIT
SET TRANSACTION SNAPSHOT 1
SET ROLE ALL
SET DEFAULT ROLE ALL TO default
PREPARE x AS SELECT 1
COPY facts TO '/tmp/x'
VALUES (1)
EXPLAIN CREATE TABLE mine (a UInt8) ENGINE = Memory
EXPLAIN AST DROP TABLE facts
EXPLAIN SYNTAX INSERT INTO facts SELECT 1, 'x'
EXPLAIN CURRENT TRANSACTION
EXPLAIN TABLE OVERRIDE mysql('127.0.0.1:1', 'a', 'b', 'c', 'd') PARTITION BY tuple()
SELECT 1 PARALLEL WITH DROP TABLE facts
SELECT 1; DROP TABLE facts
SELECT 1 /* */; DROP TABLE facts
nonsense

# Settings, and files for results.
SELECT 1 SETTINGS max_execution_time = 0
SELECT 1 SETTINGS max_memory_usage = 0
SELECT * FROM (SELECT 1 SETTINGS readonly = 0)
SELECT * FROM view(SELECT 1 SETTINGS max_execution_time = 0)
SELECT * FROM facts SETTINGS readonly = 0
SELECT 1 FORMAT JSON SETTINGS max_execution_time = 0
SET readonly = 0, max_execution_time = 0, format_schema = '/etc/hostname'
SET format_schema = '/etc/hostname:x'
SET max_query_size = 0
SET allow_introspection_functions = 1
SET param_x = 1
SET PROFILE default
SELECT 1 INTO OUTFILE '/tmp/x'
SELECT 1 INTO OUTFILE '/tmp/x' TRUNCATE FORMAT CSV
SELECT 1 INTO OUTFILE '/tmp/x' AND STDOUT
SELECT 1 FORMAT Template
SELECT 1 FORMAT AvroConfluent
SELECT 1 FORMAT ProtobufSingle
