package httpapi

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/internal/connlimit"
)

// Config shapes the server. The zero value of a field stands for its default.
type Config struct {
	Addr     string   // host:port to listen on; default 127.0.0.1:8075
	BasePath string   // of the API; default /api/v1
	Version  string   // of the program; default "dev"
	Warnings []string // what the configuration puts at risk, for /health
	// Damage returns what stored data was found to be lost, for /health; nil: nobody
	// looks.
	Damage func() []string
	// Off returns what does not work, for /health; nil: everything always does.
	Off func() []Off
	// Confinement says for /health what confines each embedded engine; nil where
	// none runs.
	Confinement func() map[string]string
	// Protected says that callers are authenticated. Without it the server
	// listens on loopback addresses only, and is asked by address, as localhost,
	// or by the host of one of Origins.
	Protected bool
	// Origins are those, beside the server's own, whose pages may use it.
	Origins []string
	// Proxies are trusted to name the caller's address.
	Proxies Proxies
	// Connections is how many there are at one time, those of WebSockets
	// included; default three quarters of the files that the process may have
	// open, and 20,000 at most.
	Connections int
	// HeaderTimeout is how long the header of a request may take; default 5 s.
	HeaderTimeout time.Duration
	// BodyTimeout is how long a body may take, whatever its size: a caller
	// that trickles must not hold a connection for ever; default 60 s.
	BodyTimeout time.Duration
	// WriteTimeout is how long a caller may take to read each 64 KiB of an
	// answer, where the handler sets no deadline of its own; default 30 s.
	WriteTimeout time.Duration
	// Drain is how long the server goes on after it was told to end, while /ready says so,
	// and each answer asks its caller for another connection: time for balancers to send
	// callers elsewhere. Default 0.
	Drain time.Duration
	// Slow is how long a request takes that is logged and counted as slow; default 0: none is.
	Slow time.Duration
	// DrainTimeout is how long requests under way may take when the server
	// ends; default 10 s.
	DrainTimeout time.Duration
}

func (c Config) withDefaults() Config {
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:8075")
	c.BasePath = cmp.Or(c.BasePath, "/api/v1")
	c.Version = cmp.Or(c.Version, "dev")
	c.Connections = cmp.Or(c.Connections, connlimit.Share(0.75, 20_000))
	c.HeaderTimeout = cmp.Or(c.HeaderTimeout, 5*time.Second)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, time.Minute)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 30*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 10*time.Second)
	return c
}

// Deps are what the server works with.
type Deps struct {
	Log      *slog.Logger
	Registry *prometheus.Registry // served at /metrics; the server adds its own
	Tracer   trace.Tracer         // has a span for each request; nil: nothing is traced
	Checks   []Check              // what /ready asks after
	// Warnings says for /health what is wrong with stored data at present; nil: nothing
	// ever is.
	Warnings func() []string
	// MetricsGuard decides who may read /metrics; nil: everybody who reaches the
	// server.
	MetricsGuard func(http.Handler) http.Handler
	// Site serves every GET at the root that is not the server's own: the
	// page, /docs and their assets. It may be nil. It answers what it does
	// not have with NotFound.
	Site http.Handler
}

// Server is the HTTP frame. Register operations before it runs.
type Server struct {
	cfg       Config
	log       *slog.Logger
	root      *chi.Mux
	base      *chi.Mux
	api       huma.API
	site      http.Handler
	readiness *readiness
	warnings  func() []string
	durations *prometheus.HistogramVec
	slow      *prometheus.CounterVec
	tracer    trace.Tracer
	leaving   chan struct{} // closed when the server is told to end
	left      time.Time     // when it was; set before leaving is closed
	draining  chan struct{} // closed when it takes no more requests
	drainOnce sync.Once
	active    sync.WaitGroup // requests
}

// New makes the frame and starts nothing.
func New(cfg Config, deps Deps) (*Server, error) {
	cfg = cfg.withDefaults()
	if deps.Log == nil || deps.Registry == nil {
		return nil, errors.New("HTTP server: a logger and a metrics registry are needed")
	}
	if !strings.HasPrefix(cfg.BasePath, "/") || strings.HasSuffix(cfg.BasePath, "/") {
		return nil, errors.New("HTTP server: the base path must start with a slash and not end with one")
	}
	if err := checkExposure(cfg); err != nil {
		return nil, err
	}
	durations, err := newDurations(deps.Registry)
	if err != nil {
		return nil, err
	}
	slow, err := newSlow(deps.Registry)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, log: deps.Log, root: chi.NewRouter(), base: chi.NewRouter(), site: deps.Site,
		readiness: newReadiness(deps.Checks), warnings: deps.Warnings, durations: durations, slow: slow, tracer: deps.Tracer, leaving: make(chan struct{}),
		draining: make(chan struct{}),
	}
	compress, err := newCompressor()
	if err != nil {
		return nil, err
	}
	s.route(deps.Registry, deps.MetricsGuard, compress)
	return s, nil
}

