// Package audit answers whether jobs have run when their schedules say, and when they
// will.
package audit
