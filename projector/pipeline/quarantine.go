package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

const (
	// quarantined is how many damaged key stores of a group there may be while
	// none has been filled again. The newest one is kept for whoever wants to know
	// what has happened to it.
	quarantined = 3
	// quarantineFor is how long that one is kept.
	quarantineFor = 7 * 24 * time.Hour
)

// keyFolder is the folder of a group's key store. Damaged key stores are in
// quarantine beside it.
type keyFolder struct {
	path  string
	group uint32
	log   *slog.Logger
	// streamLost names the sequences that the stream has lost; empty: none.
	streamLost func() string
}

// quarantine moves a damaged key store away. A new one is then filled from the
// events table.
func (k keyFolder) quarantine(damage error) error {
	if err := k.prune(quarantined-1, 0); err != nil {
		k.log.Warn("damaged key stores stay", "group", k.group, "error", err)
	}
	to := k.prefix() + strconv.FormatInt(time.Now().UnixNano(), 10)
	log := k.log.With("group", k.group, "quarantine", to)
	switch lost := k.streamLost(); {
	case errors.Is(damage, keystore.ErrUnproven):
		log.Info("the key store is that of an older millrace, filling a new one from the events table")
	case errors.Is(damage, keystore.ErrDisagrees) && lost != "":
		log.Error("the stream has lost messages that may have been folded, and the key store knows more than it "+
			"delivers: filling a new one from the events table",
			"stream", stream.Events, "sequences", lost, "error", damage)
	case errors.Is(damage, keystore.ErrDisagrees):
		log.Error("the key store does not agree with the stream and the checkpoint, filling a new one from the "+
			"events table",
			"error", damage)
	default:
		log.Error("the key store is damaged, filling a new one from the events table", "error", damage)
	}
	if err := os.Rename(k.path, to); err != nil {
		return fmt.Errorf("move damaged key store to quarantine: %w", err)
	}
	return nil
}

// prefix is what the names of the group's damaged key stores begin with; the
// time follows, in Unix nanoseconds.
func (k keyFolder) prefix() string { return k.path + ".damaged-" }

// prune removes damaged key stores of the group: all but so many of the newest
// ones, and those that were moved before a time, in Unix nanoseconds.
func (k keyFolder) prune(keep int, before int64) error {
	prefix := k.prefix()
	found, err := filepath.Glob(prefix + "*")
	if err != nil {
		return fmt.Errorf("look for damaged key stores: %w", err)
	}
	var times []int64 // of those that were named here
	for _, dir := range found {
		if at, err := strconv.ParseInt(strings.TrimPrefix(dir, prefix), 10, 64); err == nil {
			times = append(times, at)
		}
	}
	slices.SortFunc(times, func(a, b int64) int { return cmp.Compare(b, a) })
	for i, at := range times {
		if i < keep && at >= before {
			continue
		}
		dir := prefix + strconv.FormatInt(at, 10)
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove damaged key store: %w", err)
		}
		k.log.Info("a damaged key store was removed from quarantine", "group", k.group, "folder", dir)
	}
	return nil
}

// keyFolder is where the key store of a group is. Each time that an operator has accepted
// what ClickHouse has, it is another one: what the one before knows may be what is missing.
func (p *Projector) keyFolder(g slots.Group, lease *assignment.Lease) keyFolder {
	name := keysName(g)
	if n := lease.Record().View.Baseline.Accepted; n > 0 {
		name += fmt.Sprintf("%s%d", acceptedSuffix, n)
	}
	return keyFolder{path: filepath.Join(p.cfg.Dir, name), group: g.ID, log: p.log, streamLost: p.cfg.StreamLost}
}

// acceptedSuffix stands in the name of a key store before the number of times that what
// ClickHouse has was accepted.
const acceptedSuffix = ".accepted-"

// forgetUnaccepted removes the key stores of the group from before an operator has accepted
// what ClickHouse has. This one has been filled.
func (k keyFolder) forgetUnaccepted() error {
	base, number, isAccepted := strings.Cut(k.path, acceptedSuffix)
	now, err := strconv.ParseUint(number, 10, 64)
	if !isAccepted || err != nil {
		return nil
	}
	found, err := filepath.Glob(base + acceptedSuffix + "*")
	if err != nil {
		return fmt.Errorf("look for key stores: %w", err)
	}
	for _, dir := range append(found, base) {
		n, err := strconv.ParseUint(strings.TrimPrefix(dir, base+acceptedSuffix), 10, 64)
		if dir != base && (err != nil || n >= now) { // it is in quarantine, or newer
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove a key store: %w", err)
		}
	}
	return nil
}

// forget removes the key stores of groups with smaller ids, which have ended, and
// those in quarantine beside them.
func (p *Projector) forget(first uint32) {
	dirs, err := filepath.Glob(filepath.Join(p.cfg.Dir, "keys*"))
	if err != nil {
		return // a folder with such a name keeps its key stores
	}
	for _, dir := range dirs {
		name, _, _ := strings.Cut(filepath.Base(dir), ".") // .damaged-…
		id, ok := groupOf(name)
		if !ok || id >= first {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			p.log.Warn("the key store of a slot group that has ended is not removed", "group", id, "error", err)
		}
	}
}

// keysName is the name of a group's key store.
func keysName(g slots.Group) string {
	if g.ID == 0 && g.Of == 1 {
		return "keys"
	}
	return fmt.Sprintf("keys-%d", g.ID)
}

// groupOf returns the group that a key store of this name is of.
func groupOf(name string) (id uint32, ok bool) {
	if name == "keys" {
		return 0, true
	}
	_, err := fmt.Sscanf(name, "keys-%d", &id)
	return id, err == nil && name == fmt.Sprintf("keys-%d", id)
}
