// What no client library of Millrace sends: bytes as they are, on any subject.
import { jetstream } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';

/** Publishes messages, each [subject, body], and waits until the stream has them. */
export async function publishRaw(servers, messages) {
  const nc = await connect({ servers });
  try {
    const js = jetstream(nc);
    for (const [subject, body] of messages) await js.publish(subject, body);
  } finally {
    await nc.close();
  }
}
