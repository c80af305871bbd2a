package main

// shardNotes is what is known of files and their shards from outside.
type shardNotes struct {
	*workNotes
	files   map[string]*fileNote
	letters map[string]bool // names in reports that break a rule; whether they are acknowledged
}

type fileNote struct {
	file
	acked bool
}

func newShardNotes(leases *clock) *shardNotes {
	return &shardNotes{newWorkNotes(leases), map[string]*fileNote{}, map[string]bool{}}
}

func (n *shardNotes) begun(f file) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.files[f.name] = &fileNote{file: f}
}

func (n *shardNotes) registered(f file) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.files[f.name].acked = true
}

func (n *shardNotes) strange(acked bool, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.letters[name] = acked
}

func (n *shardNotes) poison(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.files[name]
	return f != nil && f.poison
}

// poisonous tells whether a piece fails for good.
func (n *shardNotes) poisonous(p piece) bool {
	return p.stage == shardStages[poisoned] && n.poison(p.file)
}
