package clickhouse

import "strings"

var escapes = strings.NewReplacer(`\`, `\\`, `'`, `\'`, "`", "\\`")

func quoteText(s string) string { return "'" + escapes.Replace(s) + "'" }

func quoteName(s string) string { return "`" + escapes.Replace(s) + "`" }