func (s *Server) route(registry *prometheus.Registry, guard, compress func(http.Handler) http.Handler) {
	s.root.Use(s.observe, s.askToLeave, s.noteClient, s.refuseStrangers, middleware.GetHead, s.limitBodyTime)
	s.base.Use(compress)
	s.base.NotFound(NotFound)
	s.root.NotFound(s.serveSite)
	s.base.MethodNotAllowed(s.methodNotAllowed)
	s.root.MethodNotAllowed(s.methodNotAllowed)
	s.api = s.newAPI()
	root := s.root.With(compress) // the site has compressed its files already
	root.With(onlyParams()).Get("/health", s.health)
	root.With(onlyParams()).Get("/ready", s.ready)
	root.With(onlyParams()).Get("/openapi.json", s.openAPI)
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true})
	if guard != nil {
		root = root.With(guard)
	}
	root.With(onlyParams(metricNames)).Method(http.MethodGet, "/metrics", metrics)
	s.root.Mount(s.cfg.BasePath, s.base)
}

// newAPI leaves out huma's own routes for the description and for its
// schemas: they would name absolute paths, and would stand under the base.
func (s *Server) newAPI() huma.API {
	installProblems()
	cfg := huma.DefaultConfig("Millrace", s.cfg.Version)
	cfg.Info.Description = "Pipeline events in, each counted once; live and historic views out."
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath, cfg.CreateHooks = "", "", "", nil
	cfg.Transformers = []huma.Transformer{exposeCause, encode}
	cfg.Formats = map[string]huma.Format{"application/json": encodedFormat, "json": encodedFormat}
	cfg.Servers = []*huma.Server{{URL: strings.TrimPrefix(s.cfg.BasePath, "/")}}
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		SecurityScheme: {
			Type: "http", Scheme: "bearer", BearerFormat: "JWT",
			Description: "HS256, signed with AUTH_JWT_SECRET; needed only where that is set. The scopes are in " +
				"the token.",
		},
	}
	cfg.OnAddOperation = append(cfg.OnAddOperation, complete)
	api := humachi.New(s.base, cfg)
	describeRoot(api.OpenAPI())
	return api
}

// SecurityScheme is the name of the bearer token in the OpenAPI description.
const SecurityScheme = "bearer"

// Open is the security of an operation that asks for no token, in the OpenAPI
// description.
var Open = []map[string][]string{}

// API is where operations register, with paths relative to the base path. Their
// requests embed Params.
func (s *Server) API() huma.API { return s.api }

// Handle adds a plain handler with its description: for bodies that stream, for
// WebSockets and for files. It is behind the middlewares, and gets no request
// with a query parameter that the description does not name.
func (s *Server) Handle(op *huma.Operation, h http.Handler, middlewares ...func(http.Handler) http.Handler) {
	s.api.OpenAPI().AddOperation(op)
	s.base.With(middlewares...).With(onlyParams(paramsOf(op)...)).Method(op.Method, op.Path, h)
}

// HandleBelow adds a plain handler as Handle does, whose path ends with a parameter that may
// have slashes: PathParam knows it as Below.
func (s *Server) HandleBelow(op *huma.Operation, h http.Handler, middlewares ...func(http.Handler) http.Handler) {
	s.api.OpenAPI().AddOperation(op)
	pattern := op.Path[:strings.LastIndexByte(op.Path, '/')+1] + Below
	s.base.With(middlewares...).With(onlyParams(paramsOf(op)...)).Method(op.Method, pattern, h)
}

// Below is the last parameter of a path of HandleBelow.
const Below = "*"

// PathParam returns a parameter of a plain handler's path, as it was before it was escaped.
func PathParam(r *http.Request, name string) string {
	value := chi.URLParam(r, name)
	if r.URL.RawPath == "" { // then the parameters are from the path that is unescaped
		return value
	}
	unescaped, err := url.PathUnescape(value)
	if err != nil {
		return value
	}
	return unescaped
}

// Handler returns everything the server answers, for tests.
func (s *Server) Handler() http.Handler { return s.root }

// Draining is closed when the server takes no more requests. Long streams watch it and
// return: the server waits for handlers. WebSockets watch it and close: whoever
// took them over waits for them.
func (s *Server) Draining() <-chan struct{} { return s.draining }

// NotFound answers 404 with a problem document.
func NotFound(w http.ResponseWriter, r *http.Request) {
	WriteProblem(w, NewProblem(http.StatusNotFound, "there is nothing at "+r.URL.Path))
}

func (s *Server) serveSite(w http.ResponseWriter, r *http.Request) {
	if s.site == nil || (r.Method != http.MethodGet && r.Method != http.MethodHead) {
		NotFound(w, r)
		return
	}
	s.site.ServeHTTP(w, r)
}

func (s *Server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, m := range []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete,
	} {
		if s.root.Match(chi.NewRouteContext(), m, r.URL.Path) {
			allowed = append(allowed, m)
		}
	}
	list := strings.Join(allowed, ", ")
	WriteProblem(w, NewProblem(http.StatusMethodNotAllowed, "the methods here are "+list).WithHeader("Allow", list))
}
