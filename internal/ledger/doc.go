// Package ledger compares what became of the due times of jobs, as job_ledger has
// it, with what their schedules say, as job_schedule has them. It computes the due
// times by itself, and believes nothing that a scheduler has decided. It also says
// which due times come next.
package ledger
