// Package nats runs a NATS server with JetStream inside this process, for
// installations that name no server of their own. Clients reach it as they
// would any other: over TCP, or over a connection within the process.
//
// What it promises beyond a stock server:
//
//  1. An acknowledged message is on disk: JetStream syncs before it answers,
//     unless Config says otherwise. A single publish then costs one sync, an
//     atomic batch of any size about six, so publish in batches. A duplicate
//     that is published by itself costs none.
//  2. Each role (package schemas/stream) is an account with logins of its own,
//     whose keys are generated into the folder. Who has no login is a producer
//     and a worker, and gets in on loopback addresses only, and not where
//     Millrace has been given a password.
//  3. The limits of atomic batches are those of a stock server (1,000 messages
//     a batch, 50 open batches a stream, 1,000 open batches a server, 10 s
//     between two messages of a batch), so that what works here works there.
//  4. While the disk is full, messages are refused; when there is room again
//     they are taken again, without a restart of the program.
package nats
