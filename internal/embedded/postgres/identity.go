package postgres

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"regexp"
	"strconv"
	"syscall"

	"github.com/millrace-io/millrace/internal/embedded/child"
)

// identity is how Postgres runs: as whom, and which Postgres.
type identity struct {
	kind  string // for the log
	attr  syscall.SysProcAttr
	major string // version, such as "17"
}

// give makes the identity the owner of a file that this process has made.
func (i identity) give(path string) error {
	if c := i.attr.Credential; c != nil {
		return os.Chown(path, int(c.Uid), int(c.Gid))
	}
	return nil
}

// identify chooses an identity for which Postgres runs, and can reach both its
// programs and its folder: it has tried.
func identify(ctx context.Context, c *Config) (identity, error) {
	if os.Geteuid() != 0 {
		return try(ctx, c, identity{kind: "as the same user"})
	}
	info, err := os.Stat(c.Dir)
	if err != nil {
		return identity{}, fmt.Errorf("look whose its folder is: %w", err)
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 {
		return try(ctx, c, as("as the owner of its folder", owner.Uid, owner.Gid))
	}
	if inside, ok := namespaced(); ok {
		if inside, err = try(ctx, c, inside); err == nil {
			return inside, nil
		}
		// Not permitted here, most likely; if it is something else, nobody meets it too.
	}
	return asNobody(ctx, c)
}

// asNobody gives the folder, which root has just made, to nobody.
func asNobody(ctx context.Context, c *Config) (identity, error) {
	uid, gid := nobody()
	if err := os.Chown(c.Dir, int(uid), int(gid)); err != nil {
		return identity{}, fmt.Errorf("give its folder to nobody: %w", err)
	}
	i, err := try(ctx, c, as("as nobody", uid, gid))
	if err != nil {
		return identity{}, fmt.Errorf("it cannot run as root, and the user nobody needs access to %s and %s (set "+
			"MILLRACE_ENGINES and MILLRACE_DATA to folders below ones that all may enter): %w",
			c.Engine, c.Dir, err)
	}
	return i, nil
}

func as(kind string, uid, gid uint32) identity {
	return identity{kind: kind, attr: syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}}
}

// nobody is the user to become where being root is not possible.
func nobody() (uid, gid uint32) {
	const usual = 65534
	u, err := user.Lookup("nobody")
	if err != nil {
		return usual, usual
	}
	id, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil || id == 0 {
		return usual, usual
	}
	group, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return uint32(id), usual
	}
	return uint32(id), uint32(group)
}

var versionLine = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d+)`)

// try runs the program in its folder under the identity, for no more than its
// version.
func try(ctx context.Context, c *Config, i identity) (identity, error) {
	out, err := child.Exec(ctx, child.Config{
		Name: "postgres -V", Path: c.program("postgres"), Args: []string{"-V"},
		Env: environment(), Dir: c.Dir, Attr: i.attr,
	})
	if err != nil {
		return identity{}, err
	}
	match := versionLine.FindStringSubmatch(out)
	if match == nil {
		return identity{}, fmt.Errorf("%s says %q of its version", c.program("postgres"), out)
	}
	i.major = match[1]
	return i, nil
}
