-- Events that a retirement has summed up, by day and by month, and whose
-- identities it has kept.
SELECT
    (SELECT sum(events) FROM events_daily FINAL WHERE dimension = '' AND period >= toDate(@from) AND period < toDate(@to) AND upto = @upto),
    (SELECT sum(events) FROM events_monthly FINAL WHERE dimension = '' AND period >= toDate(@from) AND period < toDate(@to) AND upto = @upto),
    (SELECT count() FROM retired_identities FINAL WHERE month = toYYYYMM(@from) AND seq > @after AND seq <= @upto)
