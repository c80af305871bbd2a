package shard

import "testing"

// TestNames holds that names and values are each other's.
func TestNames(t *testing.T) {
	for s := EventIngest; s <= Sender; s++ {
		if got, ok := ParseStage(s.String()); !ok || got != s || s.HasQueue() != (s != EventIngest) {
			t.Errorf("stage %d: %v, %v", s, got, ok)
		}
	}
	if Worker.Column() != "shard_worker" {
		t.Error(Worker.Column())
	}
	if next, ok := Worker.Next(); !ok || next != Sender {
		t.Error(next, ok)
	}
	if _, ok := Sender.Next(); ok {
		t.Error("there is a stage after the last")
	}
	for _, wrong := range []string{"", "New", "shard_worker", "event-ingest "} {
		if _, ok := ParseStage(wrong); ok {
			t.Error(wrong)
		}
	}
}
