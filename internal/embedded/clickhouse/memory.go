package clickhouse

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
)

// Memory of statements: an analyst's statement has half of Config.MaxMemory, one of the read-write login three quarters, and
// all of them, with caches and merges, have the whole of it (max_server_memory_usage). An analyst's statement that needs more
// than is left fails at once. For one of the read-write login the engine ends the statement that has most, and that one waits
// for what it leaves. It fails when a third takes that first; who writes repeats it. Were analysts to wait, too, it could be
// too little for both.
//
// There is no limit for the engine's user, which all sessions share. What a statement frees after its end, such as the buffers
// of its result, stays with the user, some megabytes each, until the user has no statement at all: beside one that takes long,
// a hundred others were enough to have all refused, those that write as well.
//
// A limit that has to hold in every session from its first statement on is in a profile, which is a file.
//
// The engine does not end a statement whose interactive_delay is 0.
const profile = `<clickhouse>
  <profiles><default>
    <max_temporary_data_on_disk_size_for_user>%d</max_temporary_data_on_disk_size_for_user>
    <constraints><interactive_delay><min>1</min></interactive_delay></constraints>
  </default></profiles>
  <users><default>
    <password></password>
    <networks><ip>::/0</ip></networks>
    <profile>default</profile>
    <quota>default</quota>
    <named_collection_control>1</named_collection_control>
  </default></users>
  <quotas><default></default></quotas>
</clickhouse>
`

// serverConfig has parts merged when some ten of a size are there, in place of five:
// a row is merged half as often, and a query reads some more parts. Buffers of
// columns that are written or merged take a quarter of what they take by default.
// A part as it is inserted, up to 64 MiB, has all columns in one file, so that one
// insert waits for the disk a few times in place of some sixty. No statistics of
// columns are kept: they are for choosing the order of joins, and cost an eighth of
// the time of an insert and a quarter of that of a merge.
const serverConfig = `<clickhouse>
  <merge_tree>
    <merge_selector_base>10</merge_selector_base>
    <max_compress_block_size>262144</max_compress_block_size>
    <min_bytes_for_wide_part>67108864</min_bytes_for_wide_part>
    <auto_statistics_types></auto_statistics_types>
  </merge_tree>
</clickhouse>
`

// Environ is what the engine's allocator reads from the environment: it gives memory
// that is free back to the system after half a second, in place of five seconds, in
// which several merges and inserts would each take more.
func Environ() []string { return []string{"JE_MALLOC_CONF=dirty_decay_ms:500"} }

// What a GROUP BY or an ORDER BY may put on disk, in bytes: of one statement of an
// analyst, and of all statements at one time.
const (
	analystDisk   = 1 << 30
	statementDisk = 8 << 30
)

const codeMemory = 241

func (c Config) analystMemory() int64 { return c.MaxMemory / 2 }

// writerSettings are those of statements of the read-write login.
func (c Config) writerSettings() string {
	return "max_memory_usage = " + strconv.FormatInt(c.MaxMemory/4*3, 10)
}

// profileArgs writes the profile of all sessions into the data folder, and returns
// the engine's arguments for it.
func profileArgs(path string, c Config) ([]string, error) {
	dir := filepath.Join(path, "profile")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the engine's profile: %w", err)
	}
	config, users := filepath.Join(dir, "config.xml"), filepath.Join(dir, "users.xml")
	for file, text := range map[string]string{
		config: serverConfig,
		users:  fmt.Sprintf(profile, statementDisk),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("write the engine's profile: %w", err)
		}
	}
	return []string{"--config-file=" + config, "--users_config=" + users}, nil
}

// memorySettings are those of an analyst's statement with a limit of memory: it
// groups and sorts on disk when it has used half of it.
func memorySettings(memory string) []string {
	limit, _ := strconv.ParseUint(memory, 10, 64)
	half := strconv.FormatUint(limit/2, 10)
	return []string{
		"max_bytes_before_external_group_by = " + half, "max_bytes_before_external_sort = " + half,
		"max_temporary_data_on_disk_size_for_query = " + strconv.Itoa(analystDisk),
		"memory_usage_overcommit_max_wait_microseconds = 0",
	}
}

// explainMemory has an error about memory say what the limit is.
func (e *engine) explainMemory(err error) error {
	var known *chdb.Exception
	if !errors.As(err, &known) || known.Code != codeMemory {
		return err
	}
	return exception(codeMemory, known.Name, "%s: an analyst's statement has half of %s, "+
		"and all statements at one time, with caches and merges, have the whole of it; docs/statement-limits.md", known.Message, e.memory)
}
