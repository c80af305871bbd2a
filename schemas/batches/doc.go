// Package batches is the contract of batches of crawled items: the messages that
// announce them, the objects that hold them, and what becomes of each item. It is
// pure: it reads no object and keeps nothing.
//
//  1. A batch is known by its job and its index in that job. An outcome is known by
//     the batch and the item's position in it, so an id that occurs twice in a batch
//     has two outcomes.
//  2. Every item has exactly one outcome: success, or an error of one category. What
//     cannot be read as an item is an error of the category parsing.
//  3. What an item says is kept as it says it. No text is cut, and no id that is a
//     number loses a digit.
//  4. An unexpected number of items, or another project than the job's, is a warning.
//     Neither fails the batch nor an item.
package batches
