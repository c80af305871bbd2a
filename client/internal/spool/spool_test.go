package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The test binary is also the process that is killed while it appends.
const envDir = "SPOOL_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(envDir); dir != "" {
		appendForEver(dir)
	}
	os.Exit(m.Run())
}

// appendForEver prints the number of each record after it was taken.
func appendForEver(dir string) {
	s, err := Open(Config{Dir: dir, MaxBytes: 1 << 30, SyncEvery: time.Hour, Lost: func(int) {}, Log: slog.Default()})
	if err != nil {
		panic(err)
	}
	for i := 0; ; i++ {
		if err := s.Append([][]byte{record(i)}); err != nil {
			panic(err)
		}
		fmt.Println(i)
	}
}

func record(i int) []byte { return fmt.Appendf(nil, "record %d %s", i, strings.Repeat("x", i%700)) }

func records(from, to int) (all [][]byte) {
	for i := from; i < to; i++ {
		all = append(all, record(i))
	}
	return all
}

func openAt(t testing.TB, dir string) *Spool {
	t.Helper()
	return openCounting(t, dir, new(int))
}

// openCounting adds to lost what is lost to damage.
func openCounting(t testing.TB, dir string, lost *int) *Spool {
	t.Helper()
	s, err := Open(Config{
		Dir: dir, MaxBytes: 64 << 20, SyncEvery: time.Millisecond, Lost: func(n int) { *lost += n },
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rest reads and drops everything.
func rest(t testing.TB, s *Spool) (all [][]byte) {
	t.Helper()
	for {
		got, err := s.Read(100, 1<<20)
		must(t, err)
		if len(got) == 0 {
			return all
		}
		all = append(all, got...)
		must(t, s.Drop())
	}
}

func mustEqual(t testing.TB, got, want [][]byte) {
	t.Helper()
	if !slices.EqualFunc(got, want, bytes.Equal) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
}

func TestOrder(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir)
	random := rand.New(rand.NewPCG(1, 1))
	at, dropped := 0, 0
	for range 300 {
		n := random.IntN(50)
		must(t, s.Append(records(at, at+n)))
		at += n
		got, err := s.Read(random.IntN(60)+1, random.IntN(30_000)+1)
		must(t, err)
		mustEqual(t, got, records(dropped, dropped+len(got)))
		must(t, s.Drop())
		must(t, s.Drop()) // once is enough
		dropped += len(got)
		if n, _ := s.Len(); n != at-dropped {
			t.Fatalf("%d records wait, want %d", n, at-dropped)
		}
		if random.IntN(10) == 0 {
			must(t, s.Close())
			s = openAt(t, dir)
		}
	}
	mustEqual(t, rest(t, s), records(dropped, at))
	if n, bytes := s.Len(); n != 0 || bytes != 0 {
		t.Errorf("%d records, %d bytes are left", n, bytes)
	}
	must(t, s.Close())
	must(t, s.Close())
	if err := s.Append(records(0, 1)); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	if size, err := sizeOf(filepath.Join(dir, "queue")); err != nil || size != 0 {
		t.Errorf("%d bytes are left on disk, %v", size, err)
	}
}

// TestKilled holds invariant 1.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envDir+"="+dir)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		buf := make([]byte, 20_000)
		n, err := out.Read(buf)
		for total := n; err == nil && total < 10_000; total += n {
			n, err = out.Read(buf)
		}
		must(t, cmd.Process.Kill())
		var printed bytes.Buffer
		_, _ = printed.ReadFrom(out)
		_ = cmd.Wait()
		last := 0
		if lines := strings.Fields(printed.String()); len(lines) > 1 {
			_, _ = fmt.Sscan(lines[len(lines)-2], &last) // the last line may be cut
		}
		s := openAt(t, dir)
		got := rest(t, s)
		if len(got) <= last {
			t.Errorf("%d records, but %d was taken", len(got), last)
		}
		mustEqual(t, got, records(0, len(got)))
		must(t, s.Close())
	}
}

