// Package enrichment analyses items after their outcomes are stored: by formulas (package
// schemas/batches), and by an analyser of the user's, which it asks over NATS. It is off unless
// a setting turns it on.
//
//  1. Nothing waits for it. It reads what is stored, behind the position of package
//     projector/batches, and writes a table of its own. An analyser that is slow, wrong or away
//     delays analyses, and nothing else.
//  2. Nothing is left out. Outcomes are taken in the order of their sequences, and a sequence is
//     done when all of its rows are in the table. Whoever goes on begins with the last sequence
//     that the table has: its rows are written again. So does a process that finds rows at the end deleted.
//  3. Once. A row is of one outcome, and one that is written again replaces the one before. Two
//     processes that do the same for a moment write the same rows.
//  4. The analysis of an outcome is of that outcome: one that a retry replaces is analysed anew.
//  5. An item that an analyser answers wrongly again and again, or not in time while it answers
//     others, is stored with that error. While nobody answers, everything waits.
package enrichment
