package storagetest

import (
	"net"
	"testing"

	"goftp.io/server/v2"
	"goftp.io/server/v2/driver/file"
)

// FTP runs a server of the files in a folder until the test ends, and returns its address.
func FTP(t testing.TB, folder string) (address string) {
	t.Helper()
	driver, err := file.NewDriver(folder)
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.NewServer(&server.Options{
		Driver: driver, Perm: server.NewSimplePerm("millrace", "millrace"), Logger: new(server.DiscardLogger),
		Auth: &server.SimpleAuth{Name: User, Password: Password}, PublicIP: "127.0.0.1",
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	t.Cleanup(func() {
		_ = s.Shutdown()
		<-ended
	})
	return listener.Addr().String()
}
