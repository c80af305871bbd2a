// Package lint holds the rules of the house that compilers and linters do not
// know, as tests.
package lint
