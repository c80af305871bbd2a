// Package job is the contract of jobs, which crawl sources at times of their
// schedule: their settings, the rules that each keeps, how healthy they are, and
// what people are told of them.
package job
