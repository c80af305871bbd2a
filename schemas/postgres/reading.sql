DO $$
DECLARE
    name text;
    described boolean;
BEGIN
    -- Two that grant at once would collide.
    PERFORM pg_advisory_xact_lock(hashtext('millrace.reading'));
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'millrace_reader') THEN
        BEGIN
            CREATE ROLE millrace_reader NOLOGIN;
        EXCEPTION WHEN insufficient_privilege OR duplicate_object OR unique_violation THEN
            NULL; -- duplicate: by a migration of another database of this server
        END;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'millrace_reader') THEN
        RETURN;
    END IF;
    GRANT USAGE ON SCHEMA millrace TO millrace_reader;
    FOR name, described IN
        SELECT c.relname, obj_description(c.oid, 'pg_class') IS NOT NULL FROM pg_class AS c
        WHERE c.relnamespace = 'millrace'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
    LOOP
        IF described THEN
            EXECUTE format('GRANT SELECT ON millrace.%I TO millrace_reader', name);
        ELSE
            EXECUTE format('REVOKE ALL ON millrace.%I FROM millrace_reader', name);
        END IF;
    END LOOP;
END
$$
