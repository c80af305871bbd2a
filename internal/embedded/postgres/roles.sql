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

ALTER ROLE :analyst SET default_transaction_read_only = on;

ALTER ROLE :analyst SET statement_timeout = '60s';

ALTER ROLE :analyst SET idle_in_transaction_session_timeout = '60s';

ALTER ROLE :analyst SET temp_file_limit = '1GB';

ALTER ROLE :analyst SET search_path = millrace;

