package main

import (
	"strconv"
	"time"
)

func (b *bench) addSubscribers(
	shape subscriberShape, seen, plain subscriberSeen, marks []mark, peak peaks, spent subscriberTime,
	leave []time.Duration,
) {
	const s, loop = "subscribers", "plain loop that sends as much as often"
	who := thousands(strconv.Itoa(shape.subscribers)) + " subscribers"
	server, others := "the server's process", "its engines"
	if b.cfg.apart {
		server, others = "the process that has the role query alone", "all other roles and the engines"
	}
	seconds := shape.window.Seconds()
	events := 0
	for _, k := range marks {
		events += k.Events
	}
	b.add(
		line{s, who + ": events meanwhile", "events/s", more, float64(events) / seconds, "wanted", subscriberRate},
		line{s, who + ": size of a message", "bytes", less, float64(seen.Bytes) / float64(seen.Messages), "", 0},
	)
	for _, v := range append([]string{""}, subscriberViews()...) {
		name, a := "each change", seen.Views[v]
		if v != "" {
			name = "each change of " + v
		}
		b.add(
			line{s, who + ": " + name + ", durable to received, median", "ms", less, a.Durable[0], "", 0},
			line{
				s, who + ": " + name + ", durable to received, 99th percentile", "ms", less, a.Durable[1], "limit",
				300,
			},
			line{s, who + ": " + name + ", durable to received, worst", "ms", less, a.Durable[2], "", 0},
			line{s, who + ": " + name + ", sent to received, 99th percentile", "ms", less, a.Sent[1], "limit", 300},
		)
		shown := who + ": " + name + ", in the view to received, "
		median, last := line{s, shown + "median", "ms", less, a.Shown[0], "", 0},
			line{s, shown + "99th percentile", "ms", less, a.Shown[1], "limit", 300}
		if v != "" {
			b.add(median, last)
			continue
		}
		least := plain.Views[v].Shown
		median.Peer, median.Against = loop, least[0]
		b.add(median, last, line{s, "", "ms", less, a.Shown[1], loop, least[1]})
	}
	b.add(
		line{s, who + ": the 99th percentile of who has the worst", "ms", less, seen.WorstReader, "limit", 300},
		line{s, who + ": memory of " + server + " (RSS)", "MB", less, megabytes(peak.Root), "limit", 500},
	)
	if !b.cfg.apart {
		b.add(line{s, who + ": memory of the whole tree (RSS)", "MB", less, megabytes(peak.RSS), "", 0})
	}
	if shape.window < time.Second { // it only shows that it runs
		return
	}
	b.add(
		line{s, who + ": messages received", "messages/s", more, float64(seen.Received) / seconds, "", 0},
		line{s, who + ": processors of " + server, "cores", less, spent.server.Seconds() / seconds, "", 0},
		line{s, who + ": processors of " + others, "cores", less, spent.engines.Seconds() / seconds, "", 0},
		line{
			s, who + ": processors of the clients, the same ones", "cores", less, spent.clients.Seconds() / seconds,
			"", 0,
		},
		line{
			s, who + ": processors of the publisher, the same ones", "cores", less,
			spent.publisher.Seconds() / seconds, "", 0,
		},
	)
	if len(leave) == 0 {
		b.say("none of those that never read was cut off")
		return
	}
	b.add(
		line{
			s, who + ": others that never read, cut off", "readers", more, float64(len(leave)), "of",
			float64(shape.deaf),
		},
		line{s, who + ": the first of them is cut off after", "s", less, leave[0].Seconds(), "", 0},
		line{s, who + ": the last of them is cut off after", "s", less, leave[len(leave)-1].Seconds(), "", 0},
	)
}

// addAnnounced adds the projector's part of what a change of events takes.
func (b *bench) addAnnounced(m *millrace, shape subscriberShape, marks []mark) {
	var ages []float64
	for _, k := range marks {
		if at, ok := m.announced.of(k.At); ok && k.Clock == "events" {
			ages = append(ages, since(at.UnixMicro(), k.Durable))
		}
	}
	if len(ages) == 0 {
		b.say("the projector announced nothing")
		return
	}
	const s = "subscribers"
	who := thousands(strconv.Itoa(shape.subscribers)) + " subscribers"
	b.add(
		line{s, who + ": events, durable to announced, median", "ms", less, quantile(ages, .5), "", 0},
		line{s, who + ": events, durable to announced, 99th percentile", "ms", less, quantile(ages, .99), "", 0},
	)
	if shape.window < time.Second {
		return
	}
	first, last := measuredTime(marks)
	batches := float64(m.announced.between(first, last)) / shape.window.Seconds()
	b.add(line{s, who + ": batches announced", "batches/s", more, batches, "", 0})
}
