package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
)

type tokenCmd struct {
	Secret string        `help:"Secret that signs tokens." env:"AUTH_JWT_SECRET" name:"jwt-secret"`
	Sub    string        `help:"Who the token is for." required:""`
	Scope  []auth.Scope  `help:"What it allows: events:write, events:backfill, read, work, uploads, admin." enum:"events:write,events:backfill,read,work,uploads,admin" required:""`
	TTL    time.Duration `help:"How long it is valid." default:"24h"`
}

// Run prints a token.
func (c *tokenCmd) Run(p *program) error {
	if c.Secret == "" {
		return errors.New("set AUTH_JWT_SECRET to the secret that the server has")
	}
	token, err := auth.Mint(c.Secret, c.Sub, c.Scope, c.TTL)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.out, token)
	return err
}
