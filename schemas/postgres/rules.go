package postgres

// Rule says what a constraint asks of what people write, in the words that they are told.
type Rule struct{ Field, Rule string }

// Rules are those of the constraints of tables that hold what people write, by the
// constraint's name. Requests are checked before; what comes here all the same is told
// in these words, and never in those of Postgres.
var Rules = map[string]Rule{
	"file_priority_check": {"priority", "must be from 0 to 9"},
	"file_pkey":           {"filename", "must not be the name of a file that is there"},

	"pipeline_tracking_shard_check": {"shards", "must be 0 or more"},
	"uq_filename_shard":             {"shards", "must not be a shard that the file has"},
	"pipeline_tracking_pkey":        {"id", "must not be that of an item that is there"},

	"stage_pkey":                        {"name", "must not be that of a queue that is there"},
	"stage_name":                        {"name", "must not be that of a queue that is there"},
	"stage_concurrency_check":           {"concurrency", "must be 0 or more; 0: any number"},
	"stage_max_attempts_check":          {"max_attempts", "must be 0 or more; 0: any number"},
	"stage_lease_s_check":               {"lease_s", "must be at least 1"},
	"stage_concurrency_per_group_check": {"concurrency_per_group", "must be 0 or more; 0: any number"},
	"stage_rate_count_check":            {"rate_per_key.count", "must be 0 or more; 0: any number"},
	"stage_rate_per_s_check":            {"rate_per_key.per_s", "must be at least 1"},
	"stage_retention_s_check":           {"retention_s", "must be 0 or more"},
	"stage_max_items_check":             {"max_items", "must be at least 1"},
	"rate":                              {"rate_per_key", "must have both count and per_s"},

	"item_pkey":           {"id", "must not be that of an item that is there"},
	"item_priority_check": {"priority", "must be from 0 to 9"},
	"item_key_check":      {"key", "must be 1 to 255 bytes"},
	"item_group_check":    {"group", "must be 1 to 255 bytes"},
	"item_payload_check":  {"payload", "must be at most 65536 bytes of JSON"},
	"item_key_pkey":       {"key", "must not be that of another live item of the queue"},

	"act_pkey":        {"id", "must not be that of a bulk action that is there"},
	"act_request":     {"Idempotency-Key", "must not be that of another bulk action"},
	"act_state_check": {"state", "must be running, finished or stopped"},
	"act_check":       {"state", "must be running while the bulk action has no end, and no longer"},

	"source_pkey":             {"id", "must not be that of a source that is there"},
	"source_name_check":       {"name", "must be 1 to 255 characters"},
	"source_url_check":        {"url", "must be 1 to 2048 characters"},
	"source_rate_limit_check": {"rate_limit", "must be at least 1"},
	"source_max_depth_check":  {"max_depth", "must be at least 1"},
	"source_selectors_check":  {"selectors", "must be at most 65536 bytes of JSON"},
	"source_priority_check":   {"priority", "must be low, normal, high or critical"},

	"pending_override_pkey":           {"source_id", "must not have settings that wait already"},
	"pending_override_source_id_fkey": {"source_id", "must be that of a source that is there"},

	"jobs_pkey":                               {"id", "must not be that of a job that is there"},
	"jobs_source_id_key":                      {"source_id", "must not be that of a source that has a job"},
	"jobs_origin_check":                       {"origin", "must be event, reconciliation or manual"},
	"jobs_schedule_kind_check":                {"schedule_kind", "must be interval or cron"},
	"jobs_interval_minutes_check":             {"interval_minutes", "must be from 1 to 527040"},
	"jobs_interval_type_check":                {"interval_type", "must be minutes or hours"},
	"jobs_jitter_seconds_check":               {"jitter_seconds", "must be 0 or more"},
	"jobs_crawl_window_start_check":           {"crawl_window", "must begin at an hour from 0 to 23"},
	"jobs_crawl_window_end_check":             {"crawl_window", "must end at an hour from 0 to 23"},
	"jobs_max_concurrent_check":               {"max_concurrent", "must be from 1 to 100"},
	"jobs_overlap_policy_check":               {"overlap_policy", "must be skip, buffer_one, cancel_other or allow"},
	"jobs_catch_up_policy_check":              {"catch_up_policy", "must be none, one, recent or all"},
	"jobs_catch_up_window_seconds_check":      {"catch_up_window_seconds", "must be 0 or more"},
	"jobs_catch_up_cap_check":                 {"catch_up_cap", "must be 0 or more"},
	"jobs_catch_up_spread_seconds_check":      {"catch_up_spread_seconds", "must be 0 or more"},
	"jobs_check":                              {"cron", "must be given for a schedule of that kind, and for no other"},
	"jobs_check1":                             {"crawl_window", "must have both a begin and an end"},
	"job_settings_max_attempts_check":         {"max_attempts", "must be from 1 to 100"},
	"job_settings_retry_delay_seconds_check":  {"retry_delay_seconds", "must be from 0 to 86400"},
	"job_settings_backoff_base_minutes_check": {"backoff_base_minutes", "must be from 1 to 527040"},
	"job_settings_backoff_max_minutes_check":  {"backoff_max_minutes", "must be from 1 to 527040"},
}
