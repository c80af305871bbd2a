// Package fold folds an input into a view, each message exactly once. It knows no
// view: what a message means, where its effects are stored, and where the messages
// and the position come from is behind the interfaces View, Sink, Input and Lease.
//
// A Fold runs for as long as its owner has the lease. It recovers (recovery.go),
// then runs three goroutines. The reader reads ahead. The folder gives messages
// to the view and cuts them into batches. The flusher decides each cut and has
// the batch written. While one batch is written the next one grows, so batches
// are small when messages trickle and large when there is a backlog.
//
// # The promise
//
// A view that keeps its part (see View) counts each message once, whatever is
// killed, repeated or taken over. The numbers are those of package pipeline:
//
//   - One order (1). Messages come in the order of their sequence, without gaps.
//   - Decided cuts (3). The bounds of a batch are in the lease before any of its
//     effects is written, and whoever folds next writes the same batch again.
//   - Durable, then acknowledged (7). The position passes a batch after Write has
//     returned, and Announce comes after both.
//   - Bounded memory (9). At most two batches exist at once, and what the reader
//     has read ahead.
//
// # Recovery
//
// A session is a state machine. Its states are the constants of type State, and
// its transitions are one table (state.go). A session that fails or is killed in
// any state is followed by one that begins at Asking, so each state may be
// entered again without harm.
//
//	Asking ─► Comparing ─► Opening ─► Folding ─► Ending ─► Ended
//	           │ │ │ │        │         ▲
//	           │ │ │ │        └─► Completing
//	           │ │ │ └─► Skipping ─► Comparing
//	           │ │ └───► Adopting ─► Opening
//	           │ └─────► Rewinding ─► Opening
//	           └───────► Refused
package fold
