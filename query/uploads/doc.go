// Package uploads answers what became of files that people uploaded: jobs, their items as pages, rejected
// rows, a preview, and the original file. A caller sees the uploads of its own user, and admins see all.
package uploads
