// Package reads has what the operations that answer questions share, whatever
// system they are of. Get registers one. It bounds it in time and measures it,
// tells its caller everything that is wrong with a request at once, and turns
// errors into problem documents.
//
// A request embeds httpapi.Params, and implements huma.Resolver with Resolve,
// which checks it against what its system knows. All checks of a request are in
// one function, so that its caller is told of them together:
//
//	func (r *StatsRequest) Resolve(ctx huma.Context) []error {
//		return reads.Resolve(ctx, r.Params, func(s *Service) reads.Faults { _, f := r.question(s); return f })
//	}
package reads
