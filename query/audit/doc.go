// Package audit answers whether jobs have run when their schedules say.
package audit
