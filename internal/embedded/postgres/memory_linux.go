package postgres

// sharedMemory has the server share memory that needs no folder such as
// /dev/shm, which other programs use too.
func sharedMemory() []string { return []string{"-c", "dynamic_shared_memory_type=sysv"} }
