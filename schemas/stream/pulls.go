package stream

import (
	"strconv"
	"time"
)

// Pulls of roles do not reach the consumers of Work by themselves: Millrace takes
// them and passes each on when its connection may have more items (package
// projector/work/pulls). JetStream delivers to the client itself.

// Subjects on which pulls travel.
const (
	// WorkPulls is where the pulls of roles arrive. What they publish on nextSubject
	// is led there by their accounts.
	WorkPulls   = "millrace.pull.*"
	nextSubject = "$JS.API.CONSUMER.MSG.NEXT." + Work + ".*"

	// relayed is where Millrace passes a pull on to a consumer. Its account asks
	// the account relay, which asks JetStream: that way JetStream's deliveries come
	// from another account, and the account's mappings hold for them.
	relayed = "millrace.next.*"

	// RepliesPrefix begins the reply subjects of requests from other accounts, and
	// pulledPrefix those that are named in their place, which no client may name.
	RepliesPrefix = "_R_."
	pulledPrefix  = "millrace.out."
)

// Disconnects is where the servers tell of each connection that has ended.
const (
	ServersPrefix = "$SYS."
	Disconnects   = ServersPrefix + "ACCOUNT.*.DISCONNECT"
)

// RelayPull returns where a pull from a consumer of Work is passed on.
func RelayPull(consumer string) string { return relayed[:len(relayed)-1] + consumer }

// PullReply returns a subject from which messages go on to the reply subject of a
// request from another account. There are as many as there are numbers.
func PullReply(reply string, number uint64) string {
	return pulledPrefix + reply[len(RepliesPrefix):] + "." + strconv.FormatUint(number, 36)
}

// Answers of roles to messages of Work arrive on the stream WorkAckRelay. Millrace takes them
// from its consumer, which has the stream's name, and publishes them where JetStream takes
// answers, without the subject for a reply: an answer may also ask for more messages, and what
// it asks for so is for nobody. A stream cannot do that by itself: it publishes nothing where
// JetStream is asked, from nats-server 2.15.3 on.
const (
	WorkAckRelay     = "WORK_ACK_RELAY"
	daemonAcksPrefix = "millrace.ack."
	daemonAcks       = daemonAcksPrefix + "*.*.*.*.*.*"
	ackPrefix        = "$JS.ACK." + Work + "."
	ackSubject       = ackPrefix + "*.*.*.*.*.*"
)

// RelayedAck returns where an answer is passed on that has arrived on a subject of WorkAckRelay.
func RelayedAck(subject string) string { return ackPrefix + subject[len(daemonAcksPrefix):] }

// Bounds of one pull. The defaults of the clients of NATS are within them. The
// server forgets where answers go after two minutes.
const (
	MaxPullBatch   = 1000
	MaxPullExpires = 90 * time.Second
	MaxPullBytes   = 64 << 20
)

// Nobody is a consumer of Work that never has a message. Pulls that may not have items
// yet wait there: JetStream tells their clients that it is alive, and when they end.
// No queue can have its name.
const Nobody = "NOBODY"

// accountRelay has no logins.
const accountRelay = "RELAY"

// accountSystem is that of the servers themselves.
const accountSystem = "$SYS"