func TestFull(t *testing.T) {
	s, err := Open(Config{Dir: t.TempDir(), MaxBytes: 10_000, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	defer s.Close()
	must(t, s.Append([][]byte{make([]byte, 6000)}))
	if err := s.Append([][]byte{make([]byte, 100), make([]byte, 5000)}); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	rest(t, s)
	must(t, s.Append([][]byte{make([]byte, 9000)}))
	if _, err := Open(Config{Dir: s.cfg.Dir, MaxBytes: 1, Log: slog.Default()}); err == nil {
		t.Error("it is opened twice")
	}
}

// TestDamage holds invariant 3: whatever is cut off or overwritten, what is
// read was appended, in order, and new records are taken.
func TestDamage(t *testing.T) {
	const n = 4000 // several files
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for range 12 {
		dir := t.TempDir()
		s := openAt(t, dir)
		must(t, s.Append(records(0, n)))
		must(t, s.Close())
		names, err := segments(s.files())
		must(t, err)
		path := filepath.Join(s.files(), names[random.IntN(len(names))])
		if random.IntN(2) == 0 {
			path = filepath.Join(s.files(), names[len(names)-1])
		}
		data, err := os.ReadFile(path)
		must(t, err)
		at := random.IntN(len(data))
		switch random.IntN(3) {
		case 0:
			data = data[:at]
		case 1:
			data[at] ^= 0xff
		case 2:
			clear(data[at:])
		}
		must(t, os.WriteFile(path, data, 0o600))
		must(t, os.WriteFile(path+".TEMP", data, 0o600))
		lost := 0
		s = openCounting(t, dir, &lost)
		must(t, s.Append([][]byte{[]byte("new")}))
		got := rest(t, s)
		if len(got) == 0 || string(got[len(got)-1]) != "new" {
			// Damage found while reading sets all aside, the new one too.
			if lost == 0 {
				t.Errorf("%d records, and no damage told", len(got))
			}
			must(t, s.Append([][]byte{[]byte("new")}))
			mustEqual(t, rest(t, s), [][]byte{[]byte("new")})
			continue
		}
		last := -1
		for _, r := range got[:len(got)-1] {
			var i int
			if _, err := fmt.Sscanf(string(r), "record %d", &i); err != nil || i <= last || !bytes.Equal(r, record(i)) {
				t.Fatalf("after record %d: %q", last, r)
			}
			last = i
		}
		if len(got) != n+1 && lost == 0 {
			t.Errorf("%d records, and no damage told", len(got))
		}
		must(t, s.Close())
	}
}

// locked keeps the timer out.
func locked(s *Spool, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// sealed makes a spool of several files, and returns the second.
func sealed(t *testing.T, lost *int) (s *Spool, path string) {
	t.Helper()
	s = openCounting(t, t.TempDir(), lost)
	must(t, s.Append(records(0, 10_000)))
	names, err := segments(s.files())
	must(t, err)
	if len(names) < 4 {
		t.Fatalf("%d files", len(names))
	}
	must(t, s.log.ClearCache())
	return s, filepath.Join(s.files(), names[1])
}

// TestUnreadable holds invariant 3: a file that cannot be read for now loses
// nothing.
func TestUnreadable(t *testing.T) {
	lost := 0
	s, path := sealed(t, &lost)
	must(t, os.Rename(path, path+".away"))
	must(t, os.Mkdir(path, 0o700)) // which no one can read as a file
	var got [][]byte
	some, err := s.Read(100, 1<<20)
	for ; err == nil && len(some) > 0; some, err = s.Read(100, 1<<20) {
		got = append(got, some...)
		must(t, s.Drop())
	}
	if err == nil {
		t.Error("what cannot be read is no error")
	}
	must(t, s.Drop())
	must(t, s.Append(records(10_000, 10_001)))
	must(t, os.Remove(path))
	must(t, os.Rename(path+".away", path))
	mustEqual(t, append(got, rest(t, s)...), records(0, 10_001))
	if lost != 0 {
		t.Errorf("%d records are called lost", lost)
	}
}

// TestCutAtAnEntry cuts a file where no entry is cut, and keeps it from being
// set aside at first.
func TestCutAtAnEntry(t *testing.T) {
	for _, size := range []int{0, 1} { // entries that are left
		lost := 0
		s, path := sealed(t, &lost)
		data, err := os.ReadFile(path)
		must(t, err)
		length, n := binary.Uvarint(data)
		must(t, os.Truncate(path, int64(size*(n+int(length)))))
		dir, got := s.cfg.Dir, 0
		locked(s, func() { s.cfg.Dir = filepath.Join(dir, "LOCK", "nowhere") })
		for err == nil {
			var some [][]byte
			some, err = s.Read(100, 1<<20)
			if got += len(some); err == nil {
				must(t, s.Drop())
			}
		}
		for range 2 {
			if err := s.Append(records(0, 1)); err == nil {
				t.Error("a record is taken that has no place")
			}
			if _, err := s.Read(1, 1); err == nil {
				t.Error("it can be read")
			}
			must(t, s.Drop())
			s.sync()
		}
		locked(s, func() { s.cfg.Dir = dir })
		must(t, s.Append(records(0, 5)))
		mustEqual(t, rest(t, s), nil)
		must(t, s.Append(records(0, 5)))
		mustEqual(t, rest(t, s), records(0, 5))
		if lost != 10_005-got {
			t.Errorf("%d records are called lost, but %d were not read", lost, 10_005-got)
		}
		must(t, s.Close())
	}
}

// TestGone holds invariant 3 for whole records that are gone, from the end, the
// front, or all of them: how many is told, once. Of a spool whose records were
// dropped none are missed, nor of one that is older than what is noted of it by
// what was dropped since.
func TestGone(t *testing.T) {
	const n = 10_000
	for name, c := range map[string]struct {
		drop int // before the damage
		harm func(t *testing.T, files []string)
		all  bool // are gone
	}{
		"nothing":           {0, func(*testing.T, []string) {}, false},
		"nothing of a rest": {600, func(*testing.T, []string) {}, false},
		"the last file": {
			600, func(t *testing.T, files []string) { must(t, os.Remove(files[len(files)-1])) },
			false,
		},
		"the end of it":  {0, func(t *testing.T, files []string) { cutToOne(t, files[len(files)-1]) }, false},
		"the first file": {0, func(t *testing.T, files []string) { must(t, os.Remove(files[0])) }, false},
		"the folder": {
			0, func(t *testing.T, files []string) { must(t, os.RemoveAll(filepath.Dir(files[0]))) },
			true,
		},
		"all of it": {
			n, func(t *testing.T, files []string) { must(t, os.RemoveAll(filepath.Dir(files[0]))) },
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, lost := t.TempDir(), 0
			s := openCounting(t, dir, &lost)
			must(t, s.Append(records(0, n)))
			for dropped := 0; dropped < c.drop; {
				got, err := s.Read(c.drop-dropped, 1<<20)
				must(t, err)
				must(t, s.Drop())
				dropped += len(got)
			}
			must(t, s.Close())
			names, err := segments(s.files())
			must(t, err)
			for i := range names {
				names[i] = filepath.Join(s.files(), names[i])
			}
			c.harm(t, names)
			s = openCounting(t, dir, &lost)
			left, _ := s.Len()
			if want := n - c.drop - left; lost != want || c.all && left > 0 {
				t.Errorf("%d records are told lost, and %d are", lost, want)
			}
			must(t, s.Append(records(0, 3)))
			must(t, s.Close())
			before := lost
			s = openCounting(t, dir, &lost)
			if now, _ := s.Len(); lost != before || now != left+3 {
				t.Errorf("opened again %d more are told lost, and %d wait, want %d", lost-before, now, left+3)
			}
		})
	}
}

// cutToOne leaves one entry of a file.
func cutToOne(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	length, n := binary.Uvarint(data)
	must(t, os.Truncate(path, int64(n+int(length))))
}

// TestDropAfterANewBeginning: what is in delivery while the queue begins anew
// takes nothing new with it.
func TestDropAfterANewBeginning(t *testing.T) {
	for _, before := range []int{0, 100} { // dropped by then
		s := openAt(t, t.TempDir())
		must(t, s.Append(records(0, 600)))
		if before > 0 {
			_, err := s.Read(before, 1<<20)
			must(t, err)
			must(t, s.Drop())
		}
		got, err := s.Read(400, 1<<20)
		must(t, err)
		mustEqual(t, got, records(before, before+400))
		locked(s, s.shut)
		must(t, os.RemoveAll(s.files()))
		must(t, s.Append(records(1000, 1600)))
		must(t, s.Drop())
		mustEqual(t, rest(t, s), records(1000, 1600))
	}
}

// TestDropAfterAnError: what is in delivery while the same queue is opened
// again is dropped as it would have been.
func TestDropAfterAnError(t *testing.T) {
	s := openAt(t, t.TempDir())
	must(t, s.Append(records(0, 600)))
	_, err := s.Read(500, 1<<20)
	must(t, err)
	locked(s, s.shut)
	must(t, s.Append(records(600, 700)))
	must(t, s.Drop())
	mustEqual(t, rest(t, s), records(500, 700))
}

// TestLenBesideABusyDisk: what waits is told while the disk keeps a call, as a
// write that hangs does.
func TestLenBesideABusyDisk(t *testing.T) {
	s := openAt(t, t.TempDir())
	must(t, s.Append(records(0, 7)))
	told := make(chan int)
	locked(s, func() {
		go func() {
			n, _ := s.Len()
			told <- n
		}()
		select {
		case n := <-told:
			if n != 7 {
				t.Errorf("%d records wait, want 7", n)
			}
		case <-time.After(time.Minute):
			t.Error("Len waits for the disk")
		}
	})
}

// FuzzTail opens whatever lies in a file.
func FuzzTail(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{5, 'x', 1, 2, 3, 4, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(dir, "queue"), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "queue", fmt.Sprintf("%020d", 1)), data, 0o600))
		s := openAt(t, dir)
		must(t, s.Append([][]byte{[]byte("new")}))
		got := rest(t, s)
		if len(got) == 0 || string(got[len(got)-1]) != "new" {
			t.Errorf("%q", got)
		}
	})
}
