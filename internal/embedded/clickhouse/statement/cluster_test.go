package statement

import "testing"

func TestOnCluster(t *testing.T) {
	for text, want := range map[string][2]string{
		"CREATE TABLE t ON CLUSTER `main` (a UInt8) ENGINE = Memory": {"CREATE TABLE t (a UInt8) ENGINE = Memory", "main"},
		"DROP TABLE t on cluster main SYNC":                          {"DROP TABLE t SYNC", "main"},
		"ALTER TABLE t ON CLUSTER 'a-b' DELETE WHERE 1":              {"ALTER TABLE t DELETE WHERE 1", "a-b"},
		"CREATE VIEW v AS SELECT 'ON CLUSTER main'":                  {"CREATE VIEW v AS SELECT 'ON CLUSTER main'", ""},
		"SELECT * FROM a JOIN b ON cluster = 1":                      {"SELECT * FROM a JOIN b ON cluster = 1", ""},
		"DROP TABLE t ON CLUSTER":                                    {"DROP TABLE t ON CLUSTER", ""},
		"DROP TABLE t /* ON CLUSTER x */":                            {"DROP TABLE t /* ON CLUSTER x */", ""},
	} {
		if rest, name := OnCluster(text); rest != want[0] || name != want[1] {
			t.Errorf("%s: %q, cluster %q", text, rest, name)
		}
	}
}
