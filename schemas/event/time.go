package event

import "time"

// parseTime reads an RFC 3339 time in UTC ("Z" or "+00:00", at most nine
// digits of fraction) into nanoseconds since 1970. It reports a rule when the
// text breaks one.
func parseTime(s []byte) (int64, *Invalid) {
	const layout = len("2006-01-02T15:04:05")
	if len(s) < layout+1 || s[4] != '-' || s[7] != '-' || (s[10] != 'T' && s[10] != 't') || s[13] != ':' ||
		s[16] != ':' {
		return 0, errTimeForm
	}
	year, ok1 := digits(s[0:4])
	month, ok2 := digits(s[5:7])
	day, ok3 := digits(s[8:10])
	hour, ok4 := digits(s[11:13])
	minute, ok5 := digits(s[14:16])
	second, ok6 := digits(s[17:19])
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) || hour > 23 || minute > 59 || second > 59 ||
		month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return 0, errTimeForm
	}
	nanos, zone, ok := parseFraction(s[layout:])
	if !ok {
		return 0, errTimeForm
	}
	if z := string(zone); z != "Z" && z != "+00:00" {
		if isZone(zone) {
			return 0, errTimeZone
		}
		return 0, errTimeForm
	}
	if year < 1970 || year > 2261 { // what nanoseconds in 64 bits can hold
		return 0, errTimeRange
	}
	days := daysBefore(year, month) + day - 1
	return (int64(days)*86400+int64(hour*3600+minute*60+second))*1e9 + nanos, nil
}

func parseFraction(s []byte) (nanos int64, rest []byte, ok bool) {
	if len(s) == 0 || s[0] != '.' {
		return 0, s, true
	}
	i, scale := 1, int64(1e9)
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		if i > 9 {
			return 0, nil, false
		}
		scale /= 10
		nanos += int64(s[i]-'0') * scale
	}
	return nanos, s[i:], i > 1
}

// isZone tells a well-formed zone that is not UTC from text that is no zone.
func isZone(s []byte) bool {
	if string(s) == "z" {
		return true
	}
	if len(s) != 6 || (s[0] != '+' && s[0] != '-') || s[3] != ':' {
		return false
	}
	_, ok1 := digits(s[1:3])
	_, ok2 := digits(s[4:6])
	return ok1 && ok2
}

func digits(s []byte) (n int, ok bool) {
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

var monthDays = [13]int{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

func leap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func daysIn(year, month int) int {
	if month == 2 && leap(year) {
		return 29
	}
	return monthDays[month]
}

// daysBefore counts the days from 1970-01-01 to the first of the month, by
// the proleptic Gregorian calendar with years that begin in March.
func daysBefore(year, month int) int {
	y, m := year, month
	if m <= 2 {
		y, m = y-1, m+12
	}
	return 365*y + y/4 - y/100 + y/400 + (153*(m-3)+2)/5 - 719468
}

// appendTime appends RFC 3339 in UTC, without trailing zeros in the fraction.
func appendTime(dst []byte, nanos int64) []byte {
	return time.Unix(0, nanos).UTC().AppendFormat(dst, time.RFC3339Nano)
}
