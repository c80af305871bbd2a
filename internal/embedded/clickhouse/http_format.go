package clickhouse

// contentType is the Content-Type of a format.
func contentType(format string) string {
	switch format {
	case "JSON", "JSONCompact", "JSONStrings", "JSONCompactStrings", "JSONColumns", "JSONCompactColumns",
		"JSONColumnsWithMetadata", "JSONObjectEachRow":
		return "application/json; charset=UTF-8"
	case "JSONEachRow", "JSONCompactEachRow", "JSONStringsEachRow":
		return "application/x-ndjson; charset=UTF-8"
	case "TabSeparated", "TSV", "TabSeparatedWithNames", "TSVWithNames", "TabSeparatedWithNamesAndTypes",
		"TSVWithNamesAndTypes":
		return "text/tab-separated-values; charset=UTF-8"
	case "CSV", "CSVWithNames", "CSVWithNamesAndTypes":
		return "text/csv; charset=UTF-8; header=" + map[bool]string{true: "absent", false: "present"}[format == "CSV"]
	case "XML":
		return "application/xml; charset=UTF-8"
	case "Native", "RowBinary", "RowBinaryWithNames", "RowBinaryWithNamesAndTypes", "Parquet", "Arrow", "ArrowStream",
		"ORC", "Avro":
		return "application/octet-stream"
	}
	return "text/plain; charset=UTF-8"
}
