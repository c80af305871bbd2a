WITH asked AS MATERIALIZED (
    {limits}
), used AS MATERIALIZED (
    SELECT g."group", (SELECT count(*) FROM millrace.slot AS o WHERE o.stage = $1 AND o."group" = g."group") AS n
    FROM (SELECT DISTINCT "group" FROM asked WHERE "group" <> '') AS g
)
SELECT a.id, a."group", coalesce(u.n, 0) FROM asked AS a LEFT JOIN used AS u ON u."group" = a."group"
