// A reader of server-sent events over fetch, as the HTML standard describes them.

/** Yields the events of an address: each has its id and its data. Returning ends the stream. */
export async function* events(address, { lastEventID = '', headers = {} } = {}) {
  const abort = new AbortController();
  const answer = await fetch(address, {
    headers: { Accept: 'text/event-stream', ...(lastEventID && { 'Last-Event-ID': lastEventID }), ...headers },
    signal: abort.signal,
  });
  if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`);
  let id = lastEventID;
  let data = [];
  let rest = '';
  try {
    for await (const text of answer.body.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + text).split('\n');
      rest = lines.pop();
      for (const line of lines) {
        const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line);
        if (field === 'id') id = value;
        else if (field === 'data') data.push(value);
        else if (line === '' && data.length > 0) {
          yield { id, data: data.join('\n') };
          data = [];
        }
      }
    }
  } finally {
    abort.abort();
  }
}
