package demo

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/internal/uploads"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// ProductQueue is the queue that works the rows of some uploads.
const ProductQueue = "products"

const (
	uploadEvery = 30 * time.Minute
	// productRows is how many rows a file of products has, and brokenRow the one that lacks cells.
	productRows, brokenRow = 240, 97
)

// Files are where uploads and their files are.
type Files struct {
	Uploads *uploads.Store
	Files   *uploads.Files
}

// Uploads uploads files of products, one of which is copied and one worked through ProductQueue, and works these
// rows, until ctx ends. makeQueue makes the queue, if it is not there.
func (d *Demo) Uploads(ctx context.Context, nc *nats.Conn, to Files, makeQueue func(context.Context) error) error {
	p := &products{work: work{Demo: d, nc: nc}, Files: to}
	if !p.persist(ctx, func() error { return makeQueue(ctx) }) {
		return nil
	}
	var all errgroup.Group
	all.Go(func() error { p.run(ctx, ProductQueue, p.product); return nil })
	all.Go(func() error { p.upload(ctx); return nil })
	return all.Wait()
}

// products are rows of uploads.
type products struct {
	work
	Files
}

func (p *products) upload(ctx context.Context) {
	every := time.NewTicker(uploadEvery)
	defer every.Stop()
	for ctx.Err() == nil {
		for _, processor := range []string{schema.Copy, ProductQueue} {
			name := "products-" + time.Now().UTC().Format("150405") + ".csv"
			if processor != schema.Copy {
				name = "stock-" + name
			}
			p.persist(ctx, func() error { return p.send(ctx, name, processor, p.file()) })
		}
		select {
		case <-every.C:
		case <-ctx.Done():
		}
	}
}

// send uploads a file as a user without a name, as all are who have no token.
func (p *products) send(ctx context.Context, name, processor, text string) error {
	id, err := p.Uploads.Begin(ctx, "", "", int64(len(text)))
	if err == nil {
		err = p.complete(ctx, id, name, processor, text)
	}
	var limit *uploads.LimitError
	if errors.As(err, &limit) || errors.Is(err, uploads.ErrProcessor) { // a person has to do something about it
		p.log.Debug("the demo uploads nothing", "error", err)
		err = nil
	}
	return err
}

func (p *products) complete(ctx context.Context, id uuid.UUID, name, processor, text string) error {
	var sniff tabular.Sniffer
	stored, err := p.Files.Files.Put(ctx, id, int64(len(text)), io.TeeReader(strings.NewReader(text), &sniff))
	var format tabular.Format
	if err == nil {
		format, err = sniff.Sniff(name, "", "", 0)
	}
	if err == nil {
		err = p.Uploads.Complete(ctx, id, uploads.Received{
			Name: name, FileName: name, Processor: processor, Mapping: map[string]string{"title": "ProductName"},
			Format: format, Size: stored.Size, SHA256: stored.SHA256[:],
		})
	}
	if err != nil {
		return errors.Join(err, p.Uploads.Abandon(ctx, id))
	}
	return nil
}

// file is a table of products.
func (p *products) file() string {
	var text strings.Builder
	to := csv.NewWriter(&text)
	line := func(cells ...string) { _ = to.Write(cells) } // to memory
	line("SKU", "ProductName", "Brand", "Price", "Description")
	kinds := strings.Fields("Chair Table Lamp Shelf Sofa Desk Rug Mirror")
	looks := strings.Fields("Oak Walnut Steel Linen Wool Folding Round Slim")
	for row := range productRows {
		if row+1 == brokenRow {
			line(fmt.Sprintf("SKU-%05d", row), "cut short")
			continue
		}
		look, kind := looks[rand.IntN(len(looks))], kinds[rand.IntN(len(kinds))]
		line(fmt.Sprintf("SKU-%05d", row), look+" "+kind, "Brand "+strconv.Itoa(rand.IntN(20)), fmt.Sprintf("%d.95", 5+rand.IntN(900)),
			"A "+strings.ToLower(look+" "+kind)+",\nready to ship")
	}
	to.Flush()
	return text.String()
}

// product looks up what a row is about: some are not found, and some shops do not answer.
func (p *products) product(ctx context.Context, it client.Item) error {
	if err := sleep(ctx, 200*time.Millisecond, time.Second); err != nil {
		return err
	}
	var row struct {
		Input map[string]string `json:"input"`
	}
	if err := json.Unmarshal(it.Payload, &row); err != nil {
		return client.Permanent(err)
	}
	switch n := rand.IntN(50); {
	case n < 3:
		return fmt.Errorf("the shop answered 503 after %d ms", 800+n*1234)
	case n == 3:
		return client.Permanent(errors.New("the price has two currencies"))
	}
	return client.SetResult(ctx, map[string]any{
		"SKU": row.Input["SKU"], "ProductName": row.Input["ProductName"], "stock": rand.IntN(200),
		"checked_at": time.Now().UTC().Format(time.RFC3339),
	})
}
