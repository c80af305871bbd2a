// Package jobs keeps the jobs that crawl sources, in Postgres: one for each source,
// which events about sources make, change, pause and delete.
//
// # The promise
//
//  1. Once. What an event changes commits together with the row that remembers its
//     id. An event that is repeated within seven days changes nothing, whatever its
//     sequence.
//  2. Any order. Each field of a source carries the stream sequence of the event
//     that set it, and a deletion invalidates what was before it. So events that have
//     waited may be applied after later ones: the sources are in the end as if the events
//     had come in the order of the stream. A creation is what comes first in the life of a source: an
//     update that overtakes it on the stream counts.
//  3. Repeats. An event that was published more than seven days after it happened may
//     be one whose id is forgotten. Of a source of Millrace's own, it has the source
//     read as it is; of another, it counts unless a later event was applied.
//  4. Unknown sources. An event about a source that nothing is known of waits for
//     Config.Patience: its creation may come after it. Then it is dead.
//  5. One schedule at a time. Each change of a schedule, and each pause, ends a row of
//     job_schedule and begins another, in the same transaction. Nothing of the past
//     becomes due by it: jobs.next_run_at stays, where it has passed, until the
//     scheduler has settled it.
//  6. Early events. An event whose time is more than source.ClockSkew after the time at
//     which the stream took it is dead, and changes nothing. A clock may be wrong by
//     which Millrace itself tells of a change: a source of its own is then taken as it
//     is in the table, and an event that says no more than that has been applied. No
//     time outranks an event that the stream took before it.
//  7. Deletions. A source that is in the table is not deleted, whatever an event says:
//     its next event, or the reconciliation, finds it again.
//  8. No herd. Of the jobs that are made or enabled within a minute, few run soon. The due times
//     of the others, and of jobs whose intervals change, follow from the id of the job and its
//     interval: those of many jobs are spread evenly.
//
// The tests cite the numbers.
//
// # The rows of a job
//
// job_settings has what events and people set, job_status what changes with each run:
// that row is small, because runs are many. The view jobs shows both as one. Who
// changes either row has locked that of job_status.
package jobs
