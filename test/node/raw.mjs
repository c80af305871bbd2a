// What no client library of Millrace sends: bytes as they are, on any subject.
import { jetstream } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';

/** How many messages may be on their way to the stream. */
const together = 200;

/** Publishes messages in their order, each [subject, body], and waits until the stream has them. */
export async function publishRaw(servers, messages) {
  const nc = await connect({ servers });
  try {
    const js = jetstream(nc);
    for (let from = 0; from < messages.length; from += together) {
      const some = messages.slice(from, from + together);
      await Promise.all(some.map(([subject, body]) => js.publish(subject, body, { timeout: 60_000 })));
    }
  } finally {
    await nc.close();
  }
}
