-- The owner of the cluster: earlier releases made it Millrace's own role. It
-- cannot lose its rights, so it gets another name.
DO $$
BEGIN
    UPDATE pg_catalog.pg_authid SET rolname = ':superuser' WHERE oid = 10 AND rolname <> ':superuser';
    UPDATE pg_catalog.pg_authid SET rolpassword = NULL WHERE oid = 10 AND rolpassword IS NOT NULL;
END
$$;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[':owner', ':analyst', ':readers'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I', name);
        END IF;
    END LOOP;
END
$$;

ALTER ROLE :owner LOGIN NOSUPERUSER :makes NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :password;

ALTER ROLE :readers NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;

-- The server needs connections for Millrace whatever people do.
ALTER ROLE :analyst LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS
    CONNECTION LIMIT 20 PASSWORD :analyst_password;

GRANT :readers TO :analyst;

-- So that Millrace sees what analysts do, and ends what is beyond their limits.
GRANT :analyst TO :owner;

-- There they could make large objects and temporary tables.
REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC;

GRANT CONNECT ON DATABASE postgres TO :owner;

-- A role may change its own settings.
ALTER ROLE :analyst RESET ALL;

:settings
