// Command example is a service that emits events as it works: each line of its
// input is the URL of an article that it has crawled. It is told where Millrace
// is by the environment (MILLRACE_NATS_URL or PIPELINE_SERVICE_URL, and
// PIPELINE_SPOOL for a folder that outlasts outages), and serves /health and
// /metrics on the address in HTTP_ADDR.
//
//	MILLRACE_NATS_URL=nats://127.0.0.1:4222 PIPELINE_SPOOL=/var/spool/crawler crawler < urls.txt
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/event"
)

func main() {
	if err := run(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

func run(in io.Reader) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	registry := prometheus.NewRegistry()
	options := client.FromEnv("crawler")
	options.Registry, options.Log = registry, slog.Default()
	pipeline, err := client.Open(options)
	if err != nil {
		return err
	}
	if err := serve(cmp.Or(os.Getenv("HTTP_ADDR"), "127.0.0.1:0"), pipeline, registry); err != nil {
		return err
	}
	urls := make(chan string)
	go read(in, urls)
	for {
		select {
		case <-ctx.Done():
		case article, ok := <-urls:
			if ok {
				crawl(ctx, pipeline, article)
				continue
			}
		}
		// What cannot be delivered in this time stays in the spool.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return pipeline.Close(ctx)
	}
}

// crawl does the work, and then tells that it is done.
func crawl(ctx context.Context, pipeline *client.Client, article string) {
	u, err := url.Parse(article)
	if err != nil {
		slog.Warn("not a URL", "line", article)
		return
	}
	// … fetch the article …
	_ = pipeline.Emit(ctx, event.Event{
		ArticleURL: article, SourceName: u.Hostname(), Stage: "crawled",
		Metadata: map[string]any{"response_code": http.StatusOK},
	})
}

func read(in io.Reader, urls chan<- string) {
	defer close(urls)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		urls <- lines.Text()
	}
}

// serve answers /health and /metrics.
func serve(addr string, pipeline *client.Client, registry *prometheus.Registry) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "ok", "pipeline": pipeline.Health()})
	})
	go func() { _ = http.Serve(listener, mux) }()
	slog.Info("serving /health and /metrics", "addr", listener.Addr().String())
	return nil
}
