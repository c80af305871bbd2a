package connlimit

import "testing"

func TestOwnHost(t *testing.T) {
	for host, want := range map[string]bool{
		"": true, "127.0.0.1:8075": true, "127.0.0.1": true, "[::1]:8075": true, "[::1]": true, "192.168.1.7:80": true,
		"localhost:8075": true, "LocalHost": true, "millrace.localhost:8075": true,
		"own.example:8075": true, "OWN.example": true,
		"evil.example": false, "evil.example:8075": false, "localhost.evil.example": false,
		"127.0.0.1.evil.example:8075": false,
		"notlocalhost":                false, "a.own.example": false, "2130706433": false,
	} {
		if got := OwnHost(host, "own.example"); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}
