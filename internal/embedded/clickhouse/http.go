package clickhouse

import (
	"context"
	"net/http"
)

func (s *Server) site(queries context.Context) *http.Server { return &http.Server{} }
