// Package tabular reads tables that people upload, CSV, JSON lines, XLSX and zips of images, as a stream of rows. It
// knows nothing of where they go.
//
//  1. Exact. A cell is the text that the file has, with its spaces and its line breaks.
//  2. No row stops the others. A row that breaks a rule comes with its fault, with the line on
//     which it begins, and with its first bytes as they are.
//  3. Bounded. Memory does not follow the size of a file, a row, a cell or an image.
//  4. Repeatable. The same file with the same [Format] gives the same rows with the same numbers,
//     so whoever was interrupted goes on behind the last row that it has.
//
// The tests cite the numbers.
package tabular
