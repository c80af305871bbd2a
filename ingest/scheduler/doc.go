// Package scheduler runs jobs when they are due: each run is an item of the queue
// crawl, which a worker takes. Any number of schedulers share the work, and none
// leads.
//
// # The promise
//
//  1. One outcome. The outcomes of due times, the runs that follow, their items, and
//     the time from which on a job's due times are undecided, change in one
//     transaction that has locked the job. So a scheduler that is killed leaves all
//     of it or nothing, and of two schedulers one decides.
//
//  2. One clock. What is due is decided by the database's clock alone. When that is set
//     back, what was decided stays, and nothing is due until it has caught up.
//
//  3. One end. A change of an item and the row in run_change that tells of it are one
//     transaction, in whichever process ([Notice]), and so are the removal of that row and
//     what follows for the run and its job. So each run ends once, in whatever way its item
//     does. Retrying an item starts the next attempt and reopens its run. Only items that
//     the scheduler has made are runs: what others add to the queue crawl has no row.
//
//  4. No stampede. One look at a job decides about [Config.Page] due times at most and
//     begins one run for what was missed. What is caught up keeps to the job's policy.
//
//  5. No job stops the others. A job that cannot be decided waits for an hour, and the
//     log says why; a run that no item can hold fails.
//
//  6. A stopped job is not crawled. The change that pauses, orphans or deletes a job commits
//     with a row in job_stop. A scheduler removes the row in the transaction that cancels the
//     job's runs which no worker has, unless the job has been resumed. A run whose item goes
//     back to the queue while its job is stopped is cancelled, too. A run that a worker has
//     goes on.
//
// The tests cite the numbers.
package scheduler
