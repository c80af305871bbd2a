-- Events that the summaries of a retirement hold, by day and by month.
SELECT
    (SELECT sum(events) FROM events_daily FINAL WHERE dimension = '' AND period >= toDate(@from) AND period < toDate(@to) AND upto = @upto),
    (SELECT sum(events) FROM events_monthly FINAL WHERE dimension = '' AND period >= toDate(@from) AND period < toDate(@to) AND upto = @upto)
