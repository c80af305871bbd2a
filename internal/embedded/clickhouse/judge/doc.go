// Package judge decides which statements the read-only login may run. It allows
// what is on its lists and refuses everything else.
//
// The lists, under lists/, sort every function, aggregate function, combinator,
// table function, type, format, setting, system table and table engine of the
// engine into allowed and refused. A test compares them with the engine's own
// catalogue: a new version of the engine fails it until someone has sorted what
// is new. Meanwhile what is new is refused.
//
// A statement is judged as the engine's own parser has written it anew, and that
// text is what runs. Two judges must agree:
//
//  1. The text's. Nothing can be missing from it, since it is what runs. Each
//     token must be understood; each name in front of a parenthesis must be an
//     allowed function; no other name may be that of a function that is not
//     allowed, because the engine takes names for functions (arrayMap(file, …));
//     strings that name types, structures, aggregate functions or formats must
//     be literals, and are read by a grammar without expressions.
//  2. The tree's, as EXPLAIN AST prints it. It tells tables from functions, and
//     each node must be a known one. A few nodes are printed without what they
//     hold (WINDOW, APPLY): the text has it, and holds no SELECT there, because
//     the numbers of SELECTs in text and tree must be equal.
//
// SHOW and EXISTS are taken in forms that have no place for an expression.
//
// Both judges work in time and memory linear in the length of what they read.
package judge
