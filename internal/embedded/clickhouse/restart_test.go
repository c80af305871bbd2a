package clickhouse_test

const envChild = "MILLRACE_TEST_CLICKHOUSE_CHILD"

func child(dir string) int { return 0 }
