package main

import (
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/stream"
)

// peer is what people use in place of the projectors. Two processes of it
// share a durable consumer of the same stream and write to a table of their
// own in the same ClickHouse, over the same wires.
type peer string

const (
	noPeer        peer = ""
	plainPeer     peer = "plain"     // pull, insert, acknowledge (package test/plain)
	replacingPeer peer = "replacing" // … into a table that replaces rows of one identity, read with FINAL
	bentoPeer     peer = "bento"     // the stream processor of that name, by its configuration (test/peers/bento)
)

var peers = []peer{plainPeer, replacingPeer, bentoPeer}

func parsePeer(name string) (peer, error) {
	if name != "" && !slices.Contains(peers, peer(name)) {
		return "", fmt.Errorf("-peer: there is no %q, but %v", name, peers)
	}
	return peer(name), nil
}

// flag is what chooses the peer, if any.
func (p peer) flag() string {
	if p == noPeer {
		return ""
	}
	return " -peer " + string(p)
}

// killUnacked is for peers alone: it forces what the other kinds leave to
// chance.
const killUnacked kind = "kill-unacked"

// suits tells which kinds are for a peer: those of the parts that it has.
func (p peer) suits(k kind) bool {
	if p == noPeer {
		return k != killUnacked
	}
	switch k {
	case killLeader, killStandby, killIngest, killClickHouse, killNATS, killAll, killUnacked,
		stallLeader, stallClickHouse, stallNATS,
		cutClickHouse, cutNATS, muteClickHouse, muteNATS, delayClickHouse, delayNATS, throttleClickHouse, throttleNATS,
		tearClickHouse, tearNATS, resetClickHouse, resetNATS,
		refuseParts, readOnly, fullClickHouse, fullNATS, unplugAll, unplugNATS, unplugClickHouse,
		killNode, stallNode, partitionNode, unplugNode, rolling:
		return true
	default:
		return false
	}
}

const (
	// peerConsumer is the durable consumer that a peer's processes share.
	peerConsumer = "peer"
	// peerWindow is how long the broker drops repeats for a peer, which has
	// nothing else against them: the default of installations, longer than a
	// run.
	peerWindow = time.Hour
	// peerAckWait is the default of NATS.
	peerAckWait   = 30 * time.Second
	peerBatchRows = 10_000
	peerBatchWait = 100 * time.Millisecond
)

// The peer's own process learns by these where everything is.
const (
	envClickHouse = "MILLRACE_FAULTS_CLICKHOUSE"
	envAckWait    = "MILLRACE_FAULTS_ACK_WAIT"
	envDoom       = "MILLRACE_FAULTS_DOOM"
)

// window is how long the broker drops repeats.
func (c config) window() time.Duration {
	if c.peer != noPeer {
		return peerWindow
	}
	return dedupWindow
}

// usePeer puts a peer's processes in the place of the projectors.
func (c *cluster) usePeer(dir, self string, cfg config) {
	c.peer, c.tables = cfg.peer, []string{"peer_events", "peer_stages"}
	env := []string{
		envListen + "=" + c.shared.natsURL(stream.RoleMillrace), envClickHouse + "=" + c.shared.clickhouse[0].listen,
		envAckWait + "=" + cfg.ackWait.String(),
	}
	c.ingest.env = append(c.ingest.env, "MILLRACE_POSTGRES_DSN=") // of shards a peer knows nothing
	c.projectors = nil
	for _, name := range []string{"peer-a", "peer-b"} {
		p := newProcess(dir, name, self, `"msg":"consuming"`, append([]string{envPart + "=peer"}, env...))
		if cfg.peer == bentoPeer {
			p = newProcess(dir, name, filepath.Join(dir, "bento"), "Input type nats_jetstream is now active",
				slices.Clone(env),
				"-c", filepath.Join(dir, bentoPipeline))
		}
		p.env = append(p.env, envDoom+"="+doomFile(p))
		p.holds = 1 // until there are tables
		c.projectors = append(c.projectors, p)
	}
}

// bentoPipeline is the file of its configuration.
const bentoPipeline = "pipeline.yaml"

// buildPeer builds a peer that is a program of a module of its own.
func (c config) buildPeer(ctx context.Context, dir string) error {
	if c.peer != bentoPeer {
		return nil
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/millrace-io/millrace").Output()
	if err != nil {
		return fmt.Errorf("build the peer: %w", err)
	}
	folder := filepath.Join(strings.TrimSpace(string(root)), "test", "peers", string(c.peer))
	cmd := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, string(c.peer)), ".")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the peer: %w\n%s", err, out)
	}
	return copyFile(filepath.Join(dir, bentoPipeline), filepath.Join(folder, bentoPipeline))
}

//go:embed sql/peer.sql
var peerTable string

//go:embed sql/peer_stages.sql
var peerStages string

//go:embed sql/peer_stages_view.sql
var peerView string

// makeTables makes a peer's tables, as its operator would, and lets it begin.
func (c *cluster) makeTables(ctx context.Context) error {
	if c.peer == noPeer {
		return nil
	}
	engine := "MergeTree ORDER BY (occurred_at, seq)"
	if c.peer == replacingPeer {
		engine = "ReplacingMergeTree ORDER BY identity"
	}
	for _, sql := range []string{fmt.Sprintf(peerTable, engine), peerStages, peerView} {
		if err := (database{c.chHTTP}).exec(ctx, sql); err != nil {
			return fmt.Errorf("make the peer's tables: %w", err)
		}
	}
	for _, p := range c.projectors {
		p.release()
	}
	return nil
}

// peerPosition is how many messages the peer has acknowledged, as the one
// position of all.
func (w *watch) peerPosition(ctx context.Context) ([]record, error) {
	js, err := w.js.Conn().JetStream() // it tells of consumers that pull and of those that are pushed to
	if err != nil {
		return nil, err
	}
	info, err := js.ConsumerInfo(stream.Events, peerConsumer, nats.Context(ctx))
	if err != nil {
		return nil, err
	}
	// Messages are delivered in order, the first time.
	done := info.Delivered.Stream - min(info.Delivered.Stream, uint64(max(info.NumAckPending, 0)))
	return []record{{Checkpoint: funnel.Checkpoint{From: done, To: done}}}, nil
}
