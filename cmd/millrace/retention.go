package main

import "time"

// retentionSettings are the retention of each kind of data.
type retentionSettings struct {
	Months      int `help:"Whole months for which single events are kept, at least 2; older ones are summarized by day and by month. 0: for ever." env:"MILLRACE_RETENTION_MONTHS" name:"retention-months" default:"6"`
	DailyMonths int `help:"Whole months for which summaries by day are kept; those by month always are. 0: for ever." env:"MILLRACE_RETENTION_DAILY_MONTHS" name:"retention-daily-months" default:"0"`

	Shards time.Duration `help:"How long finished files of shards are kept with their history, since their last change. 0: for ever." env:"MILLRACE_SHARDS_RETENTION" name:"shards-retention" default:"0"`

	Uploads time.Duration `help:"How long uploads are kept that are done or failed, with all that they have. 0: for ever." env:"MILLRACE_UPLOADS_RETENTION" name:"uploads-retention" default:"0"`

	UploadExports time.Duration `help:"How long files of exports of uploads are kept." env:"MILLRACE_UPLOADS_EXPORT_RETENTION" name:"uploads-export-retention" default:"24h"`
}
