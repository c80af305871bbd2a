package live

import (
	"testing"
	"testing/synctest"
)

// TestTask: a reason that comes while the task is done has it done once more,
// however many there are, and after its end there is nothing more.
func TestTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done, gate := 0, make(chan struct{})
		task := task{do: func() { done++; <-gate }}
		task.start()
		synctest.Wait()
		for range 3 {
			task.start()
		}
		synctest.Wait()
		if done != 1 {
			t.Errorf("done %d times at once", done)
		}
		gate <- struct{}{}
		gate <- struct{}{}
		synctest.Wait()
		if done != 2 {
			t.Errorf("done %d times for one reason and three meanwhile", done)
		}
		task.end()
		task.start()
		synctest.Wait()
		if done != 2 {
			t.Error("done after its end")
		}
	})
}
