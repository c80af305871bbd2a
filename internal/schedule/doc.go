// Package schedule is the rules of when jobs run: how often a source is crawled,
// how long a job that fails waits, when a schedule is due, and what is done about
// each instant at which it was. It is pure: it asks no clock and keeps nothing.
//
// # Rules of time
//
//  1. The instants at which a job is due follow from its schedule alone. An interval
//     is due at its anchor and after each interval from there; an expression at the
//     whole minutes whose time on the wall clock of its zone it names.
//
//  2. Where clocks are set ahead, what an expression names between the two times is
//     due at the change, once, however many minutes it names.
//
//  3. Where clocks are set back, a time of day that comes twice is due when it comes
//     first.
//
//  4. An expression whose minutes or hours begin with * follows the wall clock instead
//     of 2 and 3: it is due whenever the clock shows what it names, so at no time that
//     is left out, and both times at one that comes twice.
//
//  5. A window is open by the wall clock of its zone. After midnight it belongs to the
//     day on which it began.
//
//  6. Every instant at which a job is due gets one outcome, from [Decide]. A change of
//     the schedule lets nothing of the past run.
//
// The tests cite the numbers.
package schedule
