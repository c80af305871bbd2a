// Package engines finds the ClickHouse and Postgres programs that Millrace
// embeds, and installs them from npm packages.
//
// The package.json and package-lock.json beside this file name exact versions
// with integrity hashes and no registry, so that npm takes them from whichever
// registry the machine is set up for. Every engine is an optional dependency:
// npm installs those of the machine's platform and skips the others.
//
// Postgres is packaged for Linux and macOS on x64 and arm64. ClickHouse is
// locked for Linux on x64 with glibc only; elsewhere MILLRACE_CLICKHOUSE_DSN
// names a server to use in its place.
//
// The folder an install fills is [Dir]. Its name holds a hash of the lock, so
// a binary never meets the engines of another version, and several versions
// live side by side.
package engines
