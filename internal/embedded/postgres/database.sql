ALTER DATABASE :database OWNER TO :owner;

REVOKE ALL ON DATABASE :database FROM PUBLIC;

GRANT CONNECT ON DATABASE :database TO :readers;

ALTER ROLE :analyst IN DATABASE :database RESET ALL;

-- What an earlier release has made as the owner of the cluster.
DO $$
DECLARE
    statement text;
BEGIN
    FOR statement IN
        SELECT format('ALTER SCHEMA %I OWNER TO :owner', nspname) FROM pg_namespace
        WHERE nspowner = 10 AND nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public')
    LOOP
        EXECUTE statement;
    END LOOP;
    FOR statement IN
        SELECT format('ALTER TABLE %s OWNER TO :owner', c.oid::regclass) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.relowner = 10 AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
            AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid AND deptype = 'e')
    LOOP
        EXECUTE statement;
    END LOOP;
    -- Those of tables have followed their tables.
    FOR statement IN
        SELECT format('ALTER SEQUENCE %s OWNER TO :owner', c.oid::regclass) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.relowner = 10 AND c.relkind = 'S' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
            AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid AND deptype IN ('e', 'a', 'i'))
    LOOP
        EXECUTE statement;
    END LOOP;
    FOR statement IN
        SELECT format('ALTER ROUTINE %s OWNER TO :owner', p.oid::regprocedure) FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
        WHERE p.proowner = 10 AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
            AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e')
    LOOP
        EXECUTE statement;
    END LOOP;
    -- Not those of tables and arrays, which have followed as well.
    FOR statement IN
        SELECT format('ALTER TYPE %s OWNER TO :owner', t.oid::regtype) FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace
            LEFT JOIN pg_class AS c ON c.oid = t.typrelid
        WHERE t.typowner = 10 AND (t.typtype IN ('e', 'd', 'r') OR c.relkind = 'c') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
            AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_type'::regclass AND objid = t.oid AND deptype = 'e')
    LOOP
        EXECUTE statement;
    END LOOP;
END
$$;

-- What is for everybody by default, and not for logins that only read: to fill the disk with
-- large objects and messages of the log, to hold the lock of migrations or of a leader, to
-- take a transaction id, which holds back readers of transitions, to keep a snapshot alive,
-- and to end the sessions of others who use the same login.
DO $$
DECLARE
    routine regprocedure;
BEGIN
    FOR routine IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = 'pg_catalog'::regnamespace AND proacl IS NULL
            AND (proname ~ '^lo_' OR proname IN ('loread', 'lowrite') OR proname ~ '^pg_(try_)?advisory_'
                OR proname IN ('pg_logical_emit_message', 'pg_current_xact_id', 'txid_current', 'pg_export_snapshot', 'pg_notify',
                    'pg_cancel_backend', 'pg_terminate_backend'))
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', routine);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO :owner', routine);
    END LOOP;
END
$$;

