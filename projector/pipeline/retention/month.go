package retention

import "time"

// month is a partition of the events table, as yyyymm.
type month uint32

func monthOf(t time.Time) month {
	t = t.UTC()
	return month(t.Year()*100 + int(t.Month()))
}

// start returns when the month begins.
func (m month) start() time.Time {
	return time.Date(int(m/100), time.Month(m%100), 1, 0, 0, 0, 0, time.UTC)
}

// add returns the month that is n months later.
func (m month) add(n int) month { return monthOf(m.start().AddDate(0, n, 0)) }

// days calls do for every day of the month until it fails.
func (m month) days(do func(from, to time.Time) error) error {
	for day := m.start(); monthOf(day) == m; {
		next := day.AddDate(0, 0, 1)
		if err := do(day, next); err != nil {
			return err
		}
		day = next
	}
	return nil
}
