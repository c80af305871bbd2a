// Package reconcile compares what Millrace has counted of a day with what the
// services recorded in their own databases, see package history: events of a
// stage here, rows or the sum of their counts there.
//
//  1. A gap is expected when it is gone once known outages are left out on both
//     sides: what lies outside of them agrees. For tables of counts, of which no
//     item has a time, it is when executions that ran during the outages had as
//     many items as are missing.
//  2. A replay publishes what is missing, and no more. Of a table with URLs
//     these are the rows of articles that have fewer events than rows, also
//     where their times differ by less than a microsecond or the two lie on
//     either side of midnight. Of a table of counts it is the number of items
//     that are missing, as items that Millrace has not yet.
//  3. A replay that is repeated, whatever has become of the first, changes
//     nothing: it publishes the same events, with the same identities.
//  4. Where Millrace has more than a source, there is nothing to replay.
package reconcile
